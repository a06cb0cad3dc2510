package textclean

import (
	"html"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// unescapeAll undoes HTML's escapes as Python's html.unescape does, which follows HTML 5:
// names without a semicolon too ("&copy", "&notit;"), and numbers.
func unescapeAll(s string) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(s, '&')
		if at < 0 {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:at])
		s = s[at:]
		plain, n := unescapeNumber(s)
		if n == 0 {
			// Go's table of names is HTML's. It is given the name alone, because it
			// reads numbers otherwise than Python.
			n = 1 + lengthOfName(s[1:])
			plain = unescapeName(s[:n])
		}
		out.WriteString(plain)
		s = s[n:]
	}
}

// unescapeName is html.UnescapeString, with two names of HTML's that package html lacks: they
// stand for two characters each.
func unescapeName(escape string) string {
	switch escape {
	case "&nGt;":
		return "≫\u20d2"
	case "&nLt;":
		return "≪\u20d2"
	}
	return html.UnescapeString(escape)
}

// lengthOfName is how many bytes at the front of s can be the name of an escape with its
// semicolon: HTML's names have at most 31 letters and digits.
func lengthOfName(s string) int {
	n := 0
	for n < len(s) && n < 32 && isASCIILetterOrDigit(s[n]) {
		n++
	}
	if n < len(s) && s[n] == ';' {
		n++
	}
	return n
}

func isASCIILetterOrDigit(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

// unescapeNumber reads "&#65;" or "&#x41;" at the front of s, the semicolon or not, and
// gives the text and the bytes that it stands for; no bytes where there is no such number.
func unescapeNumber(s string) (plain string, n int) {
	if !strings.HasPrefix(s, "&#") {
		return "", 0
	}
	base, at := rune(10), 2
	if at < len(s) && (s[at] == 'x' || s[at] == 'X') {
		base, at = 16, at+1
	}
	first, code := at, rune(0)
	for ; at < len(s); at++ {
		digit := hexDigit(s[at])
		if digit < 0 || digit >= base {
			break
		}
		code = min(code*base+digit, utf8.MaxRune+1)
	}
	if at == first {
		return "", 0
	}
	if at < len(s) && s[at] == ';' {
		at++
	}
	return textOfCode(code), at
}

func hexDigit(b byte) rune {
	switch {
	case b >= '0' && b <= '9':
		return rune(b - '0')
	case b >= 'a' && b <= 'f':
		return rune(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return rune(b-'A') + 10
	}
	return -1
}

// textOfCode is the text of a numeric escape by HTML 5: U+FFFD for what is no character,
// Windows-1252 for C1 controls, nothing for other controls and for noncharacters.
func textOfCode(code rune) string {
	switch {
	case code == 0, code > utf8.MaxRune, code >= 0xd800 && code < 0xe000:
		return string(utf8.RuneError)
	case code >= 0x80 && code < 0xa0:
		return string(c1Replacement[code-0x80])
	case code < 0x09, code == 0x0b, code >= 0x0e && code < 0x20, code == 0x7f,
		code >= 0xfdd0 && code < 0xfdf0, code&0xfffe == 0xfffe:
		return ""
	}
	return string(code)
}

// maxLetters is how long a name ftfy looks up at most: HTML's longest are left alone.
const maxLetters = 24

// unescapeWithSemicolon undoes HTML's escapes as ftfy does: those that end in a semicolon
// alone, and also names in capitals where HTML has them in small letters alone ("&EACUTE;").
func unescapeWithSemicolon(s string) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(s, '&')
		if at < 0 {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:at])
		s = s[at:]
		escape := escapeAtFront(s)
		if plain, ok := unescapeOne(escape); ok {
			out.WriteString(plain)
			s = s[len(escape):]
			continue
		}
		out.WriteByte('&')
		s = s[1:]
	}
}

// escapeAtFront is what looks like an escape at the front of s, which begins with "&":
// "&NAME;" or "&#NUMBER;". "" for none.
func escapeAtFront(s string) string {
	name := strings.TrimPrefix(s[1:], "#")
	n := 0
	for n < len(name) && isASCIILetterOrDigit(name[n]) {
		n++
	}
	if n == 0 || n > maxLetters || n == len(name) || name[n] != ';' {
		return ""
	}
	return s[:len(s)-len(name)+n+1]
}

func unescapeOne(escape string) (plain string, ok bool) {
	if escape == "" {
		return "", false
	}
	if escape[1] == '#' {
		plain, n := unescapeNumber(escape)
		// ftfy takes a semicolon in the result for one that was not part of the escape, and
		// so leaves "&#59;".
		return plain, n == len(escape) && plain != ";"
	}
	if plain, ok := lookUpName(escape); ok {
		return plain, true
	}
	small := strings.ToLower(escape)
	if escape != strings.ToUpper(escape) || html.UnescapeString(escape) != escape {
		return "", false
	}
	if plain, ok = lookUpName(small); ok {
		plain = cases.Upper(language.Und).String(plain)
	}
	return plain, ok
}

// lookUpName finds "&NAME;" as a whole in HTML's table of names.
func lookUpName(escape string) (plain string, ok bool) {
	plain = unescapeName(escape)
	// Where a part of the name alone is known, the rest and the semicolon follow it.
	return plain, !strings.HasSuffix(plain, ";") || escape == "&semi;"
}
