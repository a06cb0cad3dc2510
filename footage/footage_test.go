package footage

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/internal/userfile"
	"weft/picture"
	"weft/video"
)

// pixelsOf makes a frame with a mark that moves with its number.
func pixelsOf(i, width, height int) []byte {
	var pix []byte
	for y := range height {
		for x := range width {
			pix = append(pix, byte(7*x+i), byte(13*y), byte(3*(x+y)+9*i))
		}
	}
	return pix
}

// writeVideo writes so many frames in the form that a name's ending says.
func writeVideo(t testing.TB, path string, width, height, frames int) {
	t.Helper()
	p, err := video.Check(t.Context(), video.Request{Path: path, Width: width, Height: height, Frames: frames, Rate: video.Rate{Num: 24, Den: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := video.Write(t.Context(), p, func(s *video.Sink) error {
		for i := range frames {
			if err := s.RGB(pixelsOf(i, width, height)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// What package video writes is read again: to the bit where nothing was lost, in any order of
// frames, with its rate.
func TestWrittenVideosAreRead(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name   string
		frames int
		off    int // of a byte; JPEG loses some
	}{{"v.png", 5, 0}, {"one.png", 1, 0}, {"frames/", 12, 0}, {"v.avi", 5, 12}} {
		path := filepath.Join(dir, c.name)
		if strings.HasSuffix(c.name, "/") {
			path += "/"
		}
		const width, height = 33, 18
		writeVideo(t, path, width, height, c.frames)
		v, err := Open(path)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if v.Frames != c.frames || v.Width != width || v.Height != height || math.Abs(v.FPS-24) > 1e-9 || len(v.Sum) != 64 || len(v.Notes) > 0 {
			t.Errorf("%s: %+v", c.name, v)
		}
		for _, i := range []int{c.frames - 1, 0, c.frames / 2, c.frames / 2} {
			im, err := v.Frame(i)
			if err != nil {
				t.Errorf("%s: frame %d: %v", c.name, i, err)
				continue
			}
			for at, want := range pixelsOf(i, width, height) {
				if d := int(im.Pix[at]) - int(want); d < -c.off || d > c.off {
					t.Errorf("%s: frame %d: byte %d is %d, want %d", c.name, i, at, im.Pix[at], want)
					break
				}
			}
		}
		for _, i := range []int{-1, c.frames} {
			if _, err := v.Frame(i); !errors.Is(err, ErrFrames) {
				t.Errorf("%s: frame %d: %v", c.name, i, err)
			}
		}
	}
}

// encodePNG makes a PNG of one colour, with alpha whatever the colour.
func encodePNG(t testing.TB, width, height int, c color.NRGBA) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	for range height {
		row := append([]byte{0}, bytes.Repeat([]byte{c.R, c.G, c.B, c.A}, width)...)
		if _, err := z.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height))
	b := append([]byte(pngSignature), encodeChunk("IHDR", append(header, 8, 6, 0, 0, 0))...)
	return append(append(b, encodeChunk("IDAT", packed.Bytes())...), encodeChunk("IEND", nil)...)
}

// chunksOf returns the data of a PNG's chunks of a kind.
func chunksOf(b []byte, kind string) (all []byte) {
	for b = b[len(pngSignature):]; len(b) >= 12; {
		n := binary.BigEndian.Uint32(b)
		if string(b[4:8]) == kind {
			all = append(all, b[8:8+n]...)
		}
		b = b[12+n:]
	}
	return all
}

// animate makes an animated PNG whose first picture fills the canvas with red; each further one is
// a colour at a place, with what it leaves behind and how it is put there.
type piece struct {
	at             image.Rectangle
	c              color.NRGBA
	dispose, blend byte
}

func animate(t testing.TB, width, height int, pieces []piece) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(pngSignature)
	sequence := uint32(0)
	for i, p := range pieces {
		one := encodePNG(t, p.at.Dx(), p.at.Dy(), p.c)
		if i == 0 {
			b.Write(encodeChunk("IHDR", append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height)), chunksOf(one, "IHDR")[8:]...)))
			b.Write(encodeChunk("acTL", binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(pieces))), 0)))
		}
		var control []byte
		for _, v := range []uint32{sequence, uint32(p.at.Dx()), uint32(p.at.Dy()), uint32(p.at.Min.X), uint32(p.at.Min.Y)} {
			control = binary.BigEndian.AppendUint32(control, v)
		}
		b.Write(encodeChunk("fcTL", append(control, 0, 1, 0, 0, p.dispose, p.blend))) // hundredths of a second
		sequence++
		if i == 0 {
			b.Write(encodeChunk("IDAT", chunksOf(one, "IDAT")))
			continue
		}
		b.Write(encodeChunk("fdAT", append(binary.BigEndian.AppendUint32(nil, sequence), chunksOf(one, "IDAT")...)))
		sequence++
	}
	b.Write(encodeChunk("IEND", nil))
	return b.Bytes()
}

