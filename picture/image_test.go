package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/userfile"
)

// pngChunk makes a chunk of a PNG.
func pngChunk(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// pngOfSize is a PNG that says that it has this size, with data that are nowhere enough for it.
func pngOfSize(w, h uint32) []byte {
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	b := append([]byte(pngSignature), pngChunk("IHDR", append(header, 8, 2, 0, 0, 0))...)
	b = append(b, pngChunk("IDAT", make([]byte, 900))...)
	return append(b, pngChunk("IEND", nil)...)
}

func readImage(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/images", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRefused(t *testing.T) {
	rgb, jpg, webp := readImage(t, "rgb.png"), readImage(t, "rgb_420.jpg"), readImage(t, "lossy_37x23.webp")
	// changed gives a copy with one byte changed, behind where a text stands.
	changed := func(b []byte, after string, offset int, to byte) []byte {
		b = bytes.Clone(b)
		b[bytes.Index(b, []byte(after))+offset] = to
		return b
	}
	moved := bytes.Clone(readImage(t, "animated.webp"))
	copy(moved[bytes.Index(moved, []byte("ANMF"))+8:], []byte{1, 0, 0})
	for _, test := range []struct {
		name string
		b    []byte
		kind error
		says string
	}{
		{"huge.png", pngOfSize(60_000, 60_000), ErrTooManyPixels, "60000x60000"},
		{"cut and huge.png", pngOfSize(60_000, 60_000)[:200], ErrTooManyPixels, "60000x60000"},
		{"wide.png", pngOfSize(1<<31-1, 1<<31-1), ErrTooManyPixels, "2147483647x2147483647"},
		{"beyond.png", pngOfSize(1<<31, 1), ErrBroken, "2147483648x1"},
		{"empty.png", pngOfSize(0, 5), ErrBroken, "0x5"},
		{"too few data.png", pngOfSize(10, 10), ErrBroken, "PNG"},
		{"cut.png", rgb[:len(rgb)/2], ErrTruncated, "ends in the middle"},
		{"without end.png", rgb[:len(rgb)-12], ErrTruncated, "ends in the middle"},
		{"wrong sum.png", changed(rgb, "IDAT", 10, 0), ErrBroken, "PNG"},
		{"cut.jpg", jpg[:len(jpg)-100], ErrTruncated, "download it again"},
		{"cut in the header.jpg", jpg[:100], ErrTruncated, ""},
		{"12 bits.jpg", changed(jpg, "\xff\xc0", 4, 12), ErrUnsupported, "12 bits"},
		{"arithmetic.jpg", changed(jpg, "\xff\xc0", 1, 0xc9), ErrUnsupported, "arithmetically"},
		{"lossless.jpg", changed(jpg, "\xff\xc0", 1, 0xc3), ErrUnsupported, "lossless JPEG"},
		{"cut.webp", webp[:len(webp)-10], ErrTruncated, ""},
		{"no key frame.webp", changed(webp, "VP8 ", 8, 1), ErrBroken, "key frame"},
		{"moved frame.webp", moved, ErrUnsupported, "does not fill"},
		{"only a header.webp", []byte("RIFF\x04\x00\x00\x00WEBP"), ErrBroken, "no image"},
		{"a.gif", []byte("GIF89a......"), ErrFormat, "a GIF"},
		{"a.heic", []byte("\x00\x00\x00\x18ftypheic...."), ErrFormat, "a HEIC"},
		{"a.avif", []byte("\x00\x00\x00\x18ftypavif...."), ErrFormat, "an AVIF"},
		{"a.mp4", []byte("\x00\x00\x00\x18ftypisom...."), ErrFormat, "video"},
		{"a.tif", []byte("II*\x00...."), ErrFormat, "a TIFF"},
		{"a.svg", []byte(" <svg>"), ErrFormat, "SVG"},
		{"404.png", []byte("<!doctype html>"), ErrFormat, "a web page"},
		{"pointer.png", []byte("version https://git-lfs.github.com/spec/v1"), ErrFormat, "Git LFS"},
		{"nothing.png", nil, ErrFormat, "empty"},
		{"noise.png", []byte("\x00\x01\x02\x03"), ErrFormat, "no image that is known"},
	} {
		im, notes, err := Decode(test.b, test.name, 0)
		if !errors.Is(err, test.kind) || im != nil || notes != nil {
			t.Errorf("%s: %v, want %v", test.name, err, test.kind)
			continue
		}
		if !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), test.name) {
			t.Errorf("%s: %q, want %q in it", test.name, err, test.says)
		}
	}
	if _, _, err := Decode(rgb, "rgb.png", 37*23-1); !errors.Is(err, ErrTooManyPixels) {
		t.Errorf("one pixel too many: %v", err)
	} else if p, ok := fault.Fields[Pixels](err); !ok || p != (Pixels{"rgb.png", 37, 23, 37*23 - 1}) {
		t.Errorf("fields %+v", p)
	}
	if _, _, err := Decode(rgb, "rgb.png", 37*23); err != nil {
		t.Errorf("as many pixels as are allowed: %v", err)
	}
	for _, path := range []string{"testdata", "testdata/none.png", ""} {
		if _, _, err := Open(path, 0); !errors.Is(err, userfile.ErrAbsent) && !errors.Is(err, userfile.ErrNotRegular) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// What is dropped of a file is said, and nothing is said of one of which all is taken.
func TestNotes(t *testing.T) {
	want := map[string]string{
		"rgba.png": "transparency", "grey_alpha.png": "transparency", "palette_transparent.png": "transparency", "rgba16.png": "transparency",
		"rgb_transparent_colour.png": "transparency", "lossy_alpha.webp": "transparency", "lossless_alpha.webp": "transparency",
		"rgb16.png": "16 bits", "grey16.png": "16 bits", "animated.png": "animation of 3 frames", "animated.webp": "animation of 2 frames",
		"profile.png": "colour profile",
	}
	files, err := os.ReadDir("testdata/images")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		_, notes, err := Open(filepath.Join("testdata/images", f.Name()), 0)
		if err != nil {
			t.Error(err)
		}
		said := strings.Join(notes, "\n")
		if w, ok := want[f.Name()]; ok {
			seen++
			if !strings.Contains(said, w) {
				t.Errorf("%s: notes %q, want %q", f.Name(), notes, w)
			}
		} else if said != "" {
			t.Errorf("%s: notes %q, want none", f.Name(), notes)
		}
	}
	if seen != len(want) {
		t.Errorf("%d files, want %d", seen, len(want))
	}
}

