package spmd

import (
	"fmt"
	"math"
	"slices"

	"weft/dtype"
	"weft/internal/numbers"
	"weft/program"
)

// Local is a value as one device holds it. Local code is written like the program of
// a single device; only the collectives reach other devices. Builder.Local and
// Builder.Global convert between tensors and local values.
type Local struct {
	ID    program.ID
	DType dtype.DType
	Shape []int
}

// Rank is the number of dims.
func (l Local) Rank() int { return len(l.Shape) }

func (b *Builder) newValue(d dtype.DType, shape []int) Local {
	id := program.ID(len(b.values))
	for _, s := range shape {
		if s < 0 {
			b.failf(ErrShape, nil, "%s: negative size in local shape %v", b.name, shape)
		}
	}
	sh := b.ints.copy(shape)
	b.values = append(b.values, program.Type{DType: d, Shape: sh})
	b.depths = append(b.depths, b.depth)
	return Local{id, d, sh}
}

func (b *Builder) addInstr(in program.Instr, d dtype.DType, shape []int) Local {
	v := b.newValue(d, shape)
	in.Out = b.ids.copy([]program.ID{v.ID})
	*b.body = append(*b.body, in)
	return v
}

// slab cuts many small slices out of few large ones. A program has thousands of small
// slices, all of which are freed together with it, and allocating each took time.
type slab[T any] struct{ left []T }

func (s *slab[T]) copy(from []T) []T {
	n := len(from)
	if n > len(s.left) {
		s.left = make([]T, max(512, n))
	}
	out := s.left[:n:n]
	s.left = s.left[n:]
	copy(out, from)
	return out
}

func idsOf(ls ...Local) []program.ID {
	out := make([]program.ID, len(ls))
	for i, l := range ls {
		out[i] = l.ID
	}
	return out
}

const i32 = dtype.I32

// LConst is v in every element.
func (b *Builder) LConst(d dtype.DType, v float64, shape ...int) Local {
	return b.addInstr(program.Instr{Op: program.OpConst, Value: v}, d, shape)
}

// LIota counts 0, 1, ... along dim.
func (b *Builder) LIota(d dtype.DType, dim int, shape ...int) Local {
	return b.addInstr(program.Instr{Op: program.OpIota, Dims: []int{dim}}, d, shape)
}

// LAxisIndex is this device's coordinate on the axes, read as one mixed-radix number
// whose first axis is the major one: an i32 scalar. Without axes, or with axes of
// size 1 alone, it is the constant 0.
func (b *Builder) LAxisIndex(axes ...string) Local {
	var acc *Local
	for _, a := range axes {
		n := b.mesh.Size(a)
		if n == 1 {
			continue
		}
		idx, ok := b.axisIndex[a]
		if !ok || b.depth > 0 {
			idx = b.addInstr(program.Instr{Op: program.OpAxisIndex, Axes: []string{a}}, dtype.I32, nil)
			if b.depth == 0 {
				b.axisIndex[a] = idx
			}
		}
		if acc != nil {
			idx = b.LAdd(b.LMul(*acc, b.LConst(dtype.I32, float64(n))), idx)
		}
		acc = &idx
	}
	if acc == nil {
		return b.LConst(dtype.I32, 0)
	}
	return *acc
}

// LUnary applies an elementwise operation of one operand.
func (b *Builder) LUnary(op program.Op, x Local) Local {
	return b.addInstr(program.Instr{Op: op, Args: idsOf(x)}, x.DType, x.Shape)
}

// LConvert changes the element type and rounds to nearest even. It returns x itself
// where x has the type already.
func (b *Builder) LConvert(x Local, d dtype.DType) Local {
	if x.DType == d {
		return x
	}
	return b.addInstr(program.Instr{Op: program.OpConvert, Args: idsOf(x)}, d, x.Shape)
}

// LBinary applies an elementwise operation of two operands. Types must match;
// shapes broadcast as numpy's do, aligned at the last dim.
func (b *Builder) LBinary(op program.Op, x, y Local) Local {
	if x.DType != y.DType {
		b.failf(ErrType, nil, "%s: %s of %v and %v; convert one first", b.name, op, x.DType, y.DType)
	}
	x, y = b.broadcastPair(op, x, y)
	return b.addInstr(program.Instr{Op: op, Args: idsOf(x, y)}, x.DType, x.Shape)
}

func (b *Builder) broadcastPair(op program.Op, x, y Local) (Local, Local) {
	shape, err := broadcastShape(x.Shape, y.Shape)
	if err != nil {
		b.failf(ErrShape, nil, "%s: %s of local shapes %v and %v: %v", b.name, op, x.Shape, y.Shape, err)
	}
	return b.LBroadcast(x, shape...), b.LBroadcast(y, shape...)
}

