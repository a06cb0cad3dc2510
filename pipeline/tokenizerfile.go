package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/checkpoint"
	"weft/fault"
	"weft/tokenizer"
)

// tokenizerTensor is the tensor of bytes in which a text encoder's file may have its tokenizer.json.
const tokenizerTensor = "tokenizer_json"

// openTokenizer opens a tokenizer's file or folder, or the one within a text encoder's file.
func (t *textPart) openTokenizer(path string) (err error) {
	if !strings.HasSuffix(strings.ToLower(path), ".safetensors") {
		t.tokens, err = tokenizer.Open(path)
		return err
	}
	found, _, _, err := checkpoint.LoadNamed(context.Background(), path, func(names []string) []string {
		if slices.Contains(names, tokenizerTensor) {
			return []string{tokenizerTensor}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b := found[tokenizerTensor]
	if b == nil {
		return fault.New(tokenizer.ErrNotFound, nil, "%s has no tensor %s, which would be the tokenizer: %s names a tokenizer.json", path, tokenizerTensor, flagOf[t.parts[1]])
	}
	sum := sha256.Sum256(b.Data)
	t.tokensSum = hex.EncodeToString(sum[:])
	t.tokens, err = tokenizer.ParseJSON(path, b.Data)
	return err
}

// noteOtherTransformers says which of several transformers in a publisher's folder is taken.
func (p *Pipeline) noteOtherTransformers() {
	var there []string
	for _, name := range namesOf(p.Layout, Transformer, "") {
		if path := filepath.Join(p.Dir, name); name != "." {
			if _, err := os.Stat(path); err == nil && p.Layout == Official {
				there = append(there, path)
			}
		}
	}
	if len(there) > 1 {
		p.Notes = append(p.Notes, fmt.Sprintf("of the transformers in %s, %s is taken; --model names another by its file", p.Dir, filepath.Base(there[0])))
	}
}
