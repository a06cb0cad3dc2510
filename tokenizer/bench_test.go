package tokenizer

import (
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
