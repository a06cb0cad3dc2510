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

// timesOf lists each video's timesteps, in the order in which they come first.
func timesOf(ts []float32, batch int) [][]float32 {
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
	for _, of := range timesOf(ts, t.Shape[0]) {
		n = max(n, len(of))
	}
	if n > fewTimes {
		n = 0
	}
	return n, nil
}

// TimeInputs declares what the time path reads: "time", the sines (B, width) of a video's
// timestep, or with a timestep for every token (B, Sp, width), or of a few
// (B, Times, width), and then "time_of" (B, Sp, Times), which says of each token the row that
// is its own: 1 there, 0 elsewhere, and 0 all along for padding.
func (s *Step) TimeInputs(l Layout, width int) {
	r, rows, spec := s.Request, []int{s.Request.Batch}, l.Batch
	switch {
	case r.Times > 0:
		rows = append(rows, r.Times)
		s.Input(graph.Input{Name: "time_of", DType: dtype.F32, Shape: []int{r.Batch, l.Padded, r.Times}, Spec: l.Stream, Step: true})
	case r.TokenTimes:
		rows, spec = append(rows, l.Padded), l.Gathered
	}
	s.Input(graph.Input{Name: "time", DType: dtype.F32, Shape: append(rows, width), Spec: spec, Step: true})
}

// FeedTimes makes TimeInputs' tensors of timesteps (B,) or (B, S).
func FeedTimes(g *graph.Graph, r models.Request, ts []float32, to map[string]*tensor.Tensor) {
	shape := g.Input("time").Shape
	if r.Times > 0 {
		of := tensor.New(dtype.F32, g.Input("time_of").Shape...)
		per, rows := len(ts)/r.Batch, []float32{}
		for b, known := range timesOf(ts, r.Batch) {
			for s, t := range ts[b*per : (b+1)*per] {
				Put(of, (b*of.Shape[1]+s)*r.Times+slices.Index(known, t), 1)
			}
			rows = append(append(rows, known...), make([]float32, r.Times-len(known))...)
		}
		ts, to["time_of"] = rows, of
	}
	to["time"] = TimeTable(ts, shape...)
}

// OfTokens gives each token its own of a few timesteps' rows (B, Times, n): (B, Sp, n). Where
// timesteps are not few, x has a row for each token, or one for each video, already.
func (p *Program) OfTokens(x spmd.Tensor) spmd.Tensor {
	n := p.Step.Request.Times
	if n == 0 {
		return x
	}
	x = p.Reshard(x, sharding.NewSpec([]string{"dp"}, nil, nil), "few timesteps gathered: every device modulates whole tokens")
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
