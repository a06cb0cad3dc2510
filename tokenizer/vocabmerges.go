package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weft/internal/jsontext"
	"weft/internal/userfile"
)

// splitMerge splits a merge at its blank into two pieces.
func splitMerge(line string) (m [2]string, ok bool) {
	var left, right string
	left, right, ok = strings.Cut(line, " ")
	return [2]string{left, right}, ok && left != "" && right != "" && !strings.Contains(right, " ")
}

// isVocabulary says whether a document is a vocab.json: its first key has a number as
// value, an id. The first key of a tokenizer.json is its version or one of its parts.
func isVocabulary(b []byte) bool {
	s := jsontext.NewScanner(b[:min(len(b), 4096)])
	if !s.OK() {
		s = jsontext.NewScanner(b) // the first part ended within a character
	}
	number := false
	s.Space()
	s.Expect('{')
	s.Space()
	if s.Peek() == '"' {
		s.Text()
		s.Space()
		s.Expect(':')
		s.Space()
		number = s.Peek() >= '0' && s.Peek() <= '9'
	}
	return number && s.OK()
}

// bareFamily is a family of tokenizers that is released as vocab.json and merges.txt.
// Those files do not say how to normalize and split: the code of each family does. The
// fields hold the same rules as parts of a tokenizer.json.
type bareFamily struct {
	name         string
	suffix       string // is put after the last character of a word
	unknown      string // the token for characters that have none; "" leaves them out
	normalizer   string
	preTokenizer string
	around       [2]string // tokens before and after a text
	tokens       []string  // tokens that every such tokenizer has, as JSON
}

const qwenWords = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

const clipWords = `<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`

var (
	clipFamily = &bareFamily{
		name: "CLIP", suffix: "</w>", unknown: "<|endoftext|>",
		normalizer: `{"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}, {"type": "Lowercase"}]}`,
		preTokenizer: `{"type": "Sequence", "pretokenizers": [
			{"type": "Split", "pattern": {"Regex": ` + strconv.Quote(clipWords) + `}, "behavior": "Removed", "invert": true},
			{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]}`,
		around: [2]string{"<|startoftext|>", "<|endoftext|>"},
		tokens: []string{`{"content": "<|startoftext|>", "normalized": true}`, `{"content": "<|endoftext|>"}`},
	}
	qwenFamily = &bareFamily{
		name:       "Qwen2",
		normalizer: `{"type": "NFC"}`,
		preTokenizer: `{"type": "Sequence", "pretokenizers": [
			{"type": "Split", "pattern": {"Regex": ` + strconv.Quote(qwenWords) + `}, "behavior": "Isolated", "invert": false},
			{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}`,
	}
	gpt2Family = &bareFamily{
		name:         "GPT-2",
		preTokenizer: `{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}`,
	}
	familiesByClass = map[string]*bareFamily{"CLIPTokenizer": clipFamily, "Qwen2Tokenizer": qwenFamily, "GPT2Tokenizer": gpt2Family}
)

