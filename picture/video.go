package picture

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/printable"
	"weft/internal/userfile"
)

// ErrFrames: the pictures of a video differ in size, or there are none. The fields are FramesRefused.
var ErrFrames = fault.NewKind("control-frames")

// FramesRefused are a video and its first picture that does not fit.
type FramesRefused struct {
	Name  string `json:"name"`
	Frame string `json:"frame,omitempty"`
}

// Video is a video of someone's: pictures of one size, in order.
type Video struct {
	Width, Height int
	Frames        []*Image
	// Sum is a hash of the names of a folder's files and of all bytes that were read.
	Sum string
}

// MaxVideoPixels is how many pixels all pictures of a video have at most: 6 GB in memory.
const MaxVideoPixels = 1 << 31

// videoForms says what is read, for messages.
const videoForms = "a folder of pictures (PNG, JPEG, WebP), an animated PNG and an AVI of Motion JPEG are read"

// OpenVideo reads a video: a folder of pictures in the order of the numbers in their names, an
// animated PNG, an AVI of Motion JPEG, or one picture, which is a video of one frame. Other files
// are refused by what they are. maxPixels bounds the pixels of all frames together; 0 stands for
// MaxVideoPixels. Errors: ErrFormat, ErrTruncated, ErrBroken, ErrUnsupported, ErrTooManyPixels,
// ErrFrames, and those of userfile.Read.
func OpenVideo(path string, maxPixels int) (v *Video, notes []string, err error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return openFolder(path, maxPixels)
	}
	b, err := userfile.Read(path, maxFileBytes)
	if err != nil {
		return nil, nil, err
	}
	v, notes, err = DecodeVideo(b, filepath.Base(path), maxPixels)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(b)
	v.Sum = hex.EncodeToString(sum[:])
	return v, notes, nil
}

// DecodeVideo decodes a file of OpenVideo; Sum stays empty.
func DecodeVideo(b []byte, name string, maxPixels int) (*Video, []string, error) {
	c := &frameCollector{name: name, left: cmp.Or(maxPixels, MaxVideoPixels)}
	var err error
	switch {
	case isAnimatedPNG(b):
		err = c.addAnimation(b)
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "AVI ":
		err = c.addAVI(b)
	default:
		err = c.addPicture(b, name)
	}
	return c.finish(err)
}

// openFolder reads the pictures of a folder. Hidden files and weft's own video.json are passed over.
func openFolder(path string, maxPixels int) (*Video, []string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, nil, fault.New(userfile.ErrUnreadable, userfile.Path{Path: path}, "the folder %s cannot be read: %v", path, err)
	}
	var names []string
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && name != "video.json" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compareNumbered)
	c := &frameCollector{name: filepath.Base(path), left: cmp.Or(maxPixels, MaxVideoPixels)}
	sum := sha256.New()
	for _, name := range names {
		b, err := userfile.Read(filepath.Join(path, name), maxFileBytes)
		if err == nil {
			err = c.addPicture(b, name)
		}
		if err != nil {
			return nil, nil, err
		}
		sum.Write([]byte(name + "\x00"))
		sum.Write(b)
	}
	v, notes, err := c.finish(nil)
	if err == nil {
		v.Sum = hex.EncodeToString(sum.Sum(nil))
	}
	return v, notes, err
}

// compareNumbered orders names so that "frame_9.png" is before "frame_10.png": runs of digits
// are compared as numbers.
func compareNumbered(a, b string) int {
	for x, y := a, b; x != "" && y != ""; {
		numberX, restX := cutDigits(x)
		numberY, restY := cutDigits(y)
		if numberX != "" && numberY != "" {
			shortX, shortY := strings.TrimLeft(numberX, "0"), strings.TrimLeft(numberY, "0")
			if c := cmp.Or(cmp.Compare(len(shortX), len(shortY)), cmp.Compare(shortX, shortY)); c != 0 {
				return c
			}
			x, y = restX, restY
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// cutDigits cuts the digits off that a text begins with.
func cutDigits(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// frameCollector takes the pictures of a video in order.
type frameCollector struct {
	name  string
	left  int // pixels
	video Video
	notes []string
}

// addPicture adds a picture in a file.
func (c *frameCollector) addPicture(b []byte, name string) error {
	im, notes, err := Decode(b, name, max(1, c.left))
	if err != nil {
		return c.explainFormat(err, name)
	}
	c.notes = append(c.notes, notes...)
	return c.addFrame(im, name)
}

// explainFormat says of what is no picture which videos are read.
func (c *frameCollector) explainFormat(err error, name string) error {
	if f, ok := fault.Fields[File](err); ok && errors.Is(err, ErrFormat) {
		return fault.New(ErrFormat, f, "%s is %s, no video that is read: %s; ffmpeg -i FILE FOLDER/%%05d.png makes such a folder",
			printable.Text(name), f.Format, videoForms)
	}
	return err
}

// addFrame adds a picture that is decoded.
func (c *frameCollector) addFrame(im *Image, frame string) error {
	v := &c.video
	if len(v.Frames) == 0 {
		v.Width, v.Height = im.Width, im.Height
	}
	if im.Width != v.Width || im.Height != v.Height {
		return fault.New(ErrFrames, FramesRefused{c.name, frame}, "%s of %s has %dx%d pixels, and those before it %dx%d: the pictures of a video have one size",
			printable.Text(frame), printable.Text(c.name), im.Width, im.Height, v.Width, v.Height)
	}
	if c.left -= im.Width * im.Height; c.left < 0 {
		return fault.New(ErrTooManyPixels, Pixels{c.name, im.Width, im.Height, MaxVideoPixels},
			"%s has more than %d frames of %dx%d: such videos are not read whole; make it smaller or cut it first", printable.Text(c.name), len(v.Frames), im.Width, im.Height)
	}
	v.Frames = append(v.Frames, im)
	return nil
}

// finish gives the video, unless there is an error or no picture.
func (c *frameCollector) finish(err error) (*Video, []string, error) {
	if err != nil {
		return nil, nil, err
	}
	if len(c.video.Frames) == 0 {
		return nil, nil, fault.New(ErrFrames, FramesRefused{Name: c.name}, "%s has no picture: %s", printable.Text(c.name), videoForms)
	}
	return &c.video, uniqueNotes(c.notes), nil
}

// uniqueNotes keeps the first of notes that say the same of several pictures.
func uniqueNotes(notes []string) (out []string) {
	seen := map[string]int{}
	for _, n := range notes {
		_, what, _ := strings.Cut(n, " ")
		if seen[what]++; seen[what] == 1 {
			out = append(out, n)
		}
	}
	for i, n := range out {
		if _, what, _ := strings.Cut(n, " "); seen[what] > 1 {
			out[i] += " (and so are others of its pictures)"
		}
	}
	return out
}
