package spmd

import (
	"slices"

	"weft/program"
)

// GroupNorm normalises x (N, S..., C) without weights: (x - mean) / sqrt(var + eps), where mean
// and variance are taken over all positions S and over the C/groups channels of a group. Only the
// first sizes[d] elements of spatial dim d count; what lies behind pads the dim, and is zero in
// the result. nil counts everything.
//
// Where spatial dims are sharded, each device adds up its own positions and one all-reduce joins
// the sums, N x groups numbers; so it is twice, for the mean and then for the variance. With one
// reduction of sums and sums of squares, the difference would cancel where the mean is large.
// Sharded channels are gathered first.
func (b *Builder) GroupNorm(x Tensor, groups int, eps float64, sizes []int) Tensor {
	x = b.Reduced(x, "norm needs whole sums")
	if x.Rank() < 2 || groups < 1 || x.Dim(-1)%groups != 0 {
		b.failf(ErrShape, nil, "%s: norm of %v in %d groups of channels: want (N, S..., C) and a divisor of C", b.name, x.Shape, groups)
	}
	if sizes == nil {
		sizes = x.Shape[1 : x.Rank()-1]
	}
	if len(sizes) != x.Rank()-2 || slices.Min(append([]int{1}, sizes...)) < 1 {
		b.failf(ErrShape, nil, "%s: norm of %v over %v: want a size of 1 or more for each spatial dim", b.name, x.Shape, sizes)
	}
	x = b.gatherDim(x, x.Rank()-1, "channels gathered for a norm of groups of them")
	x = b.zeroBehind(x, sizes)
	mean := b.groupMeans(x, groups, sizes, "mean of a group norm")
	centred := b.zeroBehind(b.Sub(x, mean), sizes)
	v := b.groupMeans(b.Mul(centred, centred), groups, sizes, "variance of a group norm")
	return b.Mul(centred, b.Unary(program.OpRsqrt, b.Shift(v, eps)))
}

// zeroBehind puts zeros behind the first sizes[d] elements of each spatial dim d.
func (b *Builder) zeroBehind(x Tensor, sizes []int) Tensor {
	for d, n := range sizes {
		x = b.ZeroFrom(x, 1+d, n)
	}
	return x
}

// groupMeans is the mean of each group of channels over so many positions, for each channel:
// (N, 1..., C). It takes means of means, dim by dim: one running sum over the millions of
// positions of a video would lose in f32 what it adds.
func (b *Builder) groupMeans(x Tensor, groups int, sizes []int, reason string) Tensor {
	for d := len(sizes) - 1; d >= 0; d-- {
		x = b.Scale(b.Sum(x, 1+d), 1/float64(sizes[d]))
	}
	each := x.Dim(-1) / groups
	x = b.SplitDim(x, x.Rank()-1, groups, each)
	x = b.Reduced(b.Scale(b.Sum(x, -1), 1/float64(each)), reason)
	return b.Repeat(b.DropDim(x, x.Rank()-1), -1, each)
}
