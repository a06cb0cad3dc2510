package ltx

import (
	"math"

	"weft/dtype"
	"weft/models/step"
	"weft/tensor"
)

// rotary describes rotary tables over the whole width, unlike other models' tables over the
// width of one head.
type rotary struct {
	dim, heads int
	theta      float64
	max        []float64 // the largest position along each axis: angles are by position/max
	halves     bool      // channels i and i+d/2 of a head rotate together, not neighbouring ones
	double     bool      // frequencies are rounded to float32 once, not after every operation
}

// makeTables computes cosines and sines (parts, padded, dim) for the positions of tokens
// (parts, tokens, axes). Rows past the last token are zero. A token has dim/2 angles. Each
// of n = dim/2/axes frequencies, counted from b = 0, gives one angle for each axis, in this
// order: pi/2 theta^(b/(n-1)) (2 position/max - 1). If axes does not divide dim/2, angles of
// 0 come first. Each angle belongs to two neighbouring channels, whose sines have opposite
// signs. With halves the angles are dealt to the heads in order, and both halves of a head
// have the same ones.
func (r rotary) makeTables(places [][][]float64, padded int) (cos, sin *tensor.Tensor) {
	axes, pairs := len(r.max), r.dim/2
	bands := pairs / axes
	zeros := pairs - bands*axes
	// The models were trained with float32 angles of up to 15708. Their rounding
	// changes the result noticeably, so it is reproduced here.
	band := make([]float32, bands)
	for b := range band {
		at := float64(b) / float64(max(1, bands-1))
		band[b] = float32(math.Pow(r.theta, at) * math.Pi / 2)
		if !r.double {
			band[b] = float32(math.Pow(r.theta, float64(float32(at)))) * (math.Pi / 2)
		}
	}
	// A video has few positions along each axis, so the angles of each are computed once.
	type turn struct{ cos, sin []float64 }
	known := make([]map[float64]turn, axes)
	turns := func(axis int, place float64) turn {
		if known[axis] == nil {
			known[axis] = map[float64]turn{}
		}
		t, ok := known[axis][place]
		if !ok {
			share := float32(place) / float32(r.max[axis])
			for _, b := range band {
				a := float64(b * (share*2 - 1))
				t.cos, t.sin = append(t.cos, math.Cos(a)), append(t.sin, math.Sin(a))
			}
			known[axis][place] = t
		}
		return t
	}
	cos, sin = tensor.New(dtype.F32, len(places), padded, r.dim), tensor.New(dtype.F32, len(places), padded, r.dim)
	half := pairs / r.heads // of one head
	put := func(row, pair int, c, s float64) {
		at, next, sign := row+2*pair, row+2*pair+1, -1.0
		if r.halves {
			at = row + pair/half*2*half + pair%half
			next, sign = at+half, 1
		}
		step.Put(cos, at, c)
		step.Put(cos, next, c)
		step.Put(sin, at, sign*s)
		step.Put(sin, next, s)
	}
	for p, tokens := range places {
		for n, place := range tokens {
			row := (p*padded + n) * r.dim
			for i := range zeros {
				put(row, i, 1, 0)
			}
			for axis, x := range place {
				t := turns(axis, x)
				for b := range band {
					put(row, zeros+b*axes+axis, t.cos[b], t.sin[b])
				}
			}
		}
	}
	return cos, sin
}

// A latent position of the VAE stands for so many pixels along either side and so many frames.
const (
	pixelsPerLatent = 32
	framesPerLatent = 8
)

// tokenBounds are the start and the end of each token of a grid (2, token, axis), in
// seconds, pixels and pixels, at fps frames per second.
func (c Config) tokenBounds(g step.Grid, fps float64) [2][][]float64 {
	second := func(latent int) float64 {
		f := float64(latent * framesPerLatent)
		if c.Causal {
			f = max(0, f+1-framesPerLatent)
		}
		return f / fps
	}
	var out [2][][]float64
	for f := range g.Frames {
		for y := range g.Rows {
			for x := range g.Cols {
				for end := range 2 {
					out[end] = append(out[end], []float64{second(f + end), float64((y + end) * pixelsPerLatent), float64((x + end) * pixelsPerLatent)})
				}
			}
		}
	}
	return out
}

// tokenPlaces are the positions that rotary angles are computed from: the start of each
// token or, in LTX-2.5, its middle.
func (c Config) tokenPlaces(bounds [2][][]float64) [][]float64 {
	if !c.Second {
		return bounds[0]
	}
	out := make([][]float64, len(bounds[0]))
	for n := range out {
		for axis, start := range bounds[0][n] {
			out[n] = append(out[n], (start+bounds[1][n][axis])/2)
		}
	}
	return out
}

// readPlaces reads positions from coords: (B, 3, N), or (B, 3, N, 2) with starts and ends.
func (c Config) readPlaces(coords *tensor.Tensor, batch int) ([][][]float64, error) {
	fs, err := coords.Float32s()
	if err != nil {
		return nil, err
	}
	n, ends := coords.Shape[2], len(fs)/coords.Shape[0]/3/coords.Shape[2]
	out := make([][][]float64, batch)
	for b := range out {
		var bounds [2][][]float64
		for token := range n {
			for end := range ends {
				place := make([]float64, 3)
				for axis := range place {
					place[axis] = float64(fs[((b*3+axis)*n+token)*ends+end])
				}
				bounds[end] = append(bounds[end], place)
			}
		}
		out[b] = c.tokenPlaces(bounds)
	}
	return out, nil
}

// newRotary describes the rotary tables of the transformer.
func (c Config) newRotary() rotary {
	return rotary{dim: c.Dim(), heads: c.Heads, theta: c.Theta, max: c.MaxPos[:], halves: c.Second, double: c.Precision == "float64"}
}
