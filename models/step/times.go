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

// fewTimes are the most timesteps of a video that are embedded once each. A given
// first frame makes two.
const fewTimes = 8

// distinctTimes lists each video's timesteps, in the order in which they come first.
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

// Times is Request.Times of timesteps (B, S): how many a video has, the most of
// all, or 0 if they are not few.
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

// TimeRows is what the time path's values have in front of their channels, and how they are
// held: of a video's timestep (B), whole; of one for every token (B, Sp), as the tokens are; of a
// few (B, Times), whole, for OfTokens to take.
func TimeRows(r models.Request, l Layout) (rows []int, held sharding.Spec) {
	switch {
	case r.Times > 0:
		return []int{r.Batch, r.Times}, l.Batch
	case r.TokenTimes:
		return []int{r.Batch, l.Padded}, l.Stream
	}
	return []int{r.Batch}, l.Batch
}

// TimeInputs declares what the time path reads: "time", the sines (..., width) of TimeRows, and
// of a few timesteps "time_of" (B, Sp, Times), which says of each token the row that is its
// own: 1 there, 0 elsewhere, and 0 all along for padding.
func (s *Step) TimeInputs(l Layout, width int) {
	r := s.Request
	rows, spec := TimeRows(r, l)
	switch {
	case r.Times > 0:
		s.Input(graph.Input{Name: "time_of", DType: dtype.F32, Shape: []int{r.Batch, l.Padded, r.Times}, Spec: l.Stream, Step: true})
	case r.TokenTimes:
		spec = l.Gathered // matmuls take rows so
	}
	s.Input(graph.Input{Name: "time", DType: dtype.F32, Shape: append(rows, width), Spec: spec, Step: true})
}

// FeedTimes makes TimeInputs' tensors of timesteps (B,) or (B, S), those that the
// request was read off.
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

// OfTokens gives each token its own of a few timesteps' rows (B, Times, n), which are on every
// device: (B, Sp, n), which exists where it is used alone. Where timesteps are not
// few, x has a row for each token already.
func (p *Program) OfTokens(x spmd.Tensor) spmd.Tensor {
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
