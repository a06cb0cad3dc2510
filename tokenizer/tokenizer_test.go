package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/userfile"
)

func openGiven(t testing.TB, path string) *Tokenizer {
	t.Helper()
	k, err := Open(filepath.Join(given, path))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func encode(t testing.TB, k *Tokenizer, text string, o Options) []int {
	t.Helper()
	ids, err := k.Encode(text, o)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return ids
}

// changed gives a given tokenizer.json with some of its parts replaced: a path of keys
// and places, and the JSON that stands there then.
func changed(t testing.TB, base string, changes ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(given, base, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		var value any
		if err := json.Unmarshal([]byte(changes[i+1]), &value); err != nil {
			t.Fatalf("%s: %v", changes[i+1], err)
		}
		at := doc
		keys := strings.Split(changes[i], ".")
		for _, k := range keys[:len(keys)-1] {
			switch next := at[k].(type) {
			case map[string]any:
				at = next
			case []any:
				at = next[0].(map[string]any)
			default:
				t.Fatalf("no %s in %s", k, changes[i])
			}
		}
		at[keys[len(keys)-1]] = value
	}
	if b, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	return b
}

// What a file says and this package does not do is refused with its place.
func TestRefusedParts(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes []string
		kind    error
		where   string
		words   string // of the message
	}{
		{"WordPiece", []string{"model.type", `"WordPiece"`}, ErrUnsupported, "model.type", `"WordPiece"`},
		{"WordLevel", []string{"model", `{"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}`}, ErrUnsupported, "model.type", `"WordLevel"`},
		{"no type, no merges", []string{"model", `{"vocab": {"a": 0}}`}, ErrUnsupported, "model", "WordPiece or WordLevel"},
		{"no model", []string{"model", `null`}, ErrMalformed, "model", "an object expected, found null"},
		{"dropout", []string{"model.dropout", `0.1`}, ErrUnsupported, "model.dropout", "0.1"},
		{"a key of the model", []string{"model.alpha", `1`}, ErrUnsupported, "model.alpha", "not known"},
		{"a key of the file", []string{"extra", `1`}, ErrUnsupported, "extra", "not known"},
		{"version", []string{"version", `"2.0"`}, ErrUnsupported, "version", `"2.0"`},
		{"normalizer", []string{"normalizer", `{"type": "BertNormalizer", "lowercase": true}`}, ErrUnsupported, "normalizer.type", `"BertNormalizer"`},
		{"normalizer within", []string{"normalizer", `{"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Odd"}]}`}, ErrUnsupported,
			"normalizer.normalizers[1].type", `"Odd"`},
		{"a key of a normalizer", []string{"normalizer", `{"type": "NFC", "strict": true}`}, ErrUnsupported, "normalizer.strict", "not known"},
		{"charsmap", []string{"normalizer", `{"type": "Precompiled", "precompiled_charsmap": "AAAA"}`}, ErrMalformed, "normalizer.precompiled_charsmap", "cut off"},
		{"pre-tokenizer", []string{"pre_tokenizer", `{"type": "UnicodeScripts"}`}, ErrUnsupported, "pre_tokenizer.type", `"UnicodeScripts"`},
		{"behavior", []string{"pre_tokenizer", `{"type": "Punctuation", "behavior": "Odd"}`}, ErrUnsupported, "pre_tokenizer.behavior", `"Odd"`},
		{"pattern", []string{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "(a)\\1"}, "behavior": "Isolated", "invert": false}`}, ErrUnsupported,
			"pre_tokenizer.pattern", `\1`},
		{"lazy", []string{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "a+?b"}, "behavior": "Isolated", "invert": false}`}, ErrUnsupported,
			"pre_tokenizer.pattern", "as little as it can"},
		{"matches nothing", []string{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "a*"}, "behavior": "Isolated", "invert": false}`}, ErrUnsupported,
			"pre_tokenizer.pattern", "empty text"},
		{"property", []string{"pre_tokenizer", `{"type": "Split", "pattern": {"Regex": "\\p{Emoji}"}, "behavior": "Isolated", "invert": false}`}, ErrUnsupported,
			"pre_tokenizer.pattern", "Emoji"},
		{"empty string", []string{"normalizer", `{"type": "Replace", "pattern": {"String": ""}, "content": "x"}`}, ErrUnsupported, "normalizer.pattern", "empty string"},
		{"no pattern", []string{"normalizer", `{"type": "Replace", "content": "x"}`}, ErrMalformed, "normalizer.pattern", "an object expected"},
		{"post-processor", []string{"post_processor", `{"type": "Odd"}`}, ErrUnsupported, "post_processor.type", `"Odd"`},
		{"two that add", []string{"post_processor", `{"type": "Sequence", "processors": [{"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 1]}, {"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 1]}]}`}, ErrUnsupported, "post_processor.processors[1]", "second"},
		{"template's token", []string{"post_processor", `{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {}}`}, ErrMalformed, "post_processor.single[0]", `"x"`},
		{"template's text", []string{"post_processor", `{"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}`}, ErrUnsupported,
			"post_processor.single", "without the text"},
		{"decoder", []string{"decoder", `{"type": "Odd"}`}, ErrUnsupported, "decoder.type", `"Odd"`},
		{"added id", []string{"added_tokens.id", `77`}, ErrUnsupported, "added_tokens[0]", "says id 77"},
		{"added field", []string{"added_tokens.odd", `true`}, ErrUnsupported, "added_tokens[0].odd", "not known"},
		{"added flag", []string{"added_tokens.lstrip", `1`}, ErrMalformed, "added_tokens[0].lstrip", "true or false"},
		{"merge", []string{"model.merges", `[["a", "nowhere"]]`}, ErrMalformed, "model.merges[0]", `"nowhere"`},
		{"merge of three", []string{"model.merges", `["a b c"]`}, ErrMalformed, "", "one blank"},
		{"unknown token", []string{"model.unk_token", `"nowhere"`}, ErrMalformed, "model.unk_token", `"nowhere"`},
		{"id", []string{"model.vocab", `{"a": -1}`}, ErrMalformed, "", "an id is -1"},
		{"vocabulary", []string{"model.vocab", `[["a", 1]]`}, ErrMalformed, "model.vocab", "ids, as an object"},
		{"truncation", []string{"truncation", `{"max_length": 3, "strategy": "OnlySecond", "stride": 0}`}, ErrUnsupported, "truncation.strategy", "OnlySecond"},
		{"padding", []string{"padding", `{"strategy": {"Fixed": 9999999}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}`}, ErrUnsupported, "padding", "9999999"},
		{"prefix", []string{"pre_tokenizer", `{"type": "Metaspace", "replacement": "▁", "add_prefix_space": false}`}, ErrMalformed, "pre_tokenizer", "add_prefix_space is false"},
		{"replacement", []string{"pre_tokenizer", `{"type": "Metaspace", "replacement": "__"}`}, ErrMalformed, "pre_tokenizer.replacement", "one character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseTokenizerJSON("f.json", changed(t, "qwen2", c.changes...))
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("error %v, want %v with %q", err, c.kind, c.words)
			}
			if p, _ := fault.Fields[Problem](err); p.Where != c.where || p.Path != "f.json" {
				t.Errorf("at %+v, want %s", p, c.where)
			}
		})
	}
}

