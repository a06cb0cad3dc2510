package tokenizer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const given = "../testdata/tokenizers"

// readLines reads the lines of a file, packed or not.
func readLines(t testing.TB, path string) []string {
	t.Helper()
	var b []byte
	f, err := os.Open(path + ".gz")
	if err != nil {
		if b, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	} else {
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	return lines
}

func decodeLines[T any](t testing.TB, path string) []T {
	t.Helper()
	var out []T
	for _, l := range readLines(t, path) {
		var v T
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

type givenString struct{ K, S string }

// copyWith copies files of a folder and changes one.
func copyFiles(t testing.TB, from string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Every string of every file has the ids of the library that the file is made for.
func TestGivenStrings(t *testing.T) {
	texts := decodeLines[givenString](t, filepath.Join(given, "strings.jsonl"))
	if len(texts) != 703 {
		t.Fatalf("%d strings", len(texts))
	}
	fallback := copyFiles(t, filepath.Join(given, "umt5"), "tokenizer.json")
	b, err := os.ReadFile(filepath.Join(fallback, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(b), `"byte_fallback":false`, `"byte_fallback":true`, 1)
	if changed == string(b) {
		changed = strings.Replace(string(b), `"byte_fallback": false`, `"byte_fallback": true`, 1)
	}
	if changed == string(b) {
		t.Fatal("byte_fallback is not there")
	}
	if err := os.WriteFile(filepath.Join(fallback, "tokenizer.json"), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ expected, path string }{
		{"umt5.tokenizer.json", "umt5"},
		{"umt5.tokenizer_byte_fallback.json", fallback},
		{"umt5.spiece.model", "umt5/spiece.model"},
		{"t5.tokenizer.json", "t5/tokenizer.json"},
		{"t5.spiece.model", "t5/spiece.model"},
		{"clip.tokenizer.json", "clip"},
		{"clip.tokenizer.json", copyFiles(t, filepath.Join(given, "clip"), "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json")},
		{"clip.tokenizer.json", copyFiles(t, filepath.Join(given, "clip"), "vocab.json", "merges.txt")},
		{"qwen2.tokenizer.json", "qwen2/tokenizer.json"},
		{"qwen2.tokenizer.json", copyFiles(t, filepath.Join(given, "qwen2"), "vocab.json", "merges.txt", "tokenizer_config.json")},
		{"llama3.tokenizer.json", "llama3"},
		{"gemma.tokenizer.json", "gemma"},
		{"gemma.tokenizer.model", "gemma/tokenizer.model"},
	} {
		t.Run(c.expected, func(t *testing.T) {
			path := c.path
			if !filepath.IsAbs(path) {
				path = filepath.Join(given, path)
			}
			k, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			want := decodeLines[[]int](t, filepath.Join(given, "expected", c.expected+".jsonl"))
			wrong := 0
			for i, text := range texts {
				got, err := k.Encode(text.S, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, want[i]) {
					if wrong++; wrong <= 5 {
						t.Errorf("%s %.80q: %v, want %v", text.K, text.S, got[:min(len(got), 20)], want[i][:min(len(want[i]), 20)])
					}
				}
			}
			if wrong > 0 {
				t.Errorf("%d of %d differ", wrong, len(texts))
			}
		})
	}
}

// Clean prompts have Wan's ids, cut so that the end stays.
func TestGivenPrompts(t *testing.T) {
	type prompt struct {
		Clean string
		IDs   []int `json:"ids"`
		Cut   []int `json:"ids_max_24"`
		Mask  []int `json:"mask_max_24"`
	}
	k, err := Open(filepath.Join(given, "umt5"))
	if err != nil {
		t.Fatal(err)
	}
	prompts := decodeLines[prompt](t, filepath.Join(given, "expected", "prompts.jsonl"))
	if len(prompts) != 50 {
		t.Fatalf("%d prompts", len(prompts))
	}
	for _, p := range prompts {
		ids, err := k.Encode(p.Clean, Options{})
		if err != nil || !slices.Equal(ids, p.IDs) {
			t.Errorf("%q: %v %v, want %v", p.Clean, ids, err, p.IDs)
		}
		used := 0
		for _, m := range p.Mask {
			used += m
		}
		if ids, err = k.Encode(p.Clean, Options{MaxTokens: 24}); err != nil || !slices.Equal(ids, p.Cut[:used]) {
			t.Errorf("%q: %v %v, want %v", p.Clean, ids, err, p.Cut[:used])
		}
	}
}
