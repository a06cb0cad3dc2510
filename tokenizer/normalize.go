package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// span is a part of the text in any state: as given, normalized, or split. A span that is
// an added token has its id; all others have noID.
type span struct {
	text string
	// zero is the number of bytes of text that come from the first character of the given
	// text. Metaspace with prepend_scheme "first" needs it.
	zero int
	id   int32
}

const noID = -1

func (s span) slice(from, to int) span {
	return span{s.text[from:to], max(0, min(s.zero, to)-from), noID}
}

// normalizer changes a text.
type normalizer func(s span) (span, error)

// editor goes through a text, keeps or replaces each part, and keeps track of the bytes
// that come from the first character.
type editor struct {
	in   string
	pos  int
	zero int // the input's zero, see span
	out  strings.Builder
	same bool // everything was kept so far, and out is not used
	mark int  // the output's zero
}

func newEditor(s span) *editor { return &editor{in: s.text, zero: s.zero, same: true} }

func (e *editor) hasMore() bool { return e.pos < len(e.in) }
func (e *editor) rest() string  { return e.in[e.pos:] }

func (e *editor) keep(n int) {
	from := e.pos
	e.pos += n
	if e.same {
		if from < e.zero {
			e.mark = min(e.pos, e.zero)
		}
		return
	}
	e.out.WriteString(e.in[from:e.pos])
	if from < e.zero {
		e.mark = e.out.Len() - max(0, e.pos-e.zero)
	}
}

// replace replaces n bytes by a text, which counts as coming from the first of them.
func (e *editor) replace(n int, with string) { e.replaceFrom(n, with, e.pos) }

// replaceFrom is replace for a text that counts as coming from the character at from.
func (e *editor) replaceFrom(n int, with string, from int) {
	if e.same {
		e.same = false
		e.out.Grow(len(e.in) + len(e.in)/8)
		e.out.WriteString(e.in[:e.pos])
	}
	e.out.WriteString(with)
	if from < e.zero {
		e.mark = e.out.Len()
	}
	e.pos += n
}

func (e *editor) toSpan() span {
	if e.same {
		return span{e.in, e.mark, noID}
	}
	return span{e.out.String(), e.mark, noID}
}

// mapRunes makes a normalizer that looks at one character at a time: change gives the text
// that replaces it, or false to keep it.
func mapRunes(change func(r rune) (string, bool)) normalizer {
	return func(s span) (span, error) {
		e := newEditor(s)
		for e.hasMore() {
			r, n := decodeRune(e.in, e.pos)
			if to, changed := change(r); changed {
				e.replace(n, to)
			} else {
				e.keep(n)
			}
		}
		return e.toSpan(), nil
	}
}

func inSequence(all []normalizer) normalizer {
	return func(s span) (_ span, err error) {
		for _, n := range all {
			if s, err = n(s); err != nil {
				return s, err
			}
		}
		return s, nil
	}
}

func prependText(text string) normalizer {
	return func(s span) (span, error) { return s.prepend(text), nil }
}

// prepend puts text before a span that is not empty. The text counts as coming from the
// character after it.
func (s span) prepend(text string) span {
	if s.text == "" {
		return s
	}
	if s.zero > 0 {
		s.zero += len(text)
	}
	s.text = text + s.text
	return s
}

func replaceMatches(f finder, with string) normalizer {
	return func(s span) (span, error) {
		e := newEditor(s)
		err := f.findMatches(s.text, func(start, end int) {
			e.keep(start - e.pos)
			_, last := utf8.DecodeLastRuneInString(s.text[start:end])
			e.replaceFrom(end-start, with, end-last) // as in the tokenizers library
		})
		e.keep(len(e.in) - e.pos)
		return e.toSpan(), err
	}
}

func stripSpace(left, right bool) normalizer {
	return func(s span) (span, error) {
		from, to := 0, len(s.text)
		if right {
			to = len(strings.TrimRightFunc(s.text, unicode.IsSpace))
		}
		if left {
			from = to - len(strings.TrimLeftFunc(s.text[:to], unicode.IsSpace))
		}
		return s.slice(from, to), nil
	}
}

// lowerRune gives the lower case of a character. Only İ becomes two characters.
func lowerRune(r rune) (string, bool) {
	if r == 'İ' {
		return "i\u0307", true
	}
	low := unicode.ToLower(r)
	if low == r {
		if r < 0x1c89 {
			return "", false
		}
		low = addedCase(r)
	}
	return string(low), low != r
}

// dropMarks removes the marks that the normalizer StripAccents removes.
func dropMarks(r rune) (string, bool) {
	return "", r >= 0x300 && (unicode.Is(unicode.M, r) && !unicode.Is(laterMarks, r) || unicode.Is(formerMarks, r))
}

// cleanNMT cleans as the normalizer Nmt does: it removes some control characters, and
// replaces others and some invisible characters by blanks.
func cleanNMT(r rune) (string, bool) {
	switch {
	case r >= 1 && r <= 8, r == 0x0b, r >= 0x0e && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
		return "", true
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200b && r <= 0x200f,
		r == 0x2028, r == 0x2029, r == 0x2581, r == 0xfeff, r == utf8.RuneError:
		return " ", true
	}
	return "", false
}

// byteRunes is the alphabet of byte-level tokenizers. It has a printable character for
// each byte.
var byteRunes = func() (a [256]string) {
	next := rune(256)
	for b := range a {
		switch r := rune(b); {
		case r >= '!' && r <= '~', r >= 0xa1 && r <= 0xac, r >= 0xae:
			a[b] = string(r)
		default:
			a[b] = string(next)
			next++
		}
	}
	return a
}()

// spellBytes writes each byte of a text as its character in byteRunes.
func spellBytes(s span) span {
	var out strings.Builder
	out.Grow(len(s.text) + len(s.text)/2)
	zero := 0
	for i := 0; i < len(s.text); i++ {
		out.WriteString(byteRunes[s.text[i]])
		if i < s.zero {
			zero = out.Len()
		}
	}
	return span{out.String(), zero, noID}
}
