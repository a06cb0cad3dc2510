package footage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"weft/fault"
	"weft/internal/printable"
	"weft/picture"
)

const aviFormat = "AVI"

// avi is a video of Motion JPEG: every frame is a JPEG in a chunk of its own. Frames are found by
// going over all chunks, so that neither index is believed.
type avi struct {
	f      io.ReaderAt
	name   string
	places []chunkPlace
}

// chunkPlace is where the data of a frame are.
type chunkPlace struct {
	at   int64
	size uint32
}

// aviReader goes over the chunks of a file.
type aviReader struct {
	*avi
	end        int64
	stream     string // what the frames' chunks begin with: "00" is stream 0
	seen       int    // streams so far
	fps        float64
	compressed string // how the frames are
}

func openAVI(f io.ReaderAt, size int64, name string) (*Footage, error) {
	r := &aviReader{avi: &avi{f: f, name: name}, end: size}
	if err := r.readChunks(0, size, 0); err != nil {
		return nil, err
	}
	if r.stream == "" {
		return nil, broken(name, aviFormat, "it has no stream of video")
	}
	if r.compressed != "MJPG" {
		return nil, fault.New(ErrFormat, File{name, aviFormat}, "%s has frames of the form %q: of AVI Motion JPEG alone is read", printable.Text(name), printable.Text(r.compressed))
	}
	if err := checkCount(name, aviFormat, len(r.places)); err != nil {
		return nil, err
	}
	first, err := r.frame(0)
	if err != nil {
		return nil, err
	}
	return &Footage{Name: name, Frames: len(r.places), Width: first.Width, Height: first.Height, FPS: r.fps, source: r.avi}, nil
}

// maxDepth is how many lists may stand in one another.
const maxDepth = 8

// readChunks reads the chunks from one place in the file to another.
func (r *aviReader) readChunks(at, end int64, depth int) error {
	if depth > maxDepth {
		return broken(r.name, aviFormat, fmt.Sprintf("it has lists within lists, %d deep", depth))
	}
	for at+8 <= end {
		head, err := r.read(at, 8)
		if err != nil {
			return err
		}
		id, size := string(head[:4]), int64(binary.LittleEndian.Uint32(head[4:]))
		if at+8+size > end {
			return broken(r.name, aviFormat, fmt.Sprintf("a chunk of %d bytes at byte %d of %d ends behind what it is in", size, at, r.end))
		}
		switch {
		case (id == "RIFF" || id == "LIST") && size >= 4:
			err = r.readChunks(at+12, at+8+size, depth+1)
		case id == "strh":
			err = r.readStream(at+8, size)
		case id == "strf" && r.compressed == "" && r.stream != "":
			err = r.readForm(at+8, size)
		case len(id) == 4 && r.stream != "" && id[:2] == r.stream && (id[2:] == "dc" || id[2:] == "db"):
			if size > math.MaxInt32 {
				return broken(r.name, aviFormat, fmt.Sprintf("a frame of %d bytes", size))
			}
			if r.places = append(r.places, chunkPlace{at + 8, uint32(size)}); len(r.places) > MaxFrames {
				return checkCount(r.name, aviFormat, len(r.places))
			}
		}
		if err != nil {
			return err
		}
		at += 8 + size + size%2
	}
	return nil
}

// read reads bytes of the file.
func (r *aviReader) read(at, n int64) ([]byte, error) {
	b := make([]byte, n)
	if _, err := r.f.ReadAt(b, at); err != nil {
		return nil, broken(r.name, aviFormat, fmt.Sprintf("%d bytes at byte %d: %v", n, at, err))
	}
	return b, nil
}

// readStream reads the header of a stream: what it has, and its rate. The first of video is taken.
func (r *aviReader) readStream(at, size int64) error {
	n := r.seen
	r.seen++
	if size < 32 || r.stream != "" {
		return nil
	}
	b, err := r.read(at, 32)
	if err != nil || string(b[:4]) != "vids" {
		return err
	}
	r.stream = fmt.Sprintf("%02d", n)
	if scale, rate := binary.LittleEndian.Uint32(b[20:]), binary.LittleEndian.Uint32(b[24:]); scale > 0 {
		r.fps = float64(rate) / float64(scale)
	}
	return nil
}

// readForm reads how the frames of the stream are compressed.
func (r *aviReader) readForm(at, size int64) error {
	if size < 20 {
		return broken(r.name, aviFormat, "its format of pictures is cut short")
	}
	b, err := r.read(at, 20)
	if err == nil {
		r.compressed = string(bytes.ToUpper(b[16:20]))
	}
	return err
}

func (v *avi) frame(i int) (*picture.Image, error) {
	p := v.places[i]
	if p.size == 0 {
		return nil, fault.New(ErrFormat, File{v.name, aviFormat}, "frame %d of %s is dropped: the frame before stands for it, which is not read", i, printable.Text(v.name))
	}
	b := make([]byte, p.size)
	if _, err := v.f.ReadAt(b, p.at); err != nil {
		return nil, broken(v.name, aviFormat, fmt.Sprintf("frame %d: %v", i, err))
	}
	im, _, err := picture.Decode(b, fmt.Sprintf("frame %d of %s", i, v.name), 0)
	return im, err
}
