package tokenizer

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weft/fault"
	"weft/internal/userfile"
)

// maxFileBytes bounds the files of a tokenizer. The largest known one has 33 MB.
const maxFileBytes = 512 << 20

// folderFiles are the files from which a folder's tokenizer is read. The first that exists
// is taken; released pipelines search in this order.
var folderFiles = []string{"tokenizer.json", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "vocab.json"}

// Open reads a tokenizer from one of its files, or from a folder: its tokenizer.json,
// else its SentencePiece model, else vocab.json with merges.txt. A folder with none of them whose
// tokenizer_config.json names ByT5Tokenizer is one of bytes. The format of a named
// file is found by its content. vocab.json and merges.txt must be in one folder, and the
// files tokenizer_config.json, special_tokens_map.json and added_tokens.json beside them
// are read as well.
//
// Errors: ErrNotFound, ErrMalformed and ErrUnsupported, the last two with everything that
// was found in a file; and the errors of package userfile for files that cannot be read.
func Open(path string) (*Tokenizer, error) {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return openFile(path)
	}
	for _, name := range folderFiles {
		file := filepath.Join(path, name)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return openFile(file)
	}
	if t, err := openByT5(path); t != nil || err != nil {
		return t, err
	}
	return nil, fault.New(ErrNotFound, Missing{path, folderFiles}, "there is no tokenizer in %s: looked for %s (with merges.txt)", path, strings.Join(folderFiles, ", "))
}

// ParseJSON reads a tokenizer of the text of a tokenizer.json that lies in another file; path is what
// messages call it. Errors: ErrMalformed and ErrUnsupported.
func ParseJSON(path string, b []byte) (*Tokenizer, error) { return parseTokenizerJSON(path, b) }

func openFile(path string) (*Tokenizer, error) {
	if filepath.Base(path) == "merges.txt" {
		path = filepath.Join(filepath.Dir(path), "vocab.json")
	}
	b, err := userfile.Read(path, maxFileBytes)
	if err != nil {
		return nil, err
	}
	if start := bytes.TrimLeft(b, " \t\r\n"); len(start) == 0 || start[0] != '{' {
		return parseSentencePiece(path, b)
	}
	if isVocabulary(b) {
		return openVocabMerges(path, b)
	}
	return parseTokenizerJSON(path, b)
}
