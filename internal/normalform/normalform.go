// Package normalform gives text in one of Unicode's normal forms, whatever marks it has.
package normalform

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// String is form.String without the character that package norm inserts into long runs of
// marks: the plain algorithm of Unicode, as Python's unicodedata.normalize has it.
func String(form norm.Form, text string) string {
	if HasLongMarks(text) {
		return formOfLongMarks(form, text)
	}
	return form.String(text)
}

// longMarks is the largest number of marks in a row for which package norm is used. After
// 30 of them it inserts a character (U+034F), as Unicode's stream-safe format asks, which
// the libraries do not do. One character can decompose to several marks, so the limit is
// far below 30.
const longMarks = 8

// HasLongMarks says whether a text has so many marks in a row that package norm may not
// give it the plain form.
func HasLongMarks(text string) bool {
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
