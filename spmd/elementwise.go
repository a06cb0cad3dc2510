package spmd

import (
	"slices"

	"weft/dtype"
	"weft/program"
	"weft/sharding"
)

// Elementwise rules. Operands broadcast as numpy's do, aligned at the last dim.
//
//  1. The result's layout follows from the operands: each dim of the result is
//     sharded over the axes of the first operand that shards it. An operand that
//     broadcasts along a dim does not count for that dim.
//  2. Partial sums stay partial under Neg and Scale, under Add and Sub when all
//     operands are partial over the same axes, and under Mul and Div of one
//     partial operand by an operand that is not partial. All other operations
//     reduce first, straight into the result's layout: where that is sharded, the
//     reduction is a reduce-scatter.
//  3. An operand with another layout is brought to the result's layout. From a
//     replicated operand that takes a local slice and no traffic.

// Unary applies op, an elementwise operation of one operand. Only OpNeg keeps partial sums.
func (b *Builder) Unary(op program.Op, x Tensor) Tensor {
	if op != program.OpNeg {
		x = b.Reduced(x, string(op)+" needs whole sums")
	}
	return b.Global(b.LUnary(op, x.local), x.Shape, x.Spec)
}

// Convert changes the element type. Partial sums are reduced first, because a sum of
// rounded values is not the rounded sum.
func (b *Builder) Convert(x Tensor, d dtype.DType) Tensor {
	if x.DType == d {
		return x
	}
	x = b.Reduced(x, "convert to "+d.String()+" needs whole sums")
	return b.Global(b.LConvert(x.local, d), x.Shape, x.Spec)
}

// Scale is x times a constant.
func (b *Builder) Scale(x Tensor, v float64) Tensor {
	return b.Global(b.LScale(x.local, v), x.Shape, x.Spec)
}

// Shift is x plus a constant.
func (b *Builder) Shift(x Tensor, v float64) Tensor {
	x = b.Reduced(x, "adding a constant needs whole sums")
	return b.Global(b.LAdd(x.local, b.LConst(x.DType, v)), x.Shape, x.Spec)
}

// AtLeast is the larger of x and v.
func (b *Builder) AtLeast(x Tensor, v float64) Tensor { return b.applyBound(program.OpMax, x, v) }

// AtMost is the smaller of x and v.
func (b *Builder) AtMost(x Tensor, v float64) Tensor { return b.applyBound(program.OpMin, x, v) }

func (b *Builder) applyBound(op program.Op, x Tensor, v float64) Tensor {
	x = b.Reduced(x, "a bound needs whole sums")
	return b.Global(b.LBinary(op, x.local, b.LConst(x.DType, v)), x.Shape, x.Spec)
}

// Add is x + y.
func (b *Builder) Add(x, y Tensor) Tensor { return b.applyBinary(program.OpAdd, x, y) }

// Sub is x - y.
func (b *Builder) Sub(x, y Tensor) Tensor { return b.applyBinary(program.OpSub, x, y) }

// Mul is x * y.
func (b *Builder) Mul(x, y Tensor) Tensor { return b.applyBinary(program.OpMul, x, y) }

// Div is x / y.
func (b *Builder) Div(x, y Tensor) Tensor { return b.applyBinary(program.OpDiv, x, y) }

func (b *Builder) applyBinary(op program.Op, x, y Tensor) Tensor {
	if x.DType != y.DType {
		b.failf(ErrType, nil, "%s: %s of %v and %v; convert one first", b.name, op, x.DType, y.DType)
	}
	shape, err := broadcastShape(x.Shape, y.Shape)
	if err != nil {
		b.failf(ErrShape, nil, "%s: %s of %v and %v: %v", b.name, op, x.Shape, y.Shape, err)
	}
	px, py := x.Spec.Partial(), y.Spec.Partial()
	keep := false
	switch op {
	case program.OpAdd, program.OpSub:
		keep = len(px) > 0 && haveSameAxes(px, py)
	case program.OpMul:
		keep = (len(px) == 0) != (len(py) == 0)
	case program.OpDiv:
		keep = len(px) > 0 && len(py) == 0
	}
	dims := b.readLayout(shape, x, y)
	if keep {
		partial := unionAxes(px, py)
		// An axis cannot both shard a dim and be partial.
		for _, axes := range dims {
			for _, a := range axes {
				keep = keep && !slices.Contains(partial, a)
			}
		}
	}
	target := sharding.NewSpec(dims...)
	if keep {
		target = target.WithPartial(unionAxes(px, py)...)
	}
	lx := b.arrangeOperand(x, shape, target, keep, op)
	ly := b.arrangeOperand(y, shape, target, keep, op)
	return b.Global(b.LBinary(op, lx, ly), shape, target)
}

