package stills

import (
	"errors"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"testing"
)

// grey is a frame of one shade.
func grey(width, height int, shade float32) []float32 {
	f := make([]float32, 3*width*height)
	for i := range f {
		f[i] = shade
	}
	return f
}

func open(t *testing.T, dir, name string) image.Image {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	im, err := jpeg.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// shadeAt is the red of a pixel, 0 to 255.
func shadeAt(im image.Image, x, y int) int {
	r, _, _, _ := im.At(x, y).RGBA()
	return int(r >> 8)
}

// Each frame of a video has its own shade, so that a tile tells which frame it shows.
func TestTilesAreTheFramesInOrder(t *testing.T) {
	for _, c := range []struct {
		frames, width, height int
		sheet, thumbnail      image.Point
		tiles                 []int // the frame that each shows
	}{
		{1, 64, 32, image.Pt(64, 32), image.Pt(64, 32), []int{0}},
		{2, 64, 32, image.Pt(128, 32), image.Pt(64, 32), []int{0, 1}},
		{9, 64, 32, image.Pt(320, 64), image.Pt(64, 32), []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		{81, 320, 640, image.Pt(400, 800), image.Pt(160, 320), []int{0, 3, 6, 10, 13, 16, 20, 23, 26, 30, 33, 36, 40, 43, 46, 50, 53, 56, 60, 63, 66, 70, 73, 76, 80}},
		{26, 1, 1, image.Pt(5, 5), image.Pt(1, 1), nil},
	} {
		s, err := New(c.frames, c.width, c.height)
		if err != nil {
			t.Fatal(err)
		}
		shadeOf := func(frame int) float32 { return float32(frame+1) / float32(c.frames+1) }
		for i := range c.frames {
			if err := s.Add(grey(c.width, c.height, shadeOf(i))); err != nil {
				t.Fatal(err)
			}
		}
		dir := t.TempDir()
		for range 2 { // the second time it replaces
			if err := s.Write(dir); err != nil {
				t.Fatal(err)
			}
		}
		sheet, thumbnail := open(t, dir, SpriteSheet), open(t, dir, Thumbnail)
		if sheet.Bounds().Size() != c.sheet || thumbnail.Bounds().Size() != c.thumbnail {
			t.Errorf("%d frames of %dx%d: sheet %v, thumbnail %v", c.frames, c.width, c.height, sheet.Bounds(), thumbnail.Bounds())
		}
		near := func(what string, got int, frame int) {
			t.Helper()
			if want := int(255 * shadeOf(frame)); got < want-2 || got > want+2 {
				t.Errorf("%d frames: %s is %d, want frame %d's %d", c.frames, what, got, frame, want)
			}
		}
		near("thumbnail", shadeAt(thumbnail, c.thumbnail.X/2, c.thumbnail.Y/2), c.frames/2)
		for i, frame := range c.tiles {
			near("tile", shadeAt(sheet, i%5*s.tile.X+s.tile.X/2, i/5*s.tile.Y+s.tile.Y/2), frame)
		}
	}
}

func TestFramesThatAreRefused(t *testing.T) {
	if _, err := New(0, 4, 4); !errors.Is(err, ErrFrames) {
		t.Error(err)
	}
	s, err := New(2, 4, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Add(grey(4, 3, 0)); !errors.Is(err, ErrFrames) {
		t.Error(err)
	}
	if err := s.Add(grey(4, 2, 0)); err != nil {
		t.Error(err)
	}
	if err := s.Write(t.TempDir()); !errors.Is(err, ErrFrames) {
		t.Error(err)
	}
	if err := s.Add(grey(4, 2, 1)); err != nil {
		t.Error(err)
	}
	if err := s.Add(grey(4, 2, 1)); !errors.Is(err, ErrFrames) {
		t.Error(err)
	}
}
