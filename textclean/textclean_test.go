package textclean

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// readLines decodes a file of JSON lines, packed or not.
func readLines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	var out []T
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%s: %d lines, %v", path, len(out), err)
	}
	return out
}

// Wan's prompts become what Wan's own code and diffusers make of them; the one with
// mojibake does not, and is noted.
func TestPromptsAreCleanedAsWanDoes(t *testing.T) {
	type line struct{ Prompt, Clean string }
	for _, l := range readLines[line](t, "../testdata/tokenizers/expected/prompts.jsonl.gz") {
		clean, notes := Wan(l.Prompt)
		if strings.Contains(l.Prompt, "â€œ") {
			if clean != "â€œhelloâ€\u009d mojibake cafÃ©" && clean != "â€œhelloâ€\x9d mojibake cafÃ©" || len(notes) != 1 || !strings.Contains(notes[0], "â€œ") {
				t.Errorf("mojibake: %q, notes %q", clean, notes)
			}
			continue
		}
		if clean != l.Clean {
			t.Errorf("%q became %q, want %q", l.Prompt, clean, l.Clean)
		}
		if (len(notes) > 0) != (clean == "") {
			t.Errorf("%q: notes %q", l.Prompt, notes)
		}
	}
}

type repaired struct {
	S     string
	Fixed string
	FTFY  *string
	HTML  *string
}

func TestRepairsAreThoseOfFTFY(t *testing.T) {
	mojibake := 0
	for _, l := range readLines[repaired](t, "testdata/ftfy.jsonl.gz") {
		if got := FixText(l.S); got != l.Fixed {
			t.Errorf("FixText(%q) = %q, want %q", l.S, got, l.Fixed)
		}
		want := l.S
		if l.HTML != nil {
			want = *l.HTML
		}
		if got := unescapeAll(l.S); got != want {
			t.Errorf("unescapeAll(%q) = %q, want %q", l.S, got, want)
		}
		if l.FTFY == nil {
			continue
		}
		mojibake++
		if _, ok := FindMojibake(l.S); !ok {
			t.Errorf("%q is mojibake that ftfy repairs to %q, and is not seen", l.S, *l.FTFY)
		}
	}
	if mojibake < 100 {
		t.Errorf("only %d strings with mojibake: the file is not what this test is for", mojibake)
	}
}

// What must not be taken for mojibake: prompts in many languages.
func TestHonestTextIsNoMojibake(t *testing.T) {
	for _, s := range []string{
		"", "a cat", "café, naïve, Ñandú, straße", "Женщина в красном пальто идёт по улице ночью. ВСЁ!", "Дрон пролітає, їжак біжить.",
		"Kot siedzi, a żółta łódź. Zażółć gęślą jaźń.", "Bir kedi; ışık yavaşça değişir, İstanbul.", "夜の東京、ネオン", "고양이", "قطة تمشي",
		"“quoted” — and ‘so’ on… 50 €", "Ελληνικά, Ψάρι", "IRMÃO, NÃO, CORAÇÃO", "Ångström, Åland", "½ ² ™ ©",
	} {
		if run, ok := FindMojibake(s); ok {
			t.Errorf("%q: %q is taken for mojibake", s, run)
		}
	}
}

// textOfPieces draws text of the pieces that the repairs look for.
func textOfPieces() *rapid.Generator[string] {
	pieces := rapid.OneOf(
		rapid.SampledFrom([]string{
			"\r", "\n", "\u2028", "\x1b[", "\x1b", "3;1", "m", "<", "&lt;", "&amp;", "&AMP;", "&SZLIG;", "&", "#65;", "x41;", "lt;", "\ufeff", "\x00",
			"\ufb01", "\u01c6", "\u0149", "\uff1c", "\uff06", "\uff8a", "\uff9e", "\u3000", "\u2018", "\u201d", "e", "\u0301", "\u0323", "\x93", "\xff",
		}),
		rapid.StringN(0, 3, 12),
	)
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "pieces"), "") })
}

// hasHiddenLines says whether a text may have an escape in what is one line to ftfy, because of a
// "<" after another kind of line end. Once repaired, these are two lines, and the escape in
// the first is undone the next time: ftfy's own fix_text changes such a text twice.
func hasHiddenLines(s string) bool {
	return strings.Contains(s, "<") && strings.ContainsAny(s, "\r\u2028\u2029")
}

func TestRepairingTwiceIsRepairingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := textOfPieces().Draw(t, "text")
		once := FixText(s)
		if twice := FixText(once); twice != once && !hasHiddenLines(s) {
			t.Fatalf("%q became %q", once, twice)
		}
	})
}

// Whatever is given, a cleaned prompt is UTF-8 of single words with single spaces, and an
// empty one is noted.
func TestCleanedPromptsAreWordsAndSpaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompt := textOfPieces().Draw(t, "prompt")
		clean, notes := Wan(prompt)
		if !utf8.ValidString(clean) || clean != strings.Join(strings.FieldsFunc(clean, isPythonSpace), " ") {
			t.Fatalf("%q", clean)
		}
		if clean == "" && len(notes) == 0 {
			t.Fatalf("nothing is left of %q, and that is not said", prompt)
		}
		if !utf8.ValidString(prompt) && !strings.Contains(strings.Join(notes, "\n"), "no UTF-8") {
			t.Fatalf("%q: %q", prompt, notes)
		}
	})
}

// A line of more than a million characters is repaired in pieces, as ftfy does it: a
// pair of characters that are composed stays apart where a piece ends between them.
func TestLongLinesAreRepairedInPieces(t *testing.T) {
	for _, test := range []struct {
		before int
		want   string
	}{{maxSegmentRunes - 2, "é"}, {maxSegmentRunes - 1, "e\u0301"}, {maxSegmentRunes, "é"}} {
		s := FixText(strings.Repeat("a", test.before) + "e\u0301")
		if got := strings.TrimLeft(s, "a"); got != test.want {
			t.Errorf("after %d characters: %q, want %q", test.before, got, test.want)
		}
	}
}

func TestNotesOfEmptyPrompts(t *testing.T) {
	for prompt, want := range map[string]string{"": "is empty", " \n\u3000": "white space", "\u0000\ufeff&nbsp;": "leaves nothing"} {
		if clean, notes := Wan(prompt); clean != "" || len(notes) != 1 || !strings.Contains(notes[0], want) {
			t.Errorf("%q: %q, %q, want a note with %q", prompt, clean, notes, want)
		}
	}
}
