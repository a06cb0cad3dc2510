package ltx

import (
	"weft/attention"
	"weft/dtype"
	"weft/models/step"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// programBuilder is one program under construction: what a block of the transformer and
// one of the connector have in common.
//
// Shapes: B batch, N tokens, Np the same padded for the split, D width, H heads,
// d head width, L text rows.
type programBuilder struct {
	*step.Program
	heads, headDim int
	eps, qkEps     float64
	gated, halves  bool
	// stream is how tokens (B, Np, D) are held between blocks, gathered how a
	// matmul's operand is: over sp alone.
	stream, gathered sharding.Spec
}

// normalizeRMS is x over the root of its mean square, without weights.
func (p *programBuilder) normalizeRMS(x spmd.Tensor) spmd.Tensor {
	mean := p.Scale(p.Sum(p.Mul(x, x), -1), 1/float64(x.Dim(-1)))
	return p.Mul(x, p.Unary(program.OpRsqrt, p.Shift(mean, p.eps)))
}

// gatherStream makes a matmul's operand of a value of the stream.
func (p *programBuilder) gatherStream(x spmd.Tensor) spmd.Tensor {
	return p.Reshard(p.Compute(x), p.gathered, "split stream gathered for column-parallel matmuls")
}

// scaleAndShift is x (1 + scale) + shift.
func (p *programBuilder) scaleAndShift(x, shift, scale spmd.Tensor) spmd.Tensor {
	return p.Add(p.Mul(x, p.Shift(scale, 1)), shift)
}

func (p *programBuilder) splitHeads(x spmd.Tensor) spmd.Tensor {
	return p.SplitDim(x, 2, p.heads, p.headDim)
}

// rotateHeads turns x (B, N, D) by tables over its whole width (B|1, N, D) and views it
// as heads (B, N, H, d).
func (p *programBuilder) rotateHeads(x spmd.Tensor) spmd.Tensor {
	cos, sin := p.Value("rope_cos"), p.Value("rope_sin")
	if p.halves {
		return p.RopeHalves(p.splitHeads(x), p.splitHeads(cos), p.splitHeads(sin))
	}
	return p.Compute(p.splitHeads(p.Add(p.Mul(x, cos), p.Mul(p.SwapPairs(x), sin))))
}

// projectNormed are linear layers name.to_* of x with their RMS norms over the whole
// width, whose sums of squares travel together.
func (p *programBuilder) projectNormed(name string, x spmd.Tensor, parts ...string) []spmd.Tensor {
	var xs, ws []spmd.Tensor
	for _, part := range parts {
		xs = append(xs, p.Linear(name+".to_"+part, x, p.gathered))
		ws = append(ws, p.Weight(name+"."+part+"_norm.weight"))
	}
	return p.RMSNorms(p.qkEps, xs, ws)
}

// selfAttention of h (B, N, D), of which tokens are real.
func (p *programBuilder) selfAttention(name string, h spmd.Tensor, tokens int) spmd.Tensor {
	qk := p.projectNormed(name, h, "q", "k")
	v := p.splitHeads(p.Compute(p.Linear(name+".to_v", h, p.gathered)))
	y := attention.Attend(p.Builder, p.rotateHeads(qk[0]), p.rotateHeads(qk[1]), v, attention.Options{Keys: tokens})
	return p.projectOutput(name, h, y)
}

// crossAttention of h to the keys and values of the text, with a bias (B, 1, 1, L).
func (p *programBuilder) crossAttention(name string, h, k, v, bias spmd.Tensor) spmd.Tensor {
	q := p.splitHeads(p.Compute(p.projectNormed(name, h, "q")[0]))
	return p.projectOutput(name, h, attention.Attend(p.Builder, q, k, v, attention.Options{Bias: &bias}))
}

// projectOutput projects heads y (B, N, H, d), in LTX-2.5 each times a gate of h's.
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
