package spmd

import (
	"slices"

	"weft/dtype"
	"weft/sharding"
)

// Linear is x times the transpose of w: x (..., K), w (N, K) as PyTorch keeps
// it, result (..., N) of type out. The caller adds a bias, after the sum is reduced.
//
// Rules, in this order:
//
//  1. Where K is sharded over the same axes in both, the result is partial over them.
//  2. Where K is sharded in w alone and replicated in x, x is sliced along K, which
//     takes no traffic, and rule 1 applies. Where K is sharded in x alone, w is
//     sliced likewise.
//  3. An axis that shards N of w and also a dim of x is gathered out of x: this is
//     the all-gather before a column-parallel matmul on a sharded residual stream.
//     An axis that shards K of w and another dim of x moves to K of x.
//  4. The result's rows are sharded as those of x, its columns as N of w.
//  5. Partial sums are reduced first. x goes straight to the layout that the other
//     rules give it, so that the reduction is a reduce-scatter where that is sharded.
func (b *Builder) Linear(x, w Tensor, out dtype.DType) Tensor {
	if x.DType != w.DType {
		b.failf(ErrType, nil, "%s: linear of %v by %v weights; convert one first", b.name, x.DType, w.DType)
	}
	if w.Rank() != 2 || x.Rank() < 1 || x.Dim(-1) != w.Shape[1] {
		b.failf(ErrShape, nil, "%s: linear of %v by weights %v: the last dim meets dim 1", b.name, x.Shape, w.Shape)
	}
	x, w, contracted := b.alignContraction(x, w)
	v := b.matmulRows(x.local, w.local, out)
	last := x.Rank() - 1
	shape := append(cloneInts(x.Shape[:last]), w.Shape[0])
	spec := sharding.Whole(len(shape))
	for d := 0; d < last; d++ {
		spec = spec.WithDim(d, x.Spec.Dim(d)...)
	}
	spec = spec.WithDim(last, w.Spec.Dim(0)...).WithPartial(contracted...)
	return b.Global(v, shape, spec)
}

// alignContraction gives x (..., K) and w (N, K, ...) the layouts of the rules of
// Linear, and the axes over which their product is partial.
func (b *Builder) alignContraction(x, w Tensor) (Tensor, Tensor, []string) {
	w = b.Reduced(w, "operand of a matmul needs whole sums")
	last := x.Rank() - 1
	nw, kw := w.Spec.Dim(0), w.Spec.Dim(1)
	want, gathered := withoutAxes(x.Spec.WithoutPartial(), x.Rank(), last, append(slices.Clone(nw), kw...))
	axes := slices.DeleteFunc(x.Spec.Dim(last), func(a string) bool { return slices.Contains(nw, a) })
	reason := "activations split along the contracted dim as the weights are"
	switch {
	case len(x.Spec.Partial()) > 0:
		reason = "operand of a matmul needs whole sums"
	case gathered:
		reason = "rows gathered for a matmul whose weights are split over the same axis"
	case len(axes) < len(x.Spec.Dim(last)):
		reason = "contracted dim gathered: its axis splits the output columns"
	}
	if len(kw) > 0 {
		axes = kw
	} else {
		w = b.Reshard(w, w.Spec.WithDim(1, axes...), "weights sliced along the contracted dim")
	}
	return b.Reshard(x, want.WithDim(last, axes...), reason), w, axes
}