// colours names the colour of each pixel of one row.
func colours(im *picture.Image, names map[[3]byte]string) (row string) {
	for x := range im.Width {
		row += names[[3]byte(im.Pix[3*x:3*x+3])]
	}
	return row
}

// Pictures of an animation that fill a part of the canvas are put where they belong, and leave
// behind what they say.
func TestAnimationsAreComposed(t *testing.T) {
	red, green, blue := color.NRGBA{255, 0, 0, 255}, color.NRGBA{0, 255, 0, 255}, color.NRGBA{0, 0, 255, 255}
	names := map[[3]byte]string{{255, 0, 0}: "R", {0, 255, 0}: "G", {0, 0, 255}: "B", {0, 0, 0}: "."}
	all := image.Rect(0, 0, 4, 1)
	for _, c := range []struct {
		name   string
		second piece
		want   []string // of three pictures: red, the second, and blue in the last pixel
	}{
		{"kept", piece{image.Rect(1, 0, 3, 1), green, disposeNothing, blendSource}, []string{"RRRR", "RGGR", "RGGB"}},
		{"background", piece{image.Rect(1, 0, 3, 1), green, disposeBackground, blendSource}, []string{"RRRR", "RGGR", "R..B"}},
		{"previous", piece{image.Rect(1, 0, 3, 1), green, disposePrevious, blendSource}, []string{"RRRR", "RGGR", "RRRB"}},
		{"over", piece{image.Rect(1, 0, 3, 1), color.NRGBA{0, 255, 0, 0}, disposeNothing, blendOver}, []string{"RRRR", "RRRR", "RRRB"}},
	} {
		path := filepath.Join(t.TempDir(), "v.png")
		raw := animate(t, 4, 1, []piece{{at: all, c: red}, c.second, {at: image.Rect(3, 0, 4, 1), c: blue}})
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
		v, err := Open(path)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if v.FPS != 100 {
			t.Errorf("%s: %g frames a second", c.name, v.FPS)
		}
		for _, i := range []int{2, 0, 1, 2} {
			im, err := v.Frame(i)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if got := colours(im, names); got != c.want[i] {
				t.Errorf("%s: picture %d is %s, want %s", c.name, i, got, c.want[i])
			}
		}
	}
}