// All eight orientations show the same picture as the first, once it is turned; four of
// them exchange width and height, also in the size that the header gives.
func TestOrientationsComeBeforeSizes(t *testing.T) {
	stored, _, err := Open("testdata/images/orientation_1.png", 0)
	if err != nil {
		t.Fatal(err)
	}
	at := func(im *Image, x, y int) []byte { return im.Pix[3*(y*im.Width+x):][:3] }
	w, h := stored.Width-1, stored.Height-1
	for o, place := range map[int]func(x, y int) (int, int){ // where the upright pixel is stored
		1: func(x, y int) (int, int) { return x, y }, 2: func(x, y int) (int, int) { return w - x, y },
		3: func(x, y int) (int, int) { return w - x, h - y }, 4: func(x, y int) (int, int) { return x, h - y },
		5: func(x, y int) (int, int) { return y, x }, 6: func(x, y int) (int, int) { return y, h - x },
		7: func(x, y int) (int, int) { return w - y, h - x }, 8: func(x, y int) (int, int) { return w - y, x },
	} {
		name := "orientation_" + string(rune('0'+o)) + ".png"
		b := readImage(t, name)
		header, err := ReadHeader(b, name)
		if err != nil {
			t.Fatal(err)
		}
		im, _, err := Decode(b, name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if uw, uh := header.UprightSize(); uw != im.Width || uh != im.Height || (o >= 5) != (im.Width < im.Height) {
			t.Errorf("%s: %dx%d, the header says %dx%d", name, im.Width, im.Height, uw, uh)
			continue
		}
		for y := range im.Height {
			for x := range im.Width {
				sx, sy := place(x, y)
				if !slices.Equal(at(im, x, y), at(stored, sx, sy)) {
					t.Fatalf("%s: pixel %d,%d", name, x, y)
				}
			}
		}
	}
}

func TestReadOrientation(t *testing.T) {
	entry := func(order binary.AppendByteOrder, tag, kind uint16, n uint32, value uint16) []byte {
		b := order.AppendUint32(order.AppendUint16(order.AppendUint16(nil, tag), kind), n)
		return append(order.AppendUint16(b, value), 0, 0)
	}
	exif := func(order binary.AppendByteOrder, entries ...[]byte) []byte {
		begin := "II*\x00\x08\x00\x00\x00"
		if order == binary.BigEndian {
			begin = "MM\x00*\x00\x00\x00\x08"
		}
		b := order.AppendUint16([]byte(begin), uint16(len(entries)))
		return append(b, bytes.Join(entries, nil)...)
	}
	little, big := binary.LittleEndian, binary.BigEndian
	for _, test := range []struct {
		name string
		b    []byte
		want int // 0 for an error
	}{
		{"little", exif(little, entry(little, 0x112, 3, 1, 6)), 6},
		{"big", exif(big, entry(big, 0x10f, 2, 4, 0), entry(big, 0x112, 3, 1, 8)), 8},
		{"with its prefix", append([]byte(exifPrefix), exif(big, entry(big, 0x112, 3, 1, 3))...), 3},
		{"none", exif(little, entry(little, 0x10f, 3, 1, 6)), 1},
		{"no entries", exif(little), 1},
		{"not known", exif(little, entry(little, 0x112, 3, 1, 0)), 1},
		{"nine", exif(little, entry(little, 0x112, 3, 1, 9)), 0},
		{"a text", exif(little, entry(little, 0x112, 2, 1, 6)), 0},
		{"two", exif(little, entry(little, 0x112, 3, 2, 6)), 0},
		{"cut", exif(little, entry(little, 0x112, 3, 1, 6))[:20], 0},
		{"directory beyond the end", []byte("II*\x00\xff\xff\xff\xff"), 0},
		{"directory in the header", []byte("II*\x00\x02\x00\x00\x00\x00\x00"), 0},
		{"no TIFF", []byte("XX*\x00\x08\x00\x00\x00\x00\x00"), 0},
		{"empty", nil, 0},
	} {
		got, err := ReadOrientation(test.b)
		if got != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("%s: %d, %v, want %d", test.name, got, err, test.want)
		}
	}
	// Broken EXIF data cost the orientation, not the image.
	b := readImage(t, "orientation_3.jpg")
	b[bytes.Index(b, []byte(exifPrefix))+len(exifPrefix)] = 'X'
	if _, notes, err := Decode(b, "x.jpg", 0); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "taken as upright") {
		t.Errorf("%q, %v", notes, err)
	}
}

