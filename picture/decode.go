package picture

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"
)

// decodePixels decodes the image that a header was read of, as it is stored.
func decodePixels(b []byte, h *Header) (*Image, error) {
	switch h.Format {
	case "PNG":
		decoded, err := png.Decode(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return toRGB(decoded)
	case "JPEG":
		decoded, err := jpeg.Decode(bytes.NewReader(b))
		if err != nil {
			if _, is := err.(jpeg.UnsupportedError); is {
				return nil, unsupported("%v", err)
			}
			return nil, err
		}
		return toRGB(decoded)
	}
	if h.lossless {
		decoded, err := vp8l.Decode(bytes.NewReader(h.data))
		if err != nil {
			return nil, err
		}
		return toRGB(decoded)
	}
	d := vp8.NewDecoder()
	d.Init(bytes.NewReader(h.data), len(h.data))
	if _, err := d.DecodeFrameHeader(); err != nil {
		return nil, err
	}
	decoded, err := d.DecodeFrame()
	if err != nil {
		return nil, err
	}
	return rgbOfVideo(decoded), nil
}

// toRGB drops alpha, as Pillow's convert("RGB") does: the colours of a decoder are not
// multiplied by it. Of 16 bits the upper 8 stay, as in Pillow's reader; of 16 bits of grey
// Pillow makes white, and this does not.
func toRGB(decoded image.Image) (*Image, error) {
	size := decoded.Bounds().Size()
	im := &Image{size.X, size.Y, make([]byte, 3*size.X*size.Y)}
	switch d := decoded.(type) {
	case *image.Gray:
		im.spread(d.Pix, d.Stride, 1, 0, 0, 0)
	case *image.Gray16:
		im.spread(d.Pix, d.Stride, 2, 0, 0, 0)
	case *image.RGBA:
		im.spread(d.Pix, d.Stride, 4, 0, 1, 2)
	case *image.NRGBA:
		im.spread(d.Pix, d.Stride, 4, 0, 1, 2)
	case *image.RGBA64:
		im.spread(d.Pix, d.Stride, 8, 0, 2, 4)
	case *image.NRGBA64:
		im.spread(d.Pix, d.Stride, 8, 0, 2, 4)
	case *image.Paletted:
		im.takePalette(d)
	case *image.CMYK:
		im.takeCMYK(d)
	case *image.YCbCr:
		return rgbOfJPEG(d), nil
	default:
		return nil, unsupported("its pixels are of the form %T", decoded)
	}
	return im, nil
}

// spread copies three bytes of each pixel of a decoder's rows.
func (im *Image) spread(pix []byte, stride, pixel, red, green, blue int) {
	to := 0
	for y := range im.Height {
		row := pix[y*stride:]
		for x := range im.Width {
			p := row[x*pixel:]
			im.Pix[to], im.Pix[to+1], im.Pix[to+2] = p[red], p[green], p[blue]
			to += 3
		}
	}
}

func (im *Image) takePalette(d *image.Paletted) {
	colors := make([]color.NRGBA, 256)
	for i, c := range d.Palette {
		switch c := c.(type) {
		case color.NRGBA:
			colors[i] = c
		case color.RGBA: // opaque
			colors[i] = color.NRGBA(c)
		}
	}
	to := 0
	for y := range im.Height {
		for _, index := range d.Pix[y*d.Stride:][:im.Width] {
			c := colors[index]
			im.Pix[to], im.Pix[to+1], im.Pix[to+2] = c.R, c.G, c.B
			to += 3
		}
	}
}

// takeCMYK mixes ink as Pillow does, without a profile.
func (im *Image) takeCMYK(d *image.CMYK) {
	to := 0
	for y := range im.Height {
		row := d.Pix[y*d.Stride:]
		for x := range im.Width {
			light := 255 - int(row[4*x+3])
			for c := range 3 {
				im.Pix[to+c] = byte(max(0, light-divideBy255(int(row[4*x+c])*light)))
			}
			to += 3
		}
	}
}

// divideBy255 is n/255 to the nearest, for n up to 255*255.
func divideBy255(n int) int {
	n += 128
	return (n>>8 + n) >> 8
}
