package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// exifPrefix begins EXIF data in a JPEG, and by some writers elsewhere.
const exifPrefix = "Exif\x00\x00"

// orientationTag is the number of the orientation in EXIF's first directory.
const orientationTag = 0x0112

// ReadOrientation finds the orientation, 1 to 8, in EXIF data: a TIFF header and the
// directory that it points to. Data without one are upright, 1. Nothing else of it is read.
func ReadOrientation(b []byte) (int, error) {
	b = bytes.TrimPrefix(b, []byte(exifPrefix))
	if len(b) < 8 {
		return 0, errors.New("it is too short for a header")
	}
	var order binary.ByteOrder
	switch string(b[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 0, errors.New("it begins with no header of TIFF")
	}
	at := uint64(order.Uint32(b[4:]))
	if at < 8 || at+2 > uint64(len(b)) {
		return 0, fmt.Errorf("its directory is said to be at byte %d of %d", at, len(b))
	}
	count := int(order.Uint16(b[at:]))
	for entries := b[at+2:]; count > 0; count-- {
		if len(entries) < 12 {
			return 0, errors.New("its directory is cut")
		}
		entry := entries[:12]
		entries = entries[12:]
		if order.Uint16(entry) != orientationTag {
			continue
		}
		kind, n := order.Uint16(entry[2:]), order.Uint32(entry[4:])
		if kind != 3 || n != 1 {
			return 0, fmt.Errorf("its orientation has type %d and %d values, where one of type 3 stands", kind, n)
		}
		o := int(order.Uint16(entry[8:]))
		if o == 0 { // some cameras write that for "not known"
			return 1, nil
		}
		if o > 8 {
			return 0, fmt.Errorf("its orientation is %d, where 1 to 8 stand", o)
		}
		return o, nil
	}
	return 1, nil
}

// turnUpright gives the picture as EXIF's orientation says that it is to be seen.
func (im *Image) turnUpright(orientation int) *Image {
	if orientation == 1 {
		return im
	}
	out := &Image{Width: im.Width, Height: im.Height}
	if orientation >= 5 {
		out.Width, out.Height = im.Height, im.Width
	}
	out.Pix = make([]byte, len(im.Pix))
	// The pixel at (x, y) of the upright picture is stored at start + x*right + y*down.
	const pixel = 3
	row := pixel * im.Width
	lastX, lastY := row-pixel, row*(im.Height-1)
	var start, right, down int
	switch orientation {
	case 2:
		start, right, down = lastX, -pixel, row
	case 3:
		start, right, down = lastX+lastY, -pixel, -row
	case 4:
		start, right, down = lastY, pixel, -row
	case 5:
		start, right, down = 0, row, pixel
	case 6:
		start, right, down = lastY, -row, pixel
	case 7:
		start, right, down = lastX+lastY, -row, -pixel
	case 8:
		start, right, down = lastX, row, -pixel
	}
	to := 0
	for y := range out.Height {
		from := start + y*down
		for range out.Width {
			copy(out.Pix[to:to+pixel], im.Pix[from:])
			to, from = to+pixel, from+right
		}
	}
	return out
}
