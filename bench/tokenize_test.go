package main

import (
	"strings"
	"testing"

	"weft/tokenizer"
)

// The vocabularies that are made up have as many pieces as asked, all different, and weft reads
// them: their ids spell the text.
func TestLargeVocabularies(t *testing.T) {
	texts, err := givenTexts("../testdata/tokenizers/strings.jsonl.gz")
	if err != nil || len(texts) != 703 {
		t.Fatalf("%d strings: %v", len(texts), err)
	}
	const size = 20_000
	pieces, merges := largeVocabulary(size, texts)
	seen := map[string]bool{}
	for _, p := range pieces {
		seen[p] = true
	}
	if len(pieces) != size || len(seen) != size || len(merges) == 0 {
		t.Fatalf("%d pieces, %d different, %d merges", len(pieces), len(seen), len(merges))
	}
	files, err := writeLargeVocabularies(t.TempDir(), size, texts)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		k, err := tokenizer.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		const text = "the thin brown fox"
		ids, err := k.Encode(text, tokenizer.Options{})
		if err != nil || k.Size() != size+1 || len(ids) == 0 || len(ids) >= len(text) {
			t.Errorf("%s: %d pieces, ids %v: %v", file, k.Size(), ids, err)
		}
		spelt := ""
		for _, id := range ids {
			piece, _ := k.Piece(id)
			spelt += piece
		}
		if got := strings.TrimPrefix(strings.ReplaceAll(spelt, "▁", " "), " "); got != text {
			t.Errorf("%s: %q", file, got)
		}
	}
}

// A program's best is its fastest run with its least load, and the bars are by weft's.
func TestTokenizeTable(t *testing.T) {
	r := &tokenizeResult{Rounds: 2, Runs: []tokenizeRunFigures{
		{File: "f", Program: "weft", Tokens: 1e6, CPUSeconds: 2, LoadCPU: 1.2, LoadSeconds: 2},
		{File: "f", Program: "tokenizers", Tokens: 1e6, CPUSeconds: 4, LoadCPU: 3},
		{File: "f", Program: "weft", Tokens: 1e6, CPUSeconds: 1, LoadCPU: 2, LoadSeconds: 1},
	}}
	if got, want := r.markdown(), "| f | 0 | 0.0 | 1.000 | 0.250 | 4.00 | yes | 1.200 (1.000) | 3.000 (0.000) | yes | tokenizers |"; !strings.Contains(got, want) {
		t.Errorf("no line %s in\n%s", want, got)
	}
	r.Runs[2].CPUSeconds, r.Runs[0].CPUSeconds, r.Runs[0].LoadCPU = 4, 4, 2
	if got := r.markdown(); !strings.Contains(got, "| NO | 2.000") || !strings.Contains(got, "| NO | tokenizers |") {
		t.Errorf("missed bars are not said:\n%s", got)
	}
}
