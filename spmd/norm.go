package spmd

import (
	"slices"

	"weft/program"
)

// LayerNorm normalises the last dim without weights: (x - mean) / sqrt(var + eps).
// Where the last dim is sharded, it is reduced over its axes twice, for the mean and
// then for the variance: with one reduction of sums and sums of squares, the difference
// would cancel where the mean is large.
func (b *Builder) LayerNorm(x Tensor, eps float64) Tensor {
	x = b.Reduced(x, "norm needs whole sums")
	n := float64(x.Dim(-1))
	mean := b.Scale(b.Reduced(b.Sum(x, -1), "mean of a layer norm"), 1/n)
	centred := b.Sub(x, mean)
	v := b.Scale(b.Reduced(b.Sum(b.Mul(centred, centred), -1), "variance of a layer norm"), 1/n)
	return b.Mul(centred, b.Unary(program.OpRsqrt, b.Shift(v, eps)))
}

// RMSNorms normalises the last dim of each x and multiplies by its weight:
// x / sqrt(mean(x^2) + eps) * w. Where the last dims are sharded, the sums of squares
// of all of them travel in one all-reduce.
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

// RMSFactors is the factor of RMSNorms for each x, without its weight:
// 1 / sqrt(mean(x^2) + eps), of shape (..., 1).
func (b *Builder) RMSFactors(eps float64, xs ...Tensor) []Tensor {
	squares := make([]Tensor, len(xs))
	for i, x := range xs {
		squares[i] = b.Sum(b.Mul(x, x), -1)
	}
	squares = b.ReducedTogether("sums of squares of norms over a split dim", squares...)
	out := make([]Tensor, len(xs))
	for i, x := range xs {
		out[i] = b.Unary(program.OpRsqrt, b.Shift(b.Scale(squares[i], 1/float64(x.Dim(-1))), eps))
	}
	return out
}
