package wan

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/tensor"
)

// Request reads batch, latent shape and text length off x (B, C, F, H, W), t
// (B,) and context (B, L, text_dim).
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	var l fault.List
	need := func(name string, rank int) *tensor.Tensor {
		t := inputs[name]
		switch {
		case t == nil:
			l.Add(fault.New(models.ErrInputs, nil, "input %q is missing: a Wan step reads x, t and context", name))
		case len(t.Shape) != rank:
			l.Add(fault.New(models.ErrInputs, nil, "input %q of shape %v: want %d dims", name, t.Shape, rank))
			return nil
		case !t.DType.IsFloat():
			l.Add(fault.New(models.ErrInputs, nil, "input %q is %v: want a floating-point type", name, t.DType))
			return nil
		}
		return t
	}
	x, t, context := need("x", 5), need("t", 1), need("context", 3)
	if err := l.Err(); err != nil {
		return models.Request{}, err
	}
	r := models.Request{Batch: x.Shape[0], Latent: slices.Clone(x.Shape[1:]), Text: context.Shape[1]}
	if t.Shape[0] != r.Batch || context.Shape[0] != r.Batch {
		l.Add(fault.New(models.ErrInputs, nil, "x has batch %d, t %d, context %d: want one number", r.Batch, t.Shape[0], context.Shape[0]))
	}
	if context.Shape[2] != m.c.TextDim {
		l.Add(fault.New(models.ErrInputs, nil, "context rows of %d numbers: the model reads text_dim %d", context.Shape[2], m.c.TextDim))
	}
	if context.Shape[1] < 1 {
		l.Add(fault.New(models.ErrInputs, nil, "context has no rows"))
	}
	l.Add(m.checkLatent(r.Latent))
	return r, l.Err()
}

// Example makes x, t and a context two rows short of full (at most 14).
func (m *Model) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	if latent == nil {
		p := m.c.PatchSize
		latent = []int{m.c.InDim, 3 * p[0], 3 * p[1], 5 * p[2]}
	}
	if err := m.checkLatent(latent); err != nil {
		return nil, err
	}
	rows := 14
	if m.c.TextLen > 0 {
		rows = max(1, min(rows, m.c.TextLen-2))
	}
	g := rand.New(rand.NewPCG(seed, 0))
	normal := func(shape ...int) *tensor.Tensor {
		t := tensor.New(dtype.F32, shape...)
		for i := range t.Elements() {
			put(t, i, g.NormFloat64())
		}
		return t
	}
	t := tensor.New(dtype.F32, batch)
	for b := range batch {
		put(t, b, 1000*float64(b+1)/float64(batch+1))
	}
	return map[string]*tensor.Tensor{"x": normal(append([]int{batch}, latent...)...), "t": t, "context": normal(batch, rows, m.c.TextDim)}, nil
}

// Feed makes the graph's inputs from those Request reads.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	ts, err := inputs["t"].Float32s()
	if err != nil {
		return nil, err
	}
	out, err := m.FeedText(g, r, inputs["context"])
	if err != nil {
		return nil, err
	}
	x, err := inputs["x"].As(dtype.F32)
	if err != nil {
		return nil, err
	}
	out["x"], out["time"] = x, m.timeTable(ts)
	return out, nil
}

// FeedStep is the part of Feed that changes from step to step, one timestep for the whole batch.
func (m *Model) FeedStep(r models.Request, x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error) {
	x, err := x.As(dtype.F32)
	if err != nil {
		return nil, err
	}
	ts := make([]float32, r.Batch)
	for i := range ts {
		ts[i] = float32(t)
	}
	return map[string]*tensor.Tensor{"x": x, "time": m.timeTable(ts)}, nil
}

// FeedText pads the context with zero rows to text_len, as the released models
// are run, and makes the rotary tables, with zeros for padded tokens.
func (m *Model) FeedText(g *graph.Graph, r models.Request, context *tensor.Tensor) (map[string]*tensor.Tensor, error) {
	length := m.c.TextLen
	if length == 0 {
		length = r.Text
	}
	if context.Shape[0] != r.Batch || context.Shape[1] > length || context.Shape[2] != m.c.TextDim {
		return nil, fault.New(models.ErrInputs, nil, "context %v: want (%d, up to %d, %d)", context.Shape, r.Batch, length, m.c.TextDim)
	}
	c, err := context.As(r.DType)
	if err != nil {
		return nil, err
	}
	padded := tensor.New(r.DType, r.Batch, length, m.c.TextDim)
	row := len(c.Data) / r.Batch
	for b := range r.Batch {
		copy(padded.Data[b*length*m.c.TextDim*r.DType.Size():], c.Data[b*row:(b+1)*row])
	}
	cos, sin := m.ropeTables(g, r)
	return map[string]*tensor.Tensor{"context": padded, "rope_cos": cos, "rope_sin": sin}, nil
}

