package video

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	"os"

	"weft/fault"
)

// Motion JPEG in AVI: every frame is a JPEG. A RIFF of AVI holds its sizes in 32 bits, and
// readers stop trusting them at 1 or 2 GB. So a long video goes on in further RIFFs
// (OpenDML): each has an index of its own frames, and the first has the list of the
// indexes, in room that is kept for it. The first also has the old index, for old readers.

// riffBytes is how long a RIFF gets before the next begins. Tests make it short.
var riffBytes int64 = 1 << 30

// maxRIFFs is the room in the list of indexes.
const maxRIFFs = 256

const (
	jpegQuality = 95
	frameID     = "00dc" // stream 0, compressed picture
	indexID     = "ix00"
	keyFrame    = 0x10
)

// checkAVI finds a video that could be too long for the list of indexes, with frames as
// large as a JPEG gets.
func checkAVI(r Request) error {
	largest := 3*int64(r.Width)*int64(r.Height) + 1<<16
	if most := maxRIFFs * (riffBytes/largest - 1); int64(r.Frames) > most {
		return fault.New(ErrSize, Asked{Path: r.Path, Width: r.Width, Height: r.Height},
			"%d frames of %dx%d may not fit into an AVI: at most %d surely do", r.Frames, r.Width, r.Height, max(0, most))
	}
	return nil
}

// chunkPlace is where the data of a frame are, and how many.
type chunkPlace struct {
	at   int64
	size uint32
}

// aviWriter writes one RIFF after the other.
type aviWriter struct {
	plan    *Plan
	f       *os.File
	at      int64
	picture *image.RGBA
	buffer  bytes.Buffer

	riff, movi int64        // where the sizes of the RIFF and of its list of frames stand
	places     []chunkPlace // of this RIFF's frames
	indexes    []indexPlace
	frames     int
	inFirst    int // frames of the first RIFF
	largest    int
}

// indexPlace is where the index of a RIFF is, how long it is, and of how many frames.
type indexPlace struct {
	at           int64
	size, frames uint32
}

func beginAVI(p *Plan, f *os.File) (frameWriter, error) {
	w := &aviWriter{plan: p, f: f, picture: image.NewRGBA(image.Rect(0, 0, p.request.Width, p.request.Height))}
	return w, w.beginRIFF("AVI ")
}

// appendBytes writes behind what is there.
func (w *aviWriter) appendBytes(b []byte) error {
	n, err := w.f.Write(b)
	w.at += int64(n)
	return err
}

// beginRIFF begins a RIFF and its list of frames. The first has the header, which finishVideo
// writes again when the numbers in it are known.
func (w *aviWriter) beginRIFF(kind string) error {
	w.riff, w.places = w.at+4, w.places[:0]
	b := append([]byte("RIFF\x00\x00\x00\x00"), kind...)
	if kind == "AVI " {
		b = append(b, w.encodeHeader()...)
	}
	w.movi = w.at + int64(len(b)) + 4
	return w.appendBytes(append(b, "LIST\x00\x00\x00\x00movi"...))
}

func (w *aviWriter) writeFrame(pix []byte) error {
	setOpaque(w.picture, pix)
	w.buffer.Reset()
	if err := jpeg.Encode(&w.buffer, w.picture, &jpeg.Options{Quality: jpegQuality}); err != nil {
		return err
	}
	size := w.buffer.Len()
	// An index takes 8 and, in the first RIFF, 16 bytes a frame more.
	if indexed := int64(24 * (len(w.places) + 1)); len(w.places) > 0 && w.at+int64(size)+indexed+64-w.riff > riffBytes {
		if err := w.endRIFF(); err != nil {
			return err
		}
		if err := w.beginRIFF("AVIX"); err != nil {
			return err
		}
	}
	w.places = append(w.places, chunkPlace{w.at + 8, uint32(size)})
	w.frames, w.largest = w.frames+1, max(w.largest, size)
	return w.appendBytes(encodeChunk(frameID, w.buffer.Bytes()))
}