// Resizing by nothing gives the picture.
func TestResizeToTheSameSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawImage(t, 12)
		for _, f := range []Filter{Bilinear, Bicubic, Lanczos} {
			if got := im.Resize(im.Width, im.Height, f); !bytes.Equal(got.Pix, im.Pix) {
				t.Fatalf("%s: %v, want %v", f, got.Pix, im.Pix)
			}
		}
	})
}

// PyTorch's own: the nearest pixel of interpolate without a mode, and its bilinear interpolation with
// antialiasing, which rounds once and to even.
func TestResizingAsPyTorch(t *testing.T) {
	row := func(vs ...byte) *Image {
		im := &Image{Width: len(vs), Height: 1}
		for _, v := range vs {
			im.Pix = append(im.Pix, v, v, v)
		}
		return im
	}
	for _, c := range []struct {
		im   *Image
		f    Filter
		want []byte
	}{
		{row(1, 2, 3), Nearest, []byte{1, 2}},
		{row(1, 2), Nearest, []byte{1, 1, 1, 2, 2}},
		{row(0, 100), Smooth, []byte{0, 25, 75, 100}},
		{row(0, 3, 0, 1), Smooth, []byte{1, 1}}, // 1.2857 and 0.8571
	} {
		got := c.im.Resize(len(c.want), 1, c.f)
		for i, v := range c.want {
			if got.Pix[3*i] != v || got.Pix[3*i+2] != v {
				t.Errorf("%s of %v: %v, want %v", c.f, c.im.Pix, got.Pix, c.want)
			}
		}
	}
	// 3x2 pixels fill 4x4: they become 6x4, and one column goes on each side.
	im := &Image{Width: 3, Height: 2, Pix: make([]byte, 18)}
	if p := (Preparation{Smooth, FitCrop}).fill(im, 4, 4, FitCrop); p.Width != 4 || p.Height != 4 || p.Data[0] != -1 {
		t.Errorf("%dx%d %v", p.Width, p.Height, p.Data[0])
	}
}
