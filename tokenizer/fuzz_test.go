package tokenizer

import (
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"

	"weft/internal/jsontext"
)

// checkIDs demands ids of the vocabulary, twice the same.
func checkIDs(t *testing.T, k *Tokenizer, text string) {
	ids, err := k.Encode(text, Options{Unlimited: true})
	if err != nil {
		return
	}
	for _, id := range ids {
		if id < 0 || id >= k.Size() {
			t.Fatalf("id %d of %q; the size is %d", id, text, k.Size())
		}
	}
	again, err := k.Encode(text, Options{Unlimited: true})
	if err != nil || !slices.Equal(ids, again) {
		t.Fatalf("%v, then %v %v", ids, again, err)
	}
	if _, err := k.Encode(text, Options{MaxTokens: 3}); err != nil && len(k.before)+len(k.after) <= 3 {
		t.Fatal(err)
	}
}

var fuzzTexts = []string{"", " a b", "A cat's 123 tails\r\n\r\n", "héé\u0301\u0301 日本語 👩‍👩‍👧 \x00\xff", "<unk></s><s> x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}

// smallJSON are files that together have every part that is read.
var smallJSON = []string{
	`{"version":"1.0","truncation":{"direction":"Left","max_length":4,"strategy":"LongestFirst","stride":0},"padding":{"strategy":{"Fixed":6},"direction":"Right","pad_to_multiple_of":4,"pad_id":1,"pad_type_id":0,"pad_token":"x"},
"added_tokens":[{"id":0,"content":"<unk>","single_word":true,"lstrip":true,"rstrip":true,"normalized":false,"special":true},{"id":5,"content":"CAT","single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"Strip","strip_left":true,"strip_right":false},{"type":"StripAccents"},{"type":"Nmt"},{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}]},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true},{"type":"Digits","individual_digits":true},{"type":"Punctuation","behavior":"Contiguous"},{"type":"FixedLength","length":5}]},
"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[],"special_tokens":{"</s>":{"id":"</s>","ids":[1],"tokens":["</s>"]}}},
"decoder":null,"model":{"type":"Unigram","unk_id":0,"byte_fallback":false,"vocab":[["<unk>",0],["</s>",0],["▁",-1.5],["a",-2],["▁a",-2.5]]}}`,
	`{"added_tokens":[],"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?i:'s|'t)|[^\\r\\n\\p{L}]?\\p{L}+|\\s+(?!\\S)|."},"behavior":"MergedWithPrevious","invert":false},
"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"RobertaProcessing","sep":["b",1],"cls":["a",0]}]},"decoder":{"type":"Fuse"},
"model":{"type":"BPE","dropout":null,"unk_token":"b","continuing_subword_prefix":"#","end_of_word_suffix":"w","fuse_unk":true,"byte_fallback":true,"ignore_merges":true,"vocab":{"a":0,"b":1,"#b":2,"#bw":3,"ab":4,"abbbw":5,"#bbw":6},"merges":[["a","#b"],["ab","#bbw"]]}}`,
	`{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Whitespace"},{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false}]},"model":{"vocab":{"a":0,"Ġ":1,"Ġa":2},"merges":["Ġ a"]}}`,
}

func FuzzTokenizerJSON(f *testing.F) {
	for _, text := range smallJSON {
		f.Add([]byte(text), "a b")
	}
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		k, err := parseTokenizerJSON("tokenizer.json", b)
		if err == nil && len(text) < 4096 {
			checkIDs(t, k, text)
		}
	})
}

func FuzzSentencePiece(f *testing.F) {
	for _, m := range smallModels() {
		f.Add(m, " a b")
	}
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		k, err := parseSentencePiece("spiece.model", b)
		if err == nil && len(text) < 4096 {
			checkIDs(t, k, text)
		}
	})
}

func FuzzVocabMerges(f *testing.F) {
	f.Add([]byte(`{"a":0,"b":1,"ab":2}`), []byte("#version: 0.2\na b\n"), []byte(`{"tokenizer_class":"GPT2Tokenizer","add_prefix_space":true}`), []byte(`{"x":3}`))
	f.Add([]byte(`{"a</w>":0,"b":1,"ba</w>":2,"<|startoftext|>":3,"<|endoftext|>":4}`), []byte("b a</w>"),
		[]byte(`{"bos_token":{"content":"<|startoftext|>","normalized":true},"added_tokens_decoder":{"5":{"content":"y"}}}`), []byte(`{}`))
	f.Add([]byte(`{"a":0}`), []byte(""), []byte(`{"tokenizer_class":"Qwen2TokenizerFast"}`), []byte(`{"x":1}`))
	f.Fuzz(func(t *testing.T, vocab, merges, config, added []byte) {
		k, err := parseVocabMerges("vocab.json", vocab, merges, map[string][]byte{configFile: config, addedFile: added})
		if err == nil {
			for _, text := range fuzzTexts {
				checkIDs(t, k, text)
			}
		}
	})
}

// FuzzEncode runs every given tokenizer.
func FuzzEncode(f *testing.F) {
	var all []*Tokenizer
	for _, path := range []string{"umt5/tokenizer.json", "umt5/spiece.model", "t5/tokenizer.json", "t5/spiece.model", "clip", "qwen2", "llama3", "gemma", "gemma/tokenizer.model"} {
		k, err := Open(filepath.Join(given, path))
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, k)
	}
	for _, text := range fuzzTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range all {
			checkIDs(t, k, text)
		}
	})
}

// FuzzPattern matches any pattern on any text: the matches lie in order, and are whole
// characters.
func FuzzPattern(f *testing.F) {
	for _, p := range []string{gpt2Words.text, qwenWords, clipWords, `(?>a+|b)++[^\w&-]{2,3}(?<=x)|\b\p{^Lu}$`, `(a|b)*c`} {
		f.Add(p, "ab abc  \n x1")
	}
	f.Fuzz(func(t *testing.T, p, text string) {
		if !utf8.ValidString(text) || !utf8.ValidString(p) || len(text) > 300 {
			return
		}
		c, err := compilePattern(p)
		if err != nil {
			return
		}
		last := 0
		c.findMatches(text, func(start, end int) {
			if start < last || end <= start || !utf8.ValidString(text[start:end]) {
				t.Fatalf("%q on %q: %d to %d after %d", p, text, start, end, last)
			}
			last = end
		})
	})
}

// Small files, on which fuzzing starts, are read.
func TestFuzzSeeds(t *testing.T) {
	for i, text := range smallJSON {
		if _, err := parseTokenizerJSON("f", []byte(text)); err != nil {
			t.Errorf("file %d: %v", i, err)
		}
		if _, err := jsontext.ParseObject([]byte(text), jsontext.Options{}); err != nil {
			t.Error(err)
		}
	}
	for i, m := range smallModels() {
		if _, err := parseSentencePiece("f", m); err != nil {
			t.Errorf("model %d: %v", i, err)
		}
	}
}