// arrangeOperand brings an operand of an elementwise operation to the part of the
// result's layout that its own dims have: those that broadcast stay replicated.
func (b *Builder) arrangeOperand(x Tensor, shape []int, target sharding.Spec, keep bool, op program.Op) Local {
	off := len(shape) - x.Rank()
	follows := func(d int) bool { return x.Shape[d] == shape[off+d] && x.Shape[d] != 1 }
	// Most operands have the layout already, and a program has thousands of operands:
	// they are found without making a layout.
	there := keep || len(x.Spec.Partial()) == 0
	for d := range x.Shape {
		there = there && (follows(d) && x.Spec.DimEqual(d, target, off+d) || !follows(d) && len(x.Spec.Dim(d)) == 0)
	}
	if there {
		return x.local
	}
	spec := sharding.Whole(x.Rank())
	for d := range x.Shape {
		if follows(d) {
			spec = spec.WithDim(d, target.Dim(off+d)...)
		}
	}
	if keep {
		spec = spec.WithPartial(x.Spec.Partial()...)
	}
	return b.Reshard(x, spec, "operand of "+string(op)).local
}

// readLayout gives the axes of each dim of the result (rule 1).
func (b *Builder) readLayout(shape []int, ops ...Tensor) [][]string {
	dims := make([][]string, len(shape))
	used := map[string]bool{}
	// Operands that are not partial come first, because a partial one moves anyway.
	order := slices.Clone(ops)
	slices.SortStableFunc(order, func(x, y Tensor) int {
		return min(len(x.Spec.Partial()), 1) - min(len(y.Spec.Partial()), 1)
	})
	for _, x := range order {
		off := len(shape) - x.Rank()
		for d := range x.Shape {
			axes := x.Spec.Dim(d)
			if len(axes) == 0 || len(dims[off+d]) > 0 {
				continue
			}
			free := true
			for _, a := range axes {
				free = free && !used[a]
			}
			if !free {
				continue
			}
			dims[off+d] = axes
			for _, a := range axes {
				used[a] = true
			}
		}
	}
	return dims
}

// Select is x where pred holds, else y.
func (b *Builder) Select(pred, x, y Tensor) Tensor {
	shape, err := broadcastShape(x.Shape, y.Shape)
	if err == nil {
		shape, err = broadcastShape(shape, pred.Shape)
	}
	if err != nil {
		b.failf(ErrShape, nil, "%s: select on %v of %v and %v: %v", b.name, pred.Shape, x.Shape, y.Shape, err)
	}
	target := sharding.NewSpec(b.readLayout(shape, x, y, pred)...)
	return b.Global(b.LSelect(b.arrangeOperand(pred, shape, target, false, program.OpSelect),
		b.arrangeOperand(x, shape, target, false, program.OpSelect), b.arrangeOperand(y, shape, target, false, program.OpSelect)), shape, target)
}

func haveSameAxes(x, y []string) bool {
	if len(x) != len(y) {
		return false
	}
	for _, a := range x {
		if !slices.Contains(y, a) {
			return false
		}
	}
	return true
}

func unionAxes(x, y []string) []string {
	out := slices.Clone(x)
	for _, a := range y {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// Sum adds up dim, which stays with size 1. Where the dim is sharded, each device sums
// its shard and the result is partial.
func (b *Builder) Sum(x Tensor, dim int) Tensor {
	dim = b.dimIndex(x, dim)
	shape := cloneInts(x.Shape)
	shape[dim] = 1
	spec := x.Spec.WithDim(dim).WithPartial(x.Spec.Dim(dim)...)
	return b.Global(b.LReduceKeep(program.Sum, x.local, dim), shape, spec)
}

// Constant is a replicated tensor with v in every element.
func (b *Builder) Constant(d dtype.DType, v float64, shape ...int) Tensor {
	return b.Global(b.LConst(d, v, shape...), shape, sharding.Whole(len(shape)))
}

// Unrounded is x as it was before it was rounded from f32, through reshapes. It
// reports false where x is not the result of such a rounding.
func (b *Builder) Unrounded(x Tensor) (Tensor, bool) {
	id := x.local.ID
	for i := len(*b.body) - 1; i >= 0; i-- {
		in := &(*b.body)[i]
		if len(in.Out) != 1 || in.Out[0] != id {
			continue
		}
		switch {
		case in.Op == program.OpReshape:
			id = in.Args[0]
		case in.Op == program.OpConvert && b.values[in.Args[0]].DType == dtype.F32:
			t := b.values[in.Args[0]]
			return b.Global(b.LReshape(Local{in.Args[0], t.DType, t.Shape}, x.local.Shape...), x.Shape, x.Spec), true
		default:
			return x, false
		}
	}
	return x, false
}
