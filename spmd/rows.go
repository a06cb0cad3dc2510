package spmd

import (
	"weft/dtype"
	"weft/program"
)

// EvenBlock is the size of equal blocks that n is cut into, each of at most about most
// (one and a half times as much is not cut yet). The last block is shorter where the
// size does not divide n. 0 does not cut.
func EvenBlock(n, most int) int {
	if most <= 0 || n <= most+most/2 {
		return n
	}
	blocks := (n + most - 1) / most
	return (n + blocks - 1) / blocks
}

// MapRows applies f to blocks of about so many rows of dim of x and joins the results,
// so that values inside f take the memory of one block. f computes row by row: it must
// not mix rows, reshape dim away or exchange data. It may give partial sums, which stay
// partial.
func (b *Builder) MapRows(x Tensor, dim, rows int, f func(Tensor) Tensor) Tensor {
	dim = b.dimIndex(x, dim)
	x = b.Reduced(x, "rows mapped need whole sums")
	n := x.local.Shape[dim]
	size := EvenBlock(n, rows)
	if size >= n {
		return f(x)
	}
	// f sees a block as a tensor whose dim is not sharded: each device has its own block.
	part := func(v Local, of Tensor) Tensor {
		shape := cloneInts(of.Shape)
		shape[dim] = v.Shape[dim]
		return b.Global(v, shape, of.Spec.WithDim(dim))
	}
	// The joined result has the shape of a block's result but for dim, so the last block
	// is computed first.
	full := n / size
	rest := n - full*size
	var like Tensor
	apply := func(v Local) Local {
		like = f(part(v, x))
		return like.local
	}
	var tail Local
	if rest > 0 {
		tail = apply(b.LSlice(x.local, dim, full*size, n))
	}
	var acc Local
	probe := func() []int {
		shape := cloneInts(like.local.Shape)
		shape[dim] = n
		return shape
	}
	if rest == 0 {
		tail = apply(b.LSlice(x.local, dim, (full-1)*size, n))
		full, rest = full-1, size
	}
	acc = b.LConst(like.DType, 0, probe()...)
	acc = b.LDynUpdate(acc, tail, dim, b.LConst(i32, float64(full*size)))
	acc = b.LLoop(full, []Local{acc}, func(i Local, c []Local) []Local {
		at := b.LMul(i, b.LConst(i32, float64(size)))
		return []Local{b.LDynUpdate(c[0], apply(b.LDynSlice(x.local, dim, at, size)), dim, at)}
	})[0]
	shape := cloneInts(like.Shape)
	shape[dim] = x.Shape[dim]
	return b.Global(acc, shape, like.Spec.WithDim(dim, x.Spec.Dim(dim)...))
}

// matmulRows is x (..., K) times the transpose of w (N, K), cut into blocks of
// rows where the target wants it.
func (b *Builder) matmulRows(x, w Local, out dtype.DType) Local {
	last := x.Rank() - 1
	dims := program.DotDims{LeftContract: []int{last}, RightContract: []int{1}}
	rows := 1
	for _, s := range x.Shape[:last] {
		rows *= s
	}
	size := EvenBlock(rows, b.target.RowTile)
	if size >= rows || b.depth > 0 {
		return b.LDot(x, w, dims, out)
	}
	dims.LeftContract = []int{1}
	flat := b.LReshape(x, rows, x.Shape[last])
	full := rows / size
	acc := b.LConst(out, 0, rows, w.Shape[0])
	acc = b.LLoop(full, []Local{acc}, func(i Local, c []Local) []Local {
		at := b.LMul(i, b.LConst(i32, float64(size)))
		return []Local{b.LDynUpdate(c[0], b.LDot(b.LDynSlice(flat, 0, at, size), w, dims, out), 0, at)}
	})[0]
	if full*size < rows {
		tail := b.LDot(b.LSlice(flat, 0, full*size, rows), w, dims, out)
		acc = b.LDynUpdate(acc, tail, 0, b.LConst(i32, float64(full*size)))
	}
	return b.LReshape(acc, append(cloneInts(x.Shape[:last]), w.Shape[0])...)
}
