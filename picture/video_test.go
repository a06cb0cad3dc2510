package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/userfile"
)

// pngOf is a PNG of one colour.
func pngOf(t testing.TB, width, height int, c color.Color) []byte {
	t.Helper()
	im := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		im.Set(i%width, i/width, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pixelData are the compressed pixels of a PNG.
func pixelData(b []byte) (data []byte) {
	for b = b[len(pngSignature):]; len(b) >= 12; {
		n := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
		if string(b[4:8]) == "IDAT" {
			data = append(data, b[8:8+n]...)
		}
		b = b[12+n:]
	}
	return data
}

// drawn is a frame of an animation: where it is drawn, what becomes of it, and how it is laid over
// the others.
type drawn struct {
	x, y, w, h     int
	dispose, blend byte
	c              color.Color
}

// animated is an animated PNG of 4x3 pixels. hidden is a first picture that no frame shows.
func animated(t testing.TB, hidden bool, frames ...drawn) []byte {
	t.Helper()
	size := func(w, h int) []byte {
		return []byte{0, 0, 0, byte(w), 0, 0, 0, byte(h)}
	}
	b := appendChunk([]byte(pngSignature), "IHDR", append(size(4, 3), 8, 6, 0, 0, 0))
	b = appendChunk(b, "acTL", []byte{0, 0, 0, byte(len(frames)), 0, 0, 0, 0})
	if hidden {
		b = appendChunk(b, "IDAT", pixelData(pngOf(t, 4, 3, color.NRGBA{1, 2, 3, 255})))
	}
	sequence := byte(0)
	for i, f := range frames {
		control := append([]byte{0, 0, 0, sequence}, size(f.w, f.h)...)
		control = append(control, append(size(f.x, f.y), 0, 1, 0, 16, f.dispose, f.blend)...)
		b, sequence = appendChunk(b, "fcTL", control), sequence+1
		data := pixelData(alphaPNG(t, f))
		if i == 0 && !hidden {
			b = appendChunk(b, "IDAT", data)
			continue
		}
		b, sequence = appendChunk(b, "fdAT", append([]byte{0, 0, 0, sequence}, data...)), sequence+1
	}
	return appendChunk(b, "IEND", nil)
}

// alphaPNG is a PNG with an alpha channel whatever its colour is.
func alphaPNG(t testing.TB, f drawn) []byte {
	t.Helper()
	im := image.NewNRGBA(image.Rect(0, 0, f.w, f.h))
	for i := range f.w * f.h {
		im.Set(i%f.w, i/f.w, f.c)
	}
	var b bytes.Buffer
	// A palette or RGB is chosen for what is opaque: the encoder is told of one clear pixel.
	if err := png.Encode(&b, keptAlpha{im}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// keptAlpha is a picture that is never called opaque.
type keptAlpha struct{ *image.NRGBA }

func (keptAlpha) Opaque() bool { return false }

var (
	red, green, blue = color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 255, 0, 255}, color.NRGBA{0, 0, 255, 255}
	transparent      = color.NRGBA{0, 0, 0, 0}
)

// at is the colour of a pixel of a frame.
func (v *Video) at(frame, x, y int) [3]byte {
	return [3]byte(v.Frames[frame].Pix[3*(y*v.Width+x):])
}

// Each frame is what a viewer shows: small ones are drawn over what the one before left.
func TestAnimatedPNG(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		v, _, err := DecodeVideo(animated(t, hidden, drawn{0, 0, 4, 3, 0, 0, red}, drawn{1, 1, 2, 1, 2, 0, green}, drawn{3, 2, 1, 1, 1, 1, blue},
			drawn{0, 0, 1, 1, 0, 1, transparent}, drawn{0, 0, 2, 2, 0, 0, transparent}), "a.png", 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Frames) != 5 || v.Width != 4 || v.Height != 3 {
			t.Fatalf("%d frames of %dx%d", len(v.Frames), v.Width, v.Height)
		}
		for _, c := range []struct {
			frame, x, y int
			want        [3]byte
		}{
			{0, 1, 1, [3]byte{255, 0, 0}}, {1, 1, 1, [3]byte{0, 255, 0}}, {1, 3, 1, [3]byte{255, 0, 0}},
			{2, 1, 1, [3]byte{255, 0, 0}}, {2, 3, 2, [3]byte{0, 0, 255}}, // the second frame was taken back
			{3, 0, 0, [3]byte{255, 0, 0}}, {3, 3, 2, [3]byte{0, 0, 0}}, // laid over with nothing; the third was cleared
			{4, 1, 1, [3]byte{0, 0, 0}}, {4, 2, 0, [3]byte{255, 0, 0}},
		} {
			if got := v.at(c.frame, c.x, c.y); got != c.want {
				t.Errorf("hidden %v: frame %d at %d, %d is %v, want %v", hidden, c.frame, c.x, c.y, got, c.want)
			}
		}
	}
}

// aviOf is an AVI of JPEGs: a list of frames with an odd chunk between them, and a RIFF that goes
// on.
func aviOf(frames ...[]byte) []byte {
	chunk := func(id string, data []byte) []byte {
		n := len(data)
		b := append([]byte(id), byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
		b = append(b, data...)
		if n%2 == 1 {
			b = append(b, 0)
		}
		return b
	}
	movi := []byte("movi")
	for _, f := range frames[:len(frames)-1] {
		movi = append(append(movi, chunk("00dc", f)...), chunk("JUNK", []byte{1, 2, 3})...)
	}
	b := chunk("RIFF", slices.Concat([]byte("AVI "), chunk("LIST", append([]byte("hdrl"), chunk("avih", make([]byte, 56))...)), chunk("LIST", movi)))
	return append(b, chunk("RIFF", append([]byte("AVIX"), chunk("LIST", append([]byte("movi"), chunk("00dc", frames[len(frames)-1])...))...))...)
}

func jpegOf(t testing.TB, width, height int, gray uint8) []byte {
	t.Helper()
	im := image.NewGray(image.Rect(0, 0, width, height))
	for i := range im.Pix {
		im.Pix[i] = gray
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, im, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAVI(t *testing.T) {
	b := aviOf(jpegOf(t, 9, 7, 10), jpegOf(t, 9, 7, 100), jpegOf(t, 9, 7, 200))
	v, _, err := DecodeVideo(b, "a.avi", 0)
	if err != nil || len(v.Frames) != 3 || v.at(0, 3, 3)[0] != 10 || v.at(2, 8, 6)[1] != 200 {
		t.Fatalf("%+v, %v", v, err)
	}
	for name, c := range map[string]struct {
		b    []byte
		kind error
	}{
		"cut":            {b[:len(b)-20], ErrTruncated},
		"H.264":          {aviOf([]byte{0, 0, 0, 1, 9, 16}, []byte{0}), ErrUnsupported},
		"two sizes":      {aviOf(jpegOf(t, 9, 7, 1), jpegOf(t, 8, 7, 1)), ErrFrames},
		"nothing in it":  {[]byte("RIFF\x04\x00\x00\x00AVI "), ErrFrames},
		"a broken frame": {aviOf(jpegOf(t, 9, 7, 1), jpegOf(t, 9, 7, 1)[:80]), ErrTruncated},
	} {
		if _, _, err := DecodeVideo(c.b, "a.avi", 0); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A folder's pictures come in the order of their numbers; what is no picture is named.
func TestFolderOfPictures(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		write(fmt.Sprintf("frame_%d.png", i), pngOf(t, 5, 3, color.NRGBA{byte(20 * i), 0, 0, 255}))
	}
	write(".hidden", []byte("x"))
	write("video.json", []byte("{}"))
	v, _, err := OpenVideo(dir, 0)
	if err != nil || len(v.Frames) != 12 || v.Sum == "" {
		t.Fatalf("%+v, %v", v, err)
	}
	for i := range v.Frames {
		if v.at(i, 4, 2)[0] != byte(20*i) {
			t.Errorf("frame %d is %v", i, v.at(i, 4, 2))
		}
	}
	if _, _, err := OpenVideo(dir, 5*3*11); !errors.Is(err, ErrTooManyPixels) {
		t.Errorf("more pixels than are read: %v", err)
	}
	one, _, err := OpenVideo(filepath.Join(dir, "frame_3.png"), 0)
	if err != nil || len(one.Frames) != 1 || one.Sum == v.Sum {
		t.Errorf("a picture is a video of one frame: %+v, %v", one, err)
	}
	write("frame_3.png", pngOf(t, 5, 4, red))
	if _, _, err := OpenVideo(dir, 0); !errors.Is(err, ErrFrames) || !strings.Contains(err.Error(), "frame_3.png of ") || !strings.Contains(err.Error(), "5x4 pixels, and those before it 5x3") {
		t.Errorf("two sizes: %v", err)
	}
	write("frame_3.png", []byte("\x00\x00\x00\x20ftypisom and so on"))
	if _, _, err := OpenVideo(dir, 0); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "frame_3.png is an MP4 or QuickTime video, no video that is read: a folder of pictures") ||
		!strings.Contains(err.Error(), "ffmpeg -i FILE") {
		t.Errorf("an MP4: %v", err)
	}
	if _, _, err := OpenVideo(t.TempDir(), 0); !errors.Is(err, ErrFrames) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, _, err := OpenVideo(filepath.Join(dir, "none"), 0); !errors.Is(err, userfile.ErrAbsent) {
		t.Errorf("no file: %v", err)
	}
}

func TestOrderOfNumbers(t *testing.T) {
	want := []string{"a", "f1.png", "f2.png", "f02.png", "f9.png", "f10.png", "f10b.png", "f100.png", "g1.png"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareNumbered)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Whatever a file has, it is frames of one size within the bound, or an error of one of the kinds.
func FuzzDecodeVideo(f *testing.F) {
	addImages(f)
	f.Add(animated(f, false, drawn{0, 0, 4, 3, 0, 0, red}, drawn{1, 1, 2, 1, 2, 1, green}))
	f.Add(animated(f, true, drawn{0, 0, 4, 3, 1, 0, red}, drawn{1, 1, 3, 2, 0, 0, transparent}))
	f.Add(aviOf(jpegOf(f, 9, 7, 10), jpegOf(f, 9, 7, 100)))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, _, err := DecodeVideo(b, "x", 1<<16)
		if err != nil {
			for _, kind := range []error{ErrFormat, ErrTruncated, ErrBroken, ErrUnsupported, ErrTooManyPixels, ErrFrames} {
				if errors.Is(err, kind) {
					return
				}
			}
			t.Fatalf("an error of no kind: %v", err)
		}
		if n := len(v.Frames) * v.Width * v.Height; n == 0 || n > 1<<16 {
			t.Fatalf("%d frames of %dx%d", len(v.Frames), v.Width, v.Height)
		}
		for _, im := range v.Frames {
			if im.Width != v.Width || im.Height != v.Height || len(im.Pix) != 3*im.Width*im.Height {
				t.Fatalf("a frame of %dx%d with %d bytes in a video of %dx%d", im.Width, im.Height, len(im.Pix), v.Width, v.Height)
			}
		}
	})
}