// broadcastShape joins two shapes aligned at the last dim.
func broadcastShape(x, y []int) ([]int, error) {
	n := max(len(x), len(y))
	out := make([]int, n)
	for i := 1; i <= n; i++ {
		a, c := 1, 1
		if i <= len(x) {
			a = x[len(x)-i]
		}
		if i <= len(y) {
			c = y[len(y)-i]
		}
		switch {
		case a == c || c == 1:
			out[n-i] = a
		case a == 1:
			out[n-i] = c
		default:
			return nil, fmt.Errorf("sizes %d and %d do not match at dim -%d", a, c, i)
		}
	}
	return out, nil
}

// Shorthands for LBinary.

// LAdd is x + y.
func (b *Builder) LAdd(x, y Local) Local { return b.LBinary(program.OpAdd, x, y) }

// LSub is x - y.
func (b *Builder) LSub(x, y Local) Local { return b.LBinary(program.OpSub, x, y) }

// LMul is x * y.
func (b *Builder) LMul(x, y Local) Local { return b.LBinary(program.OpMul, x, y) }

// LDiv is x / y.
func (b *Builder) LDiv(x, y Local) Local { return b.LBinary(program.OpDiv, x, y) }

// LMax is the larger of x and y.
func (b *Builder) LMax(x, y Local) Local { return b.LBinary(program.OpMax, x, y) }

// LScale is x times a constant.
func (b *Builder) LScale(x Local, v float64) Local {
	return b.LMul(x, b.LConst(x.DType, v))
}

// LCompare gives Bool; cmp is EQ NE LT LE GT GE.
func (b *Builder) LCompare(cmp string, x, y Local) Local {
	if x.DType != y.DType {
		b.failf(ErrType, nil, "%s: compare of %v and %v", b.name, x.DType, y.DType)
	}
	x, y = b.broadcastPair(program.OpCompare, x, y)
	return b.addInstr(program.Instr{Op: program.OpCompare, Args: idsOf(x, y), Cmp: cmp}, dtype.Bool, x.Shape)
}

// LSelect is x where pred holds and y elsewhere, all broadcast to one shape.
func (b *Builder) LSelect(pred, x, y Local) Local {
	if pred.DType != dtype.Bool || x.DType != y.DType {
		b.failf(ErrType, nil, "%s: select on %v of %v and %v", b.name, pred.DType, x.DType, y.DType)
	}
	x, y = b.broadcastPair(program.OpSelect, x, y)
	pred, x = b.broadcastPair(program.OpSelect, pred, x)
	pred, y = b.broadcastPair(program.OpSelect, pred, y)
	return b.addInstr(program.Instr{Op: program.OpSelect, Args: idsOf(pred, x, y)}, x.DType, x.Shape)
}

// LBroadcast stretches x to shape, aligned at the last dim.
func (b *Builder) LBroadcast(x Local, shape ...int) Local {
	if slices.Equal(x.Shape, shape) {
		return x
	}
	dims := make([]int, x.Rank())
	for i := range dims {
		dims[i] = len(shape) - x.Rank() + i
		if dims[i] < 0 || (x.Shape[i] != 1 && x.Shape[i] != shape[dims[i]]) {
			b.failf(ErrShape, nil, "%s: cannot broadcast local shape %v to %v", b.name, x.Shape, shape)
		}
	}
	return b.addInstr(program.Instr{Op: program.OpBroadcast, Args: idsOf(x), Dims: dims}, x.DType, shape)
}

// LReshape keeps the elements in row-major order under another shape.
func (b *Builder) LReshape(x Local, shape ...int) Local {
	if slices.Equal(x.Shape, shape) {
		return x
	}
	if n, m := numbers.Product(x.Shape), numbers.Product(shape); n != m {
		b.failf(ErrShape, nil, "%s: reshape of local %v (%d elements) to %v (%d)", b.name, x.Shape, n, shape, m)
	}
	return b.addInstr(program.Instr{Op: program.OpReshape, Args: idsOf(x)}, x.DType, shape)
}

// LTranspose makes result dim i of operand dim perm[i].
func (b *Builder) LTranspose(x Local, perm ...int) Local {
	shape := make([]int, len(perm))
	same := true
	seen := map[int]bool{}
	for i, p := range perm {
		if p < 0 || p >= x.Rank() || seen[p] || len(perm) != x.Rank() {
			b.failf(ErrShape, nil, "%s: transpose of local %v by %v", b.name, x.Shape, perm)
		}
		seen[p] = true
		shape[i] = x.Shape[p]
		same = same && p == i
	}
	if same {
		return x
	}
	return b.addInstr(program.Instr{Op: program.OpTranspose, Args: idsOf(x), Dims: append([]int{}, perm...)}, x.DType, shape)
}

