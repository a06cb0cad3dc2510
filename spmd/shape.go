package spmd

import (
	"weft/internal/numbers"
	"weft/sharding"
)

// SplitDim turns dim into several dims of the given sizes, row-major. The axes of the
// dim go to the first new dim, whose size they must divide: so a device has whole heads.
func (b *Builder) SplitDim(x Tensor, dim int, sizes ...int) Tensor {
	dim = b.dimIndex(x, dim)
	if len(sizes) == 0 || numbers.Product(sizes) != x.Shape[dim] {
		b.failf(ErrShape, nil, "%s: dim %d of %v does not split into %v", b.name, dim, x.Shape, sizes)
	}
	shape := append(append(cloneInts(x.Shape[:dim]), sizes...), x.Shape[dim+1:]...)
	spec := sharding.Whole(len(shape))
	for d := range x.Shape {
		to := d
		if d > dim {
			to = d + len(sizes) - 1
		}
		spec = spec.WithDim(to, x.Spec.Dim(d)...)
	}
	return b.reshapeTo(x, shape, spec)
}

// MergeDims joins n dims, starting at dim, into one. The dims after the first are
// gathered where they are sharded, because a device's shard of the joined dim has to be
// one range.
func (b *Builder) MergeDims(x Tensor, dim, n int) Tensor {
	dim = b.dimIndex(x, dim)
	if n < 1 || dim+n > x.Rank() {
		b.failf(ErrShape, nil, "%s: merge of %d dims at %d of %v", b.name, n, dim, x.Shape)
	}
	size := 1
	for d := dim; d < dim+n; d++ {
		size *= x.Shape[d]
	}
	shape := append(append(cloneInts(x.Shape[:dim]), size), x.Shape[dim+n:]...)
	spec := x.Spec
	for d := dim + 1; d < dim+n; d++ {
		spec = spec.WithDim(d)
	}
	x = b.Reshard(x, spec, "gathered before dims are merged")
	out := sharding.Whole(len(shape)).WithPartial(x.Spec.Partial()...)
	for d := range x.Shape {
		switch {
		case d <= dim:
			out = out.WithDim(d, x.Spec.Dim(d)...)
		case d >= dim+n:
			out = out.WithDim(d-n+1, x.Spec.Dim(d)...)
		}
	}
	return b.reshapeTo(x, shape, out)
}

func (b *Builder) reshapeTo(x Tensor, shape []int, spec sharding.Spec) Tensor {
	spec = b.canonicalSpec("reshape", shape, spec.WithoutPartial().WithPartial(x.Spec.Partial()...))
	local, err := spec.Local(b.mesh, shape)
	if err != nil {
		b.fail(err)
	}
	return b.Global(b.LReshape(x.local, local...), shape, spec)
}

// ExpandDim inserts a dim of size 1 before dim; dim may be the rank.
func (b *Builder) ExpandDim(x Tensor, dim int) Tensor {
	if dim < 0 || dim > x.Rank() {
		b.failf(ErrShape, nil, "%s: no place %d for a dim in %v", b.name, dim, x.Shape)
	}
	shape := append(append(cloneInts(x.Shape[:dim]), 1), x.Shape[dim:]...)
	spec := sharding.Whole(len(shape))
	for d := range x.Shape {
		to := d
		if d >= dim {
			to++
		}
		spec = spec.WithDim(to, x.Spec.Dim(d)...)
	}
	return b.reshapeTo(x, shape, spec)
}

// DropDim removes a dim of size 1.
func (b *Builder) DropDim(x Tensor, dim int) Tensor {
	dim = b.dimIndex(x, dim)
	if x.Shape[dim] != 1 {
		b.failf(ErrShape, nil, "%s: dim %d of %v is not 1", b.name, dim, x.Shape)
	}
	shape := append(cloneInts(x.Shape[:dim]), x.Shape[dim+1:]...)
	spec := sharding.Whole(len(shape))
	for d := range x.Shape {
		switch {
		case d < dim:
			spec = spec.WithDim(d, x.Spec.Dim(d)...)
		case d > dim:
			spec = spec.WithDim(d-1, x.Spec.Dim(d)...)
		}
	}
	return b.reshapeTo(x, shape, spec)
}

