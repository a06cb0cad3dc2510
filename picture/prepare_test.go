package picture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/checkpoint"
	"weft/tensor"
)

// comparePlanes holds a preparation against what a release's code made.
func comparePlanes(t *testing.T, what string, got *Planes, want *tensor.Tensor) {
	t.Helper()
	if !slices.Equal(want.Shape, []int{1, 3, got.Height, got.Width}) {
		t.Errorf("%s: %dx%d, want shape %v", what, got.Width, got.Height, want.Shape)
		return
	}
	values, err := want.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if math.Abs(float64(got.Data[i])-float64(v)) > 2e-6 {
			t.Errorf("%s: value %d is %v, want %v", what, i, got.Data[i], v)
			return
		}
	}
}

// readTensors reads a file of a release's values. Package modeltest has a like function, but
// stands on the library, which reads pictures itself.
func readTensors(t *testing.T, path string) map[string]*tensor.Tensor {
	t.Helper()
	ts, _, err := checkpoint.LoadFile(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

func TestPreparationsAreThoseOfTheReleases(t *testing.T) {
	for _, test := range []struct {
		fixture, tensor string
		prepare         func(im *Image) *Planes
	}{
		{"wan21_i2v", "image", preparedFor(DiffusersWan)},
		{"wan21_i2v", "clip_pixels", DiffusersCLIP(56).Prepare},
		{"wan21_i2v", "official.image", preparedFor(OfficialWan)},
		{"wan21_i2v", "official.clip_pixels", OfficialCLIP(56).Prepare},
		{"wan22_ti2v_5b", "i2v.image", preparedFor(DiffusersWan)},
	} {
		im, notes, err := Open("testdata/pipelines/"+test.fixture+".png", 0)
		if err != nil || len(notes) > 0 {
			t.Fatal(err, notes)
		}
		comparePlanes(t, test.fixture+" "+test.tensor, test.prepare(im), readTensors(t, "testdata/pipelines/"+test.fixture+".safetensors")[test.tensor])
	}
}

func preparedFor(p Preparation) func(*Image) *Planes {
	return func(im *Image) *Planes {
		planes, _ := p.Prepare(im, "--image", Frame{64, 32, 16, 16}, FitRelease)
		return planes
	}
}

func TestOfficialSizesAreThoseOfWan(t *testing.T) {
	b, err := os.ReadFile("testdata/sizes.json")
	if err != nil {
		t.Fatal(err)
	}
	var lines []struct {
		Image, Wan, TI2V [2]int
		Area             int
	}
	if err := json.Unmarshal(b, &lines); err != nil || len(lines) == 0 {
		t.Fatal(len(lines), err)
	}
	for _, l := range lines {
		if w, h := OfficialWanSize(l.Image[0], l.Image[1], l.Area, 16, 16); [2]int{w, h} != l.Wan {
			t.Errorf("Wan's size of %v in %d pixels: %dx%d, want %v", l.Image, l.Area, w, h, l.Wan)
		}
		if w, h := OfficialTI2VSize(l.Image[0], l.Image[1], l.Area, 32, 32); [2]int{w, h} != l.TI2V {
			t.Errorf("TI2V's size of %v in %d pixels: %dx%d, want %v", l.Image, l.Area, w, h, l.TI2V)
		}
	}
}

func drawImage(t *rapid.T, most int) *Image {
	w, h := rapid.IntRange(1, most).Draw(t, "width"), rapid.IntRange(1, most).Draw(t, "height")
	return &Image{w, h, rapid.SliceOfN(rapid.Byte(), 3*w*h, 3*w*h).Draw(t, "pixels")}
}

// A part of a resized picture is the part of the picture resized as a whole.
func TestWindowsArePartsOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := drawImage(t, 24)
		w, h := rapid.IntRange(1, 40).Draw(t, "to width"), rapid.IntRange(1, 40).Draw(t, "to height")
		part := window{x: rapid.IntRange(0, w-1).Draw(t, "x"), y: rapid.IntRange(0, h-1).Draw(t, "y")}
		part.width = rapid.IntRange(1, w-part.x).Draw(t, "part width")
		part.height = rapid.IntRange(1, h-part.y).Draw(t, "part height")
		f := rapid.SampledFrom([]Filter{"", Bilinear, Bicubic, Lanczos}).Draw(t, "filter")
		p := Preparation{Filter: f}
		whole, got := p.resizeWindow(im, w, h, window{0, 0, w, h}), p.resizeWindow(im, w, h, part)
		for c := range 3 {
			for y := range part.height {
				a := got.Data[(c*part.height+y)*part.width:][:part.width]
				b := whole.Data[(c*h+part.y+y)*w+part.x:][:part.width]
				if !slices.Equal(a, b) {
					t.Fatalf("channel %d, row %d: %v, want %v", c, y, a, b)
				}
			}
		}
	})
}

