package spmd

import (
	"weft/dtype"
)

// Target is what a program should know of the device it will run on. It changes
// how a computation is cut up and what padding tokens there are, never what is
// computed or which exchanges there are. The zero value cuts nothing.
type Target struct {
	// RowTile cuts a matmul by weights into blocks of about so many rows; 0 does
	// not cut. Eigen's f32 matmul by 1536 x 1536 weights on two Zen 3 cores gives
	// 131 GFLOP/s on 585 rows and 89 on 4680.
	RowTile int
	// WideBF16 widens bf16 operands of a matmul to f32, whose products and sums
	// are the same to f32 accuracy: for processors without bf16 matmul
	// instructions, where it is faster (89 against 73 GFLOP/s).
	WideBF16 bool
	// FlatConv runs a convolution over three spatial dims or more as several over
	// the rest, one for each place of the kernel along the first, added up: for XLA's
	// CPU plugin, whose kernels are made for two. A kernel of 3 x 3 x 3 did 41, 33
	// and 19 GFLOP a second of processor time whole, at 384, 192 and 96 channels, and
	// 59, 87 and 83 so, in f32 on Zen 3.
	FlatConv bool
	// Attention blocks: queries and keys by HeadBlock heads at a time; 0 leaves the
	// choice to package attention.
	QueryBlock, KeyBlock, HeadBlock int
	// Chip is the TPU's generation, "v4"; "" is no TPU.
	Chip string
	// Attention is the form that attention takes, as package attention names them;
	// "" leaves the choice to it.
	Attention string
	// TokenMultiple is what the number of tokens on a device wants to be a multiple
	// of; 0 or 1 asks for no more than the split needs. It is a wish to the model,
	// which pads and says so; the padding is computed and exchanged like any other.
	TokenMultiple int
}

// WithTarget builds for a target.
func WithTarget(t Target) Option { return func(b *Builder) { b.target = t } }

// Option of Build.
type Option func(*Builder)

// Target is what the program is built for.
func (b *Builder) Target() Target { return b.target }

// widenOperand is x as an operand of a matmul: in f32 where the target wants it. What
// was there before any loop, a weight above all, is widened once, outside.
func (b *Builder) widenOperand(x Local) Local {
	if !b.target.WideBF16 || x.DType != dtype.BF16 {
		return x
	}
	if w, ok := b.widened[x.ID]; ok {
		return w
	}
	if b.depths[x.ID] > 0 {
		return b.LConvert(x, dtype.F32)
	}
	inner, depth := b.body, b.depth
	b.body, b.depth = b.root, 0 // before the loop under construction, which is not there yet
	w := b.LConvert(x, dtype.F32)
	b.body, b.depth = inner, depth
	b.widened[x.ID] = w
	return w
}

// EvenBlock is the size of the blocks that n is cut into: equal ones of at most
// about most, the last one shorter where they do not divide. most of 0 does not cut.
func EvenBlock(n, most int) int {
	if most <= 0 || n <= most+most/2 {
		return n
	}
	blocks := (n + most - 1) / most
	return (n + blocks - 1) / blocks
}

// MapRows applies f to blocks of dim of x, about rows of them at a time, and
// joins the results. f computes row by row: it must not mix rows, reshape dim
// away or exchange data. It may give partial sums, which stay partial. What it
// holds is then held for a block only.
func (b *Builder) MapRows(x Tensor, dim, rows int, f func(Tensor) Tensor) Tensor {
	dim = b.dimIndex(x, dim)
	x = b.Reduced(x, "rows mapped need whole sums")
	n := x.local.Shape[dim]
	size := EvenBlock(n, rows)
	if size >= n {
		return f(x)
	}
	// f sees a block as a tensor whose dim is whole: it lives on each device alone.
	part := func(v Local, of Tensor) Tensor {
		shape := cloneInts(of.Shape)
		shape[dim] = v.Shape[dim]
		return b.Global(v, shape, of.Spec.WithDim(dim))
	}
	// The shape of a result is that of the last, shorter block with dim exchanged.
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
	dims := DotDims{LeftContract: []int{last}, RightContract: []int{1}}
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

// Unrounded is x as it was before it was rounded from f32; false where it was not.
func (b *Builder) Unrounded(x Tensor) (Tensor, bool) {
	id := x.local.ID
	for i := len(*b.body) - 1; i >= 0; i-- {
		in := &(*b.body)[i]
		if len(in.Out) != 1 || in.Out[0] != id {
			continue
		}
		switch {
		case in.Op == OpReshape:
			id = in.Args[0]
		case in.Op == OpConvert && b.values[in.Args[0]].DType == dtype.F32:
			t := b.values[in.Args[0]]
			return b.Global(b.LReshape(Local{in.Args[0], t.DType, t.Shape}, x.local.Shape...), x.Shape, x.Spec), true
		default:
			return x, false
		}
	}
	return x, false
}