// LSlice keeps [lo, hi) of dim.
func (b *Builder) LSlice(x Local, dim, lo, hi int) Local {
	if dim < 0 || dim >= x.Rank() || lo < 0 || hi < lo || hi > x.Shape[dim] {
		b.failf(ErrShape, nil, "%s: slice [%d,%d) of dim %d of local %v", b.name, lo, hi, dim, x.Shape)
	}
	if lo == 0 && hi == x.Shape[dim] {
		return x
	}
	los, his := make([]int, x.Rank()), cloneInts(x.Shape)
	los[dim], his[dim] = lo, hi
	shape := cloneInts(x.Shape)
	shape[dim] = hi - lo
	return b.addInstr(program.Instr{Op: program.OpSlice, Args: idsOf(x), Lo: los, Hi: his}, x.DType, shape)
}

// LPad adds lo elements before and hi after along dim, each equal to value.
func (b *Builder) LPad(x Local, dim, lo, hi int, value float64) Local {
	if dim < 0 || dim >= x.Rank() || lo < 0 || hi < 0 {
		b.failf(ErrShape, nil, "%s: pad (%d,%d) of dim %d of local %v", b.name, lo, hi, dim, x.Shape)
	}
	if lo == 0 && hi == 0 {
		return x
	}
	los, his := make([]int, x.Rank()), make([]int, x.Rank())
	los[dim], his[dim] = lo, hi
	shape := cloneInts(x.Shape)
	shape[dim] += lo + hi
	return b.addInstr(program.Instr{Op: program.OpPad, Args: idsOf(x), Lo: los, Hi: his, Value: value}, x.DType, shape)
}

// LConcat joins along dim.
func (b *Builder) LConcat(dim int, xs ...Local) Local {
	if len(xs) == 0 {
		b.failf(ErrShape, nil, "%s: concat of nothing", b.name)
	}
	if len(xs) == 1 {
		return xs[0]
	}
	shape := append([]int{}, xs[0].Shape...)
	for _, x := range xs[1:] {
		if x.Rank() != len(shape) || x.DType != xs[0].DType || dim < 0 || dim >= x.Rank() {
			b.failf(ErrShape, nil, "%s: concat along %d of %v%v and %v%v", b.name, dim, xs[0].DType, xs[0].Shape, x.DType, x.Shape)
		}
		for d := range shape {
			if d != dim && x.Shape[d] != shape[d] {
				b.failf(ErrShape, nil, "%s: concat along %d of local %v and %v", b.name, dim, xs[0].Shape, x.Shape)
			}
		}
		shape[dim] += x.Shape[dim]
	}
	return b.addInstr(program.Instr{Op: program.OpConcat, Args: idsOf(xs...), Dims: []int{dim}}, xs[0].DType, shape)
}

// LDynSlice keeps size elements of dim from a start known at run time. A start
// that would reach past the end is moved back so that the slice fits.
func (b *Builder) LDynSlice(x Local, dim int, start Local, size int) Local {
	if dim < 0 || dim >= x.Rank() || size < 0 || size > x.Shape[dim] || start.DType != dtype.I32 || start.Rank() != 0 {
		b.failf(ErrShape, nil, "%s: dynamic slice of %d of dim %d of local %v", b.name, size, dim, x.Shape)
	}
	if size == x.Shape[dim] {
		return x
	}
	shape := cloneInts(x.Shape)
	shape[dim] = size
	return b.addInstr(program.Instr{Op: program.OpDynSlice, Args: idsOf(x, start), Dims: []int{dim}, Hi: []int{size}}, x.DType, shape)
}

// LDynUpdate overwrites part of dim from a start known at run time, clamped as in LDynSlice.
func (b *Builder) LDynUpdate(x, update Local, dim int, start Local) Local {
	ok := dim >= 0 && dim < x.Rank() && update.Rank() == x.Rank() && update.DType == x.DType && start.DType == dtype.I32 && start.Rank() == 0
	for d := 0; ok && d < x.Rank(); d++ {
		ok = update.Shape[d] <= x.Shape[d] && (d == dim || update.Shape[d] == x.Shape[d])
	}
	if !ok {
		b.failf(ErrShape, nil, "%s: dynamic update of dim %d of local %v by %v", b.name, dim, x.Shape, update.Shape)
	}
	return b.addInstr(program.Instr{Op: program.OpDynUpdate, Args: idsOf(x, update, start), Dims: []int{dim}}, x.DType, x.Shape)
}

