package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const tokenizersDir = "../../testdata/tokenizers"

func TestTokenize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.jsonl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("\"A cat walks on the grass.\"\n{\"k\": 1, \"s\": \"\"}\n")
	const want = "{\"ids\":[331,260,314,266,616,305,288,261,260,337,310,260,983,421,261,263,1]}\n{\"ids\":[1]}\n"
	if code, stdout, stderr := weftRun(t, "tokenize", "--tokenizer", tokenizersDir+"/umt5", "--strings", file); code != 0 || stdout != want || stderr != "" {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	code, stdout, _ := weftRun(t, "tokenize", "--tokenizer", tokenizersDir+"/gemma/tokenizer.model", "--strings", file, "--json")
	doc := decode[tokenized](t, stdout)
	if code != 0 || len(doc.Strings) != 2 || doc.Strings[1].IDs == nil || len(doc.Strings[1].IDs) != 0 || !strings.HasSuffix(doc.Tokenizer, "tokenizer.model") || doc.Kind != "SentencePiece, BPE" {
		t.Errorf("exit %d: %s", code, stdout)
	}
	// What had to be assumed is said beside the result.
	bare := t.TempDir()
	for _, name := range []string{"vocab.json", "merges.txt"} {
		b, err := os.ReadFile(filepath.Join(tokenizersDir, "qwen2", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bare, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := weftRun(t, "tokenize", "--tokenizer", bare, "--strings", file); code != 0 || !strings.Contains(stderr, "note: ") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	write("")
	if code, stdout, stderr := weftRun(t, "tokenize", "--tokenizer", tokenizersDir+"/t5", "--strings", file); code != 0 || stdout != "" || stderr != "" {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

func TestTokenizeRefusals(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.jsonl"), filepath.Join(dir, "bad.jsonl")
	odd := filepath.Join(dir, "odd.json")
	for path, text := range map[string]string{
		good: "\"a\"\n",
		bad:  "\"a\"\n\n7\n{\"t\": \"a\"}\n\"\\ud800\"\n\"a\" \"b\"\n",
		odd:  `{"model": {"type": "WordPiece", "vocab": {}}}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name       string
		args       []string
		code       int
		kinds      []string
		violations int
	}{
		{"lines", []string{"--tokenizer", tokenizersDir + "/t5", "--strings", bad}, 2, []string{"usage"}, 5},
		{"both files", []string{"--tokenizer", odd, "--strings", bad}, 2, []string{"unsupported-tokenizer", "usage"}, 6},
		{"tokenizer", []string{"--tokenizer", odd, "--strings", good}, 1, []string{"unsupported-tokenizer"}, 1},
		{"no tokenizer", []string{"--tokenizer", dir, "--strings", good}, 1, []string{"no-tokenizer"}, 1},
		{"no file", []string{"--tokenizer", dir + "/no", "--strings", dir + "/no"}, 1, []string{"no-such-file"}, 2},
		{"a folder of strings", []string{"--tokenizer", tokenizersDir + "/t5", "--strings", dir}, 1, []string{"not-a-regular-file"}, 1},
		{"no flags", nil, 2, []string{"usage"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, _ := weftRun(t, append([]string{"tokenize", "--json"}, c.args...)...)
			doc := decode[failure](t, stdout)
			if code != c.code || len(doc.Error.Violations) != c.violations {
				t.Errorf("exit %d, %d violations: %s", code, len(doc.Error.Violations), stdout)
			}
			for _, v := range doc.Error.Violations {
				if !slices.Contains(c.kinds, v.Kind) {
					t.Errorf("kind %q, want one of %q", v.Kind, c.kinds)
				}
			}
		})
	}
}