// timeTable is the sinusoidal embedding of timesteps, cosines then sines
// (B, freq_dim), computed in f64: in f32 its error near t = 1000 is 6e-5.
func (m *Model) timeTable(ts []float32) *tensor.Tensor {
	half := m.c.FreqDim / 2
	out := tensor.New(dtype.F32, len(ts), m.c.FreqDim)
	for b, t := range ts {
		for i := range half {
			a := float64(t) * math.Pow(10000, -float64(i)/float64(half))
			put(out, b*2*half+i, math.Cos(a))
			put(out, b*2*half+half+i, math.Sin(a))
		}
	}
	return out
}

// Rope gives the angles of tokens (S, d/2): the d/2 channel pairs are shared
// between frame, row and column positions as d - 4(d/6), 2(d/6) and 2(d/6)
// channels, each with frequencies 10000^(-2i/n) over its own n channels.
func (m *Model) Rope(frames, rows, cols int) [][]float64 {
	d := m.c.HeadDim()
	parts := [3]int{d - 4*(d/6), 2 * (d / 6), 2 * (d / 6)}
	out := make([][]float64, 0, frames*rows*cols)
	for f := range frames {
		for y := range rows {
			for x := range cols {
				angles := make([]float64, 0, d/2)
				for k, pos := range [3]int{f, y, x} {
					n := parts[k]
					for i := range n / 2 {
						angles = append(angles, float64(pos)*math.Pow(10000, -2*float64(i)/float64(n)))
					}
				}
				out = append(out, angles)
			}
		}
	}
	return out
}

// ropeTables are cos and signed sin (Sp, d), each angle twice; rows past the
// last token are zero.
func (m *Model) ropeTables(g *graph.Graph, r models.Request) (cos, sin *tensor.Tensor) {
	d := m.c.HeadDim()
	angles := m.Rope(r.Latent[1]/m.c.PatchSize[0], r.Latent[2]/m.c.PatchSize[1], r.Latent[3]/m.c.PatchSize[2])
	padded := g.Input("rope_cos").Shape[0]
	cos, sin = tensor.New(dtype.F32, padded, d), tensor.New(dtype.F32, padded, d)
	for s, row := range angles {
		for i, a := range row {
			c, n := math.Cos(a), math.Sin(a)
			put(cos, s*d+2*i, c)
			put(cos, s*d+2*i+1, c)
			put(sin, s*d+2*i, -n)
			put(sin, s*d+2*i+1, n)
		}
	}
	return cos, sin
}

func put(t *tensor.Tensor, i int, v float64) {
	binary.LittleEndian.PutUint32(t.Data[4*i:], math.Float32bits(float32(v)))
}

// LatentShape is (channels, frames, height, width) of the latent video: 8x8
// pixels and 4 frames (the first alone) to one latent.
func (m *Model) LatentShape(width, height, frames int) ([]int, error) {
	var l fault.List
	for _, d := range []struct {
		what string
		n, s int
	}{{"height", height, 8 * m.c.PatchSize[1]}, {"width", width, 8 * m.c.PatchSize[2]}} {
		if d.n < 1 || d.n%d.s != 0 || d.n > 1<<16 {
			l.Add(fault.New(models.ErrSize, nil, "%s %d: want a multiple of %d (8 pixels a latent, patches of %d); nearest: %s", d.what, d.n, d.s, d.s/8, nearest(d.n, d.s, 0)))
		}
	}
	if frames < 1 || (frames-1)%4 != 0 || frames > 1<<16 {
		l.Add(fault.New(models.ErrSize, nil, "frames %d: want 1+4k (the first frame stands alone, then 4 frames a latent); nearest: %s", frames, nearest(frames, 4, 1)))
	} else if n := 1 + (frames-1)/4; n%m.c.PatchSize[0] != 0 {
		l.Add(fault.New(models.ErrSize, nil, "frames %d make %d latent frames, which do not fill patches of %d", frames, n, m.c.PatchSize[0]))
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return []int{m.c.InDim, 1 + (frames-1)/4, height / 8, width / 8}, nil
}

// nearest names the closest numbers of the form base + k*step, at least 1.
func nearest(n, step, base int) string {
	if n > 1<<16 {
		return "a size below 65536"
	}
	low := (n-base)/step*step + base
	if low < 1 || n < 1 {
		return fmt.Sprint((step+base-1)%step + 1)
	}
	return fmt.Sprintf("%d or %d", low, low+step)
}

var _ models.Generator = (*Model)(nil)
