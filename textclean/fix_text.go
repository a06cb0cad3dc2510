package textclean

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"weft/internal/normalform"
)

// maxSegmentRunes bounds what ftfy repairs at once, where lines do not.
const maxSegmentRunes = 1_000_000

// FixText is ftfy's fix_text with its defaults, without the repair of mojibake. Line by
// line it repeats, until nothing changes: escapes of HTML undone (not from the first line
// with a "<" on), C1 controls read as Windows-1252, Latin ligatures taken apart, full-width
// and half-width forms made plain, curly quotes made straight, line ends made "\n",
// terminal escapes and control characters removed, Unicode's normal form C. Bytes
// that are no UTF-8 become U+FFFD, one each.
func FixText(s string) string {
	s = string([]rune(s))
	unescape := true
	var out strings.Builder
	for s != "" {
		var segment string
		segment, s = cutSegment(s)
		unescape = unescape && !strings.Contains(segment, "<")
		out.WriteString(fixSegment(segment, unescape))
	}
	return out.String()
}

// cutSegment cuts a line with its end off the front of s, or what is repaired at once of
// a longer one.
func cutSegment(s string) (segment, rest string) {
	segment = s
	if at := strings.IndexByte(s, '\n'); at >= 0 {
		segment = s[:at+1]
	}
	if len(segment) > maxSegmentRunes {
		runes := 0
		for at := range segment {
			if runes == maxSegmentRunes {
				segment = segment[:at]
				break
			}
			runes++
		}
	}
	return segment, s[len(segment):]
}

// fixSegment repeats the repairs, in ftfy's order, until they change nothing. Surrogates,
// which ftfy pairs, cannot stand in UTF-8.
func fixSegment(s string, unescape bool) string {
	for {
		before := s
		if unescape {
			s = unescapeWithSemicolon(s)
		}
		s = plainLetters.Replace(replaceC1Controls(s))
		s = strings.Map(straightenQuote, s)
		s = lineEnds.Replace(s)
		s = removeTerminalEscapes(s)
		s = normalform.String(norm.NFC, strings.Map(dropControl, s))
		if s == before {
			return s
		}
	}
}

// windows1252 is what bytes 0x80 to 0x9f mean in Windows-1252. The five without a meaning
// stay C1 controls.
const windows1252 = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ"

// c1Replacement is windows1252 by code.
var c1Replacement = []rune(windows1252)

func replaceC1Controls(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x80 && r < 0xa0 {
			return c1Replacement[r-0x80]
		}
		return r
	}, s)
}

// plainLetters takes Latin ligatures and digraphs apart, and then gives characters of
// another width their usual one. No character is in both tables, and neither makes one
// that is in the other, so one pass does both.
var plainLetters = strings.NewReplacer(append(ligatures(), widths()...)...)

func ligatures() []string {
	return []string{
		"Ĳ", "IJ", "ĳ", "ij", "ŉ", "ʼn", "Ǳ", "DZ", "ǲ", "Dz", "ǳ", "dz", "Ǆ", "DŽ", "ǅ", "Dž", "ǆ", "dž",
		"Ǉ", "LJ", "ǈ", "Lj", "ǉ", "lj", "Ǌ", "NJ", "ǋ", "Nj", "ǌ", "nj",
		"ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "ſt", "ﬆ", "st",
	}
}

// widths lists the full-width and half-width forms with their compatibility
// decompositions, and the ideographic space.
func widths() []string {
	list := []string{"\u3000", " "}
	for r := rune(0xff01); r < 0xfff0; r++ {
		if plain := norm.NFKC.String(string(r)); plain != string(r) {
			list = append(list, string(r), plain)
		}
	}
	return list
}

func straightenQuote(r rune) rune {
	switch {
	case r == 0x02bc, r >= 0x2018 && r <= 0x201b:
		return '\''
	case r >= 0x201c && r <= 0x201f:
		return '"'
	}
	return r
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\u0085", "\n")

// removeTerminalEscapes removes sequences that a terminal takes for commands: ESC, "[",
// decimal digits of any script and semicolons, and a Latin letter.
func removeTerminalEscapes(s string) string {
	const begin = "\x1b["
	var out strings.Builder
	for {
		at := strings.Index(s, begin)
		if at < 0 {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:at])
		body := s[at+len(begin):]
		end := strings.IndexFunc(body, func(r rune) bool { return r != ';' && !unicode.Is(unicode.Nd, r) })
		if end >= 0 && body[end] < utf8.RuneSelf && unicode.IsLetter(rune(body[end])) {
			s = body[end+1:]
			continue
		}
		out.WriteString(begin)
		s = body
	}
}

// dropControl removes controls that mean nothing in a text: ASCII's but for tab and the
// ends of lines and pages, and those that Unicode advises against in marked-up text.
func dropControl(r rune) rune {
	switch {
	case r < 0x09, r == 0x0b, r >= 0x0e && r < 0x20, r == 0x7f,
		r >= 0x206a && r <= 0x206f, r == 0xfeff, r >= 0xfff9 && r <= 0xfffc:
		return -1
	}
	return r
}
