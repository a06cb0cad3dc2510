package spmd

import (
	"slices"

	"weft/dtype"
	"weft/sharding"
)

const i32 = dtype.I32

// Sum adds up dim, which stays at size 1. Over a split dim each device sums its
// part and the result is partial.
func (b *Builder) Sum(x Tensor, dim int) Tensor {
	dim = b.dimIndex(x, dim)
	shape := cloneInts(x.Shape)
	shape[dim] = 1
	spec := x.Spec.WithDim(dim).WithPartial(x.Spec.Dim(dim)...)
	return b.Global(b.LReduceKeep(Sum, x.local, dim), shape, spec)
}

// Max takes the largest along dim, which stays at size 1. Over a split dim the
// devices' results are joined at once: a maximum is no partial sum.
func (b *Builder) Max(x Tensor, dim int) Tensor {
	dim = b.dimIndex(x, dim)
	x = b.Reduced(x, "max needs whole sums")
	v := b.LAllReduce(Maximum, b.LReduceKeep(Maximum, x.local, dim), x.Spec.Dim(dim), "maximum over a split dim")
	shape := cloneInts(x.Shape)
	shape[dim] = 1
	return b.Global(v, shape, x.Spec.WithDim(dim))
}

// Relu is the larger of x and 0.
func (b *Builder) Relu(x Tensor) Tensor {
	x = b.Reduced(x, "relu needs whole sums")
	return b.Global(b.LMax(x.local, b.LConst(x.DType, 0)), x.Shape, x.Spec)
}

// Silu is x * sigmoid(x).
func (b *Builder) Silu(x Tensor) Tensor {
	x = b.Reduced(x, "silu needs whole sums")
	return b.Mul(x, b.Unary(OpSigmoid, x))
}

// geluC is sqrt(2/pi).
const geluC = 0.7978845608028654

// GeluTanh is the tanh form of GELU: x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
func (b *Builder) GeluTanh(x Tensor) Tensor {
	x = b.Reduced(x, "gelu needs whole sums")
	// 1 + tanh(u) = 2 sigmoid(2u): one transcendental, no cancellation for negative u.
	u := b.Mul(x, b.Shift(b.Scale(b.Mul(x, x), 2*geluC*0.044715), 2*geluC))
	return b.Mul(x, b.Unary(OpSigmoid, u))
}

// LayerNorm normalises the last dim without weights: (x - mean) / sqrt(var + eps).
// A split last dim is summed over its axes, first for the mean, then for the
// variance: the sum of squares alone would cancel where the mean is large.
func (b *Builder) LayerNorm(x Tensor, eps float64) Tensor {
	x = b.Reduced(x, "norm needs whole sums")
	n := float64(x.Dim(-1))
	mean := b.Scale(b.Reduced(b.Sum(x, -1), "mean of a layer norm"), 1/n)
	centred := b.Sub(x, mean)
	v := b.Scale(b.Reduced(b.Sum(b.Mul(centred, centred), -1), "variance of a layer norm"), 1/n)
	return b.Mul(centred, b.Unary(OpRsqrt, b.Shift(v, eps)))
}

// RMSNorms normalises the last dim of each x and multiplies by its weight:
// x / sqrt(mean(x^2) + eps) * w. The sums of squares over a split last dim of
// all of them travel in one reduction.
func (b *Builder) RMSNorms(eps float64, xs, ws []Tensor) []Tensor {
	xs = slices.Clone(xs)
	for i, x := range xs {
		xs[i] = b.Reduced(x, "norm needs whole sums")
	}
	out := make([]Tensor, len(xs))
	for i, r := range b.RMSFactors(eps, xs...) {
		out[i] = b.Mul(b.Mul(xs[i], r), ws[i])
	}
	return out
}

// RMSFactors is what RMSNorms multiplies each x by besides its weight: 1 /
// sqrt(mean(x^2) + eps), (..., 1).
func (b *Builder) RMSFactors(eps float64, xs ...Tensor) []Tensor {
	squares := make([]Tensor, len(xs))
	for i, x := range xs {
		squares[i] = b.Sum(b.Mul(x, x), -1)
	}
	squares = b.ReducedTogether("sums of squares of norms over a split dim", squares...)
	out := make([]Tensor, len(xs))
	for i, x := range xs {
		out[i] = b.Unary(OpRsqrt, b.Shift(b.Scale(squares[i], 1/float64(x.Dim(-1))), eps))
	}
	return out
}

// Constant is v in every element of a whole tensor.
func (b *Builder) Constant(d dtype.DType, v float64, shape ...int) Tensor {
	return b.Global(b.LConst(d, v, shape...), shape, sharding.Whole(len(shape)))
}
