package picture

import "math"

// Planes is a picture as models read it: f32, channels first. Data has 3*Height*Width
// values: the red plane by rows, the green and the blue one.
type Planes struct {
	Width, Height int
	Data          []float32
}

func newPlanes(width, height int) *Planes {
	return &Planes{width, height, make([]float32, 3*width*height)}
}

// Signed gives the image in [-1, 1]: 2*(v/255) - 1 of each byte v, in f32.
func (im *Image) Signed() *Planes {
	p, n := newPlanes(im.Width, im.Height), im.Width*im.Height
	for i := range n {
		for c := range 3 {
			p.Data[c*n+i] = signedOf(im.Pix[3*i+c])
		}
	}
	return p
}

func signedOf(v byte) float32 {
	unit := float32(v) / 255
	return float32(2*unit) - 1
}

// normalize makes each value v of channel c (v/2 + 1/2 - mean[c]) / deviation[c]: what a
// vision encoder reads, from a picture in [-1, 1].
func (p *Planes) normalize(mean, deviation [3]float32) {
	n := p.Width * p.Height
	for c := range 3 {
		for i, v := range p.Data[c*n:][:n] {
			p.Data[c*n+i] = (float32(v*0.5) + 0.5 - mean[c]) / deviation[c]
		}
	}
}

// ResizeBicubic is PyTorch's interpolate(mode="bicubic", align_corners=False) on the CPU of
// the picture in [-1, 1], without antialiasing: each value is made of four by four of the
// source, with a = -0.75. Positions are computed in f32, as there.
func (im *Image) ResizeBicubic(width, height int) *Planes {
	return im.resizeBicubicWindow(width, height, window{0, 0, width, height})
}

// resizeBicubicWindow gives the part of ResizeBicubic's result that lies in a window.
func (im *Image) resizeBicubicWindow(width, height int, part window) *Planes {
	across := makeCubicTaps(im.Width, width, part.x, part.width)
	down := makeCubicTaps(im.Height, height, part.y, part.height)
	out := newPlanes(part.width, part.height)
	var signed [256]float32
	for v := range signed {
		signed[v] = signedOf(byte(v))
	}
	to, plane := 0, part.width*part.height
	for _, v := range down {
		for _, h := range across {
			for c := range 3 {
				var sum float32
				for i, y := range v.at {
					row := im.Pix[3*y*im.Width+c:]
					var inRow float32
					for j, x := range h.at {
						inRow = multiplyAdd(signed[row[3*x]], h.weight[j], inRow)
					}
					sum = multiplyAdd(inRow, v.weight[i], sum)
				}
				out.Data[c*plane+to] = sum
			}
			to++
		}
	}
	return out
}

// cubicTaps are four places of the source and their weights.
type cubicTaps struct {
	at     [4]int
	weight [4]float32
}

func makeCubicTaps(in, out, begin, count int) []cubicTaps {
	list := make([]cubicTaps, count)
	scale := float32(in) / float32(out)
	for i := range list {
		position := multiplyAdd(scale, float32(begin+i)+0.5, -0.5)
		floor := int(math.Floor(float64(position)))
		floor = min(floor, in-1)
		t := min(max(position-float32(floor), 0), 1)
		list[i].weight = [4]float32{cubicOuter(t + 1), cubicInner(t), cubicInner(1 - t), cubicOuter(2 - t)}
		for j := range list[i].at {
			list[i].at[j] = min(max(floor-1+j, 0), in-1)
		}
	}
	return list
}

const cubicA = -0.75

// cubicInner is the weight at a distance of at most one pixel.
func cubicInner(x float32) float32 {
	return multiplyAdd(multiplyAdd(cubicA+2, x, -(cubicA+3))*x, x, 1)
}

// cubicOuter is the weight at a distance of one to two pixels.
func cubicOuter(x float32) float32 {
	return multiplyAdd(multiplyAdd(multiplyAdd(cubicA, x, -5*cubicA), x, 8*cubicA), x, -4*cubicA)
}

// multiplyAdd is a*b + c in f32 without a rounding of the product, as PyTorch's kernels
// are compiled: a position is then the same number as there, even in large pictures.
func multiplyAdd(a, b, c float32) float32 { return float32(float64(a)*float64(b) + float64(c)) }
