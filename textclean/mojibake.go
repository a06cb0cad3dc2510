package textclean

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// wrongEncodings are the one-byte encodings by which UTF-8 is read by mistake. single are
// the first bytes of two of which one such pair is a sign already: in the others, honest
// text has pairs that look so, of letters or of a quote and a letter.
var wrongEncodings = []struct {
	encoding *charmap.Charmap
	single   byteRange
}{
	{charmap.Windows1252, byteRange{0xc2, 0xdf}},
	{charmap.Windows1250, byteRange{0xc2, 0xc6}},
	{charmap.Windows1254, byteRange{0xc2, 0xc6}},
	{charmap.Windows1257, byteRange{0xc2, 0xc6}},
	{charmap.ISO8859_2, byteRange{0xc2, 0xc6}},
	{charmap.Macintosh, byteRange{0xc2, 0xc6}},
	{charmap.CodePage437, byteRange{0xc2, 0xdf}},
	{charmap.Windows1251, byteRange{}},
	{charmap.Windows1253, byteRange{}},
}

type byteRange struct{ first, last byte }

// FindMojibake finds the first run of characters in s that is UTF-8 of other characters,
// read by a one-byte encoding: "â€œ" is “ by Windows-1252. Where that is weak evidence, it
// wants more than one such character in the text. It asks no more, so it finds nearly all
// text that ftfy repairs, and now and then text that ftfy leaves alone: it is for a
// note, not for a repair.
func FindMojibake(s string) (run string, found bool) {
	if isASCII(s) {
		return "", false
	}
	for _, wrong := range wrongEncodings {
		if run, found = findRun([]rune(s), wrong.encoding, wrong.single); found {
			return run, true
		}
	}
	return "", false
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// findRun turns the text back into bytes, a byte a character, and looks for UTF-8: one
// character of three bytes or more, one of two bytes that begins with one of single, or any
// two. It gives the first.
func findRun(text []rune, encoding *charmap.Charmap, single byteRange) (run string, found bool) {
	b := make([]byte, len(text))
	for i, r := range text {
		b[i] = byteInEncoding(encoding, r)
	}
	signs := 0
	for i := 0; i < len(b); i++ {
		r, n := utf8.DecodeRune(b[i:])
		if n < 2 || r == utf8.RuneError {
			continue
		}
		if run == "" {
			run = string(text[i : i+n])
		}
		signs++
		strong := n > 2 || b[i] >= single.first && b[i] <= single.last && !isPunctuation(encoding, text[i+1])
		if strong || signs == 2 {
			return run, true
		}
		i += n - 1
	}
	return "", false
}

// isPunctuation says whether a quote, a dash or the like follows a capital letter honestly.
// After what Windows-1252 and code page 437 have in this place (Â, ├) it hardly does.
func isPunctuation(encoding *charmap.Charmap, r rune) bool {
	return encoding != charmap.Windows1252 && encoding != charmap.CodePage437 && (unicode.IsPunct(r) || r == 0xa0)
}

// byteInEncoding is the byte that a reader by the encoding turns into r, or 0 for none.
// Where it gives a byte no meaning, readers pass it on as a C1 control.
func byteInEncoding(encoding *charmap.Charmap, r rune) byte {
	if b, ok := encoding.EncodeRune(r); ok {
		return b
	}
	if r >= utf8.RuneSelf && r < 0xa0 {
		return byte(r)
	}
	return 0
}
