package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Outputs of several videos are numbered before their ending.
func TestNumberedNames(t *testing.T) {
	for path, want := range map[string]string{"": "", "v.mp4": "v-007.mp4", "a.b/v": "a.b/v-007", "frames/": "frames-007/", "a.b/frames/": "a.b/frames-007/",
		"x/v.safetensors": "x/v-007.safetensors"} {
		if got := numbered(path, 7); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// A file of prompts is read line by line, or refused with the line.
func FuzzReadPrompts(f *testing.F) {
	f.Add("a cat\r\n\n a dog", false)
	f.Add(`"a"`+"\n"+`{"prompt":"b","negative":"c","seed":18446744073709551615}`, true)
	f.Add(`{"prompt":1}`, true)
	f.Add(`{"prompt":"a","seed":1.5}`, true)
	path := filepath.Join(f.TempDir(), "p")
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		name := path + map[bool]string{true: ".jsonl", false: ".txt"}[isJSON]
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		prompts, err := readPrompts(name)
		if lines := strings.Count(text, "\n") + 1; err == nil && (len(prompts) == 0 || len(prompts) > lines) {
			t.Errorf("%q: %d prompts of %d lines", text, len(prompts), lines)
		}
		if err == nil && !isJSON && !strings.Contains(text, prompts[0].prompt) {
			t.Errorf("%q: the first prompt is %q", text, prompts[0].prompt)
		}
	})
}
