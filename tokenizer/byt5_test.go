package tokenizer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// writeFolder makes a folder of a tokenizer's files.
func writeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A folder without a vocabulary whose class is ByT5's gives an id for each byte, and those of the
// tokens that its files or its class name.
func TestByT5(t *testing.T) {
	const plain = `{"tokenizer_class": "ByT5Tokenizer", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "extra_ids": 125,
		"additional_special_tokens": ["<extra_id_0>", "<extra_id_124>"]}`
	const decoder = `{"tokenizer_class": "ByT5Tokenizer", "added_tokens_decoder": {"0": {"content": "<pad>", "special": true}, "1": {"content": "</s>", "special": true},
		"2": {"content": "<unk>", "special": true}, "384": {"content": "<color-0>", "special": true}, "397": {"content": "<en-font-7>", "special": true}}}`
	for _, c := range []struct {
		config, text string
		want         []int
		size         int
	}{
		{plain, "", []int{}, 384},
		{plain, "aé", []int{100, 198, 172}, 384},
		{plain, `Text "x". `, []int{87, 104, 123, 119, 35, 37, 123, 37, 49, 35}, 384},
		{plain, "a<extra_id_0>b</s>", []int{100, 259, 101, 1}, 384},
		{plain, "<extra_id_124>\x00", []int{383, 3}, 384},
		{decoder, "<color-0>a<en-font-7>", []int{384, 100, 397}, 398},
		{decoder, "<color-1>", []int{63, 102, 114, 111, 114, 117, 48, 52, 65}, 398},
	} {
		tok, err := Open(writeFolder(t, map[string]string{"tokenizer_config.json": c.config}))
		if err != nil {
			t.Fatal(err)
		}
		got, err := tok.Encode(c.text, Options{})
		if err != nil || !slices.Equal(got, c.want) || tok.Size() != c.size {
			t.Errorf("%q: %v of %d ids, want %v of %d: %v", c.text, got, tok.Size(), c.want, c.size, err)
		}
		for piece, want := range map[string]int{"<pad>": 0, "</s>": 1, "<unk>": 2} {
			if id, ok := tok.ID(piece); !ok || id != want {
				t.Errorf("%s is %d %v", piece, id, ok)
			}
		}
	}
}

// Files that contradict the class, or leave an id open, are refused.
func TestByT5Refused(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		kind  error
	}{
		"another class":        {map[string]string{"tokenizer_config.json": `{"tokenizer_class": "T5Tokenizer"}`}, ErrNotFound},
		"no class but a name":  {map[string]string{"tokenizer_config.json": `{"tokenizer_class": "T5Tokenizer", "was": "ByT5Tokenizer"}`}, ErrUnsupported},
		"a token without id":   {map[string]string{"tokenizer_config.json": `{"tokenizer_class": "ByT5Tokenizer", "additional_special_tokens": ["<color-0>"]}`}, ErrMalformed},
		"a token on a byte":    {map[string]string{"tokenizer_config.json": `{"tokenizer_class": "ByT5Tokenizer", "added_tokens_decoder": {"100": {"content": "<x>"}}}`}, ErrMalformed},
		"two tokens of one id": {map[string]string{"tokenizer_config.json": `{"tokenizer_class": "ByT5Tokenizer", "added_tokens_decoder": {"259": {"content": "<x>"}}, "pad_token": "<extra_id_0>"}`}, ErrMalformed},
		"no JSON":              {map[string]string{"tokenizer_config.json": `{"tokenizer_class": "ByT5Tokenizer",`}, ErrMalformed},
	} {
		if _, err := Open(writeFolder(t, c.files)); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
}

// No bytes of the files make the reader panic, and what it accepts encodes every text.
func FuzzByT5(f *testing.F) {
	f.Add([]byte(`{"tokenizer_class": "ByT5Tokenizer", "added_tokens_decoder": {"259": {"content": "<x>", "special": true}}}`), "a<x>é")
	f.Add([]byte(`{"tokenizer_class": "ByT5Tokenizer", "additional_special_tokens": ["<extra_id_-1>"]}`), "")
	f.Fuzz(func(t *testing.T, config []byte, text string) {
		tok, err := parseByT5("x", map[string][]byte{configFile: config})
		if err != nil {
			return
		}
		if ids, err := tok.Encode(text, Options{}); err != nil || slices.ContainsFunc(ids, func(id int) bool { return id < 0 || id >= tok.Size() }) {
			t.Errorf("%q: %v %v", text, ids, err)
		}
	})
}
