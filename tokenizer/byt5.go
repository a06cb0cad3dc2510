package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weft/internal/userfile"
)

// byt5Class is the class of tokenizers without a vocabulary: an id for each byte of a text.
const byt5Class = "ByT5Tokenizer"

// The ids of ByT5: three tokens, the bytes, and tokens whose names have a number.
const (
	byteOffset  = 3
	extraOffset = byteOffset + 256
	extraPrefix = "<extra_id_"
)

// openByT5 reads a tokenizer whose folder has no vocabulary, because its class needs none. It is nil
// where the folder names no such class.
func openByT5(dir string) (*Tokenizer, error) {
	path := filepath.Join(dir, configFile)
	beside := map[string][]byte{}
	for _, name := range []string{configFile, specialsFile, addedFile} {
		text, err := userfile.Read(filepath.Join(dir, name), maxFileBytes)
		if err == nil {
			beside[name] = text
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if beside[configFile] == nil || !strings.Contains(string(beside[configFile]), byt5Class) {
		return nil, nil
	}
	return parseByT5(path, beside)
}

// parseByT5 reads the files beside a vocabulary that is not there, by name.
func parseByT5(path string, beside map[string][]byte) (*Tokenizer, error) {
	r := &jsonReader{faults: faults{path: path}, out: &Tokenizer{Path: path, Kind: "ByT5, bytes", ids: map[string]int32{}, added: map[string]int32{}}}
	c := r.readConfig(beside)
	if c.class != byt5Class {
		r.addUnsupported("tokenizer_class", "%.40q: %s is read without a vocabulary", c.class, byt5Class)
	}
	for i := range 256 {
		r.out.ids[string(rune(i))] = int32(byteOffset + i)
	}
	tokens := r.byt5Tokens(c)
	if err := r.err(); err != nil {
		return nil, err
	}
	for _, t := range tokens {
		r.out.added[t.content] = t.id
		if t.special {
			r.out.special = append(r.out.special, Special{int(t.id), t.content})
		}
	}
	line := &pipeline{verbatim: newAddedSet(tokens, func(i int) string { return tokens[i].content }), model: byteModel{}}
	r.out.encode = line.encode
	r.out.finishVocabulary()
	return r.out, nil
}

// byt5Tokens lists the tokens besides bytes, with the ids that the files give them, or else the
// class: 0 to 2, and those of numbered ones.
func (r *jsonReader) byt5Tokens(c *bareConfig) []addedToken {
	own := map[string]int{"<pad>": 0, "</s>": 1, "<unk>": 2}
	for name := range own {
		if c.tokens[name] == nil {
			c.tokens[name] = map[string]any{"content": name, "special": true}
		}
		for _, side := range []string{"lstrip", "rstrip"} { // as the class has them where no file says more
			if c.tokens[name][side] == nil {
				c.tokens[name][side] = true
			}
		}
	}
	var tokens []addedToken
	ids := map[int32]string{}
	for _, content := range slices.Sorted(maps.Keys(c.tokens)) {
		t := c.tokens[content]
		id, given := own[content]
		if n, ok := t["id"].(json.Number); ok {
			id, given = r.wholeNumberAt(n, content), true
		} else if number, ok := strings.CutPrefix(content, extraPrefix); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(number, ">"))
			id, given = extraOffset+n, err == nil && n >= 0 && n < maxID
		}
		if !given {
			r.addMalformed(content, "no file says the id of this token")
			continue
		}
		if id >= byteOffset && id < extraOffset || ids[int32(id)] != "" {
			r.addMalformed(content, "its id %d is that of a byte or of another token, %q", id, ids[int32(id)])
			continue
		}
		ids[int32(id)] = content
		flag := func(name string) bool { on, _ := t[name].(bool); return on }
		tokens = append(tokens, addedToken{id: int32(id), content: content, singleWord: flag("single_word"), lstrip: flag("lstrip"), rstrip: flag("rstrip"), special: flag("special")})
	}
	return tokens
}

// byteModel gives an id for each byte.
type byteModel struct{}

func (byteModel) appendIDs(ids []int, word string) ([]int, error) {
	for i := range len(word) {
		ids = append(ids, byteOffset+int(word[i]))
	}
	return ids, nil
}
