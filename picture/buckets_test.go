package picture

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Sizes as diffusers 0.42.1's HunyuanVideo15ImageProcessor chooses them, in multiples of 16.
func TestBucketSize(t *testing.T) {
	for _, c := range [][5]int{ // the image's, the base, the video's
		{16, 9, 640, 848, 480}, {16, 9, 960, 1280, 720}, {9, 16, 640, 480, 848}, {1, 1, 640, 640, 640}, {71, 45, 48, 48, 32}, {1024, 768, 640, 720, 544},
		{3000, 1000, 960, 1632, 560}, {333, 1000, 640, 368, 1104}, {640, 641, 640, 640, 640}, {71, 45, 640, 800, 512}, {1920, 1080, 960, 1280, 720}, {100, 399, 640, 320, 1264},
	} {
		if w, h := BucketSize(c[0], c[1], c[2], 16); w != c[3] || h != c[4] {
			t.Errorf("%dx%d from %d: %dx%d, want %dx%d", c[0], c[1], c[2], w, h, c[3], c[4])
		}
	}
	// The release's code fails on longer images than its longest sizes.
	if w, h := BucketSize(5000, 1000, 640, 16); w != 4*h {
		t.Errorf("a long image becomes %dx%d", w, h)
	}
}

// A size is one of the multiples of the step, within the area, whatever the image.
func TestBucketSizeIsLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.SampledFrom([]int{8, 16, 32}).Draw(t, "step")
		base := step * rapid.IntRange(1, 60).Draw(t, "steps")
		w, h := BucketSize(rapid.IntRange(1, 5000).Draw(t, "width"), rapid.IntRange(1, 5000).Draw(t, "height"), base, step)
		if w < step || h < step || w%step != 0 || h%step != 0 || w*h > base*base || max(w, h) > 4*min(w, h) {
			t.Errorf("%dx%d of base %d and step %d", w, h, base, step)
		}
	})
}

// What is cut to a size is the middle of the whole image resized to fill it.
func TestFillCropped(t *testing.T) {
	im := &Image{Width: 71, Height: 45, Pix: make([]byte, 3*71*45)}
	for i := range im.Pix {
		im.Pix[i] = byte(i * 7 % 251)
	}
	for _, c := range [][4]int{{48, 32, 50, 32}, {32, 48, 75, 48}, {64, 16, 64, 40}, {71, 45, 71, 45}} {
		whole, got := im.Resize(c[2], c[3], Lanczos), im.FillCropped(c[0], c[1])
		if got.Width != c[0] || got.Height != c[1] {
			t.Fatalf("%dx%d, want %dx%d", got.Width, got.Height, c[0], c[1])
		}
		left, top := c[2]/2-c[0]/2, c[3]/2-c[1]/2
		for y := range c[1] {
			if want := whole.Pix[3*((top+y)*c[2]+left):][:3*c[0]]; !slices.Equal(got.Pix[3*y*c[0]:][:3*c[0]], want) {
				t.Fatalf("%dx%d: row %d differs", c[0], c[1], y)
			}
		}
	}
}
