package picture

import "encoding/binary"

const pngSignature = "\x89PNG\r\n\x1a\n"

// readPNG walks the chunks to the end, so that a file that is cut is known for one.
func (h *Header) readPNG(b []byte) error {
	b = b[len(pngSignature):]
	for first := true; ; first = false {
		if len(b) < 12 {
			return errCut
		}
		n, kind := binary.BigEndian.Uint32(b), string(b[4:8])
		if uint64(n) > uint64(len(b)-12) {
			return errCut
		}
		data := b[8 : 8+n]
		if first != (kind == "IHDR") {
			return broken("its chunk IHDR is not the first")
		}
		if err := h.takePNGChunk(kind, data); err != nil || kind == "IEND" {
			return err
		}
		b = b[12+n:]
	}
}

func (h *Header) takePNGChunk(kind string, data []byte) error {
	switch kind {
	case "IHDR":
		if len(data) != 13 {
			return broken("its chunk IHDR has %d bytes: it has 13", len(data))
		}
		w, ht := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
		if w == 0 || ht == 0 || w > 1<<31-1 || ht > 1<<31-1 {
			return broken("it has %dx%d pixels", w, ht)
		}
		h.Width, h.Height, h.Bits = int(w), int(ht), int(data[8])
		h.Alpha = data[9]&4 != 0
	case "tRNS":
		h.Alpha = true
	case "acTL":
		if len(data) == 8 {
			h.Frames = int(min(binary.BigEndian.Uint32(data), 1<<31-1))
		}
	case "eXIf":
		h.takeExif(data)
	case "iCCP":
		h.Profile = describeCompressedProfile(data)
	}
	return nil
}