// Everything that is wrong is said at once.
func TestAllFaults(t *testing.T) {
	_, err := parseTokenizerJSON("f.json", changed(t, "qwen2", "normalizer", `{"type": "Odd"}`, "decoder", `{"type": "Odd"}`, "added_tokens.id", "5"))
	if n := len(fault.Violations(err)); n != 3 {
		t.Errorf("%d violations: %v", n, err)
	}
	vocabulary := `{"model": {"type": "BPE", "vocab": {}, "merges": [` + strings.Repeat(`["a", "b"],`, 500) + `["a", "b"]]}}`
	_, err = parseTokenizerJSON("f.json", []byte(vocabulary))
	if n := len(fault.Violations(err)); n != maxFaults {
		t.Errorf("%d violations", n)
	}
}

func TestRefusedModels(t *testing.T) {
	with := func(p ...spPiece) []spPiece { return append(unkPieces[:2:2], p...) }
	good := modelSpec{algorithm: 1, pieces: with(spPiece{"a", -1, pieceNormal})}.bytes()
	for _, c := range []struct {
		name  string
		b     []byte
		kind  error
		words string
	}{
		{"char", modelSpec{algorithm: 4, pieces: with()}.bytes(), ErrUnsupported, "4 (char)"},
		{"word", modelSpec{algorithm: 3, pieces: with()}.bytes(), ErrUnsupported, "3 (word)"},
		{"empty", nil, ErrMalformed, "none of the 0 pieces"},
		{"text", []byte("hello"), ErrMalformed, "no SentencePiece model"},
		{"cut off", good[:len(good)-3], ErrMalformed, "unexpected EOF"},
		{"no unknown", modelSpec{algorithm: 1, pieces: []spPiece{{"a", 0, pieceNormal}}}.bytes(), ErrMalformed, "unknown characters"},
		{"two unknown", modelSpec{algorithm: 1, pieces: with(spPiece{"u", 0, pieceUnknown})}.bytes(), ErrMalformed, "second piece"},
		{"twice", modelSpec{algorithm: 1, pieces: with(spPiece{"a", 0, pieceNormal}, spPiece{"a", 0, pieceNormal})}.bytes(), ErrMalformed, "already"},
		{"empty piece", modelSpec{algorithm: 1, pieces: with(spPiece{"", 0, pieceNormal})}.bytes(), ErrMalformed, "empty"},
		{"kind", modelSpec{algorithm: 1, pieces: with(spPiece{"a", 0, 9})}.bytes(), ErrUnsupported, "kind 9"},
		{"bytes without fallback", modelSpec{algorithm: 1, pieces: with(spPiece{"<0x41>", 0, pieceByte})}.bytes(), ErrMalformed, "byte_fallback is false"},
		{"charsmap", modelSpec{algorithm: 1, pieces: with(), charsmap: []byte("abc")}.bytes(), ErrMalformed, "cut off"},
		{"unknown setting", modelSpec{algorithm: 1, pieces: with(), extra: protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1)}.bytes(),
			ErrUnsupported, "field 99"},
		{"unknown part", protowire.AppendBytes(protowire.AppendTag(slices.Clone(good), 9, protowire.BytesType), nil), ErrUnsupported, "field 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseSentencePiece("f.model", c.b)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want %v with %q", err, c.kind, c.words)
			}
		})
	}
}

