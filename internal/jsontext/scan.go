// Package jsontext reads JSON files that users give. It follows RFC 8259 strictly, reads
// the text once, and gives the place of the first fault.
package jsontext

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values that the caller does not read itself.
const maxDepth = 64

// A Scanner reads JSON strictly by RFC 8259. encoding/json does not serve here, because it
// accepts repeated keys, field names in any case, arrays of any length and bad UTF-8 in
// silence. Another program could understand such a file in another way, so it must not be
// trusted.
//
// A Scanner keeps its first error: every method does nothing after it, so a caller may
// check for errors once at the end of a value.
type Scanner struct {
	b   []byte
	pos int
	err *SyntaxError
}

// SyntaxError gives a fault and the byte at which it is.
type SyntaxError struct {
	Pos    int
	Reason string
}

// NewScanner makes a scanner of b. Bytes that are not UTF-8 anywhere in b are an error
// from the start.
func NewScanner(b []byte) *Scanner {
	s := &Scanner{b: b}
	if !utf8.Valid(b) {
		for i := 0; i < len(b); {
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n == 1 {
				s.FailAt(i, "bad UTF-8")
				break
			}
			i += n
		}
	}
	return s
}

// Error gives the fault and its place, for a message.
func (e *SyntaxError) Error() string { return fmt.Sprintf("byte %d: %s", e.Pos, e.Reason) }

// FailAt records a fault at a byte, unless there is one already.
func (s *Scanner) FailAt(pos int, format string, args ...any) {
	if s.err == nil {
		s.err = &SyntaxError{pos, fmt.Sprintf(format, args...)}
	}
}

// Fail is FailAt the next byte.
func (s *Scanner) Fail(format string, args ...any) { s.FailAt(s.pos, format, args...) }

// OK says whether there was no error so far.
func (s *Scanner) OK() bool { return s.err == nil }

// Err gives the first error, or nil.
func (s *Scanner) Err() *SyntaxError { return s.err }

// Pos gives the place of the next byte.
func (s *Scanner) Pos() int { return s.pos }

// Since gives the bytes from a place to the next byte.
func (s *Scanner) Since(start int) []byte { return s.b[start:s.pos] }

// Space skips white space.
func (s *Scanner) Space() {
	for s.pos < len(s.b) {
		switch s.b[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// Peek gives the next byte, 0 at the end.
func (s *Scanner) Peek() byte {
	if s.err != nil || s.pos >= len(s.b) {
		return 0
	}
	return s.b[s.pos]
}

// describeNext gives the next character, or "the end", for a message.
func (s *Scanner) describeNext() string {
	if s.pos >= len(s.b) {
		return "the end"
	}
	r, _ := utf8.DecodeRune(s.b[s.pos:])
	return strconv.QuoteRune(r)
}

// Expect reads the byte c; any other is an error.
func (s *Scanner) Expect(c byte) {
	if s.err != nil {
		return
	}
	if s.pos >= len(s.b) || s.b[s.pos] != c {
		s.Fail("%q expected, found %s", c, s.describeNext())
		return
	}
	s.pos++
}

// End checks that nothing but white space is left.
func (s *Scanner) End() {
	s.Space()
	if s.err == nil && s.pos < len(s.b) {
		s.Fail("%s after the closing brace", s.describeNext())
	}
}

// Object reads an object and calls visit, which must read the value, for each key.
func (s *Scanner) Object(visit func(key string, at int)) {
	s.readItems('{', '}', func() {
		at := s.pos
		key := s.Text()
		s.Space()
		s.Expect(':')
		s.Space()
		if s.OK() {
			visit(key, at)
		}
	})
}

// Array reads an array and calls visit, which must read the element, for each element.
func (s *Scanner) Array(visit func()) { s.readItems('[', ']', visit) }

// readItems reads the brackets and commas of an object or array, and calls item for each
// item in it.
func (s *Scanner) readItems(open, closing byte, item func()) {
	s.Expect(open)
	s.Space()
	if s.Peek() == closing {
		s.pos++
		return
	}
	for s.OK() {
		item()
		s.Space()
		if s.Peek() == closing {
			s.pos++
			return
		}
		s.Expect(',')
		s.Space()
	}
}

// Text reads a string.
func (s *Scanner) Text() string {
	start := s.pos
	s.Expect('"')
	if !s.OK() {
		return ""
	}
	for i := s.pos; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			text := string(s.b[s.pos:i])
			s.pos = i + 1
			return text
		case c == '\\':
			return s.readEscapedText(i)
		case c < 0x20:
			s.FailAt(i, "control character in a string")
			return ""
		}
	}
	s.FailAt(start, "string without an end")
	return ""
}

// readEscapedText reads the rest of a string whose first backslash is at i.
func (s *Scanner) readEscapedText(i int) string {
	var sb strings.Builder
	sb.Write(s.b[s.pos:i])
	for s.pos = i; s.pos < len(s.b); {
		switch c := s.b[s.pos]; {
		case c == '"':
			s.pos++
			return sb.String()
		case c == '\\':
			sb.WriteRune(s.readEscape())
			if !s.OK() {
				return ""
			}
		case c < 0x20:
			s.Fail("control character in a string")
			return ""
		default:
			sb.WriteByte(c)
			s.pos++
		}
	}
	s.Fail("string without an end")
	return ""
}

var escapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// readEscape reads a backslash and what follows it.
func (s *Scanner) readEscape() rune {
	at := s.pos
	s.pos++
	c := s.Peek()
	s.pos++
	if r, ok := escapes[c]; ok {
		return r
	}
	if c != 'u' {
		s.FailAt(at, "unknown escape in a string")
		return 0
	}
	r := s.readHexDigits(at)
	if !utf16.IsSurrogate(r) {
		return r
	}
	if s.Peek() != '\\' || s.pos+1 >= len(s.b) || s.b[s.pos+1] != 'u' {
		s.FailAt(at, "half of a surrogate pair")
		return 0
	}
	s.pos += 2
	pair := utf16.DecodeRune(r, s.readHexDigits(at))
	if pair == utf8.RuneError {
		s.FailAt(at, "half of a surrogate pair")
	}
	return pair
}

// readHexDigits reads the four hex digits of an escape that begins at a byte.
func (s *Scanner) readHexDigits(at int) rune {
	if s.pos+4 > len(s.b) {
		s.FailAt(at, "\\u needs four hex digits")
		return 0
	}
	var v rune
	for _, c := range s.b[s.pos : s.pos+4] {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' || c > '9' && c < 'A' {
			s.FailAt(at, "\\u needs four hex digits")
			return 0
		}
		v = v<<4 | rune(d)
	}
	s.pos += 4
	return v
}

