package tokenizer

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// charsmap is SentencePiece's compiled table of replacements. A double-array trie maps
// each key to a place in texts, where its replacement begins and goes on to a zero byte.
type charsmap struct {
	units []uint32
	texts string
}

// parseCharsmap reads a table; it gives nil for an empty one.
func parseCharsmap(b []byte) (*charsmap, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 8 {
		return nil, errors.New("the table of replacements is cut off")
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	b = b[4:]
	if size >= uint64(len(b)) || size < 4 || size%4 != 0 {
		return nil, errors.New("the table of replacements has a wrong size")
	}
	c := &charsmap{units: make([]uint32, size/4), texts: string(b[size:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	if !utf8.ValidString(c.texts) {
		return nil, errors.New("the replacements are not UTF-8")
	}
	return c, nil
}

func unitOffset(u uint32) uint32 { return u >> 10 << (u & (1 << 9) >> 6) }

// findKey finds the longest or the shortest key that text begins with. It gives the
// length of the key, which is 0 where there is none, and its replacement.
func (c *charsmap) findKey(text string, longest bool) (length int, replacement string) {
	if c == nil {
		return 0, ""
	}
	at := unitOffset(c.units[0])
	for i := 0; i < len(text); i++ {
		b := uint32(text[i])
		if at ^= b; b == 0 || uint64(at) >= uint64(len(c.units)) {
			break
		}
		u := c.units[at]
		if u&(1<<31|0xff) != b {
			break
		}
		if at ^= unitOffset(u); uint64(at) >= uint64(len(c.units)) {
			break
		}
		if u>>8&1 == 0 {
			continue
		}
		length, replacement = i+1, c.textAt(c.units[at]&(1<<31-1))
		if !longest {
			break
		}
	}
	return length, replacement
}

func (c *charsmap) textAt(at uint32) string {
	if uint64(at) > uint64(len(c.texts)) {
		return ""
	}
	text, _, _ := strings.Cut(c.texts[at:], "\x00")
	return strings.ToValidUTF8(text, "\ufffd") // a place within a character, in a broken table
}

// maxKeyGrapheme is the length in bytes from which a grapheme is not looked up as a whole
// but character by character.
const maxKeyGrapheme = 6

// normalizeByGrapheme applies the table as the tokenizers library does. In a grapheme of
// less than six bytes it finds the shortest key at the beginning, whose replacement then
// replaces the whole grapheme. In longer graphemes it looks up each character. SentencePiece
// itself finds the longest key at every place of the text, which gives other results.
func (c *charsmap) normalizeByGrapheme(e *editor) {
	defer func() {
		// The library counts the whole first character of the result as coming from the first
		// character of the text.
		if e.zero > 0 && !e.same {
			_, n := utf8.DecodeRuneInString(e.out.String())
			e.mark = max(e.mark, n)
		}
	}()
	for e.hasMore() {
		size := graphemeSize(e.rest())
		if size < maxKeyGrapheme {
			if n, to := c.findKey(e.rest()[:size], false); n > 0 {
				e.replace(size, to)
				continue
			}
		}
		for end := e.pos + size; e.pos < end; {
			_, one := decodeRune(e.in, e.pos)
			if n, to := c.findKey(e.rest()[:one], false); n > 0 {
				e.replace(one, to)
			} else {
				e.keep(one)
			}
		}
	}
}

// graphemeSize gives the length of the grapheme that text begins with. In most text, each
// character is a grapheme by itself, which standsAlone finds out fast.
func graphemeSize(text string) int {
	r, n := decodeRune(text, 0)
	if standsAlone(r) {
		if n == len(text) {
			return n
		}
		if next, _ := decodeRune(text, n); standsAlone(next) {
			return n
		}
	}
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(text, -1)
	return len(cluster)
}

// standsAlone says whether a character is known to be a grapheme by itself when another
// such character, or nothing, follows. It is false for many characters that are one too.
func standsAlone(r rune) bool {
	return r >= ' ' && r < 0x7f || r >= 0xc0 && r < 0x300 || r >= 0x400 && r < 0x483 ||
		r >= 0x3041 && r < 0x3097 || r >= 0x30a1 && r <= 0x30fa || r >= 0x4e00 && r < 0xa000
}
