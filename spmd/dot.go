package spmd

import (
	"slices"

	"weft/dtype"
	"weft/sharding"
)

// Linear is x times the transpose of w: x (..., K), w (N, K) as PyTorch keeps
// it, result (..., N) of type out. A bias is added by the caller, once the sum is whole.
//
// Rules, in this order:
//
//  1. K split alike in both: the result is partial over those axes.
//  2. K split in w alone: x is sliced along K, for nothing, when it is whole
//     there; rule 1 then applies. K split in x alone: w is sliced likewise.
//  3. An axis that splits N of w and also a row dim of x is gathered out of x:
//     this is the all-gather before a column-parallel matmul on a split residual
//     stream.
//  4. The result's rows are split as x's, its columns as w's.
func (b *Builder) Linear(x, w Tensor, out dtype.DType) Tensor {
	if x.DType != w.DType {
		b.failf(ErrType, nil, "%s: linear of %v by %v weights; convert one first", b.name, x.DType, w.DType)
	}
	if w.Rank() != 2 || x.Rank() < 1 || x.Dim(-1) != w.Shape[1] {
		b.failf(ErrShape, nil, "%s: linear of %v by weights %v: the last dim meets dim 1", b.name, x.Shape, w.Shape)
	}
	x = b.Reduced(x, "operand of a matmul")
	w = b.Reduced(w, "operand of a matmul")
	last := x.Rank() - 1

	// Rule 3 for N, and for a K of w whose axes x spends on its rows.
	busy := append(slices.Clone(w.Spec.Dim(0)), w.Spec.Dim(1)...)
	if spec, changed := withoutAxes(x.Spec, x.Rank(), last, busy); changed {
		x = b.Reshard(x, spec, "rows gathered for a matmul whose weights are split over the same axis")
	}
	if clash, changed := withoutAxes(sharding.NewSpec(x.Spec.Dim(last)), 1, -1, w.Spec.Dim(0)); changed {
		x = b.Reshard(x, x.Spec.WithDim(last, clash.Dim(0)...), "contracted dim gathered: its axis splits the output columns")
	}

	kx, kw := x.Spec.Dim(last), w.Spec.Dim(1)
	switch {
	case slices.Equal(kx, kw):
	case len(kw) == 0:
		w = b.Reshard(w, w.Spec.WithDim(1, kx...), "weights sliced along the contracted dim")
	default:
		x = b.Reshard(x, x.Spec.WithDim(last, kw...), "activations split along the contracted dim as the weights are")
	}
	contracted := x.Spec.Dim(last)

	v := b.LDot(x.local, w.local, DotDims{LeftContract: []int{last}, RightContract: []int{1}}, out)
	shape := append(clone(x.Shape[:last]), w.Shape[0])
	spec := sharding.Whole(len(shape))
	for d := 0; d < last; d++ {
		spec = spec.WithDim(d, x.Spec.Dim(d)...)
	}
	spec = spec.WithDim(last, w.Spec.Dim(0)...).WithPartial(contracted...)
	return b.wrap(v, shape, spec)
}
