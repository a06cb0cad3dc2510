package footage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/draw"
	"image/png"
	"io"

	"weft/fault"
	"weft/internal/printable"
	"weft/picture"
)

const (
	pngSignature = "\x89PNG\r\n\x1a\n"
	apngFormat   = "animated PNG"
)

// apng is an animated PNG: a picture, and further ones in chunks of their own, each for a part of
// the canvas. What a frame shows depends on those before it.
type apng struct {
	f      io.ReaderAt
	name   string
	size   image.Point
	header []byte // the chunk IHDR's data, whose first 8 bytes are the size
	shared []byte // chunks that every picture needs: palette, transparency
	parts  []apngPart

	next   int          // the part that canvas is to be drawn next
	canvas *image.NRGBA // what the parts before have left
	shown  *image.NRGBA // what part next-1 shows
}

// apngPart is one picture of the animation.
type apngPart struct {
	at             image.Rectangle
	dispose, blend byte
	seconds        float64
	data           []chunkPlace // of its compressed pixels
}

// What a part leaves behind, and how it is put on the canvas.
const (
	disposeNothing, disposeBackground, disposePrevious = 0, 1, 2
	blendSource, blendOver                             = 0, 1
)

func openAPNG(f io.ReaderAt, size int64, name string) (*Footage, error) {
	v := &apng{f: f, name: name}
	animated, err := v.readChunks(size)
	if err != nil {
		return nil, err
	}
	if !animated {
		return nil, fault.New(ErrFormat, File{name, "PNG"}, "%s is a PNG of one picture, no video: --image takes it", printable.Text(name))
	}
	if err := checkCount(name, apngFormat, len(v.parts)); err != nil {
		return nil, err
	}
	if int64(v.size.X)*int64(v.size.Y) > picture.MaxPixels {
		return nil, broken(name, apngFormat, fmt.Sprintf("%dx%d pixels: at most %d are read", v.size.X, v.size.Y, picture.MaxPixels))
	}
	out := &Footage{Name: name, Frames: len(v.parts), Width: v.size.X, Height: v.size.Y, source: v}
	var seconds float64
	for _, p := range v.parts {
		seconds += p.seconds
	}
	if seconds > 0 {
		out.FPS = float64(len(v.parts)) / seconds
	}
	return out, nil
}

// readChunks goes over the chunks. animated says whether there is an animation at all.
func (v *apng) readChunks(size int64) (animated bool, err error) {
	at := int64(len(pngSignature))
	for {
		head := make([]byte, 8)
		if _, err := v.f.ReadAt(head, at); err != nil {
			return false, v.broken("it ends in the middle of a picture")
		}
		n, kind := int64(binary.BigEndian.Uint32(head)), string(head[4:])
		if at+12+n > size {
			return false, v.broken("it ends in the middle of a picture")
		}
		switch kind {
		case "IEND":
			return animated, v.checkParts(animated)
		case "acTL":
			animated = true
		case "IDAT":
			if len(v.parts) > 0 { // else it is a picture for readers that know no animation
				v.addData(chunkPlace{at + 8, uint32(n)})
			}
		case "fdAT":
			if n < 4 {
				return false, v.broken("a chunk fdAT without its number")
			}
			v.addData(chunkPlace{at + 12, uint32(n - 4)})
		case "IHDR", "fcTL", "PLTE", "tRNS":
			if n > 1<<16 {
				return false, v.broken(fmt.Sprintf("a chunk %s of %d bytes", kind, n))
			}
			b := make([]byte, n)
			if _, err := v.f.ReadAt(b, at+8); err != nil {
				return false, v.broken(err.Error())
			}
			if err := v.takeChunk(kind, b); err != nil {
				return false, err
			}
		}
		if len(v.parts) > MaxFrames {
			return false, checkCount(v.name, apngFormat, len(v.parts))
		}
		at += 12 + n
	}
}

// broken is the error for this file.
func (v *apng) broken(why string) error { return broken(v.name, apngFormat, why) }

// addData adds compressed pixels to the last part.
func (v *apng) addData(p chunkPlace) {
	if n := len(v.parts); n > 0 {
		v.parts[n-1].data = append(v.parts[n-1].data, p)
	}
}

// takeChunk reads a chunk that is no pixels.
func (v *apng) takeChunk(kind string, b []byte) error {
	switch kind {
	case "IHDR":
		if len(b) != 13 || v.header != nil {
			return v.broken("its chunk IHDR is not as it has to be")
		}
		w, h := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if w == 0 || h == 0 || w > 1<<24 || h > 1<<24 {
			return v.broken(fmt.Sprintf("%dx%d pixels", w, h))
		}
		v.header, v.size = b, image.Pt(int(w), int(h))
	case "fcTL":
		return v.takeControl(b)
	default:
		v.shared = append(v.shared, encodeChunk(kind, b)...)
	}
	return nil
}

