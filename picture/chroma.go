package picture

import "image"

// JPEG and WebP mostly store colour at half the size. Libraries differ in how they bring it
// back to full size. What follows are the ways of libjpeg-turbo and libwebp, which Pillow
// reads with, and with it the releases.

// rgbOfJPEG brings colour to full size by libjpeg's triangle filter, and turns it to RGB in
// libjpeg's fixed point.
func rgbOfJPEG(d *image.YCbCr) *Image {
	size := d.Rect.Size()
	im := &Image{size.X, size.Y, make([]byte, 3*size.X*size.Y)}
	blue, red := make([]byte, size.X+2), make([]byte, size.X+2)
	toFullSize := chromaOfJPEG(d)
	to := 0
	for y := range size.Y {
		toFullSize(blue, d.Cb, y)
		toFullSize(red, d.Cr, y)
		for x, luma := range d.Y[y*d.YStride:][:size.X] {
			l, b, r := int(luma), int(blue[x])-128, int(red[x])-128
			im.Pix[to] = clip(l + (91881*r+1<<15)>>16)
			im.Pix[to+1] = clip(l + (-22554*b-46802*r+1<<15)>>16)
			im.Pix[to+2] = clip(l + (116130*b+1<<15)>>16)
			to += 3
		}
	}
	return im
}

func clip(v int) byte { return byte(min(max(v, 0), 255)) }

// chromaOfJPEG gives the function that makes row y of a plane of colour in full width. It
// may write up to two bytes behind the row.
func chromaOfJPEG(d *image.YCbCr) func(out, plane []byte, y int) {
	size := d.Rect.Size()
	acrossRatio, downRatio := ratios(d.SubsampleRatio)
	width, height := (size.X+acrossRatio-1)/acrossRatio, (size.Y+downRatio-1)/downRatio
	row := func(plane []byte, y int) []byte { return plane[min(max(y, 0), height-1)*d.CStride:][:width] }
	// The other row that one between two rows of colour lies at: above or below.
	other := func(y int) int { return y/2 - 1 + y%2*2 }
	sums := make([]int, width)
	switch {
	case acrossRatio == 2 && downRatio == 1 && width > 2:
		return func(out, plane []byte, y int) { widenRow(out, row(plane, y)) }
	case acrossRatio == 2 && downRatio == 2 && width > 2:
		return func(out, plane []byte, y int) {
			far := row(plane, other(y))
			for x, near := range row(plane, y/2) {
				sums[x] = 3*int(near) + int(far[x])
			}
			widenSums(out, sums)
		}
	case acrossRatio == 1 && downRatio == 2:
		return func(out, plane []byte, y int) {
			far := row(plane, other(y))
			for x, near := range row(plane, y/2) {
				out[x] = byte((3*int(near) + int(far[x]) + 1 + y%2) >> 2)
			}
		}
	}
	return func(out, plane []byte, y int) {
		from := row(plane, y/downRatio)
		for x := range size.X {
			out[x] = from[x/acrossRatio]
		}
	}
}

func ratios(r image.YCbCrSubsampleRatio) (across, down int) {
	switch r {
	case image.YCbCrSubsampleRatio422:
		return 2, 1
	case image.YCbCrSubsampleRatio420:
		return 2, 2
	case image.YCbCrSubsampleRatio440:
		return 1, 2
	case image.YCbCrSubsampleRatio411:
		return 4, 1
	case image.YCbCrSubsampleRatio410:
		return 4, 2
	}
	return 1, 1
}

// widenRow doubles a row's width: each of two new values is three parts the nearer of the
// old and one part the other, rounded down on the left and up on the right by turns.
func widenRow(out, in []byte) {
	last := len(in) - 1
	for x, v := range in {
		near := 3 * int(v)
		out[2*x] = byte((near + int(in[max(x-1, 0)]) + 1) >> 2)
		out[2*x+1] = byte((near + int(in[min(x+1, last)]) + 2) >> 2)
	}
}

// widenSums is widenRow of sums that are four times a value.
func widenSums(out []byte, in []int) {
	last := len(in) - 1
	for x, v := range in {
		out[2*x] = byte((3*v + in[max(x-1, 0)] + 8) >> 4)
		out[2*x+1] = byte((3*v + in[min(x+1, last)] + 7) >> 4)
	}
}

// rgbOfVideo is the picture of a frame of VP8: colour by libwebp's filter, and BT.601 in a
// video's range (black at 16, white at 235), where a JPEG has the full one.
func rgbOfVideo(d *image.YCbCr) *Image {
	size := d.Rect.Size()
	im := &Image{size.X, size.Y, make([]byte, 3*size.X*size.Y)}
	width, height := (size.X+1)/2, (size.Y+1)/2
	row := func(plane []byte, y int) []byte { return plane[min(max(y, 0), height-1)*d.CStride:][:width] }
	blue, red := make([]byte, size.X), make([]byte, size.X)
	to := 0
	for y := range size.Y {
		other := y/2 - 1 + y%2*2
		widenVideo(blue, row(d.Cb, y/2), row(d.Cb, other))
		widenVideo(red, row(d.Cr, y/2), row(d.Cr, other))
		for x, luma := range d.Y[y*d.YStride:][:size.X] {
			l, b, r := int(luma)*19077>>8, int(blue[x]), int(red[x])
			im.Pix[to] = clip((l + r*26149>>8 - 14234) >> 6)
			im.Pix[to+1] = clip((l - b*6419>>8 - r*13320>>8 + 8708) >> 6)
			im.Pix[to+2] = clip((l + b*33050>>8 - 17685) >> 6)
			to += 3
		}
	}
	return im
}

// widenVideo makes a row of colour in full size from the row that it lies in and the other
// that it is near to: of the four values around a pixel the nearest counts nine parts,
// two three and the farthest one, in libwebp's order of rounding.
func widenVideo(out, near, far []byte) {
	ends := func(x int) byte { return byte((3*int(near[x]) + int(far[x]) + 2) >> 2) }
	out[0] = ends(0)
	last := (len(out) - 1) / 2
	for x := 1; x <= last; x++ {
		n0, n1, f0, f1 := int(near[x-1]), int(near[x]), int(far[x-1]), int(far[x])
		sum := n0 + n1 + f0 + f1 + 8
		out[2*x-1] = byte(((sum+2*(n1+f0))>>3 + n0) >> 1)
		out[2*x] = byte(((sum+2*(n0+f1))>>3 + n1) >> 1)
	}
	if len(out)%2 == 0 {
		out[len(out)-1] = ends(last)
	}
}
