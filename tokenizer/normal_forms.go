package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"weft/internal/normalform"
)

// toForm makes the normalizer for one of Unicode's normal forms.
func toForm(form norm.Form) normalizer {
	return func(s span) (span, error) {
		if isASCII(s.text) || form.IsNormalString(s.text) && !normalform.HasLongMarks(s.text) {
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
			out.WriteString(normalform.String(form, rest[:i]))
			out.WriteString(rest[i : i+n])
			rest = rest[i+n:]
		}
		out.WriteString(normalform.String(form, rest))
		text, zero := out.String(), 0
		if s.zero > 0 {
			_, zero = utf8.DecodeRuneInString(text)
		}
		return span{text, zero, noID}, nil
	}
}

func isInert(r rune) bool { return r >= 0x7fd && unicode.Is(inertInForms, r) }

func isASCII(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
