package picture

import (
	"bytes"
	"strings"

	"weft/fault"
	"weft/internal/printable"
)

// Header is what a file says of its image before its pixels.
type Header struct {
	Format        string // "PNG", "JPEG" or "WebP"
	Width, Height int    // as stored, before the orientation is applied
	Orientation   int    // EXIF's: 1 is upright, 5 to 8 have rows and columns exchanged
	Frames        int    // more than 1 for an animation
	Alpha         bool
	Bits          int    // of a channel
	Profile       string // the name of a colour profile that is not sRGB's

	odd      []string // what is wrong with parts that can be done without
	data     []byte   // of WebP: the image that is decoded
	lossless bool     // of WebP
}

// UprightSize is the size of the image that Decode gives.
func (h *Header) UprightSize() (width, height int) {
	if h.Orientation >= 5 {
		return h.Height, h.Width
	}
	return h.Width, h.Height
}

// ReadHeader reads what comes before the pixels; it decodes nothing and allocates next to
// nothing. Errors: ErrFormat, ErrTruncated, ErrBroken, ErrUnsupported.
func ReadHeader(b []byte, name string) (*Header, error) {
	h, err := readHeader(b, name)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// readHeader is ReadHeader. With an error comes what was read before it, for the size.
func readHeader(b []byte, name string) (h *Header, err error) {
	h = &Header{Orientation: 1, Frames: 1, Bits: 8}
	switch {
	case bytes.HasPrefix(b, []byte(pngSignature)):
		h.Format = "PNG"
		err = h.readPNG(b)
	case bytes.HasPrefix(b, []byte{0xff, 0xd8, 0xff}):
		h.Format = "JPEG"
		err = h.readJPEG(b)
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		h.Format = "WebP"
		err = h.readWebP(b)
	default:
		is := NameForeign(b)
		return h, fault.New(ErrFormat, File{name, is}, "%s is %s: PNG, JPEG and WebP are read; save it as one of them", printable.Text(name), is)
	}
	if err == nil && (h.Width == 0 || h.Height == 0) {
		err = broken("no size of an image is in it")
	}
	if err != nil {
		return h, cannotDecode(name, h.Format, err)
	}
	return h, nil
}

// NameForeign says what a file is that is not read, where its first bytes tell.
func NameForeign(b []byte) string {
	for _, f := range []struct{ begin, name string }{
		{"GIF8", "a GIF"}, {"BM", "a BMP"}, {"II*\x00", "a TIFF"}, {"MM\x00*", "a TIFF"}, {"8BPS", "a Photoshop document"},
		{"\xff\x0a", "a JPEG XL"}, {"\x00\x00\x00\x0cJXL ", "a JPEG XL"}, {"\x00\x00\x00\x0cjP  ", "a JPEG 2000"}, {"v/1\x01", "an OpenEXR"},
		{"qoif", "a QOI"}, {"\x1aE\xdf\xa3", "a WebM or Matroska video"}, {"%PDF", "a PDF"}, {"\x93NUMPY", "a NumPy array"},
	} {
		if bytes.HasPrefix(b, []byte(f.begin)) {
			return f.name
		}
	}
	if len(b) >= 12 && string(b[4:8]) == "ftyp" {
		switch brand := string(b[8:12]); {
		case strings.HasPrefix(brand, "avi"):
			return "an AVIF"
		case strings.HasPrefix(brand, "he"), brand == "mif1", brand == "msf1":
			return "a HEIC"
		}
		return "an MP4 or QuickTime video"
	}
	switch text := strings.TrimSpace(string(b[:min(len(b), 256)])); {
	case len(b) == 0:
		return "empty"
	case strings.HasPrefix(text, "version https://git-lfs"):
		return "a pointer of Git LFS, not the image itself"
	case strings.HasPrefix(text, "<svg"), strings.HasPrefix(text, "<?xml"):
		return "an SVG or other XML"
	case strings.HasPrefix(text, "<"):
		return "a web page"
	}
	return "no image that is known"
}

// takeExif reads the orientation out of EXIF data. What cannot be read leaves the image as
// it is stored, and is noted.
func (h *Header) takeExif(b []byte) {
	o, err := ReadOrientation(b)
	if err != nil {
		h.odd = append(h.odd, "its EXIF data cannot be read ("+printable.Text(err.Error())+"): it is taken as upright")
		return
	}
	h.Orientation = o
}
