package picture

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"strings"
	"unicode/utf16"
)

// A colour profile is looked at for its name alone, so that a note can say which one is
// not applied.

// unnamedProfile is what a profile without a name is called.
const unnamedProfile = "without a name"

// describeProfile gives the description in an ICC profile; "" for sRGB's.
func describeProfile(b []byte) string {
	name := readProfileName(b)
	if strings.Contains(strings.ToLower(name), "srgb") {
		return ""
	}
	return name
}

// readProfileName finds the tag "desc" in the profile's table of tags, and the text in it
// in either of the two forms that it has had.
func readProfileName(b []byte) string {
	const header = 128
	if len(b) < header+4 {
		return unnamedProfile
	}
	count := binary.BigEndian.Uint32(b[header:])
	for tags := b[header+4:]; count > 0 && len(tags) >= 12; count-- {
		at, n := uint64(binary.BigEndian.Uint32(tags[4:])), uint64(binary.BigEndian.Uint32(tags[8:]))
		if string(tags[:4]) == "desc" && at < uint64(len(b)) {
			return textOfTag(b[at:min(at+n, uint64(len(b)))])
		}
		tags = tags[12:]
	}
	return unnamedProfile
}

func textOfTag(tag []byte) string {
	switch {
	case len(tag) >= 12 && string(tag[:4]) == "desc": // ASCII, its length, a zero at its end
		text := tag[12:min(uint64(len(tag)), 12+uint64(binary.BigEndian.Uint32(tag[8:])))]
		text, _, _ = bytes.Cut(text, []byte{0})
		return latin1(text)
	case len(tag) >= 28 && string(tag[:4]) == "mluc": // UTF-16, by languages: the first
		n, at := uint64(binary.BigEndian.Uint32(tag[20:])), uint64(binary.BigEndian.Uint32(tag[24:]))
		if at+n > uint64(len(tag)) {
			return unnamedProfile
		}
		var units []uint16
		for text := tag[at : at+n]; len(text) >= 2; text = text[2:] {
			units = append(units, binary.BigEndian.Uint16(text))
		}
		return strings.TrimRight(string(utf16.Decode(units)), "\x00")
	}
	return unnamedProfile
}

// describeCompressedProfile is describeProfile of a PNG's chunk iCCP: a name, a zero, a
// method of compression, and the profile.
func describeCompressedProfile(chunk []byte) string {
	_, rest, found := bytes.Cut(chunk, []byte{0})
	if !found || len(rest) < 1 {
		return unnamedProfile
	}
	z, err := zlib.NewReader(bytes.NewReader(rest[1:]))
	if err != nil {
		return unnamedProfile
	}
	b, _ := io.ReadAll(io.LimitReader(z, 1<<20))
	return describeProfile(b)
}

// latin1 is text of one byte a character.
func latin1(b []byte) string {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}