// LReduce joins dims, which vanish.
func (b *Builder) LReduce(r program.Reduction, x Local, dims ...int) Local {
	drop := map[int]bool{}
	for _, d := range dims {
		if d < 0 || d >= x.Rank() || drop[d] {
			b.failf(ErrShape, nil, "%s: reduce of dims %v of local %v", b.name, dims, x.Shape)
		}
		drop[d] = true
	}
	if len(dims) == 0 {
		return x
	}
	shape := []int{}
	for d, s := range x.Shape {
		if !drop[d] {
			shape = append(shape, s)
		}
	}
	return b.addInstr(program.Instr{Op: program.OpReduce, Args: idsOf(x), Dims: append([]int{}, dims...), Reduction: r}, x.DType, shape)
}

// LReduceKeep is LReduce with the dims kept at size 1.
func (b *Builder) LReduceKeep(r program.Reduction, x Local, dims ...int) Local {
	shape := cloneInts(x.Shape)
	for _, d := range dims {
		shape[d] = 1
	}
	return b.LReshape(b.LReduce(r, x, dims...), shape...)
}

// LDot contracts x and y, which have one element type. Sums of floats run in f32 at
// least; the result has type out and is rounded once, at the end. Its dims are the batch
// dims, then the free dims of x, then those of y.
func (b *Builder) LDot(x, y Local, d program.DotDims, out dtype.DType) Local {
	if x.DType != y.DType {
		b.failf(ErrType, nil, "%s: dot of %v and %v", b.name, x.DType, y.DType)
	}
	shape, err := program.DotShape(x.Shape, y.Shape, d)
	if err != nil {
		b.failf(ErrShape, nil, "%s: dot of local %v and %v: %v", b.name, x.Shape, y.Shape, err)
	}
	x, y = b.widenOperand(x), b.widenOperand(y)
	dims := program.DotDims{LeftBatch: cloneInts(d.LeftBatch), RightBatch: cloneInts(d.RightBatch),
		LeftContract: cloneInts(d.LeftContract), RightContract: cloneInts(d.RightContract)}
	return b.addInstr(program.Instr{Op: program.OpDot, Args: idsOf(x, y), Dot: &dims}, out, shape)
}

// LLoop runs body trips times. body gets the index of the round, an i32 scalar, and
// the carried values; it returns the carried values of the next round, which have the
// same types. The result is what the last round returns, or init without rounds.
func (b *Builder) LLoop(trips int, init []Local, body func(i Local, carried []Local) []Local) []Local {
	if trips <= 0 {
		return init
	}
	closed := b.openBody()
	b.depth++
	idx := b.newValue(dtype.I32, nil)
	params := make([]Local, len(init))
	for i, v := range init {
		params[i] = b.newValue(v.DType, v.Shape)
	}
	results := body(idx, params)
	b.depth--
	inner := closed()
	if len(results) != len(init) {
		b.failf(ErrShape, nil, "%s: loop carries %d values and returns %d", b.name, len(init), len(results))
	}
	outs := make([]Local, len(init))
	outIDs := make([]program.ID, len(init))
	for i, v := range init {
		if results[i].DType != v.DType || !slices.Equal(results[i].Shape, v.Shape) {
			b.failf(ErrShape, nil, "%s: loop value %d starts as %v%v and comes back as %v%v", b.name, i, v.DType, v.Shape, results[i].DType, results[i].Shape)
		}
		outs[i] = b.newValue(v.DType, v.Shape)
		outIDs[i] = outs[i].ID
	}
	*b.body = append(*b.body, program.Instr{Op: program.OpLoop, Args: idsOf(init...), Out: outIDs,
		Loop: &program.Loop{Trips: trips, Index: idx.ID, Params: idsOf(params...), Body: inner, Results: idsOf(results...)}})
	return outs
}

// NegInf is the value of masked scores. It is far below any score, and finite, so that
// the softmax of a row in which everything is masked is still a number in f32.
const NegInf = -1e30

// NegInf can be represented in f32, and so in bf16.
var _ = float32(NegInf) > -math.MaxFloat32

// LKernel computes on args by code that one platform has. means computes the same by
// instructions: what it builds becomes k.Params, k.Body and k.Result.
func (b *Builder) LKernel(k program.Kernel, args []Local, means func(params []Local) Local) Local {
	closed := b.openBody()
	b.depth++
	params := make([]Local, len(args))
	for i, a := range args {
		params[i] = b.newValue(a.DType, a.Shape)
	}
	result := means(params)
	b.depth--
	k.Params, k.Body, k.Result = idsOf(params...), closed(), result.ID
	return b.addInstr(program.Instr{Op: program.OpKernel, Args: idsOf(args...), Kernel: &k}, result.DType, result.Shape)
}
