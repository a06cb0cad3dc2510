package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// toForm makes the normalizer for one of Unicode's normal forms.
func toForm(form norm.Form) normalizer {
	return func(s span) (span, error) {
		if isASCII(s.text) || form.IsNormalString(s.text) && !hasLongMarks(s.text) {
			return s, nil
		}
		var out strings.Builder
		rest := s.text
		for {
			// An inert character stays as it is, and the characters on its two sides do not
			// affect each other. So the text between inert characters is normalized alone.
			i := strings.IndexFunc(rest, isInert)
			if i < 0 {
				break
			}
			_, n := utf8.DecodeRuneInString(rest[i:])
			out.WriteString(formOf(form, rest[:i]))
			out.WriteString(rest[i : i+n])
			rest = rest[i+n:]
		}
		out.WriteString(formOf(form, rest))
		text, zero := out.String(), 0
		if s.zero > 0 {
			_, zero = utf8.DecodeRuneInString(text)
		}
		return span{text, zero, noID}, nil
	}
}

func isInert(r rune) bool { return r >= 0x7fd && unicode.Is(inertInForms, r) }

func formOf(form norm.Form, text string) string {
	if hasLongMarks(text) {
		return formOfLongMarks(form, text)
	}
	return form.String(text)
}

func isASCII(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// longMarks is the largest number of marks in a row for which package norm is used. After
// 30 of them it inserts a character (U+034F), as Unicode's stream-safe format asks, which
// the libraries do not do. One character can decompose to several marks, so the limit is
// far below 30.
const longMarks = 8

func hasLongMarks(text string) bool {
	run := 0
	for _, r := range text {
		if r < 0x300 || !unicode.Is(unicode.M, r) {
			run = 0
		} else if run++; run > longMarks {
			return true
		}
	}
	return false
}

// formOfLongMarks gives the normal form of a text with any number of marks in a row. It is
// the algorithm of chapter 3.11 of the Unicode standard: decompose, sort the marks, compose.
func formOfLongMarks(form norm.Form, text string) string {
	decomposed, composed := norm.NFD, form == norm.NFC || form == norm.NFKC
	if form == norm.NFKC || form == norm.NFKD {
		decomposed = norm.NFKD
	}
	type char struct {
		r     rune
		class uint8
	}
	var chars []char
	for _, r := range text {
		for _, d := range decomposed.String(string(r)) {
			chars = append(chars, char{d, decomposed.PropertiesString(string(d)).CCC()})
		}
	}
	for i := 0; i < len(chars); {
		j := i + 1
		if chars[i].class != 0 {
			for j < len(chars) && chars[j].class != 0 {
				j++
			}
			slices.SortStableFunc(chars[i:j], func(a, b char) int { return int(a.class) - int(b.class) })
		}
		i = j
	}
	var out []rune
	starter, last := -1, uint8(0) // the place of the last starter, and the class of the character before this one
	for _, c := range chars {
		if composed && starter >= 0 && (starter == len(out)-1 || last < c.class) {
			pair := norm.NFC.String(string([]rune{out[starter], c.r}))
			if r, n := utf8.DecodeRuneInString(pair); n == len(pair) {
				out[starter] = r
				continue
			}
		}
		if last = c.class; c.class == 0 {
			starter = len(out)
		}
		out = append(out, c.r)
	}
	var b strings.Builder
	for _, r := range out {
		b.WriteRune(r)
	}
	return b.String()
}
