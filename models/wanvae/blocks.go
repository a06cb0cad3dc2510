package wanvae

import (
	"math"

	"weft/dtype"
	"weft/models/vae"
	"weft/program"
	"weft/spmd"
)

// programBuilder is one program under construction.
type programBuilder struct {
	*vae.Program
	s *build
}

// leastLength is the lower bound of the length that normChannels divides by, so that a
// position of zeros stays zero.
const leastLength = 1e-12

// normChannels scales the channels of each position to the length sqrt(C), then by the
// weights. An RMS norm with an epsilon would give other results where the channels are
// small.
func (p *programBuilder) normChannels(name string, x spmd.Tensor) spmd.Tensor {
	length := p.AtLeast(p.Unary(program.OpSqrt, p.Sum(p.Mul(x, x), -1)), leastLength)
	factor := p.Div(p.Constant(dtype.F32, math.Sqrt(float64(x.Dim(-1)))), length)
	return p.Mul(p.Mul(x, factor), p.Weight(name+".gamma"))
}

// applyResidual applies a residual block: two convolutions with a shortcut around them. The
// residual stream is f32.
func (p *programBuilder) applyResidual(name string, x spmd.Tensor) spmd.Tensor {
	beside := x
	if p.Has(name + ".shortcut.weight") {
		beside = p.Linear(name+".shortcut", p.Compute(x), p.s.Layout.Pictures)
	}
	y := p.CausalConv(name+".residual.2", p.Silu(p.normChannels(name+".residual.0", x)))
	y = p.CausalConv(name+".residual.6", p.Silu(p.normChannels(name+".residual.3", y)))
	return p.Add(y, beside)
}

// attendInFrame applies attention with one head over the positions (B, 1, H, W, C) of a
// frame. Each device keeps the queries of its own positions. Keys and values are gathered,
// since they are small at the size of the latents, and the padding of rows and columns is
// cut off them.
func (p *programBuilder) attendInFrame(name string, x spmd.Tensor) spmd.Tensor {
	pictures, c := p.s.Layout.Pictures, x.Dim(-1)
	qkv := p.Compute(p.Linear(name+".to_qkv", p.Compute(p.normChannels(name+".norm", x)), pictures))
	kv := p.Positions(p.Slice(qkv, 4, c, 3*c), "keys and values of all positions")
	k, v := p.SplitDim(p.Slice(kv, 2, 0, c), 2, 1, c), p.SplitDim(p.Slice(kv, 2, c, 2*c), 2, 1, c)
	y := p.AttendOver(p.Slice(qkv, 4, 0, c), k, v)
	return p.Add(p.Linear(name+".proj", y, pictures), x)
}
