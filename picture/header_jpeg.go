package picture

import (
	"bytes"
	"encoding/binary"
)

// readJPEG walks the segments to the first scan.
func (h *Header) readJPEG(b []byte) error {
	b = b[2:]
	exif := false
	for {
		at := bytes.IndexByte(b, 0xff)
		if at < 0 {
			return errCut
		}
		for at < len(b) && b[at] == 0xff { // fill bytes
			at++
		}
		if at == len(b) {
			return errCut
		}
		marker := b[at]
		b = b[at+1:]
		switch {
		case marker == 0, marker == 0x01, marker >= 0xd0 && marker <= 0xd8:
			continue // no segment
		case marker == 0xd9:
			return broken("it ends before any image")
		}
		if len(b) < 2 {
			return errCut
		}
		n := int(binary.BigEndian.Uint16(b))
		if n < 2 {
			return broken("a segment says that it has %d bytes", n)
		}
		if n > len(b) {
			return errCut
		}
		data := b[2:n]
		b = b[n:]
		switch {
		case marker == 0xda:
			return nil
		case marker == 0xe1 && bytes.HasPrefix(data, []byte(exifPrefix)) && !exif:
			exif = true
			h.takeExif(data)
		case marker == 0xe2 && bytes.HasPrefix(data, []byte("ICC_PROFILE\x00\x01")) && len(data) > 14:
			h.Profile = describeProfile(data[14:])
		case isFrameHeader(marker):
			if err := h.takeFrameHeader(marker, data); err != nil {
				return err
			}
		}
	}
}

// isFrameHeader says whether a marker is one of SOF0 to SOF15. Three in that range are others.
func isFrameHeader(marker byte) bool {
	return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc
}

func (h *Header) takeFrameHeader(marker byte, data []byte) error {
	if len(data) < 6 {
		return broken("its frame header has %d bytes", len(data))
	}
	switch {
	case marker == 0xc3, marker == 0xc7, marker == 0xcb, marker == 0xcf:
		return unsupported("it is lossless JPEG")
	case marker >= 0xc9:
		return unsupported("it is coded arithmetically")
	case marker >= 0xc5:
		return unsupported("it is hierarchical JPEG")
	case data[0] != 8:
		return unsupported("it has %d bits a sample, where 8 are read", data[0])
	}
	if h.Width > 0 {
		return broken("it has two frame headers")
	}
	h.Height, h.Width = int(binary.BigEndian.Uint16(data[1:])), int(binary.BigEndian.Uint16(data[3:]))
	if h.Width == 0 || h.Height == 0 {
		return unsupported("its header says %dx%d pixels", h.Width, h.Height)
	}
	return nil
}
