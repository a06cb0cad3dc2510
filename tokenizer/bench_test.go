package tokenizer

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkEncode reports the tokens a second of the given strings.
func BenchmarkEncode(b *testing.B) {
	texts := decodeLines[givenString](b, filepath.Join(given, "strings.jsonl"))
	for _, path := range []string{"umt5", "umt5/spiece.model", "t5", "clip", "qwen2", "llama3", "gemma", "gemma/tokenizer.model"} {
		b.Run(path, func(b *testing.B) {
			k := openGiven(b, path)
			tokens := 0
			for b.Loop() {
				for _, s := range texts {
					tokens += len(encode(b, k, s.S, Options{}))
				}
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// largeVocabulary makes a tokenizer.json with as many pieces as the largest released
// ones have.
func largeVocabulary(unigram bool) []byte {
	const size = 262_144
	var pieces, merges []string
	seen := map[string]bool{}
	add := func(p string) bool {
		if seen[p] {
			return false
		}
		seen[p] = true
		pieces = append(pieces, p)
		return true
	}
	for _, r := range "▁abcdefghijklmnopqrstuvwxyzäöüéабвгдежзийклмнопрстуфхц日本語中文한국어" {
		add(string(r))
	}
	first := len(pieces)
	for i := 0; len(pieces) < size; i++ {
		a, b := pieces[i*7919%len(pieces)], pieces[i*104729%min(len(pieces), 40*first)]
		if len(a)+len(b) < 24 && add(a+b) {
			merges = append(merges, a, b)
		} else if b = string([]rune(a)[0]); len(a) < 30 && add(b+a) {
			merges = append(merges, b, a)
		}
	}
	var b bytes.Buffer
	if unigram {
		b.WriteString(`{"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},"model":{"type":"Unigram","unk_id":0,"vocab":[`)
		for i, p := range pieces {
			fmt.Fprintf(&b, "%s[%q, -%d.%d123456789]\n", map[bool]string{true: ","}[i > 0], p, 3+i%17, i)
		}
		b.WriteString("]}}")
		return b.Bytes()
	}
	b.WriteString(`{"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},"model":{"type":"BPE","vocab":{`)
	for i, p := range pieces {
		fmt.Fprintf(&b, "%s%q: %d\n", map[bool]string{true: ","}[i > 0], p, i)
	}
	b.WriteString(`},"merges":[`)
	for i := 0; i < len(merges); i += 2 {
		fmt.Fprintf(&b, "%s[%q, %q]\n", map[bool]string{true: ","}[i > 0], merges[i], merges[i+1])
	}
	b.WriteString("]}}")
	return b.Bytes()
}

// BenchmarkLoad reads a tokenizer.json of 262,144 pieces.
func BenchmarkLoad(b *testing.B) {
	for name, unigram := range map[string]bool{"BPE": false, "Unigram": true} {
		text := largeVocabulary(unigram)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := parseTokenizerJSON("f", text); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encode", func(b *testing.B) {
			k, err := parseTokenizerJSON("f", text)
			if err != nil {
				b.Fatal(err)
			}
			tokens := 0
			for b.Loop() {
				tokens += len(encode(b, k, "the quick brown fox jumps over the lazy dog быстрая лиса 日本語 한국어", Options{}))
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