// endRIFF writes the indexes of a RIFF and the sizes that are known now.
func (w *aviWriter) endRIFF() error {
	if len(w.indexes) == maxRIFFs {
		return fault.New(ErrSize, Asked{Path: w.plan.Path}, "an AVI has at most %d parts of %d bytes", maxRIFFs, riffBytes)
	}
	index := little16(2, 1<<8) // two numbers an entry; 1: an index of frames
	index = append(index, little32(uint32(len(w.places)))...)
	index = append(index, frameID...)
	base := w.movi + 4 // where "movi" stands
	index = binary.LittleEndian.AppendUint64(index, uint64(base))
	index = append(index, 0, 0, 0, 0)
	for _, p := range w.places {
		index = append(index, little32(uint32(p.at-base), p.size)...)
	}
	index = encodeChunk(indexID, index)
	w.indexes = append(w.indexes, indexPlace{w.at, uint32(len(index)), uint32(len(w.places))})
	if err := w.appendBytes(index); err != nil {
		return err
	}
	if err := w.setSize(w.movi); err != nil {
		return err
	}
	if len(w.indexes) == 1 {
		w.inFirst = w.frames
		var old []byte
		for _, p := range w.places {
			old = append(append(old, frameID...), little32(keyFrame, uint32(p.at-8-base), p.size)...)
		}
		if err := w.appendBytes(encodeChunk("idx1", old)); err != nil {
			return err
		}
	}
	return w.setSize(w.riff)
}

// setSize writes the size of what begins behind it and ends here.
func (w *aviWriter) setSize(at int64) error {
	_, err := w.f.WriteAt(little32(uint32(w.at-at-4)), at)
	return err
}

func (w *aviWriter) finishVideo() error {
	if err := w.endRIFF(); err != nil {
		return err
	}
	_, err := w.f.WriteAt(w.encodeHeader(), int64(len("RIFF\x00\x00\x00\x00AVI ")))
	return err
}

// encodeHeader makes what comes before the frames. Its length does not depend on the numbers in it.
func (w *aviWriter) encodeHeader() []byte {
	r := w.plan.request
	width, height, largest := uint32(r.Width), uint32(r.Height), uint32(w.largest)
	// Microseconds a frame, bytes a second, padding, flags (has an index, its frames are all
	// whole), frames of this RIFF, initial frames, streams, buffer, width, height, reserved.
	micros := uint32(1e6*float64(r.Rate.Den)/float64(r.Rate.Num) + 0.5)
	main := encodeChunk("avih", little32(micros, 0, 0, 0x10|0x800, uint32(w.inFirst), 0, 1, largest, width, height, 0, 0, 0, 0))

	stream := []byte("vidsMJPG")
	// Flags, priority and language, initial frames, seconds and frames of the rate, start,
	// length, buffer, quality (none), size of a sample (they differ).
	stream = append(stream, little32(0, 0, 0, uint32(r.Rate.Den), uint32(r.Rate.Num), 0, uint32(w.frames), largest, 1<<32-1, 0)...)
	stream = append(stream, little16(0, 0, uint16(r.Width), uint16(r.Height))...)

	// BITMAPINFOHEADER: its length, the size, a plane of 24 bits, the codec, bytes a picture.
	format := little32(40, width, height)
	format = append(format, little16(1, 24)...)
	format = append(append(format, "MJPG"...), little32(3*width*height, 0, 0, 0, 0)...)

	streams := encodeList("strl", encodeChunk("strh", stream), encodeChunk("strf", format), encodeChunk("indx", w.listOfIndexes()))
	extended := encodeList("odml", encodeChunk("dmlh", append(little32(uint32(w.frames)), make([]byte, 244)...)))
	b := encodeList("hdrl", main, streams, extended)
	software := append([]byte("weft "+asciiOnly(r.Made.Weft)), 0)
	return append(b, encodeList("INFO", encodeChunk("ISFT", software), encodeChunk("ICMT", append([]byte(w.plan.comment), 0)))...)
}

// listOfIndexes says where the index of each RIFF is.
func (w *aviWriter) listOfIndexes() []byte {
	b := little16(4, 0) // four numbers an entry; 0: an index of indexes
	b = append(b, little32(uint32(len(w.indexes)))...)
	b = append(append(b, frameID...), make([]byte, 12)...)
	for _, x := range w.indexes {
		b = binary.LittleEndian.AppendUint64(b, uint64(x.at))
		b = append(b, little32(x.size, x.frames)...)
	}
	return append(b, make([]byte, 16*(maxRIFFs-len(w.indexes)))...)
}

// encodeChunk makes a chunk: a name, a size and data, with a byte behind data of odd length.
func encodeChunk(id string, data []byte) []byte {
	b := append([]byte(id), little32(uint32(len(data)))...)
	b = append(b, data...)
	if len(data)%2 != 0 {
		b = append(b, 0)
	}
	return b
}

// encodeList makes a list of chunks, which is a chunk itself.
func encodeList(kind string, chunks ...[]byte) []byte {
	return encodeChunk("LIST", append([]byte(kind), bytes.Join(chunks, nil)...))
}

func little32(values ...uint32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func little16(values ...uint16) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	return b
}