// Transpose makes result dim i of dim perm[i].
func (b *Builder) Transpose(x Tensor, perm ...int) Tensor {
	v := b.LTranspose(x.local, perm...)
	shape := make([]int, len(perm))
	spec := sharding.Whole(len(perm)).WithPartial(x.Spec.Partial()...)
	for i, p := range perm {
		shape[i] = x.Shape[p]
		spec = spec.WithDim(i, x.Spec.Dim(p)...)
	}
	return b.Global(v, shape, spec)
}

// Slice keeps [lo, hi) of dim, which is gathered first where it is sharded.
func (b *Builder) Slice(x Tensor, dim, lo, hi int) Tensor {
	dim = b.dimIndex(x, dim)
	if lo < 0 || hi < lo || hi > x.Shape[dim] {
		b.failf(ErrShape, nil, "%s: slice [%d,%d) of dim %d of %v", b.name, lo, hi, dim, x.Shape)
	}
	if lo == 0 && hi == x.Shape[dim] {
		return x
	}
	x = b.gatherDim(x, dim, "gathered before a slice along the split dim")
	shape := cloneInts(x.Shape)
	shape[dim] = hi - lo
	return b.Global(b.LSlice(x.local, dim, lo, hi), shape, x.Spec)
}

// PadTo extends dim to size with zeros at its end. The dim is gathered first where it
// is sharded. The caller masks the padding and cuts it off again.
func (b *Builder) PadTo(x Tensor, dim, size int) Tensor {
	dim = b.dimIndex(x, dim)
	if size < x.Shape[dim] {
		b.failf(ErrShape, nil, "%s: padding dim %d of %v to %d would drop elements", b.name, dim, x.Shape, size)
	}
	if size == x.Shape[dim] {
		return x
	}
	x = b.gatherDim(x, dim, "gathered before padding along the split dim")
	shape := cloneInts(x.Shape)
	shape[dim] = size
	return b.Global(b.LPad(x.local, dim, 0, size-x.Shape[dim], 0), shape, x.Spec)
}

// Concat joins tensors along dim, which is gathered first where an operand has it
// sharded. The other dims take the layout of the first operand.
func (b *Builder) Concat(dim int, xs ...Tensor) Tensor {
	if len(xs) == 0 {
		b.failf(ErrShape, nil, "%s: concat of nothing", b.name)
	}
	dim = b.dimIndex(xs[0], dim)
	shape := cloneInts(xs[0].Shape)
	parts := make([]Local, len(xs))
	var spec sharding.Spec
	for i, x := range xs {
		if x.Rank() != len(shape) {
			b.failf(ErrShape, nil, "%s: concat along %d of %v and %v", b.name, dim, xs[0].Shape, x.Shape)
		}
		if i == 0 {
			spec = x.Spec.WithoutPartial().WithDim(dim)
		} else {
			shape[dim] += x.Dim(dim)
		}
		parts[i] = b.Reshard(x, spec, "operand of concat, which needs whole sums and the dim whole").local
	}
	return b.Global(b.LConcat(dim, parts...), shape, spec)
}

// gatherDim gathers one dim where it is sharded.
func (b *Builder) gatherDim(x Tensor, dim int, reason string) Tensor {
	if len(x.Spec.Dim(dim)) == 0 {
		return x
	}
	return b.Reshard(x, x.Spec.WithDim(dim), reason)
}

func (b *Builder) dimIndex(x Tensor, dim int) int {
	d := dim
	if d < 0 {
		d += x.Rank()
	}
	if d < 0 || d >= x.Rank() {
		b.failf(ErrShape, nil, "%s: no dim %d in %v", b.name, dim, x.Shape)
	}
	return d
}

func (b *Builder) constI32(n int) Local { return b.LConst(i32, float64(n)) }
