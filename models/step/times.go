package step

import (
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/models"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// fewTimes is the largest number of different timesteps in a video that are embedded once
// each, instead of once per token. A video with a given first frame has two.
const fewTimes = 8

// distinctTimes lists the different timesteps of each video, in the order of their first
// occurrence.
func distinctTimes(ts []float32, batch int) [][]float32 {
	out := make([][]float32, batch)
	for i, t := range ts {
		b := i / (len(ts) / batch)
		if len(out[b]) <= fewTimes && !slices.Contains(out[b], t) {
			out[b] = append(out[b], t)
		}
	}
	return out
}

// Times is Request.Times for timesteps (B, S): the largest number of different ones in a
// video, or 0 if that exceeds fewTimes.
func Times(t *tensor.Tensor) (int, error) {
	ts, err := t.Float32s()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, of := range distinctTimes(ts, t.Shape[0]) {
		n = max(n, len(of))
	}
	if n > fewTimes {
		n = 0
	}
	return n, nil
}

// TimeRows are the dims of the time path's values before their channels, and the spec of
// these values. With one timestep per video they are (B), sharded over dp alone; with one
// per token (B, Sp), sharded as the residual stream is; with few different ones (B, Times),
// sharded over dp alone, and OfTokens picks each token's.
func TimeRows(r models.Request, l Layout) (rows []int, held sharding.Spec) {
	switch {
	case r.Times > 0:
		return []int{r.Batch, r.Times}, l.Batch
	case r.TokenTimes:
		return []int{r.Batch, l.Padded}, l.Stream
	}
	return []int{r.Batch}, l.Batch
}

// TimeInputs declares the inputs of the time path. "time" is the sinusoidal embedding
// (..., width), with the dims of TimeRows. With few different timesteps there is also
// "time_of" (B, Sp, Times): for each token it has 1 at the row of its own timestep and 0
// elsewhere, and for padding 0 only.
func (s *Step) TimeInputs(l Layout, width int) {
	r := s.Request
	rows, spec := TimeRows(r, l)
	switch {
	case r.Times > 0:
		s.Input(graph.Input{Name: "time_of", DType: dtype.F32, Shape: []int{r.Batch, l.Padded, r.Times}, Spec: l.Stream, Step: true})
	case r.TokenTimes:
		spec = l.Gathered // as a matmul takes its operand
	}
	s.Input(graph.Input{Name: "time", DType: dtype.F32, Shape: append(rows, width), Spec: spec, Step: true})
}

// FeedTimes makes the tensors that TimeInputs declares from timesteps (B,) or (B, S): those
// from which Request.Times was read.
func FeedTimes(g *graph.Graph, r models.Request, ts []float32, to map[string]*tensor.Tensor) {
	if r.Times > 0 {
		of := tensor.New(dtype.F32, g.Input("time_of").Shape...)
		per, rows := len(ts)/r.Batch, []float32{}
		for b, known := range distinctTimes(ts, r.Batch) {
			for s, t := range ts[b*per : (b+1)*per] {
				Put(of, (b*of.Shape[1]+s)*r.Times+slices.Index(known, t), 1)
			}
			rows = append(append(rows, known...), make([]float32, r.Times-len(known))...)
		}
		ts, to["time_of"] = rows, of
	}
	to["time"] = TimeTable(ts, g.Input("time").Shape...)
}

// OfTokens picks the row of its own timestep for each token from the rows (B, Times, n) of
// few timesteps, which every device holds: (B, Sp, n), which need not be kept, as it is
// computed where it is used. If Times is 0, x has a row for each token already and is
// returned as it is.
func (p *ProgramBuilder) OfTokens(x spmd.Tensor) spmd.Tensor {
	n := p.Step.Request.Times
	if n == 0 {
		return x
	}
	of := p.Value("time_of")
	var sum spmd.Tensor
	for k := range n {
		term := p.Mul(p.Slice(of, 2, k, k+1), p.Slice(x, 1, k, k+1))
		if k > 0 {
			term = p.Add(sum, term)
		}
		sum = term
	}
	return sum
}