// A picture of one colour keeps it, but for the rounding of weights in f32, whatever size
// and fit; padding is black.
func TestFlatPicturesStayFlat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 60).Draw(t, "width"), rapid.IntRange(1, 60).Draw(t, "height")
		v := rapid.Byte().Draw(t, "value")
		im := &Image{w, h, bytes.Repeat([]byte{v}, 3*w*h)}
		frame := Frame{rapid.IntRange(1, 60).Draw(t, "to width"), rapid.IntRange(1, 60).Draw(t, "to height"), 1, 1}
		fit := rapid.SampledFrom(Fits).Draw(t, "fit")
		p := rapid.SampledFrom([]Preparation{DiffusersWan, OfficialWan, OfficialTI2V}).Draw(t, "preparation")
		got, _ := p.Prepare(im, "--image", frame, fit)
		if got.Width != frame.Width || got.Height != frame.Height || len(got.Data) != 3*frame.Width*frame.Height {
			t.Fatalf("%dx%d, %d values", got.Width, got.Height, len(got.Data))
		}
		want := float64(signedOf(v))
		for i, x := range got.Data {
			if math.Abs(float64(x)-want) > 2e-6 && !(fit == FitPad && x == -1) {
				t.Fatalf("value %d is %v, want %v", i, x, want)
			}
		}
	})
}

// Each way to fit, on a picture that is left half red and right half blue.
func TestFits(t *testing.T) {
	im := &Image{Width: 80, Height: 20}
	for range 20 {
		im.Pix = append(im.Pix, bytes.Repeat([]byte{255, 0, 0}, 40)...)
		im.Pix = append(im.Pix, bytes.Repeat([]byte{0, 0, 255}, 40)...)
	}
	for _, test := range []struct {
		p      Preparation
		fit    Fit
		corner [3]float32 // the first pixel
		note   string
	}{
		{DiffusersWan, FitRelease, [3]float32{1, -1, -1}, "squeezed to 50 % of its width"},
		{OfficialTI2V, FitRelease, [3]float32{1, -1, -1}, "50 % of its width is cut off"},
		{OfficialTI2V, FitStretch, [3]float32{1, -1, -1}, "squeezed to 50 % of its width"},
		{DiffusersWan, FitCrop, [3]float32{1, -1, -1}, "50 % of its width is cut off"},
		{OfficialWan, FitPad, [3]float32{-1, -1, -1}, "50 % of the frame, above and below, is black"},
	} {
		got, notes := test.p.Prepare(im, "--image", Frame{64, 32, 16, 16}, test.fit)
		n := 64 * 32
		for c, want := range test.corner {
			if math.Abs(float64(got.Data[c*n]-want)) > 0.1 {
				t.Errorf("%v %s: channel %d begins with %v, want %v", test.p, test.fit, c, got.Data[c*n], want)
			}
		}
		// The middle of the right half is blue, whatever the fit.
		if at := 16*64 + 48; got.Data[at] > -0.9 || got.Data[2*n+at] < 0.9 {
			t.Errorf("%v %s: at the right %v, %v", test.p, test.fit, got.Data[at], got.Data[2*n+at])
		}
		if len(notes) != 1 || !strings.Contains(notes[0], test.note) || !strings.Contains(notes[0], "nearer to its aspect are 80x16") {
			t.Errorf("%v %s: notes %q, want %q", test.p, test.fit, notes, test.note)
		}
	}
	if _, notes := DiffusersWan.Prepare(&Image{65, 32, make([]byte, 3*65*32)}, "--image", Frame{64, 32, 16, 16}, FitRelease); len(notes) > 0 {
		t.Errorf("an aspect off by 1.6 %%: %q", notes)
	}
	if _, err := ParseFit("cover"); !errors.Is(err, ErrFit) || !strings.Contains(err.Error(), "release, crop, pad, stretch") {
		t.Error(err)
	}
	if f, err := ParseFit("pad"); err != nil || f != FitPad {
		t.Error(f, err)
	}
}

// A picture that is a line needs no memory for what is cut off it.
func TestExtremeAspectsAreCutBeforeTheyAreComputed(t *testing.T) {
	for _, im := range []*Image{{1, 100_000, make([]byte, 300_000)}, {100_000, 1, make([]byte, 300_000)}} {
		if got := DiffusersCLIP(224).Prepare(im); got.Width != 224 || got.Height != 224 {
			t.Errorf("%dx%d", got.Width, got.Height)
		}
		if got, notes := OfficialTI2V.Prepare(im, "--image", Frame{64, 32, 32, 32}, FitRelease); got.Width != 64 || len(notes) != 1 {
			t.Errorf("%dx%d, %q", got.Width, got.Height, notes)
		}
	}
}
