// Package stills makes the small pictures of a video that galleries show, of its frames as they
// are decoded: a thumbnail and a sheet of frames.
//
// The thumbnail is the middle frame, at most 320 pixels wide and high. The sheet has up to 25
// frames, as far from each other as can be, in rows of five from the first to the last, each at
// most 160 pixels wide and high. Both are JPEG, quality 85, in the aspect of the video. Frames of
// smaller videos are not enlarged.
package stills

import (
	"image"
	"image/jpeg"
	"os"
	"path/filepath"

	"golang.org/x/image/draw"

	"weft/fault"
	"weft/internal/userfile"
)

// ErrFrames: frames of another size or number than was said. The fields are Frames.
var ErrFrames = fault.NewKind("stills-frames")

// Frames is how many frames, or values of one, came, and how many were to come.
type Frames struct {
	Came int `json:"came"`
	Want int `json:"want"`
}

// Names of the files that Write makes.
const (
	Thumbnail   = "thumbnail.jpg"
	SpriteSheet = "spritesheet.jpg"
	// ContentType of both.
	ContentType = "image/jpeg"
)

const (
	thumbnailEdge = 320
	tileEdge      = 160
	columns       = 5
	maxTiles      = columns * columns
	quality       = 85
)

// Stills collects the pictures of one video.
type Stills struct {
	frames, width, height int
	next                  int // the frame that comes next
	whole                 *image.RGBA
	thumbnail, sheet      *image.RGBA
	tile                  image.Point
}

// New begins the pictures of a video of so many frames of width x height pixels. Error: ErrFrames
// for a number below 1.
func New(frames, width, height int) (*Stills, error) {
	if n := min(frames, width, height); n < 1 {
		return nil, fault.New(ErrFrames, Frames{n, 1}, "%d frames of %dx%d: want at least one frame and one pixel", frames, width, height)
	}
	s := &Stills{frames: frames, width: width, height: height, whole: image.NewRGBA(image.Rect(0, 0, width, height)), tile: shrink(width, height, tileEdge)}
	n := min(frames, maxTiles)
	cols := min(n, columns)
	s.sheet = image.NewRGBA(image.Rect(0, 0, cols*s.tile.X, (n+columns-1)/columns*s.tile.Y))
	for i := 3; i < len(s.sheet.Pix); i += 4 {
		s.sheet.Pix[i] = 255 // where the last row is not full it is black
	}
	return s, nil
}

// shrink is the size in which width x height fits into a square, not larger than it is.
func shrink(width, height, edge int) image.Point {
	largest := max(width, height)
	if largest <= edge {
		return image.Pt(width, height)
	}
	scaled := func(n int) int { return max(1, (n*edge+largest/2)/largest) }
	return image.Pt(scaled(width), scaled(height))
}

// Add takes the next frame: (height, width, 3) in [0, 1]. Error: ErrFrames.
func (s *Stills) Add(frame []float32) error {
	if want := 3 * s.width * s.height; len(frame) != want {
		return fault.New(ErrFrames, Frames{len(frame), want}, "a frame of %d values: want %d for %dx%d", len(frame), want, s.width, s.height)
	}
	if s.next == s.frames {
		return fault.New(ErrFrames, Frames{s.frames + 1, s.frames}, "more than %d frames came", s.frames)
	}
	at := s.next
	s.next++
	tile, shown := s.tileOf(at)
	isThumbnail := at == s.frames/2
	if !shown && !isThumbnail {
		return nil
	}
	for i := range s.width * s.height {
		for c := range 3 {
			s.whole.Pix[4*i+c] = uint8(255*min(max(frame[3*i+c], 0), 1) + 0.5)
		}
		s.whole.Pix[4*i+3] = 255
	}
	if shown {
		corner := image.Pt(tile%columns*s.tile.X, tile/columns*s.tile.Y)
		scale(s.sheet, image.Rectangle{corner, corner.Add(s.tile)}, s.whole)
	}
	if isThumbnail {
		size := shrink(s.width, s.height, thumbnailEdge)
		s.thumbnail = image.NewRGBA(image.Rectangle{Max: size})
		scale(s.thumbnail, s.thumbnail.Bounds(), s.whole)
	}
	return nil
}

// tileOf is the place of a frame on the sheet, and whether it is there.
func (s *Stills) tileOf(frame int) (tile int, shown bool) {
	n := min(s.frames, maxTiles)
	for i := range n {
		if n == 1 && frame == 0 || n > 1 && i*(s.frames-1)/(n-1) == frame {
			return i, true
		}
	}
	return 0, false
}

func scale(to *image.RGBA, where image.Rectangle, from *image.RGBA) {
	draw.CatmullRom.Scale(to, where, from, from.Bounds(), draw.Src, nil)
}

// Write writes both pictures to a folder and replaces those that are there. Error: ErrFrames
// where a frame is missing, and those of package userfile.
func (s *Stills) Write(dir string) error {
	if s.next != s.frames {
		return fault.New(ErrFrames, Frames{s.next, s.frames}, "%d frames came of %d", s.next, s.frames)
	}
	for name, im := range map[string]image.Image{Thumbnail: s.thumbnail, SpriteSheet: s.sheet} {
		err := userfile.Write(userfile.Output{Path: filepath.Join(dir, name), Force: true}, func(f *os.File) error {
			return jpeg.Encode(f, im, &jpeg.Options{Quality: quality})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
