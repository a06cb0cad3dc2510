package jsontext

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Options are rules that a document must follow besides RFC 8259.
type Options struct {
	// Keys refuses two keys of one object that differ only in case: encoding/json and people
	// take them for one key, and other programs for two. Documents whose keys are data, such
	// as vocabularies, may have such keys.
	Keys bool
	// Whole makes Decode refuse an object that lacks a key of its struct, unless the field is
	// marked omitempty, and a null where the field cannot hold one.
	Whole bool
}

// ParseObject reads a document that is one object and nothing after it. Values are
// map[string]any, []any, string, bool, nil, and json.Number for numbers, each of
// which is finite as a float64. A key twice in one object is an error.
func ParseObject(b []byte, o Options) (map[string]any, *SyntaxError) {
	s := NewScanner(b)
	s.Space()
	if s.OK() && s.Peek() != '{' {
		s.Fail("an object expected, found %s", s.describeNext())
	}
	v, _ := s.readValue(o, 0).(map[string]any)
	s.End()
	return v, s.Err()
}

// Value reads the next value and gives it in the types of ParseObject. It serves callers
// that read the large parts of a document with a Scanner.
func (s *Scanner) Value(o Options) any { return s.readValue(o, 0) }

// readValue reads any value; depth is the nesting around it.
func (s *Scanner) readValue(o Options, depth int) any {
	if depth > maxDepth {
		s.Fail("values nested more than %d deep", maxDepth)
		return nil
	}
	switch c := s.Peek(); {
	case c == '{':
		v, spelt := map[string]any{}, map[string]string{}
		s.Object(func(key string, at int) {
			if _, twice := v[key]; twice {
				s.FailAt(at, "key %.80q twice", key)
			}
			if o.Keys {
				folded := strings.ToLower(key)
				if other, twice := spelt[folded]; twice && other != key {
					s.FailAt(at, "key %.80q is %.80q in another case", key, other)
				}
				spelt[folded] = key
			}
			sound := s.OK()
			v[key] = s.readValue(o, depth+1)
			if sound && !s.OK() { // the reader looks for the key
				s.err.Reason = fmt.Sprintf("key %.80q: %s", key, s.err.Reason)
			}
		})
		return v
	case c == '[':
		v := []any{}
		s.Array(func() { v = append(v, s.readValue(o, depth+1)) })
		return v
	case c == '"':
		return s.Text()
	case c == 'N', c == 'I', strings.HasPrefix(string(s.b[s.pos:min(len(s.b), s.pos+2)]), "-I"):
		s.Fail("NaN and Infinity are no numbers of JSON: want a finite number")
		return nil
	case c == '-' || c >= '0' && c <= '9':
		at := s.pos
		text := s.Number()
		if _, err := strconv.ParseFloat(text, 64); s.OK() && err != nil {
			s.FailAt(at, "%.40s is beyond the largest number", text)
		}
		return json.Number(text)
	case c == 't', c == 'f', c == 'n':
		s.Skip(depth)
		return map[byte]any{'t': true, 'f': false}[c]
	}
	s.Skip(depth) // adds the error
	return nil
}
