package footage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"weft/fault"
	"weft/internal/printable"
	"weft/internal/userfile"
	"weft/picture"
)

// What can be wrong with a video. The fields are File. Errors of packages userfile and picture say
// that a file or a frame cannot be read.
var (
	// ErrFormat: it is in no form that is read.
	ErrFormat = fault.NewKind("video-format")
	// ErrBroken: it contradicts its format, or ends in the middle.
	ErrBroken = fault.NewKind("video-broken")
	// ErrFrames: it has no frames, too many, or frames of several sizes.
	ErrFrames = fault.NewKind("video-frames")
)

// File is the video that an error is about, and what it is taken for.
type File struct {
	Name   string `json:"name"`
	Format string `json:"format,omitempty"`
}

// MaxFrames bounds the frames of a video, a little over an hour at 16 a second.
const MaxFrames = 1 << 16

// Footage is a video whose frames can be read. Between two frames no file is open, so that many
// videos may be waited for at once.
type Footage struct {
	Name                  string // of the file or folder, without what it lies in
	Frames, Width, Height int    // each 1 or more
	FPS                   float64
	// Sum is the SHA-256, in hex, of all bytes that frames are read of, so that whoever goes on
	// with unfinished work can tell another video.
	Sum string
	// Notes say what of the video is not in its frames.
	Notes []string

	source source
}

// source is a form of video.
type source interface {
	frame(i int) (*picture.Image, error)
}

// Open opens the video that a person names. Errors: ErrFormat, ErrBroken, ErrFrames, those of
// userfile.Open and of picture.ReadHeader.
func Open(path string) (*Footage, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return openFolder(path)
	}
	f, size, err := userfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	named := &namedFile{path: path, open: f}
	defer func() { named.open = nil }()
	v, err := openFile(named, size, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size)); err != nil {
		return nil, fault.New(ErrBroken, File{Name: v.Name}, "%s cannot be read: %v", printable.Text(v.Name), err)
	}
	v.Sum = hex.EncodeToString(h.Sum(nil))
	return v, nil
}

// namedFile is a file that is open only while it is read.
type namedFile struct {
	path string
	open *os.File // for as long as the video is opened; nil later
}

func (n *namedFile) ReadAt(b []byte, at int64) (int, error) {
	if n.open != nil {
		return n.open.ReadAt(b, at)
	}
	f, _, err := userfile.Open(n.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(b, at)
}

// openFile opens a video that is one file of so many bytes.
func openFile(f io.ReaderAt, size int64, name string) (*Footage, error) {
	begin := make([]byte, min(size, 256))
	if _, err := f.ReadAt(begin, 0); err != nil {
		return nil, fault.New(ErrBroken, File{Name: name}, "%s cannot be read: %v", printable.Text(name), err)
	}
	switch {
	case bytes.HasPrefix(begin, []byte(pngSignature)):
		return openAPNG(f, size, name)
	case len(begin) >= 12 && string(begin[:4]) == "RIFF" && string(begin[8:12]) == "AVI ":
		return openAVI(f, size, name)
	}
	is := picture.NameForeign(begin)
	if _, err := picture.ReadHeader(begin, name); err == nil || !errors.Is(err, picture.ErrFormat) {
		is = "one picture"
	}
	return nil, fault.New(ErrFormat, File{name, is},
		"%s is %s: a folder of pictures, an animated PNG and Motion JPEG in AVI are read; this makes a folder of a video: mkdir frames && ffmpeg -i VIDEO frames/%%05d.png",
		printable.Text(name), is)
}

// Frame decodes a frame, from 0 on. Errors: those of picture.Decode, ErrFrames for a number that
// is no frame's or a frame of another size than the first, ErrBroken.
func (v *Footage) Frame(i int) (*picture.Image, error) {
	if i < 0 || i >= v.Frames {
		return nil, fault.New(ErrFrames, File{Name: v.Name}, "frame %d of %s: it has frames 0 to %d", i, printable.Text(v.Name), v.Frames-1)
	}
	im, err := v.source.frame(i)
	if err != nil {
		return nil, err
	}
	if im.Width != v.Width || im.Height != v.Height {
		return nil, otherSize(v, i, im.Width, im.Height)
	}
	return im, nil
}

// otherSize is the error for a frame whose size is not the first one's.
func otherSize(v *Footage, i, width, height int) error {
	return fault.New(ErrFrames, File{Name: v.Name}, "frame %d of %s has %dx%d pixels and the first one %dx%d: want one size",
		i, printable.Text(v.Name), width, height, v.Width, v.Height)
}

// checkCount refuses a video without frames or with too many.
func checkCount(name, format string, frames int) error {
	if frames < 1 || frames > MaxFrames {
		return fault.New(ErrFrames, File{name, format}, "%s has %d frames: want 1 to %d", printable.Text(name), frames, MaxFrames)
	}
	return nil
}

// broken makes the error of a file that contradicts its format.
func broken(name, format, why string) error {
	return fault.New(ErrBroken, File{name, format}, "%s cannot be read as %s: %s; copy or make it again", printable.Text(name), format, why)
}
