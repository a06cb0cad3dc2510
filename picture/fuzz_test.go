package picture

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func addImages(f *testing.F) {
	files, err := os.ReadDir("testdata/images")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(filepath.Join("testdata/images", file.Name()))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(pngOfSize(60_000, 60_000))
}

// Whatever a file has, it is an image of the size that its header says, or an error of one
// of the kinds.
func FuzzDecode(f *testing.F) {
	addImages(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		im, _, err := Decode(b, "x", 1<<16)
		if err != nil {
			for _, kind := range []error{ErrFormat, ErrTruncated, ErrBroken, ErrUnsupported, ErrTooManyPixels} {
				if errors.Is(err, kind) {
					return
				}
			}
			t.Fatalf("an error of no kind: %v", err)
		}
		h, err := ReadHeader(b, "x")
		if err != nil {
			t.Fatal(err)
		}
		if w, ht := h.UprightSize(); w != im.Width || ht != im.Height || len(im.Pix) != 3*w*ht || w*ht == 0 || w*ht > 1<<16 {
			t.Fatalf("%dx%d with %d bytes, the header says %dx%d", im.Width, im.Height, len(im.Pix), w, ht)
		}
	})
}

func FuzzReadOrientation(f *testing.F) {
	f.Add([]byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00"))
	f.Add([]byte("Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := ReadOrientation(b); err == nil && (o < 1 || o > 8) {
			t.Fatalf("orientation %d", o)
		}
	})
}

func FuzzProfileName(f *testing.F) {
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		describeProfile(b)
		describeCompressedProfile(b)
	})
}
