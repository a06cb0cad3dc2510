package picture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/draw"
	"image/png"
)

// isAnimatedPNG says whether a file is a PNG with a chunk acTL before its pixels.
func isAnimatedPNG(b []byte) bool {
	h := &Header{Frames: 1}
	return bytes.HasPrefix(b, []byte(pngSignature)) && h.readPNG(b) == nil && h.Frames > 1
}

// animation reads an animated PNG: its frames are PNGs of their own once their pixels are put
// behind a header of their size. Each is drawn over what the one before left, as its chunk
// fcTL says.
type animation struct {
	header  []byte // of IHDR
	shared  []byte // whole chunks that every frame needs, such as the palette
	canvas  *image.NRGBA
	control *frameControl
	data    []byte // the pixels of the frame under way
	add     func(im *Image, frame string) error
	frames  int
}

// frameControl is the chunk fcTL of a frame.
type frameControl struct {
	place          image.Rectangle
	dispose, blend byte
}

// What becomes of a frame's place once the frame was shown.
const (
	disposeBackground = 1
	disposePrevious   = 2
)

// addAnimation adds the frames of an animated PNG.
func (c *frameCollector) addAnimation(b []byte) error {
	h, err := readHeader(b, c.name)
	if err != nil {
		return err
	}
	if int64(h.Width)*int64(h.Height) > int64(c.left) {
		return tooManyPixels(c.name, h, c.left)
	}
	c.notes = append(c.notes, (&Header{Frames: 1, Alpha: h.Alpha, Bits: h.Bits, Profile: h.Profile, odd: h.odd}).notes(c.name)...)
	a := &animation{canvas: image.NewNRGBA(image.Rect(0, 0, h.Width, h.Height)), add: c.addFrame}
	if err := a.read(b[len(pngSignature):]); err != nil {
		if _, is := err.(*formatError); is {
			return cannotDecode(c.name, "PNG", err)
		}
		return err
	}
	return nil
}

// read follows the chunks, whose sizes were checked with the header.
func (a *animation) read(b []byte) error {
	for {
		n, kind := binary.BigEndian.Uint32(b), string(b[4:8])
		data, whole := b[8:8+n], b[:12+n]
		b = b[12+n:]
		switch kind {
		case "IHDR":
			a.header = data
		case "PLTE", "tRNS", "gAMA", "sRGB", "cHRM", "sBIT":
			a.shared = append(a.shared, whole...)
		case "fcTL":
			if err := a.begin(data); err != nil {
				return err
			}
		case "IDAT":
			if a.control != nil { // else it is a picture that the animation leaves out
				a.data = append(a.data, data...)
			}
		case "fdAT":
			if len(data) < 4 || a.control == nil {
				return broken("a chunk fdAT has no number or no frame")
			}
			a.data = append(a.data, data[4:]...)
		case "IEND":
			return a.end()
		}
	}
}

// begin ends the frame before and begins one.
func (a *animation) begin(data []byte) error {
	if err := a.end(); err != nil {
		return err
	}
	if len(data) != 26 {
		return broken("a chunk fcTL has %d bytes: it has 26", len(data))
	}
	var at [4]int64 // width, height, left, top
	for i := range at {
		at[i] = int64(binary.BigEndian.Uint32(data[4+4*i:]))
	}
	size := a.canvas.Rect.Size()
	if at[0] < 1 || at[1] < 1 || at[0]+at[2] > int64(size.X) || at[1]+at[3] > int64(size.Y) {
		return broken("frame %d of %dx%d at %d, %d lies beyond %dx%d", a.frames+1, at[0], at[1], at[2], at[3], size.X, size.Y)
	}
	left, top := int(at[2]), int(at[3])
	a.control = &frameControl{image.Rect(left, top, left+int(at[0]), top+int(at[1])), data[24], data[25]}
	return nil
}

// end draws the frame under way, if there is one, and hands what is seen on.
func (a *animation) end() error {
	c := a.control
	if c == nil {
		return nil
	}
	a.frames++
	if len(a.data) == 0 {
		return broken("frame %d has no pixels", a.frames)
	}
	decoded, err := png.Decode(bytes.NewReader(a.frameFile(c)))
	if err != nil {
		return broken("frame %d: %v", a.frames, err)
	}
	var before *image.NRGBA
	if c.dispose == disposePrevious {
		before = image.NewNRGBA(a.canvas.Rect)
		copy(before.Pix, a.canvas.Pix)
	}
	how := draw.Src
	if c.blend == 1 {
		how = draw.Over
	}
	draw.Draw(a.canvas, c.place, decoded, decoded.Bounds().Min, how)
	im, err := toRGB(a.canvas)
	if err != nil {
		return err
	}
	switch c.dispose {
	case disposeBackground:
		draw.Draw(a.canvas, c.place, image.Transparent, image.Point{}, draw.Src)
	case disposePrevious:
		a.canvas = before
	}
	a.control, a.data = nil, nil
	return a.add(im, fmt.Sprintf("frame %d", a.frames))
}

// frameFile is a PNG of the frame under way alone.
func (a *animation) frameFile(c *frameControl) []byte {
	header := bytes.Clone(a.header)
	binary.BigEndian.PutUint32(header, uint32(c.place.Dx()))
	binary.BigEndian.PutUint32(header[4:], uint32(c.place.Dy()))
	b := appendChunk([]byte(pngSignature), "IHDR", header)
	b = append(b, a.shared...)
	b = appendChunk(b, "IDAT", a.data)
	return appendChunk(b, "IEND", nil)
}

// appendChunk appends a chunk of PNG: length, name, data, and the checksum of the last two.
func appendChunk(b []byte, kind string, data []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	at := len(b)
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[at:]))
}

// addAVI adds the frames of an AVI of Motion JPEG: the chunks "00dc" and "00db" in its lists
// "movi", which a RIFF of its own may follow when the first is full.
func (c *frameCollector) addAVI(b []byte) error {
	return c.walkRIFF(b, 0)
}

// walkRIFF follows the chunks of RIFFs and of the lists in them that have frames.
func (c *frameCollector) walkRIFF(b []byte, depth int) error {
	wrong := func(err error) error { return cannotDecode(c.name, "AVI", err) }
	for len(b) > 0 {
		if len(b) < 8 {
			return wrong(errCut)
		}
		id, n := string(b[:4]), int64(binary.LittleEndian.Uint32(b[4:]))
		if n > int64(len(b)-8) {
			return wrong(errCut)
		}
		data := b[8 : 8+n]
		b = b[min(int64(len(b)), 8+n+n%2):]
		switch {
		case id == "RIFF" || id == "LIST":
			if n < 4 || depth > 3 {
				return wrong(broken("a list of it has %d bytes in depth %d", n, depth))
			}
			kind := string(data[:4])
			if id == "RIFF" || kind == "movi" || kind == "rec " {
				if err := c.walkRIFF(data[4:], depth+1); err != nil {
					return err
				}
			}
		case depth > 1 && (id == "00dc" || id == "00db") && n > 0:
			name := fmt.Sprintf("frame %d", len(c.video.Frames)+1)
			if !bytes.HasPrefix(data, []byte{0xff, 0xd8, 0xff}) {
				return wrong(unsupported("%s is no JPEG: of AVIs those of Motion JPEG are read", name))
			}
			if err := c.addPicture(data, name); err != nil {
				return err
			}
		}
	}
	return nil
}