// Whole reads a whole number from 0 to 2^63-1; messages call it what.
func (s *Scanner) Whole(what string) int64 {
	at := s.pos
	text := s.Number()
	if !s.OK() {
		return 0
	}
	if strings.ContainsAny(text, "-.eE") {
		s.FailAt(at, "%s is %.40s; it must be a whole number from 0", what, text)
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.FailAt(at, "%s is %.40s; the largest is %d", what, text, int64(math.MaxInt64))
	}
	return v
}

// Number reads a JSON number and gives its text.
func (s *Scanner) Number() string {
	start := s.pos
	if s.Peek() == '-' {
		s.pos++
	}
	first := s.pos
	digits := s.skipDigits()
	if s.OK() && (digits == 0 || digits > 1 && s.b[first] == '0') {
		s.pos = start
		s.Fail("number expected, found %s", s.describeNext())
		return ""
	}
	if s.Peek() == '.' {
		s.pos++
		if s.skipDigits() == 0 {
			s.Fail("digit expected, found %s", s.describeNext())
		}
	}
	if c := s.Peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.Peek(); c == '+' || c == '-' {
			s.pos++
		}
		if s.skipDigits() == 0 {
			s.Fail("digit expected, found %s", s.describeNext())
		}
	}
	if !s.OK() {
		return ""
	}
	return string(s.b[start:s.pos])
}

// skipDigits skips digits and counts them.
func (s *Scanner) skipDigits() int {
	n := 0
	for c := s.Peek(); c >= '0' && c <= '9'; c = s.Peek() {
		s.pos++
		n++
	}
	return n
}

// Skip reads a value and drops it. The value must be well formed, with distinct keys and
// limited nesting; depth is the nesting around it.
func (s *Scanner) Skip(depth int) {
	if depth > maxDepth {
		s.Fail("values nested more than %d deep", maxDepth)
		return
	}
	switch c := s.Peek(); {
	case c == '{':
		seen := map[string]bool{}
		s.Object(func(key string, at int) {
			s.RefuseRepeated(seen, key, at)
			s.Skip(depth + 1)
		})
	case c == '[':
		s.Array(func() { s.Skip(depth + 1) })
	case c == '"':
		s.Text()
	case c == '-' || c >= '0' && c <= '9':
		s.Number()
	default:
		for _, word := range []string{"true", "false", "null"} {
			if s.OK() && strings.HasPrefix(string(s.b[s.pos:min(len(s.b), s.pos+5)]), word) {
				s.pos += len(word)
				return
			}
		}
		s.Fail("value expected, found %s", s.describeNext())
	}
}

// RefuseRepeated adds a key to seen; it is an error if the key is there already.
func (s *Scanner) RefuseRepeated(seen map[string]bool, key string, at int) {
	if seen[key] {
		s.FailAt(at, "key %.80q twice", key)
	}
	seen[key] = true
}
