package tensor

import "slices"

// Cut copies the block [lo[d], hi[d]) along every dim of src into dst, row-major. An element
// has size bytes, and dst holds exactly the block.
func Cut(dst, src []byte, shape, lo, hi []int, size int) {
	walkBlock(shape, lo, hi, size, func(whole, block, n int) { copy(dst[block:block+n], src[whole:whole+n]) })
}

// Paste copies a block from src into its place in dst: the reverse of Cut.
func Paste(dst, src []byte, shape, lo, hi []int, size int) {
	walkBlock(shape, lo, hi, size, func(whole, block, n int) { copy(dst[whole:whole+n], src[block:block+n]) })
}

// Crop keeps the first shape[d] elements along every dim. For nil, or t's own shape, it
// returns t itself.
func (t *Tensor) Crop(shape []int) *Tensor {
	if shape == nil || slices.Equal(shape, t.Shape) {
		return t
	}
	out := New(t.DType, shape...)
	Cut(out.Data, t.Data, t.Shape, make([]int, len(shape)), shape, t.DType.Size())
	return out
}

// Slice copies [lo, hi) of dim.
func (t *Tensor) Slice(dim, lo, hi int) *Tensor {
	from, to := make([]int, len(t.Shape)), slices.Clone(t.Shape)
	from[dim], to[dim] = lo, hi
	shape := slices.Clone(t.Shape)
	shape[dim] = hi - lo
	out := New(t.DType, shape...)
	Cut(out.Data, t.Data, t.Shape, from, to, t.DType.Size())
	return out
}

// Transpose copies t so that dim i of the result is dim perm[i] of t.
func (t *Tensor) Transpose(perm ...int) *Tensor {
	rank, size := len(perm), t.DType.Size()
	from := make([]int, rank) // stride of t's dims, in elements
	n := 1
	for d := rank - 1; d >= 0; d-- {
		from[d] = n
		n *= t.Shape[d]
	}
	shape := make([]int, rank)
	for i, d := range perm {
		shape[i] = t.Shape[d]
	}
	out := New(t.DType, shape...)
	// Dims at the end that stay in their place are copied as one run.
	run, outer := size, rank
	for outer > 0 && perm[outer-1] == outer-1 {
		outer--
		run *= shape[outer]
	}
	at, place := 0, make([]int, outer)
	for to := 0; to < len(out.Data); to += run {
		copy(out.Data[to:to+run], t.Data[at*size:])
		for d := outer - 1; d >= 0; d-- {
			place[d]++
			at += from[perm[d]]
			if place[d] < shape[d] {
				break
			}
			at -= shape[d] * from[perm[d]]
			place[d] = 0
		}
	}
	return out
}

// Rows returns rows [lo, hi) of dim 0; it shares t's memory.
func (t *Tensor) Rows(lo, hi int) *Tensor {
	shape := slices.Clone(t.Shape)
	row := len(t.Data) / max(1, shape[0])
	shape[0] = hi - lo
	return &Tensor{DType: t.DType, Shape: shape, Data: t.Data[lo*row : hi*row]}
}

// Stack joins tensors of one type along dim 0; a single tensor is returned as it is.
func Stack(parts []*Tensor) *Tensor { return Join(0, parts) }

// Join joins tensors along dim; they have one type, and one shape but for dim. A single
// tensor is returned as it is.
func Join(dim int, parts []*Tensor) *Tensor {
	if len(parts) == 1 {
		return parts[0]
	}
	shape := slices.Clone(parts[0].Shape)
	shape[dim] = 0
	for _, p := range parts {
		shape[dim] += p.Shape[dim]
	}
	out := New(parts[0].DType, shape...)
	lo, hi := make([]int, len(shape)), slices.Clone(shape)
	hi[dim] = 0
	for _, p := range parts {
		lo[dim], hi[dim] = hi[dim], hi[dim]+p.Shape[dim]
		Paste(out.Data, p.Data, shape, lo, hi, out.DType.Size())
	}
	return out
}

// walkBlock visits the contiguous runs of a block: their byte offsets in the whole array and
// in the block, and their length.
func walkBlock(shape, lo, hi []int, size int, visit func(whole, block, n int)) {
	rank := len(shape)
	// Trailing dims taken whole make one run with the dim before them.
	run, tail := size, rank
	for tail > 0 {
		d := tail - 1
		run *= hi[d] - lo[d]
		tail--
		if hi[d]-lo[d] != shape[d] {
			break
		}
	}
	if run == 0 {
		return
	}
	stride := make([]int, rank)
	n := size
	for d := rank - 1; d >= 0; d-- {
		stride[d] = n
		n *= shape[d]
	}
	start := 0
	for d := range shape {
		if hi[d] <= lo[d] {
			return
		}
		start += lo[d] * stride[d]
	}
	idx := make([]int, tail)
	for block := 0; ; block += run {
		off := start
		for d, i := range idx {
			off += i * stride[d]
		}
		visit(off, block, run)
		d := tail - 1
		for ; d >= 0; d-- {
			idx[d]++
			if idx[d] < hi[d]-lo[d] {
				break
			}
			idx[d] = 0
		}
		if d < 0 {
			return
		}
	}
}