func TestRefusedVocabMerges(t *testing.T) {
	const vocab = `{"a": 0, "b": 1, "ab": 2}`
	for _, c := range []struct {
		name, vocab, merges, config string
		kind                        error
		words                       string
	}{
		{"class", vocab, "a b", `{"tokenizer_class": "RobertaTokenizer"}`, ErrUnsupported, "RobertaTokenizer"},
		{"merge", vocab, "#version: 0.2\na b\nb a", `{}`, ErrMalformed, `"ba"`},
		{"line", vocab, "a b c", `{}`, ErrMalformed, "merges.txt line 1"},
		{"vocabulary", `{"a": "b"}`, "", `{}`, ErrMalformed, "number expected"},
		{"prefix", vocab, "a b", `{"tokenizer_class": "CLIPTokenizer", "add_prefix_space": true}`, ErrUnsupported, "add_prefix_space"},
		{"begin", vocab, "a b", `{"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true}`, ErrUnsupported, "add_bos_token"},
		{"case", vocab, "a b", `{"tokenizer_class": "CLIPTokenizer", "do_lower_case": false}`, ErrUnsupported, "do_lower_case"},
		{"token", vocab, "a b", `{"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"3": {"content": "x", "odd": true}}}`, ErrUnsupported, "odd"},
		{"token's id", vocab, "a b", `{"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"9": {"content": "x"}}}`, ErrUnsupported, "says id 9"},
		{"no start", `{"a</w>": 0}`, "", `{}`, ErrMalformed, "post_processor.cls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseVocabMerges("vocab.json", []byte(c.vocab), []byte(c.merges), map[string][]byte{configFile: []byte(c.config)})
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want %v with %q", err, c.kind, c.words)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	empty := t.TempDir()
	_, err := Open(empty)
	if m, _ := fault.Fields[Missing](err); !errors.Is(err, ErrNotFound) || m.Path != empty || len(m.LookedAt) != len(folderFiles) {
		t.Errorf("%v %+v", err, m)
	}
	for path, want := range map[string]string{
		"umt5":                  "tokenizer.json, Unigram",
		"umt5/spiece.model":     "SentencePiece, unigram",
		"gemma/tokenizer.model": "SentencePiece, BPE",
		"qwen2/vocab.json":      "vocab.json and merges.txt, Qwen2",
		"clip/merges.txt":       "vocab.json and merges.txt, CLIP",
		"llama3":                "tokenizer.json, BPE",
	} {
		if k := openGiven(t, path); k.Kind != want || len(k.Notes) > 0 {
			t.Errorf("%s is %q %v, want %q", path, k.Kind, k.Notes, want)
		}
	}
	if _, err := Open(filepath.Join(empty, "tokenizer.json")); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, userfile.ErrAbsent) {
		t.Error(err)
	}
	alone := copyFiles(t, filepath.Join(given, "qwen2"), "vocab.json")
	if _, err := Open(alone); !errors.Is(err, userfile.ErrAbsent) || !strings.Contains(err.Error(), "merges.txt") {
		t.Error(err)
	}
	bare := copyFiles(t, filepath.Join(given, "qwen2"), "vocab.json", "merges.txt")
	if k, err := Open(bare); err != nil || len(k.Notes) != 1 || !strings.Contains(k.Notes[0], "read as Qwen2") {
		t.Errorf("%v %+v", err, k)
	}
	// A folder's tokenizer.json comes before its SentencePiece model.
	both := copyFiles(t, filepath.Join(given, "t5"), "spiece.model", "tokenizer.json")
	if k, err := Open(both); err != nil || k.Kind != "tokenizer.json, Unigram" {
		t.Error(k, err)
	}
}

func TestOptions(t *testing.T) {
	k := openGiven(t, "umt5")
	whole := encode(t, k, "A cat walks on the grass.", Options{})
	if whole[len(whole)-1] != 1 {
		t.Fatal(whole)
	}
	if bare := encode(t, k, "A cat walks on the grass.", Options{NoSpecial: true}); !slices.Equal(bare, whole[:len(whole)-1]) {
		t.Error(bare)
	}
	cut := encode(t, k, "A cat walks on the grass.", Options{MaxTokens: 5})
	if want := append(slices.Clone(whole[:4]), 1); !slices.Equal(cut, want) {
		t.Errorf("%v, want %v", cut, want)
	}
	if _, err := openGiven(t, "clip").Encode("a", Options{MaxTokens: 1}); !errors.Is(err, ErrEncode) {
		t.Error(err)
	}
	limited, err := parseTokenizerJSON("f", changed(t, "umt5",
		"truncation", `{"direction": "Left", "max_length": 5, "strategy": "LongestFirst", "stride": 0}`,
		"padding", `{"strategy": {"Fixed": 7}, "direction": "Left", "pad_to_multiple_of": 4, "pad_id": 9, "pad_type_id": 0, "pad_token": "x"}`))
	if err != nil {
		t.Fatal(err)
	}
	n := len(whole)
	if got, want := encode(t, limited, "A cat walks on the grass.", Options{}), append([]int{9, 9, 9}, whole[n-5:]...); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := encode(t, limited, "A cat walks on the grass.", Options{Unlimited: true}); !slices.Equal(got, whole) {
		t.Errorf("%v, want %v", got, whole)
	}
	if got := encode(t, k, "a\xffb", Options{}); !slices.Equal(got, encode(t, k, "a\ufffdb", Options{})) {
		t.Error(got)
	}
}

func TestPieces(t *testing.T) {
	for path, size := range map[string]int{"umt5": 2900, "qwen2": 3222, "gemma": 3276, "t5/spiece.model": 2200} {
		k := openGiven(t, path)
		if k.Size() < size-100 {
			t.Errorf("%s has %d ids", path, k.Size())
		}
		for _, s := range k.Specials() {
			if id, ok := k.ID(s.Piece); !ok || id != s.ID {
				t.Errorf("%s: %q is %d %v, want %d", path, s.Piece, id, ok, s.ID)
			}
			if piece, ok := k.Piece(s.ID); !ok || piece != s.Piece {
				t.Errorf("%s: %d is %q %v, want %q", path, s.ID, piece, ok, s.Piece)
			}
		}
		if _, ok := k.Piece(k.Size()); ok {
			t.Error("a piece past the end")
		}
		if _, ok := k.ID("no such piece"); ok {
			t.Error("an id of no piece")
		}
	}
}

// An unknown character without an id for unknown characters is an error, not a gap.
func TestUnknown(t *testing.T) {
	k, err := parseTokenizerJSON("f", []byte(`{"model": {"type": "Unigram", "vocab": [["a", -1]]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := encode(t, k, "aa", Options{}); !slices.Equal(got, []int{0, 0}) {
		t.Error(got)
	}
	if _, err := k.Encode("ab", Options{}); !errors.Is(err, ErrEncode) || !strings.Contains(err.Error(), `'b'`) {
		t.Error(err)
	}
}

// Of the replacements, SentencePiece takes the longest key and the tokenizers library
// the shortest for a grapheme.
func TestCharsmap(t *testing.T) {
	c, err := parseCharsmap(smallCharsmap())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		text    string
		longest bool
		n       int
		to      string
	}{{"AB", true, 2, "x y"}, {"AB", false, 1, "a"}, {"AC", true, 1, "a"}, {"B", true, 0, ""}, {"", true, 0, ""}, {"A\x00", true, 1, "a"}} {
		if n, to := c.findKey(test.text, test.longest); n != test.n || to != test.to {
			t.Errorf("%q: %d %q", test.text, n, to)
		}
	}
	e := newEditor(span{text: "ABA\u0301-", zero: 1})
	c.normalizeByGrapheme(e)
	if got := e.toSpan().text; got != "aBa-" { // the grapheme Á goes as a whole
		t.Errorf("%q", got)
	}
	m := &spModel{charsmap: c, dummyPrefix: true, dropBlanks: true, escapeBlanks: true}
	if got := m.normalizeText("  AB  A "); got != "▁x▁y▁a" {
		t.Errorf("%q", got)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct{ pattern, text, want string }{
		{qwenWords, "I'm 12'S\r\n  x", "I|'m| |1|2|'S|\r\n| | x"},
		{qwenWords, "a  b   ", "a| | b|   "},
		{gpt2Words.text, "it's  on", "it|'s| | on"},
		{`\s+(?!\S)|\S`, "a  b ", "a| |b| "},
		{`(?i:'S)`, "'s'ſ'S", "'s|'ſ|'S"},
		{`[^(\s|[.,]]+`, "ab,cd|e(f", "ab|cd|e|f"}, // a set within a set
		{`\p{N}{1,3}`, "12345", "123|45"},
		{`\p{N}{1,3}+`, "12345", "12345"},
		{`a++b|a`, "aab", "aab"},
		{`a?+a|x`, "aax", "aa|x"},
		{`(?>a|ab)c|ab`, "abcac", "ab|ac"},
		{`(?<=x)a|(?<!x)b`, "axabxb", "a|b"},
		{`\bcat\b`, "cat cats", "cat"},
		{`(?:ab|cd){2}`, "abcdab", "abcd"},
		{`(ab?)+c`, "abac", "abac"},
		{`^a|b$`, "ab\nab", "a|b|a|b"},
		{`\p{^L}+|\P{N}`, "1a", "1|a"},
		{`[a-c\d]+`, "abz19", "ab|19"},
		{`[\]\-x]+`, "]-x y", "]-x"},
		{`\x41|\x{1F600}|\u00e9`, "A😀é", "A|😀|é"},
		{`(?i)k`, "kK\u212a", "k|K|\u212a"},
		{`a{,2}b`, "aaab", "aab"},
		{`x{1,`, "x{1,", "x{1,"},
		{`[^\r\n]`, "a\n", "a"},
		{`\p{Han}+`, "a漢字b", "漢字"},
	} {
		p, err := compilePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		var got []string
		if err := p.findMatches(c.text, func(from, to int) { got = append(got, c.text[from:to]) }); err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%s on %q: %q %v, want %q", c.pattern, c.text, strings.Join(got, "|"), err, c.want)
		}
	}
	for _, bad := range []string{"a*", "", "(a", "a)", "[a", `\`, "*a", "a**", "(?<=ab)c", `\p{Xx}`, `\pL`, `\1`, "[[:alpha:]]", "[a&&b]", "(a*)+", "a{5000}",
		"(?i:ss)", "(?i:é)", "b{3,2}", "[z-a]", strings.Repeat("(", 100), "((((a{900}){900}){900}){900})", `\X`, "(?m:a)"} {
		if p, err := compilePattern(bad); err == nil {
			t.Errorf("%.40q is read as %d instructions", bad, len(p.prog))
		}
	}
	// A pattern that would run for ever ends with an error.
	p := mustPattern(`(?:a|aa)+b`)
	start := time.Now()
	if err := p.findMatches(strings.Repeat("a", 5000), func(int, int) {}); !errors.Is(err, ErrEncode) || time.Since(start) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// A word has the same ids whether its pairs are compared one by one or kept in a heap.
func TestShortAndLongWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &bpe{ids: map[string]int32{}, unknown: -1}
		pieces := []string{"a", "b", "c"}
		for i, p := range pieces {
			b.ids[p] = int32(i)
		}
		var pairs [][2]string
		for range rapid.IntRange(0, 12).Draw(t, "merges") {
			m := [2]string{rapid.SampledFrom(pieces).Draw(t, "left"), rapid.SampledFrom(pieces).Draw(t, "right")}
			if joined := m[0] + m[1]; len(joined) < 12 {
				if _, ok := b.ids[joined]; !ok {
					b.ids[joined] = int32(len(b.ids))
					pieces = append(pieces, joined)
				}
				pairs = append(pairs, m)
			}
		}
		f := &faults{}
		b.buildMerges(pairs, f, func(int) string { return "" })
		b.fillPlainIDs()
		word := rapid.StringMatching(`[abc]{1,40}`).Draw(t, "word")
		var short, long bpeScratch
		b.makeSymbols(&short, word)
		b.makeSymbols(&long, word)
		short.mergeShort(b.merges)
		long.mergeLong(b.merges)
		for i := range short.symbols {
			if short.symbols[i].id != long.symbols[i].id {
				t.Fatalf("%q by %v: %v and %v", word, pairs, short.symbols, long.symbols)
			}
		}
	})
}

// Encoding is safe for several goroutines at once.
func TestConcurrent(t *testing.T) {
	for _, path := range []string{"umt5", "umt5/spiece.model", "qwen2", "gemma/tokenizer.model"} {
		k := openGiven(t, path)
		texts := []string{"A cat walks", strings.Repeat("on the grass ", 50), "日本語 é\u0301", ""}
		var want [][]int
		for _, s := range texts {
			want = append(want, encode(t, k, s, Options{}))
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range 100 {
					n := i % len(texts)
					if ids, err := k.Encode(texts[n], Options{}); err != nil || !slices.Equal(ids, want[n]) {
						t.Errorf("%v %v", ids, err)
						return
					}
				}
				k.Piece(3)
			})
		}
		wg.Wait()
	}
}

// No text takes time that grows with the square of its length.
func TestLongTexts(t *testing.T) {
	for _, path := range []string{"umt5", "umt5/spiece.model", "clip", "qwen2", "gemma", "gemma/tokenizer.model"} {
		k := openGiven(t, path)
		for _, unit := range []string{"a", " ", "ab", "é", "\u0301", "x\n", "日"} {
			start := time.Now()
			encode(t, k, strings.Repeat(unit, 50_000), Options{})
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("%s: 50,000 times %q took %v", path, unit, d)
			}
		}
	}
}

// Scores are read with the arithmetic of the tokenizers library, whose last bit differs
// from the nearest number's now and then.
func TestParseScore(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "-0.0": 0, "-1.5": -1.5, "25e-1": 2.5, "1E2": 100, "-8.405716896057129": -8.405716896057129,
		"123456789012345678901234567890": 1.2345678901234568e29, "1e-400": 0, "0.0000001e7": 1,
		"1e400": math.Inf(1), "1e99999999999999999999": math.Inf(1), "1e-99999999999999999999": 0,
	} {
		if got := parseScore(text); got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := "-" + rapid.StringMatching(`[1-9]\.[0-9]{1,18}`).Draw(t, "text")
		nearest, err := strconv.ParseFloat(text, 64)
		got := parseScore(text)
		if err != nil || math.Abs(got-nearest) > 4e-16*math.Abs(nearest) {
			t.Fatalf("%s is %v, want about %v", text, got, nearest)
		}
		if len(text) <= 17 && got != nearest { // 15 digits
			t.Fatalf("%s is %v, want %v", text, got, nearest)
		}
	})
	differ := 0
	for i := range 1000 {
		text := fmt.Sprintf("-%d.%018d", 1+i%9, 123456789012345678+i*7919)
		if nearest, err := strconv.ParseFloat(text, 64); err != nil {
			t.Fatal(err)
		} else if parseScore(text) != nearest {
			differ++
		}
	}
	if differ == 0 {
		t.Error("never differs")
	}
}