// Frames are in the order of the numbers in their names, and what is no picture is left out with a
// word.
func TestFoldersAreInOrder(t *testing.T) {
	dir := t.TempDir()
	for name, level := range map[string]byte{"f10.png": 3, "f9.PNG": 2, "f2.jpg": 1, "f001.png": 0} {
		raw := encodePNG(t, 8, 8, color.NRGBA{level * 40, 0, 0, 255})
		if strings.HasSuffix(name, "jpg") {
			decoded, err := png.Decode(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := jpeg.Encode(&b, decoded, nil); err != nil {
				t.Fatal(err)
			}
			raw = b.Bytes()
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"readme.txt", ".hidden.png"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	v, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "readme.txt") || v.Frames != 4 || v.FPS != 0 {
		t.Errorf("%+v", v)
	}
	for i := range v.Frames {
		im, err := v.Frame(i)
		if err != nil {
			t.Fatal(err)
		}
		if level := int(im.Pix[0]); level < 40*i-3 || level > 40*i+3 {
			t.Errorf("frame %d has level %d, want %d", i, level, 40*i)
		}
	}
}

// Names with numbers are ordered by them, and the order is total.
func TestNumberedNames(t *testing.T) {
	names := []string{"a", "a0", "a00", "a1", "a01", "a2", "a10", "a10b", "a11", "b2c1", "b2c10"}
	shuffled := slices.Clone(names)
	slices.Reverse(shuffled)
	slices.SortFunc(shuffled, compareNumbered)
	if slices.Index(shuffled, "a2") > slices.Index(shuffled, "a10") || slices.Index(shuffled, "b2c1") > slices.Index(shuffled, "b2c10") {
		t.Errorf("%q", shuffled)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[ab0-2]{0,5}`)
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		if compareNumbered(a, b) != -compareNumbered(b, a) || (compareNumbered(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q compare as %d and %d", a, b, compareNumbered(a, b), compareNumbered(b, a))
		}
		if compareNumbered(a, b) <= 0 && compareNumbered(b, c) <= 0 && compareNumbered(a, c) > 0 {
			t.Fatalf("%q, %q and %q are in no order", a, b, c)
		}
	})
}

// What is no video is refused by what it is, and what is wrong with one is said.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	red := color.NRGBA{255, 0, 0, 255}
	animation := animate(t, 4, 1, []piece{{at: image.Rect(0, 0, 4, 1), c: red}, {at: image.Rect(0, 0, 4, 1), c: red}})
	beyond := animate(t, 4, 1, []piece{{at: image.Rect(0, 0, 4, 1), c: red}, {at: image.Rect(2, 0, 5, 1), c: red}})
	writeVideo(t, filepath.Join(dir, "v.avi"), 16, 16, 3)
	avi, err := os.ReadFile(filepath.Join(dir, "v.avi"))
	if err != nil {
		t.Fatal(err)
	}
	write("sizes/1.png", encodePNG(t, 8, 8, red))
	write("sizes/2.png", encodePNG(t, 8, 9, red))
	write("empty/readme", nil)
	write("cut/1.png", encodePNG(t, 8, 8, red)[:40])
	for _, c := range []struct {
		path string
		kind error
		says []string
	}{
		{dir + "/none", userfile.ErrAbsent, nil},
		{write("zero", nil), ErrFormat, []string{"empty", "ffmpeg"}},
		{write("v.mp4", []byte("\x00\x00\x00\x18ftypisom\x00\x00\x00\x00")), ErrFormat, []string{"MP4", "ffmpeg -i VIDEO"}},
		{write("still.png", encodePNG(t, 8, 8, red)), ErrFormat, []string{"one picture", "--image"}},
		{write("still.jpg", []byte{0xff, 0xd8, 0xff, 0xe0, 0, 0}), ErrFormat, []string{"one picture"}},
		{write("half.png", animation[:len(animation)-30]), ErrBroken, []string{"ends in the middle"}},
		{write("beyond.png", beyond), ErrBroken, []string{"picture 1"}},
		{write("half.avi", avi[:len(avi)/2]), ErrBroken, []string{"ends behind"}},
		{write("other.avi", bytes.ReplaceAll(avi, []byte("MJPG"), []byte("H264"))), ErrFormat, []string{"H264", "Motion JPEG"}},
		{write("none.avi", bytes.ReplaceAll(avi, []byte("00dc"), []byte("00xx"))), ErrFrames, []string{"0 frames"}},
		{dir + "/sizes", ErrFrames, []string{"8x9", "8x8", "frame 1"}},
		{dir + "/empty", ErrFrames, []string{"no pictures", ".webp"}},
		{dir + "/cut", picture.ErrTruncated, []string{"1.png"}},
	} {
		_, err := Open(c.path)
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", filepath.Base(c.path), err, c.kind)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", filepath.Base(c.path), err, s)
			}
		}
	}
}

// Whatever bytes a file has, it is a video of which every frame is a picture of its size or an
// error, or it is refused with an error of one of the kinds.
func FuzzOpen(f *testing.F) {
	red := color.NRGBA{255, 0, 0, 255}
	f.Add(animate(f, 4, 2, []piece{{at: image.Rect(0, 0, 4, 2), c: red}, {at: image.Rect(1, 0, 3, 1), c: red, dispose: disposePrevious, blend: blendOver}}))
	path := filepath.Join(f.TempDir(), "v.avi")
	writeVideo(f, path, 8, 8, 2)
	avi, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(avi)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := openFile(bytes.NewReader(b), int64(len(b)), "x")
		if err != nil {
			for _, kind := range []error{ErrFormat, ErrBroken, ErrFrames, picture.ErrFormat, picture.ErrTruncated, picture.ErrBroken, picture.ErrUnsupported, picture.ErrTooManyPixels} {
				if errors.Is(err, kind) {
					return
				}
			}
			t.Fatalf("an error of no kind: %v", err)
		}
		if v.Frames < 1 || v.Width < 1 || v.Height < 1 {
			t.Fatalf("%+v", v)
		}
		if v.Width*v.Height > 1<<16 {
			return // as large as its header says, and slow to draw
		}
		for i := range min(v.Frames, 4) {
			if im, err := v.Frame(i); err == nil && (im.Width != v.Width || im.Height != v.Height || len(im.Pix) != 3*v.Width*v.Height) {
				t.Fatalf("frame %d: %dx%d with %d bytes of %+v", i, im.Width, im.Height, len(im.Pix), v)
			}
		}
	})
}
