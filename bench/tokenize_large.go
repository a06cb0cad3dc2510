package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// largeVocabulary makes up so many pieces: the characters of the texts, the beginnings of their
// words, and then concatenations of pieces. merges tells for each piece of several characters
// which two it is made of.
func largeVocabulary(size int, texts []string) (pieces []string, merges [][2]string) {
	known := map[string]bool{}
	add := func(a, b string) {
		if piece := a + b; !known[piece] && len(pieces) < size {
			known[piece] = true
			pieces = append(pieces, piece)
			if b != "" {
				merges = append(merges, [2]string{a, b})
			}
		}
	}
	add("▁", "")
	for _, text := range texts {
		for _, r := range text {
			if r != ' ' {
				add(string(r), "")
			}
		}
	}
	characters := len(pieces)
	for _, text := range texts {
		for _, word := range strings.FieldsFunc(text, unicode.IsSpace) {
			begin := "▁"
			for i, r := range word {
				if i >= 16 {
					break
				}
				add(begin, string(r))
				begin += string(r)
			}
		}
	}
	for i := 0; len(pieces) < size; i++ {
		a, b := pieces[i*7919%len(pieces)], pieces[i*104_729%min(len(pieces), 40*characters)]
		switch {
		case len(a)+len(b) < 24:
			add(a, b)
		case len(a) < 30:
			add(pieces[i%characters], a)
		}
	}
	return pieces, merges
}

// writeLargeVocabularies writes a Unigram model and a BPE model of so many pieces, as
// tokenizer.json.
func writeLargeVocabularies(dir string, size int, texts []string) ([]string, error) {
	pieces, merges := largeVocabulary(size, texts)
	type object = map[string]any
	const unknown = "<unk>"
	whole := func(normalizer, split, model any) object {
		return object{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": []any{}, "normalizer": normalizer, "pre_tokenizer": split,
			"post_processor": nil, "decoder": nil, "model": model}
	}
	scored := [][2]any{{unknown, 0.0}}
	ids := map[string]int{unknown: 0}
	for i, p := range pieces {
		scored = append(scored, [2]any{p, -8 - 4*float64(i*7919%size)/float64(size)})
		ids[p] = i + 1
	}
	space := object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}
	metaspace := object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}
	var files []string
	for _, made := range []struct {
		name string
		file object
	}{
		{"unigram", whole(nil, metaspace, object{"type": "Unigram", "unk_id": 0, "vocab": scored, "byte_fallback": false})},
		{"bpe", whole(space, nil, object{"type": "BPE", "dropout": nil, "unk_token": unknown, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": true, "byte_fallback": false, "ignore_merges": false, "vocab": ids, "merges": merges})},
	} {
		file := filepath.Join(dir, fmt.Sprintf("made-up-%s-%d", made.name, len(ids)), "tokenizer.json")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		text, err := json.MarshalIndent(made.file, "", " ")
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}
