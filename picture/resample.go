package picture

import "math"

// Filter is a way to resize that Pillow has, with antialiasing: when it makes an image
// smaller, the filter widens, so that every pixel of the source counts.
type Filter string

// The filters, by Pillow's names.
const (
	Bilinear Filter = "bilinear"
	Bicubic  Filter = "bicubic" // a = -0.5
	Lanczos  Filter = "lanczos" // three lobes
	// Nearest is PyTorch's interpolate without a mode: the pixel that lies at the result's own
	// place, rounded down, with the scale in single precision.
	Nearest Filter = "nearest"
	// Smooth is PyTorch's bilinear interpolation with antialiasing: Bilinear without a rounding
	// between its two passes.
	Smooth Filter = "smooth"
)

// kernel gives a filter's weight at a distance in pixels, and the distance beyond which it
// is zero. The products are rounded one by one (float64 of each), so that every processor
// gives the same bytes.
func (f Filter) kernel() (weight func(x float64) float64, support float64) {
	switch f {
	case Bilinear:
		return func(x float64) float64 { return max(0, 1-math.Abs(x)) }, 1
	case Bicubic:
		return weighBicubic, 2
	}
	return weighLanczos, 3
}

func weighBicubic(x float64) float64 {
	const a = -0.5
	switch x = math.Abs(x); {
	case x < 1:
		return float64(float64((float64((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return (float64((float64((x-5)*x)+8)*x) - 4) * a
	}
	return 0
}

func weighLanczos(x float64) float64 {
	if x < -3 || x >= 3 {
		return 0
	}
	return sinc(x) * sinc(x/3)
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

// fractionBits are those of a weight in fixed point: 8 of the 32 hold a channel's value,
// and 2 are for sums beyond its range.
const fractionBits = 32 - 8 - 2

// taps are the weights by which pixels of the source make one pixel of the result.
type taps struct {
	first   int
	weights []int32
}

// makeTaps computes, for the results from begin to end of a row that is resized from
// length in to length out, the weights in fixed point.
func (f Filter) makeTaps(in, out, begin, end int) []taps {
	weight, support := f.kernel()
	scale := float64(in) / float64(out)
	wide := max(scale, 1)
	support = float64(support * wide)
	list := make([]taps, end-begin)
	for i := range list {
		center := float64((float64(begin+i) + 0.5) * scale)
		first := max(0, int(center-support+0.5))
		last := min(in, int(center+support+0.5))
		exact, sum := make([]float64, last-first), 0.0
		for x := range exact {
			exact[x] = weight((float64(x+first) - center + 0.5) * (1 / wide))
			sum += exact[x]
		}
		fixed := make([]int32, len(exact))
		for x, w := range exact {
			if sum != 0 {
				w /= sum
			}
			fixed[x] = int32(math.Trunc(float64(w*(1<<fractionBits)) + math.Copysign(0.5, w)))
		}
		list[i] = taps{first, fixed}
	}
	return list
}

// window is a part of a picture, from (X, Y) to before (X+Width, Y+Height).
type window struct{ x, y, width, height int }

// Resize is Pillow's Image.resize of an image in mode RGB, to the byte, with 8 bits between
// its two passes. Pillow 13 resizes rows and then columns; where the height shrinks by
// more than twice the pixels that the width does, columns and then rows. Earlier ones always
// begin with the rows, which moves single bytes by one in such images.
func (im *Image) Resize(width, height int, f Filter) *Image {
	return im.resizeWindow(width, height, f, window{0, 0, width, height})
}

// resizeWindow gives the part of Resize's result that lies in a window, without the work
// for the rest of it.
func (im *Image) resizeWindow(width, height int, f Filter, part window) *Image {
	switch f {
	case Nearest:
		return im.pickWindow(width, height, part)
	case Smooth:
		return im.smoothWindow(width, height, part)
	}
	if shrinks := im.Height - height; shrinks > 0 && shrinks > 2*(im.Width-width) {
		out := im.resizeColumns(f.makeTaps(im.Height, height, part.y, part.y+part.height), 0)
		return out.resizeRows(width, f, part, 0, part.height)
	}
	if height == im.Height {
		return im.resizeRows(width, f, part, part.y, part.y+part.height)
	}
	down := f.makeTaps(im.Height, height, part.y, part.y+part.height)
	// The rows of the source that those of the window are made of.
	first, last := down[0].first, 0
	for _, t := range down {
		last = max(last, t.first+len(t.weights))
	}
	return im.resizeRows(width, f, part, first, last).resizeColumns(down, first)
}

// pickWindow is resizeWindow by Nearest.
func (im *Image) pickWindow(width, height int, part window) *Image {
	pick := func(in, out, at int) int {
		return min(in-1, int(float32(at)*(float32(in)/float32(out))))
	}
	out := &Image{part.width, part.height, make([]byte, 3*part.width*part.height)}
	to := 0
	for y := range part.height {
		row := im.Pix[3*im.Width*pick(im.Height, height, part.y+y):]
		for x := range part.width {
			copy(out.Pix[to:to+3], row[3*pick(im.Width, width, part.x+x):])
			to += 3
		}
	}
	return out
}

// smoothWindow is resizeWindow by Smooth. Bytes are rounded to even.
func (im *Image) smoothWindow(width, height int, part window) *Image {
	across := Bilinear.makeTaps(im.Width, width, part.x, part.x+part.width)
	down := Bilinear.makeTaps(im.Height, height, part.y, part.y+part.height)
	out := &Image{part.width, part.height, make([]byte, 3*part.width*part.height)}
	sums := make([]int64, 3*part.width)
	for y, v := range down {
		clear(sums)
		for i, weight := range v.weights {
			row := im.Pix[3*im.Width*(v.first+i):]
			for x, h := range across {
				for j, w := range h.weights {
					for c := range 3 {
						sums[3*x+c] += int64(weight) * int64(w) * int64(row[3*(h.first+j)+c])
					}
				}
			}
		}
		for x, sum := range sums {
			out.Pix[3*part.width*y+x] = clip(int(math.RoundToEven(float64(sum) / (1 << (2 * fractionBits)))))
		}
	}
	return out
}

// resizeRows gives the rows from first to last, each resized to width and cut to the window.
func (im *Image) resizeRows(width int, f Filter, part window, first, last int) *Image {
	out := &Image{part.width, last - first, make([]byte, 3*part.width*(last-first))}
	if width == im.Width {
		for y := range out.Height {
			copy(out.Pix[3*y*out.Width:][:3*out.Width], im.Pix[3*((first+y)*im.Width+part.x):])
		}
		return out
	}
	across := f.makeTaps(im.Width, width, part.x, part.x+part.width)
	to := 0
	for y := first; y < last; y++ {
		row := im.Pix[3*y*im.Width:][:3*im.Width]
		for _, t := range across {
			var sums [3]int32
			from := row[3*t.first:]
			for i, w := range t.weights {
				sums[0] += w * int32(from[3*i])
				sums[1] += w * int32(from[3*i+1])
				sums[2] += w * int32(from[3*i+2])
			}
			for c, sum := range sums {
				out.Pix[to+c] = roundFixed(sum)
			}
			to += 3
		}
	}
	return out
}

// resizeColumns makes each row of the result from rows of im, whose first is row number
// firstRow of the source.
func (im *Image) resizeColumns(down []taps, firstRow int) *Image {
	stride := 3 * im.Width
	out := &Image{im.Width, len(down), make([]byte, stride*len(down))}
	sums := make([]int32, stride)
	for y, t := range down {
		clear(sums)
		for i, w := range t.weights {
			for x, v := range im.Pix[(t.first-firstRow+i)*stride:][:stride] {
				sums[x] += w * int32(v)
			}
		}
		for x, sum := range sums {
			out.Pix[y*stride+x] = roundFixed(sum)
		}
	}
	return out
}

func roundFixed(sum int32) byte { return clip(int((sum + 1<<(fractionBits-1)) >> fractionBits)) }
