package video

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"

	"weft/fault"
	"weft/internal/userfile"
)

// pngWriter makes pictures of frames and takes them apart into the chunks of PNG.
type pngWriter struct {
	encoder png.Encoder
	picture *image.RGBA
	buffer  bytes.Buffer
}

func newPNGWriter(width, height int) *pngWriter {
	w := &pngWriter{picture: image.NewRGBA(image.Rect(0, 0, width, height))}
	// zlib's default level makes a frame with noise a fifth smaller and takes six times as
	// long: 0.30 against 0.05 s of one core at 832x480.
	w.encoder.CompressionLevel = png.BestSpeed
	w.encoder.BufferPool = &onePNGBuffer{}
	return w
}

// onePNGBuffer keeps the encoder's buffers from one frame to the next.
type onePNGBuffer struct{ b *png.EncoderBuffer }

func (o *onePNGBuffer) Get() *png.EncoderBuffer  { return o.b }
func (o *onePNGBuffer) Put(b *png.EncoderBuffer) { o.b = b }

// setOpaque copies a frame into a picture that has alpha, which encoders want.
func setOpaque(picture *image.RGBA, pix []byte) {
	for i, j := 0, 0; i < len(pix); i, j = i+3, j+4 {
		picture.Pix[j], picture.Pix[j+1], picture.Pix[j+2], picture.Pix[j+3] = pix[i], pix[i+1], pix[i+2], 255
	}
}

// imageData gives the compressed pixels of a frame, as they stand in the chunks IDAT.
func (w *pngWriter) imageData(pix []byte) ([]byte, error) {
	setOpaque(w.picture, pix)
	w.buffer.Reset()
	if err := w.encoder.Encode(&w.buffer, w.picture); err != nil {
		return nil, err
	}
	var data []byte
	for b := w.buffer.Bytes()[len(pngSignature):]; len(b) >= 12; {
		n := binary.BigEndian.Uint32(b)
		if string(b[4:8]) == "IDAT" {
			data = append(data, b[8:8+n]...)
		}
		b = b[12+n:]
	}
	return data, nil
}

const pngSignature = "\x89PNG\r\n\x1a\n"

// writeChunk writes a chunk of PNG: length, name, data, and the checksum of the last two.
func writeChunk(w io.Writer, kind string, data ...[]byte) error {
	body := append([]byte(kind), bytes.Join(data, nil)...)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)-4))
	b = append(b, body...)
	_, err := w.Write(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body)))
	return err
}

func bigEndian(values ...uint32) (b []byte) {
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// writePNGHeader writes what comes before the pixels. animation is the chunk of one, or nil.
func writePNGHeader(w io.Writer, p *Plan, animation []byte) error {
	if _, err := io.WriteString(w, pngSignature); err != nil {
		return err
	}
	r := p.request
	if err := writeChunk(w, "IHDR", bigEndian(uint32(r.Width), uint32(r.Height)), []byte{8, 2, 0, 0, 0}); err != nil {
		return err
	}
	if animation != nil {
		if err := writeChunk(w, "acTL", animation); err != nil {
			return err
		}
	}
	// 0: sRGB, as perceived.
	if err := writeChunk(w, "sRGB", []byte{0}); err != nil {
		return err
	}
	if err := writeChunk(w, "tEXt", []byte("Software\x00weft "+asciiOnly(r.Made.Weft))); err != nil {
		return err
	}
	return writeChunk(w, "tEXt", []byte("Comment\x00"+p.comment))
}

func asciiOnly(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}

// apngWriter writes an animated PNG: the first frame is an ordinary PNG's picture, and the
// others follow in chunks of their own. Viewers that know no animation show the first.
type apngWriter struct {
	*pngWriter
	plan     *Plan
	f        *os.File
	sequence uint32 // of the chunks of the animation
	frames   int
}

// checkAPNG holds a video against what a chunk of PNG can have.
func checkAPNG(r Request) error {
	if int64(r.Width)*int64(r.Height)*3 > 1<<30 {
		return fault.New(ErrSize, Asked{Path: r.Path, Width: r.Width, Height: r.Height}, "a PNG of %dx%d: a frame has at most %d pixels", r.Width, r.Height, 1<<30/3)
	}
	return nil
}

func beginAPNG(p *Plan, f *os.File) (frameWriter, error) {
	w := &apngWriter{pngWriter: newPNGWriter(p.request.Width, p.request.Height), plan: p, f: f}
	return w, writePNGHeader(f, p, bigEndian(uint32(p.request.Frames), 0)) // 0: again and again
}

func (w *apngWriter) writeFrame(pix []byte) error {
	data, err := w.imageData(pix)
	if err != nil {
		return err
	}
	r := w.plan.request
	control := bigEndian(w.sequence, uint32(r.Width), uint32(r.Height), 0, 0)
	// How long it is shown, in seconds, is a fraction. Then 0: leave it, and 0: replace all.
	control = binary.BigEndian.AppendUint16(control, uint16(r.Rate.Den))
	control = binary.BigEndian.AppendUint16(control, uint16(r.Rate.Num))
	w.sequence++
	if err := writeChunk(w.f, "fcTL", append(control, 0, 0)); err != nil {
		return err
	}
	w.frames++
	if w.frames == 1 {
		return writeChunk(w.f, "IDAT", data)
	}
	w.sequence++
	return writeChunk(w.f, "fdAT", bigEndian(w.sequence-1), data)
}

func (w *apngWriter) finishVideo() error { return writeChunk(w.f, "IEND") }

// folderWriter writes a PNG for each frame, and a document that says what they are.
type folderWriter struct {
	plan   *Plan
	dir    string
	frames int
	*pngWriter
}

// folderDocument is the name of the document beside the frames.
const folderDocument = "video.json"

// frameName is the name of frame i, counted from 0.
func frameName(i int) string { return fmt.Sprintf("frame_%05d.png", i) }

func (w *folderWriter) writeFrame(pix []byte) error {
	if w.pngWriter == nil {
		w.pngWriter = newPNGWriter(w.plan.request.Width, w.plan.request.Height)
	}
	data, err := w.imageData(pix)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writePNGHeader(&b, w.plan, nil); err != nil {
		return err
	}
	if err := writeChunk(&b, "IDAT", data); err != nil {
		return err
	}
	if err := writeChunk(&b, "IEND"); err != nil {
		return err
	}
	w.frames++
	return userfile.WriteFile(filepath.Join(w.dir, frameName(w.frames-1)), b.Bytes())
}

func (w *folderWriter) finishVideo() error {
	r := w.plan.request
	b, err := json.MarshalIndent(struct {
		Frames int  `json:"frames"`
		Width  int  `json:"width"`
		Height int  `json:"height"`
		Rate   Rate `json:"rate"`
		Made   Made `json:"made"`
	}{w.frames, r.Width, r.Height, r.Rate, r.Made}, "", "  ")
	if err != nil {
		return err
	}
	return userfile.WriteFile(filepath.Join(w.dir, folderDocument), append(b, '\n'))
}

// ownsFolder says what is in a folder that is no folder of a video: such a one is not
// replaced.
func ownsFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	document := false
	for _, e := range entries {
		var i int
		n, _ := fmt.Sscanf(e.Name(), "frame_%05d.png", &i)
		switch {
		case e.Name() == folderDocument:
			document = true
		case e.IsDir() || n != 1 || e.Name() != frameName(i):
			return fmt.Errorf("it has %q, which is no frame of a video", e.Name())
		}
	}
	if !document && len(entries) > 0 {
		return fmt.Errorf("it has no %s", folderDocument)
	}
	return nil
}
