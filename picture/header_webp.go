package picture

import "encoding/binary"

// readWebP walks the chunks to the end of the container. The frame that will be decoded is
// the only one, or an animation's first.
func (h *Header) readWebP(b []byte) error {
	size := uint64(binary.LittleEndian.Uint32(b[4:]))
	if size < 4 || size+8 > uint64(len(b)) {
		return errCut
	}
	b = b[12 : 8+size]
	frames := 0
	for len(b) > 0 {
		kind, data, rest, err := cutWebPChunk(b)
		if err != nil {
			return err
		}
		b = rest
		switch kind {
		case "ANMF":
			if frames++; frames == 1 {
				err = h.takeWebPFrame(data)
			}
		case "VP8X":
			err = h.takeWebPCanvas(data)
		case "VP8 ", "VP8L":
			if h.data == nil {
				err = h.takeWebPImage(kind, data)
			}
		case "EXIF":
			h.takeExif(data)
		case "ICCP":
			h.Profile = describeProfile(data)
		}
		if err != nil {
			return err
		}
	}
	h.Frames = max(1, frames)
	if h.data == nil {
		return broken("no image is in it")
	}
	return nil
}

// cutWebPChunk cuts a chunk off the front of b: its name, a size, that many bytes, and one
// more where the size is odd.
func cutWebPChunk(b []byte) (kind string, data, rest []byte, err error) {
	if len(b) < 8 {
		return "", nil, nil, errCut
	}
	n := uint64(binary.LittleEndian.Uint32(b[4:]))
	if n > uint64(len(b)-8) {
		return "", nil, nil, errCut
	}
	end := min(8+n+n&1, uint64(len(b)))
	return string(b[:4]), b[8 : 8+n], b[end:], nil
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

func (h *Header) takeWebPCanvas(data []byte) error {
	if len(data) < 10 {
		return broken("its chunk VP8X has %d bytes", len(data))
	}
	h.Alpha = h.Alpha || data[0]&0x10 != 0
	h.Width, h.Height = uint24(data[4:])+1, uint24(data[7:])+1
	return nil
}

// takeWebPFrame reads the first frame of an animation. One that does not fill the canvas
// would have to be laid on a background.
func (h *Header) takeWebPFrame(data []byte) error {
	if len(data) < 16 {
		return broken("a frame has %d bytes", len(data))
	}
	x, y, w, ht := 2*uint24(data), 2*uint24(data[3:]), uint24(data[6:])+1, uint24(data[9:])+1
	if x != 0 || y != 0 || w != h.Width || ht != h.Height {
		return unsupported("the first frame of the animation (%dx%d at %d,%d) does not fill its %dx%d pixels", w, ht, x, y, h.Width, h.Height)
	}
	for b := data[16:]; len(b) > 0; {
		kind, sub, rest, err := cutWebPChunk(b)
		if err != nil {
			return err
		}
		if kind == "VP8 " || kind == "VP8L" {
			return h.takeWebPImage(kind, sub)
		}
		b = rest
	}
	return broken("its first frame has no image")
}

// takeWebPImage reads the size of a bit stream, and holds it against that of the canvas.
func (h *Header) takeWebPImage(kind string, data []byte) error {
	var w, ht int
	if kind == "VP8 " {
		if len(data) < 10 {
			return errCut
		}
		if data[0]&1 != 0 || data[3] != 0x9d || data[4] != 0x01 || data[5] != 0x2a {
			return broken("its image is no key frame of VP8")
		}
		w, ht = int(binary.LittleEndian.Uint16(data[6:])&0x3fff), int(binary.LittleEndian.Uint16(data[8:])&0x3fff)
	} else {
		if len(data) < 5 {
			return errCut
		}
		if data[0] != 0x2f {
			return broken("its lossless image begins with byte %#x, where 0x2f stands", data[0])
		}
		bits := binary.LittleEndian.Uint32(data[1:])
		w, ht = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
		h.Alpha = h.Alpha || bits>>28&1 != 0
	}
	if h.Width > 0 && (w != h.Width || ht != h.Height) {
		return broken("its canvas has %dx%d pixels, its image %dx%d", h.Width, h.Height, w, ht)
	}
	h.Width, h.Height, h.data = w, ht, data
	h.lossless = kind == "VP8L"
	return nil
}
