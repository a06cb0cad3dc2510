// Package printable makes text that comes from files harmless to read: a tensor's
// name can hold what moves a terminal's cursor, rewrites its title or turns the
// line around.
package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text shows everything that a terminal would act on, or that would not be seen
// for what it is, as an escape: controls (line ends and tabs among them), what
// changes the direction of writing, characters without a width, bytes that are no
// UTF-8. All else stays.
func Text(s string) string { return escape(s, false) }

// Lines is Text of what is laid out in lines already: line ends and tabs stay.
func Lines(s string) string { return escape(s, true) }

func escape(s string, lines bool) string {
	first := harmfulAt(s, lines)
	if first < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:first])
	for s = s[first:]; s != ""; {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case !harmful(r, lines):
			b.WriteString(s[:n])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

// harmfulAt finds the first character to escape, or -1.
func harmfulAt(s string, lines bool) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
		if harmful(r, lines) {
			return i
		}
	}
	return -1
}

func harmful(r rune, lines bool) bool {
	if r >= ' ' && r < 0x7f {
		return false
	}
	if lines && (r == '\n' || r == '\t') {
		return false
	}
	// Format characters (Cf) are the marks of direction, joiners and the like;
	// Zl and Zp end lines. Private use and unassigned ones show as nothing known.
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp) || !unicode.IsGraphic(r)
}

// Writer escapes, as Lines does, what is written through it. A character that is
// cut between two writes is shown as the bytes that it has.
type Writer struct{ W io.Writer }

// Write writes b, escaped. It counts bytes of b.
func (w Writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.W, Lines(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Sprintf is fmt.Sprintf that shows what it is given as Text does: strings and
// errors, one or several. What the format itself has stays, line ends among it.
func Sprintf(format string, args ...any) string {
	shown := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case string:
			shown[i] = Text(v)
		case error:
			shown[i] = Text(v.Error())
		case []string:
			list := make([]string, len(v))
			for k, s := range v {
				list[k] = Text(s)
			}
			shown[i] = list
		default:
			shown[i] = a
		}
	}
	return fmt.Sprintf(format, shown...)
}
