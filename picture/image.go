package picture

import (
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"path/filepath"

	"weft/fault"
	"weft/internal/printable"
	"weft/internal/userfile"
)

// What can be wrong with an image. The fields are File, and Pixels for ErrTooManyPixels.
// Errors of package userfile say that a file cannot be opened.
var (
	// ErrFormat: it is no PNG, JPEG or WebP.
	ErrFormat = fault.NewKind("image-format")
	// ErrTruncated: the file ends before the image does.
	ErrTruncated = fault.NewKind("image-truncated")
	// ErrBroken: the file contradicts its format.
	ErrBroken = fault.NewKind("image-broken")
	// ErrUnsupported: the format has a form that is not read.
	ErrUnsupported = fault.NewKind("image-unsupported")
	// ErrTooManyPixels: decoding would take more memory than any image that is meant.
	ErrTooManyPixels = fault.NewKind("image-too-many-pixels")
)

// File is the image that an error is about, and what it is taken for.
type File struct {
	Name   string `json:"name"`
	Format string `json:"format,omitempty"`
}

// Pixels is an image that is too large.
type Pixels struct {
	Name   string `json:"name"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Limit  int    `json:"limit"`
}

// MaxPixels is the largest image that is read unless a caller says otherwise: beyond
// this number Pillow refuses one as a decompression bomb.
const MaxPixels = 178_956_970

// maxFileBytes bounds a file: MaxPixels in PNG, hardly packed.
const maxFileBytes = 1 << 30

// Image is an upright picture. Pix has its rows from the top, each pixel as red, green and
// blue: 3*Width*Height bytes.
type Image struct {
	Width, Height int
	Pix           []byte
}

// Open reads a file that a person named. maxPixels bounds width*height, 0 stands for
// MaxPixels. notes say what of the file is not in the image. Errors are those of
// userfile.Read and of Decode.
func Open(path string, maxPixels int) (im *Image, notes []string, err error) {
	b, err := userfile.Read(path, maxFileBytes)
	if err != nil {
		return nil, nil, err
	}
	return Decode(b, filepath.Base(path), maxPixels)
}

// Decode is Open of a file's bytes; name is what messages call it. Errors: ErrFormat,
// ErrTruncated, ErrBroken, ErrUnsupported, ErrTooManyPixels.
func Decode(b []byte, name string, maxPixels int) (im *Image, notes []string, err error) {
	if maxPixels <= 0 {
		maxPixels = MaxPixels
	}
	h, err := readHeader(b, name)
	if int64(h.Width)*int64(h.Height) > int64(maxPixels) {
		return nil, nil, tooManyPixels(name, h, maxPixels)
	}
	if err != nil {
		return nil, nil, err
	}
	im, err = decodePixels(b, h)
	if err != nil {
		return nil, nil, cannotDecode(name, h.Format, err)
	}
	if im.Width != h.Width || im.Height != h.Height {
		return nil, nil, fault.New(ErrBroken, File{name, h.Format},
			"%s: its header says %dx%d pixels, its image has %dx%d", printable.Text(name), h.Width, h.Height, im.Width, im.Height)
	}
	return im.turnUpright(h.Orientation), h.notes(name), nil
}

// notes say what of the file is not in the decoded image.
func (h *Header) notes(name string) (notes []string) {
	add := func(format string, args ...any) {
		notes = append(notes, printable.Text(name)+" "+fmt.Sprintf(format, args...))
	}
	if h.Frames > 1 {
		add("is an animation of %d frames: the first is taken", h.Frames)
	}
	if h.Alpha {
		add("has transparency, which is dropped as the releases' own code drops it: where it was transparent, the colour stored there shows")
	}
	if h.Bits > 8 {
		add("has %d bits a channel: the upper 8 are taken", h.Bits)
	}
	if h.Profile != "" {
		add("has the colour profile %q, which is not applied, as the releases' own code does not: its numbers are taken for sRGB", printable.ClipName(h.Profile))
	}
	return append(notes, h.odd...)
}

// formatError is an error of a decoder with the kind that it is.
type formatError struct {
	kind *fault.Kind
	text string
}

func (e *formatError) Error() string { return e.text }

func broken(format string, args ...any) error {
	return &formatError{ErrBroken, fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) error {
	return &formatError{ErrUnsupported, fmt.Sprintf(format, args...)}
}

var errCut = &formatError{ErrTruncated, "it ends in the middle of the image"}

func cannotDecode(name, format string, err error) error {
	kind, text := ErrBroken, err.Error()
	var known *formatError
	switch {
	case errors.As(err, &known):
		kind = known.kind
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, jpeg.FormatError("short Huffman data")):
		kind, text = ErrTruncated, errCut.text
	}
	advice := ""
	switch kind {
	case ErrTruncated:
		advice = "; copy or download it again"
	case ErrUnsupported:
		advice = "; save it as an ordinary PNG"
	}
	return fault.New(kind, File{name, format}, "%s cannot be read as %s: %s%s", printable.Text(name), format, printable.Text(text), advice)
}

// tooManyPixels refuses an image by the size in its header.
func tooManyPixels(name string, h *Header, limit int) error {
	return fault.New(ErrTooManyPixels, Pixels{name, h.Width, h.Height, limit},
		"%s is a %s of %dx%d pixels: at most %d are read; scale it down first", printable.Text(name), h.Format, h.Width, h.Height, limit)
}
