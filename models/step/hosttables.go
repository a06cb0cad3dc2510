package step

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"weft/dtype"
	"weft/tensor"
)

// Put sets element i of an f32 tensor.
func Put(t *tensor.Tensor, i int, v float64) {
	binary.LittleEndian.PutUint32(t.Data[4*i:], math.Float32bits(float32(v)))
}

// Normals returns a function that makes f32 tensors of normally distributed numbers, from a
// seed. Example inputs are made with it.
func Normals(seed uint64) func(shape ...int) *tensor.Tensor {
	g := rand.New(rand.NewPCG(seed, 0))
	return func(shape ...int) *tensor.Tensor {
		t := tensor.New(dtype.F32, shape...)
		for i := range t.Elements() {
			Put(t, i, g.NormFloat64())
		}
		return t
	}
}

// TimeTable is the sinusoidal embedding of timesteps, cosines before sines, with the given
// shape, whose last dim is the width: (B, width) or, with a timestep for each of S tokens,
// (B, Sp, width) with zeros past the last token. Element k of either half has the frequency
// 10000^(-2k/width). It is computed in f64, because in f32 its error near t = 1000 is 6e-5.
// Each timestep is computed once, however often it occurs.
func TimeTable(ts []float32, shape ...int) *tensor.Tensor {
	return timeTable(ts, shape, func(t float32, k, half int) float64 {
		return float64(t) * math.Pow(10000, -float64(k)/float64(half))
	})
}

// RoundedTimeTable is TimeTable with angles that are rounded to f32 at every operation, as the
// releases' code computes them. It matters for numbers far above 1000: of 6000 an angle is off by
// up to 4e-4, which the weights were trained with.
func RoundedTimeTable(ts []float32, shape ...int) *tensor.Tensor {
	return timeTable(ts, shape, func(t float32, k, half int) float64 {
		exponent := float32(-math.Log(10000)) * float32(k) / float32(half)
		return float64(t * float32(math.Exp(float64(exponent))))
	})
}

// timeTable makes a table of the cosines and sines of angles: of a timestep's angle k out of half
// as many as the width.
func timeTable(ts []float32, shape []int, angle func(t float32, k, half int) float64) *tensor.Tensor {
	width := shape[len(shape)-1]
	half, bytes := width/2, width*dtype.F32.Size()
	out := tensor.New(dtype.F32, shape...)
	per := len(ts) / shape[0]                 // timesteps of one video
	held := out.Elements() / width / shape[0] // rows of one video
	seen := map[float32]int{}                 // row where a timestep stands first
	for i, t := range ts {
		row := i/per*held + i%per
		if first, ok := seen[t]; ok {
			copy(out.Data[row*bytes:(row+1)*bytes], out.Data[first*bytes:])
			continue
		}
		seen[t] = row
		for k := range half {
			a := angle(t, k, half)
			Put(out, row*width+k, math.Cos(a))
			Put(out, row*width+half+k, math.Sin(a))
		}
	}
	return out
}

// RotaryHalves are the tables cos and sin (rows, d) of angles (S, d/2) for heads in which
// channels i and i + d/2 rotate together: each angle stands in both halves. Rows past the
// last are zero.
func RotaryHalves(angles [][]float64, rows, d int) (cos, sin *tensor.Tensor) {
	cos, sin = tensor.New(dtype.F32, rows, d), tensor.New(dtype.F32, rows, d)
	for s, row := range angles {
		for i, a := range row {
			c, n := math.Cos(a), math.Sin(a)
			for _, at := range [2]int{i, d/2 + i} {
				Put(cos, s*d+at, c)
				Put(sin, s*d+at, n)
			}
		}
	}
	return cos, sin
}

// RotaryPairs are the tables cos and sin (rows, d) of angles (S, d/2) for heads in which
// neighbouring channels rotate together: each angle stands twice, the first time with the
// sine negated. Rows past the last are zero.
func RotaryPairs(angles [][]float64, rows, d int) (cos, sin *tensor.Tensor) {
	cos, sin = tensor.New(dtype.F32, rows, d), tensor.New(dtype.F32, rows, d)
	for s, row := range angles {
		for i, a := range row {
			c, n := math.Cos(a), math.Sin(a)
			Put(cos, s*d+2*i, c)
			Put(cos, s*d+2*i+1, c)
			Put(sin, s*d+2*i, -n)
			Put(sin, s*d+2*i+1, n)
		}
	}
	return cos, sin
}

// GridAngles are the Angles (S, sum(dims)/2) of a grid's tokens, with frames, rows and
// columns counted from 0.
func GridAngles(g Grid, dims [3]int, thetas [3]float64) [][]float64 {
	count := func(n int) []float64 {
		places := make([]float64, n)
		for i := range places {
			places[i] = float64(i)
		}
		return places
	}
	return Angles([3][]float64{count(g.Frames), count(g.Rows), count(g.Cols)}, dims, thetas)
}

// Angles are the rotary angles (S, sum(dims)/2) of tokens in (frame, row, column) order, at
// the given positions along each axis. dims[0] channels rotate by the frame, dims[1] by the
// row and dims[2] by the column. Pair i of an axis with n channels has the frequency
// theta^(-2i/n).
func Angles(places [3][]float64, dims [3]int, thetas [3]float64) [][]float64 {
	freqs := [3][]float64{}
	for k, n := range dims {
		for i := range n / 2 {
			freqs[k] = append(freqs[k], math.Pow(thetas[k], -2*float64(i)/float64(n)))
		}
	}
	out := make([][]float64, 0, len(places[0])*len(places[1])*len(places[2]))
	for _, f := range places[0] {
		for _, y := range places[1] {
			for _, x := range places[2] {
				angles := make([]float64, 0, (dims[0]+dims[1]+dims[2])/2)
				for k, place := range [3]float64{f, y, x} {
					for _, w := range freqs[k] {
						angles = append(angles, place*w)
					}
				}
				out = append(out, angles)
			}
		}
	}
	return out
}

// MaskOf reads a mask of floats, integers or truth values as floats.
func MaskOf(t *tensor.Tensor) ([]float32, error) {
	if t.DType.IsFloat() {
		return t.Float32s()
	}
	ns, err := t.Int64s()
	out := make([]float32, len(ns))
	for i, n := range ns {
		out[i] = float32(n)
	}
	return out, err
}

// PadRows converts x (batch, rows, dim) to a type and appends rows of zeros, up to length
// rows.
func PadRows(x *tensor.Tensor, length int, d dtype.DType) (*tensor.Tensor, error) {
	x, err := x.As(d)
	if err != nil {
		return nil, err
	}
	batch, own := x.Shape[0], x.Shape[1]*x.Shape[2]*d.Size()
	out := tensor.New(d, batch, length, x.Shape[2])
	for b := range batch {
		copy(out.Data[b*length*x.Shape[2]*d.Size():], x.Data[b*own:(b+1)*own])
	}
	return out, nil
}