// openVocabMerges reads the vocabulary b of a file and the other files beside it.
func openVocabMerges(path string, b []byte) (*Tokenizer, error) {
	dir := filepath.Dir(path)
	merges, err := userfile.Read(filepath.Join(dir, "merges.txt"), maxFileBytes)
	if err != nil {
		return nil, err
	}
	beside := map[string][]byte{}
	for _, name := range []string{configFile, specialsFile, addedFile} {
		text, err := userfile.Read(filepath.Join(dir, name), maxFileBytes)
		if err == nil {
			beside[name] = text
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return parseVocabMerges(path, b, merges, beside)
}

const (
	configFile   = "tokenizer_config.json"
	specialsFile = "special_tokens_map.json"
	addedFile    = "added_tokens.json"
)

// parseVocabMerges reads the text of a vocab.json, of its merges.txt and, by name, of
// the files beside them.
func parseVocabMerges(path string, vocab, merges []byte, beside map[string][]byte) (*Tokenizer, error) {
	r := &jsonReader{faults: faults{path: path}, out: &Tokenizer{Path: path}}
	v := vocabulary{has: map[string]bool{"vocab": true, "merges": true}}
	s := jsontext.NewScanner(vocab)
	s.Space()
	v.scanIDs(s)
	s.End()
	if err := s.Err(); err != nil {
		r.addMalformed("", "%v", err)
	}
	for i, line := range strings.Split(string(merges), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || i == 0 && strings.HasPrefix(line, "#version") {
			continue
		}
		m, ok := splitMerge(line)
		if !ok {
			r.addMalformed(fmt.Sprintf("merges.txt line %d", i+1), "%s: two pieces with one blank between expected", quotePiece(line))
		}
		v.merges = append(v.merges, m)
	}
	c := r.readConfig(beside)
	if err := r.err(); err != nil {
		return nil, err
	}
	family := r.chooseFamily(c, v.ids)
	if err := r.err(); err != nil {
		return nil, err
	}
	r.readDocument(r.objectAt(family.makeDocument(c, v.ids), ""), &v)
	if err := r.err(); err != nil {
		return nil, err
	}
	r.out.Kind = "vocab.json and merges.txt, " + family.name
	r.out.encode = r.line.encode
	r.out.finishVocabulary()
	return r.out, nil
}

// bareConfig holds the settings from the files beside a vocabulary.
type bareConfig struct {
	class          string
	addPrefixSpace bool
	named          map[string]string         // bos_token and the like: its text
	tokens         map[string]map[string]any // added tokens by text, as tokenizer.json has them
}

var namedTokens = []string{"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"}

func (r *jsonReader) readConfig(beside map[string][]byte) *bareConfig {
	c := &bareConfig{named: map[string]string{}, tokens: map[string]map[string]any{}}
	documents := map[string]map[string]any{}
	for name, text := range beside {
		m, err := jsontext.ParseObject(text, jsontext.Options{})
		if err != nil {
			r.addMalformed(name, "%v", err)
		}
		documents[name] = m
	}
	config := r.objectAt(orEmpty(documents[configFile]), configFile)
	c.class = strings.TrimSuffix(config.text("tokenizer_class", ""), "Fast")
	c.addPrefixSpace = config.flag("add_prefix_space", false)
	if c.addPrefixSpace && c.class != "GPT2Tokenizer" {
		r.addUnsupported(config.pathOf("add_prefix_space"), "true; only GPT2Tokenizer is known with it")
	}
	for key, known := range map[string]bool{"add_bos_token": false, "add_eos_token": false, "split_special_tokens": false, "do_lower_case": true} {
		if config.flag(key, known) != known {
			r.addUnsupported(config.pathOf(key), "%v; %v is known", !known, known)
		}
	}
	decoder := takeOr(config, "added_tokens_decoder", "an object", map[string]any{})
	for key, t := range decoder {
		where := joinPath(config.pathOf("added_tokens_decoder"), key)
		if id, err := strconv.Atoi(key); err != nil || id < 0 || id > maxID {
			r.addMalformed(where, "%.40q is no id", key)
			continue
		}
		c.addToken(r, t, where, json.Number(key), false)
	}
	for content, id := range documents[addedFile] {
		c.addToken(r, map[string]any{"content": content, "normalized": true, "special": false}, joinPath(addedFile, content),
			json.Number(strconv.Itoa(r.wholeNumberAt(id, joinPath(addedFile, content)))), false)
	}
	specials := r.objectAt(orEmpty(documents[specialsFile]), specialsFile)
	for _, o := range []*fields{config, specials} {
		for _, name := range namedTokens {
			if t, _ := o.take(name); t != nil && c.named[name] == "" {
				c.named[name] = c.addToken(r, t, o.pathOf(name), "", true)
			}
		}
		if list, _ := o.take("additional_special_tokens"); list != nil {
			all, _ := list.([]any)
			for i, t := range all {
				c.addToken(r, t, itemPath(o.pathOf("additional_special_tokens"), i), "", true)
			}
		}
	}
	return c
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// addToken adds a token, given as its text or as an object, and gives its text. If a token
// is given several times, its first object counts, but it is special if any of them says
// so.
func (c *bareConfig) addToken(r *jsonReader, v any, where string, id json.Number, special bool) string {
	if text, ok := v.(string); ok {
		v = map[string]any{"content": text}
	}
	o := r.objectAt(v, where)
	t := map[string]any{}
	content := o.text("content")
	for _, flag := range []string{"single_word", "lstrip", "rstrip", "normalized"} {
		if _, ok := o.m[flag]; ok {
			t[flag] = o.flag(flag)
		}
	}
	t["content"], t["special"] = content, o.flag("special", special) || special
	o.ignore("__type")
	o.close()
	if id != "" {
		t["id"] = id
	}
	if content == "" {
		return ""
	}
	if was, twice := c.tokens[content]; twice {
		if t["special"] == true {
			was["special"] = true
		}
		return content
	}
	c.tokens[content] = t
	return content
}

// chooseFamily finds the family by the class that the configuration names. Without a class
// it goes by the vocabulary and, where that leaves a doubt, adds a note.
func (r *jsonReader) chooseFamily(c *bareConfig, ids map[string]int32) *bareFamily {
	if c.class != "" {
		f := familiesByClass[c.class]
		if f == nil {
			r.addUnsupported(joinPath(configFile, "tokenizer_class"),
				"%.60q is not supported for vocab.json with merges.txt; CLIPTokenizer, Qwen2Tokenizer and GPT2Tokenizer are", c.class)
		}
		return f
	}
	for piece := range ids {
		if strings.HasSuffix(piece, "</w>") {
			return clipFamily
		}
	}
	f, other := qwenFamily, gpt2Family
	if _, ok := ids["<|endoftext|>"]; ok {
		f, other = other, f
	}
	r.out.Notes = append(r.out.Notes, fmt.Sprintf("%s does not say how text is split to words, and no %s lies beside it: read as %s, not as %s", r.path, configFile,
		f.name, other.name))
	return f
}

// makeDocument makes the document of a tokenizer.json, without the vocabulary and the
// merges.
func (f *bareFamily) makeDocument(c *bareConfig, ids map[string]int32) map[string]any {
	for _, text := range f.tokens {
		t := parseOwn(text)
		content := t["content"].(string)
		_, inVocabulary := ids[content]
		was := c.tokens[content]
		switch {
		case was == nil && inVocabulary:
			t["special"] = true
			c.tokens[content] = t
		case was != nil && was["normalized"] == nil && t["normalized"] != nil:
			was["normalized"] = t["normalized"]
		}
	}
	next := len(ids)
	for _, t := range c.tokens {
		if _, known := ids[t["content"].(string)]; !known && t["id"] != nil {
			id, _ := strconv.Atoi(string(t["id"].(json.Number)))
			next = max(next, id+1)
		}
	}
	var tokens []any
	for _, content := range sortedTokens(c.tokens) {
		t := c.tokens[content]
		for _, flag := range []string{"single_word", "lstrip", "rstrip", "normalized"} {
			if t[flag] == nil {
				t[flag] = false
			}
		}
		switch id, known := ids[content]; {
		case known && t["id"] == nil:
			t["id"] = json.Number(strconv.Itoa(int(id)))
		case t["id"] == nil:
			t["id"] = json.Number(strconv.Itoa(next))
			next++
		}
		tokens = append(tokens, t)
	}
	slices.SortStableFunc(tokens, func(a, b any) int { return cmp.Compare(tokenID(a), tokenID(b)) })
	model := map[string]any{"type": "BPE"}
	if f.suffix != "" {
		model["end_of_word_suffix"] = f.suffix
	}
	unknown := cmp.Or(c.named["unk_token"], f.unknown)
	if _, known := ids[unknown]; known && f.unknown != "" {
		model["unk_token"] = unknown
	}
	d := map[string]any{"model": model, "added_tokens": tokens, "pre_tokenizer": any(parseOwn(f.preTokenizer))}
	if f.normalizer != "" {
		d["normalizer"] = any(parseOwn(f.normalizer))
	}
	if f == gpt2Family && c.addPrefixSpace {
		d["pre_tokenizer"].(map[string]any)["add_prefix_space"] = true
	}
	if f.around[0] != "" {
		pair := func(name, text string) any {
			text = cmp.Or(c.named[name], text)
			id := json.Number("-1") // refused: the vocabulary has no such token
			if known, ok := ids[text]; ok {
				id = json.Number(strconv.Itoa(int(known)))
			} else if t := c.tokens[text]; t != nil {
				id = t["id"].(json.Number)
			}
			return []any{text, id}
		}
		d["post_processor"] = map[string]any{"type": "RobertaProcessing", "cls": pair("bos_token", f.around[0]), "sep": pair("eos_token", f.around[1])}
	}
	return d
}

func tokenID(t any) int {
	id, _ := strconv.Atoi(string(t.(map[string]any)["id"].(json.Number)))
	return id
}

func sortedTokens(tokens map[string]map[string]any) []string {
	var all []string
	for content := range tokens {
		all = append(all, content)
	}
	slices.Sort(all)
	return all
}

// parseOwn parses JSON of this package, and panics where it is wrong.
func parseOwn(text string) map[string]any {
	m, err := jsontext.ParseObject([]byte(text), jsontext.Options{})
	if err != nil {
		panic(err)
	}
	return m
}
