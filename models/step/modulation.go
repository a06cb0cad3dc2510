package step

import (
	"weft/dtype"
	"weft/graph"
	"weft/sharding"
	"weft/spmd"
)

// GatherStream makes the operand of a column-parallel matmul from rows of the residual
// stream: it rounds x to the compute type and, where the stream is sharded over tp, gathers
// it to the spec to, because every device of tp multiplies whole rows by its own columns.
func (p *ProgramBuilder) GatherStream(x spmd.Tensor, to sharding.Spec) spmd.Tensor {
	return p.Reshard(p.Compute(x), to, "split stream gathered for column-parallel matmuls")
}

// Modulate is x (1 + scale) + shift.
func (p *ProgramBuilder) Modulate(x, shift, scale spmd.Tensor) spmd.Tensor {
	return p.Add(p.Mul(x, p.Shift(scale, 1)), shift)
}

// PreciseMLP applies two linear layers with SiLU between them to x, in f32.
func (p *ProgramBuilder) PreciseMLP(first, second string, x spmd.Tensor, to sharding.Spec) spmd.Tensor {
	return p.Precise(second, p.Silu(p.Precise(first, x, to)), to)
}

// Modulations applies linear layers to silu(e) and returns a function that gives chunk i
// (B, 1, d) of layer k's result. All results are gathered to the spec to in one
// collective.
func (p *ProgramBuilder) Modulations(e spmd.Tensor, d int, to sharding.Spec, names ...string) func(k, i int) spmd.Tensor {
	e = p.Silu(e)
	all := make([]spmd.Tensor, len(names))
	for i, n := range names {
		all[i] = p.ExpandDim(p.Precise(n, e, to), 1)
	}
	joined := p.Reshard(p.Concat(1, all...), to, "modulations gathered: every device modulates whole tokens")
	return func(k, i int) spmd.Tensor { return p.Slice(p.Slice(joined, 1, k, k+1), 2, i*d, (i+1)*d) }
}

// RotaryTables declares the inputs rope_cos and rope_sin (Sp, width), which all videos share.
// They are sharded as queries are.
func (s *Step) RotaryTables(l Layout, width int) {
	for _, name := range []string{"rope_cos", "rope_sin"} {
		s.Input(graph.Input{Name: name, DType: dtype.F32, Shape: []int{l.Padded, width}, Spec: sharding.NewSpec(l.Gathered.Dim(1))})
	}
}

// TraceTimes traces the two results of a time path: the embedding (B, D) and, named name,
// what a linear layer makes of it in parts (B, parts, D). With a timestep for every token
// they have a row for each. With few timesteps there is nothing that belongs to a video or
// a token.
func (s *Step) TraceTimes(l Layout, name string, parts, d int) map[int]graph.Traced {
	r := s.Request
	switch {
	case r.Times > 0:
		return nil
	case r.TokenTimes:
		return map[int]graph.Traced{0: {Name: "time_embed", Shape: []int{r.Batch, l.Tokens, d}}, 1: {Name: name, Shape: []int{r.Batch, l.Tokens, parts, d}}}
	}
	return map[int]graph.Traced{0: {Name: "time_embed"}, 1: {Name: name}}
}
