package ltx

import (
	"weft/attention"
	"weft/dtype"
	"weft/models/step"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// programBuilder is one program under construction. It has the sublayers that a block of the
// transformer and a block of the connector share.
//
// Shapes: B batch, N tokens, Np the same padded so that the sharded dim divides, D width, H
// heads, d head width, L text rows.
type programBuilder struct {
	*step.ProgramBuilder
	heads, headDim int
	eps, qkEps     float64
	gated, halves  bool
	// stream is the spec of the residual stream (B, Np, D) between blocks, gathered
	// that of a matmul's operand, which is sharded over sp alone.
	stream, gathered sharding.Spec
}

// normalizeRMS divides x by the root of its mean square. These norms have no weights.
func (p *programBuilder) normalizeRMS(x spmd.Tensor) spmd.Tensor {
	mean := p.Scale(p.Sum(p.Mul(x, x), -1), 1/float64(x.Dim(-1)))
	return p.Mul(x, p.Unary(program.OpRsqrt, p.Shift(mean, p.eps)))
}

// gatherStream makes the operand of a column-parallel matmul from the residual stream: it is
// rounded to the compute type and gathered over tp.
func (p *programBuilder) gatherStream(x spmd.Tensor) spmd.Tensor {
	return p.GatherStream(x, p.gathered)
}

// splitHeads views (B, N, D) as (B, N, H, d).
func (p *programBuilder) splitHeads(x spmd.Tensor) spmd.Tensor {
	return p.SplitDim(x, 2, p.heads, p.headDim)
}

// rotateHeads rotates x (B, N, D) by tables over its whole width (B|1, N, D) and views the
// result as heads (B, N, H, d).
func (p *programBuilder) rotateHeads(x spmd.Tensor) spmd.Tensor {
	cos, sin := p.Value("rope_cos"), p.Value("rope_sin")
	if p.halves {
		return p.RopeHalves(p.splitHeads(x), p.splitHeads(cos), p.splitHeads(sin))
	}
	return p.Compute(p.splitHeads(p.Add(p.Mul(x, cos), p.Mul(p.SwapPairs(x), sin))))
}

// projectNormed applies the linear layers name.to_* to x, and their RMS norms over the whole
// width. The sums of squares of all of them are reduced in one collective.
func (p *programBuilder) projectNormed(name string, x spmd.Tensor, parts ...string) []spmd.Tensor {
	var xs, ws []spmd.Tensor
	for _, part := range parts {
		xs = append(xs, p.Linear(name+".to_"+part, x, p.gathered))
		ws = append(ws, p.Weight(name+"."+part+"_norm.weight"))
	}
	return p.RMSNorms(p.qkEps, xs, ws)
}

// selfAttention attends within h (B, N, D). Keys past the number of tokens are padding and
// masked.
func (p *programBuilder) selfAttention(name string, h spmd.Tensor, tokens int) spmd.Tensor {
	qk := p.projectNormed(name, h, "q", "k")
	v := p.splitHeads(p.Compute(p.Linear(name+".to_v", h, p.gathered)))
	y := attention.Attend(p.Builder, p.rotateHeads(qk[0]), p.rotateHeads(qk[1]), v, attention.Options{Keys: tokens})
	return p.projectOutput(name, h, y)
}

// crossAttention attends from h to the text's keys and values, with a bias (B, 1, 1, L) on
// the scores.
func (p *programBuilder) crossAttention(name string, h, k, v, bias spmd.Tensor) spmd.Tensor {
	q := p.splitHeads(p.Compute(p.projectNormed(name, h, "q")[0]))
	return p.projectOutput(name, h, attention.Attend(p.Builder, q, k, v, attention.Options{Bias: &bias}))
}

// projectOutput projects attention's result y (B, N, H, d) back to the stream. In LTX-2.5
// each head is multiplied by a gate first, which is computed from h.
func (p *programBuilder) projectOutput(name string, h, y spmd.Tensor) spmd.Tensor {
	if p.gated {
		gate := p.Scale(p.Unary(program.OpSigmoid, p.Linear(name+".to_gate_logits", h, p.gathered)), 2)
		y = p.Compute(p.Mul(p.Convert(y, dtype.F32), p.ExpandDim(gate, 3)))
	}
	return p.Linear(name+".to_out.0", p.MergeDims(y, 2, 2), p.stream)
}

func (p *programBuilder) feedForward(h spmd.Tensor) spmd.Tensor {
	return p.FFN("ff.net.0.proj", "ff.net.2", h, p.stream, p.GeluTanh)
}
