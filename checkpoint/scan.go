package checkpoint

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values that nobody looks at.
const maxDepth = 64

// scanner reads JSON by the letter of RFC 8259. encoding/json is no help here:
// it takes repeated keys, field names in any case, arrays of any length and bad
// UTF-8 without a word, and a header that another reader would understand
// otherwise is a header nobody should trust.
//
// The first error sticks: every method is a no-op after it, so that a caller
// may check once at the end of a value.
type scanner struct {
	b   []byte
	pos int
	err *scanError
}

// scanError is a reason and the byte it applies to.
type scanError struct {
	pos    int
	reason string
}

// newScanner refuses bytes that are not UTF-8 as a whole.
func newScanner(b []byte) *scanner {
	s := &scanner{b: b}
	if !utf8.Valid(b) {
		for i := 0; i < len(b); {
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n == 1 {
				s.failAt(i, "bad UTF-8")
				break
			}
			i += n
		}
	}
	return s
}

func (s *scanner) failAt(pos int, format string, args ...any) {
	if s.err == nil {
		s.err = &scanError{pos, fmt.Sprintf(format, args...)}
	}
}

func (s *scanner) fail(format string, args ...any) { s.failAt(s.pos, format, args...) }

func (s *scanner) ok() bool { return s.err == nil }

// space skips white space.
func (s *scanner) space() {
	for s.pos < len(s.b) {
		switch s.b[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek is the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.err != nil || s.pos >= len(s.b) {
		return 0
	}
	return s.b[s.pos]
}

// found describes the next byte for a message.
func (s *scanner) found() string {
	if s.pos >= len(s.b) {
		return "the end"
	}
	r, _ := utf8.DecodeRune(s.b[s.pos:])
	return strconv.QuoteRune(r)
}

// expect takes the byte c.
func (s *scanner) expect(c byte) {
	if s.err != nil {
		return
	}
	if s.pos >= len(s.b) || s.b[s.pos] != c {
		s.fail("%q expected, found %s", c, s.found())
		return
	}
	s.pos++
}

// end checks that nothing but white space is left.
func (s *scanner) end() {
	s.space()
	if s.err == nil && s.pos < len(s.b) {
		s.fail("%s after the closing brace", s.found())
	}
}

// object reads an object and calls visit, which must take the value, for each key.
func (s *scanner) object(visit func(key string, at int)) {
	s.list('{', '}', func() {
		at := s.pos
		key := s.str()
		s.space()
		s.expect(':')
		s.space()
		if s.ok() {
			visit(key, at)
		}
	})
}

// array reads an array and calls visit, which must take the element, for each element.
func (s *scanner) array(visit func()) { s.list('[', ']', visit) }

func (s *scanner) list(open, closing byte, item func()) {
	s.expect(open)
	s.space()
	if s.peek() == closing {
		s.pos++
		return
	}
	for s.ok() {
		item()
		s.space()
		if s.peek() == closing {
			s.pos++
			return
		}
		s.expect(',')
		s.space()
	}
}

// str reads a string.
func (s *scanner) str() string {
	start := s.pos
	s.expect('"')
	if !s.ok() {
		return ""
	}
	for i := s.pos; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			text := string(s.b[s.pos:i])
			s.pos = i + 1
			return text
		case c == '\\':
			return s.escaped(i)
		case c < 0x20:
			s.failAt(i, "control character in a string")
			return ""
		}
	}
	s.failAt(start, "string without an end")
	return ""
}

// escaped reads the rest of a string whose first backslash is at i.
func (s *scanner) escaped(i int) string {
	var sb strings.Builder
	sb.Write(s.b[s.pos:i])
	for s.pos = i; s.pos < len(s.b); {
		switch c := s.b[s.pos]; {
		case c == '"':
			s.pos++
			return sb.String()
		case c == '\\':
			sb.WriteRune(s.escape())
			if !s.ok() {
				return ""
			}
		case c < 0x20:
			s.fail("control character in a string")
			return ""
		default:
			sb.WriteByte(c)
			s.pos++
		}
	}
	s.fail("string without an end")
	return ""
}

var escapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads a backslash and what follows it.
func (s *scanner) escape() rune {
	at := s.pos
	s.pos++
	c := s.peek()
	s.pos++
	if r, ok := escapes[c]; ok {
		return r
	}
	if c != 'u' {
		s.failAt(at, "unknown escape in a string")
		return 0
	}
	r := s.hex4(at)
	if !utf16.IsSurrogate(r) {
		return r
	}
	if s.peek() != '\\' || s.pos+1 >= len(s.b) || s.b[s.pos+1] != 'u' {
		s.failAt(at, "half of a surrogate pair")
		return 0
	}
	s.pos += 2
	pair := utf16.DecodeRune(r, s.hex4(at))
	if pair == utf8.RuneError {
		s.failAt(at, "half of a surrogate pair")
	}
	return pair
}

func (s *scanner) hex4(at int) rune {
	if s.pos+4 > len(s.b) {
		s.failAt(at, "\\u needs four hex digits")
		return 0
	}
	var v rune
	for _, c := range s.b[s.pos : s.pos+4] {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' || c > '9' && c < 'A' {
			s.failAt(at, "\\u needs four hex digits")
			return 0
		}
		v = v<<4 | rune(d)
	}
	s.pos += 4
	return v
}

// whole reads a whole number from 0 to 2^63-1; what names it for the message.
func (s *scanner) whole(what string) int64 {
	at := s.pos
	text := s.number()
	if !s.ok() {
		return 0
	}
	if strings.ContainsAny(text, "-.eE") {
		s.failAt(at, "%s is %.40s; it must be a whole number from 0", what, text)
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.failAt(at, "%s is %.40s; the largest is %d", what, text, int64(math.MaxInt64))
	}
	return v
}

// number takes the text of a JSON number.
func (s *scanner) number() string {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	first := s.pos
	digits := s.digits()
	if s.ok() && (digits == 0 || digits > 1 && s.b[first] == '0') {
		s.pos = start
		s.fail("number expected, found %s", s.found())
		return ""
	}
	if s.peek() == '.' {
		s.pos++
		if s.digits() == 0 {
			s.fail("digit expected, found %s", s.found())
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if s.digits() == 0 {
			s.fail("digit expected, found %s", s.found())
		}
	}
	if !s.ok() {
		return ""
	}
	return string(s.b[start:s.pos])
}

func (s *scanner) digits() int {
	n := 0
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
		n++
	}
	return n
}

// skip takes any value: well formed, its keys distinct, not too deep.
func (s *scanner) skip(depth int) {
	if depth > maxDepth {
		s.fail("values nested more than %d deep", maxDepth)
		return
	}
	switch c := s.peek(); {
	case c == '{':
		seen := map[string]bool{}
		s.object(func(key string, at int) {
			s.once(seen, key, at)
			s.skip(depth + 1)
		})
	case c == '[':
		s.array(func() { s.skip(depth + 1) })
	case c == '"':
		s.str()
	case c == '-' || c >= '0' && c <= '9':
		s.number()
	default:
		for _, word := range []string{"true", "false", "null"} {
			if s.ok() && strings.HasPrefix(string(s.b[s.pos:min(len(s.b), s.pos+5)]), word) {
				s.pos += len(word)
				return
			}
		}
		s.fail("value expected, found %s", s.found())
	}
}

// once fails if key was seen before.
func (s *scanner) once(seen map[string]bool, key string, at int) {
	if seen[key] {
		s.failAt(at, "key %.80q twice", key)
	}
	seen[key] = true
}