// takeControl reads what begins a part: its number, width, height, place, seconds as a fraction,
// and what becomes of it.
func (v *apng) takeControl(b []byte) error {
	if len(b) != 26 || v.header == nil {
		return v.broken("a chunk fcTL is not as it has to be")
	}
	number := func(i int) int { return int(binary.BigEndian.Uint32(b[i:])) }
	p := apngPart{at: image.Rect(number(12), number(16), number(12)+number(4), number(16)+number(8)), dispose: b[24], blend: b[25]}
	if p.at.Empty() || !p.at.In(image.Rectangle{Max: v.size}) || p.dispose > disposePrevious || p.blend > blendOver {
		return v.broken(fmt.Sprintf("picture %d is at %v of %v, with ways %d and %d", len(v.parts), p.at, v.size, p.dispose, p.blend))
	}
	if den := binary.BigEndian.Uint16(b[22:]); den > 0 {
		p.seconds = float64(binary.BigEndian.Uint16(b[20:])) / float64(den)
	} else { // hundredths, by the format
		p.seconds = float64(binary.BigEndian.Uint16(b[20:])) / 100
	}
	if len(v.parts) == 0 && p.dispose == disposePrevious {
		p.dispose = disposeBackground // there is nothing before it
	}
	v.parts = append(v.parts, p)
	return nil
}

// checkParts finds parts without pixels.
func (v *apng) checkParts(animated bool) error {
	if v.header == nil {
		return v.broken("it has no chunk IHDR")
	}
	for i, p := range v.parts {
		if animated && len(p.data) == 0 {
			return v.broken(fmt.Sprintf("picture %d has no pixels", i))
		}
	}
	return nil
}

func (v *apng) frame(i int) (*picture.Image, error) {
	if i < v.next-1 || v.canvas == nil {
		v.next, v.canvas = 0, image.NewNRGBA(image.Rectangle{Max: v.size})
	}
	for v.next <= i {
		if err := v.drawNext(); err != nil {
			v.canvas = nil
			return nil, err
		}
	}
	im := &picture.Image{Width: v.size.X, Height: v.size.Y, Pix: make([]byte, 0, 3*v.size.X*v.size.Y)}
	for at := 0; at < len(v.shown.Pix); at += 4 {
		im.Pix = append(im.Pix, v.shown.Pix[at:at+3]...)
	}
	return im, nil
}

// drawNext puts the next part on the canvas, keeps what it shows, and undoes what is to be undone.
func (v *apng) drawNext() error {
	p := v.parts[v.next]
	pixels, err := v.decode(p)
	if err != nil {
		return v.broken(fmt.Sprintf("picture %d: %v", v.next, err))
	}
	before := v.canvas
	shown := image.NewNRGBA(before.Rect)
	copy(shown.Pix, before.Pix)
	how := draw.Src
	if p.blend == blendOver {
		how = draw.Over
	}
	draw.Draw(shown, p.at, pixels, pixels.Bounds().Min, how)
	v.shown, v.canvas = shown, shown
	switch p.dispose {
	case disposePrevious:
		v.canvas = before
	case disposeBackground:
		v.canvas = image.NewNRGBA(before.Rect)
		copy(v.canvas.Pix, shown.Pix)
		draw.Draw(v.canvas, p.at, image.Transparent, image.Point{}, draw.Src)
	}
	v.next++
	return nil
}

// decode decodes a part as a PNG of its own.
func (v *apng) decode(p apngPart) (image.Image, error) {
	var b bytes.Buffer
	b.WriteString(pngSignature)
	header := bytes.Clone(v.header)
	binary.BigEndian.PutUint32(header, uint32(p.at.Dx()))
	binary.BigEndian.PutUint32(header[4:], uint32(p.at.Dy()))
	b.Write(encodeChunk("IHDR", header))
	b.Write(v.shared)
	for _, d := range p.data {
		data, err := io.ReadAll(io.NewSectionReader(v.f, d.at, int64(d.size)))
		if err != nil {
			return nil, err
		}
		b.Write(encodeChunk("IDAT", data))
	}
	b.Write(encodeChunk("IEND", nil))
	return png.Decode(&b)
}

// encodeChunk makes a chunk of PNG: length, name, data, and the checksum of the last two.
func encodeChunk(kind string, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}
