package spmd

import (
	"weft/dtype"
	"weft/program"
	"weft/sharding"
)

// LTake takes from dim of x the places that ids lists, an i32 of any shape. In the
// result the dims of ids stand where dim was. A place below 0 or past the end is
// replaced by the nearest place of the dim.
func (b *Builder) LTake(x Local, dim int, ids Local) Local {
	if dim < 0 || dim >= x.Rank() || x.Shape[dim] < 1 || ids.DType != dtype.I32 {
		b.failf(ErrShape, nil, "%s: take from dim %d of local %v by %v%v: the dim has places and they are named by i32", b.name, dim, x.Shape, ids.DType, ids.Shape)
	}
	shape := append(append(cloneInts(x.Shape[:dim]), ids.Shape...), x.Shape[dim+1:]...)
	return b.addInstr(program.Instr{Op: program.OpTake, Args: []program.ID{x.ID, ids.ID}, Dims: []int{dim}}, x.DType, shape)
}

// Take looks rows up: table (V, ...) and ids, an i32 of any shape, give (ids'
// dims, ...). An id below 0 or past the last row gives the nearest row.
//
// Rules:
//
//  1. Where rows are sharded over an axis, each device takes the rows that it has
//     and zeros for the others, and the result is partial over the axis. The sum is
//     exact in any type, since all addends but one are zero.
//  2. The result's dims are sharded as those of ids and of the table are. Where an
//     axis shards both, ids are gathered, because they are the smaller.
//  3. Partial sums are reduced first.
func (b *Builder) Take(table, ids Tensor) Tensor {
	if table.Rank() < 1 || table.DType == dtype.Bool || ids.DType != dtype.I32 {
		b.failf(ErrType, nil, "%s: rows of %v%v by %v%v: want a table of numbers and i32 ids", b.name, table.DType, table.Shape, ids.DType, ids.Shape)
	}
	table = b.Reduced(table, "a table's rows are whole sums")
	taken := []string{}
	for d := range table.Shape {
		taken = append(taken, table.Spec.Dim(d)...)
	}
	want, _ := withoutAxes(ids.Spec.WithoutPartial(), ids.Rank(), -1, taken)
	ids = b.Reshard(ids, want, "ids gathered: their axis splits the table")

	rows := table.Spec.Dim(0)
	at := b.LBinary(program.OpMin, b.LMax(ids.local, b.constI32(0)), b.constI32(table.Shape[0]-1))
	n := table.local.Shape[0]
	if len(rows) > 0 {
		at = b.LSub(at, b.LMul(b.LAxisIndex(rows...), b.constI32(n)))
	}
	v := b.LTake(table.local, 0, at)
	if len(rows) > 0 {
		mine := b.LBinary(program.OpAnd, b.LCompare("GE", at, b.constI32(0)), b.LCompare("LT", at, b.constI32(n)))
		for range table.Rank() - 1 {
			mine = b.LReshape(mine, append(cloneInts(mine.Shape), 1)...)
		}
		v = b.LSelect(mine, v, b.LConst(v.DType, 0))
	}
	shape := append(cloneInts(ids.Shape), table.Shape[1:]...)
	spec := sharding.Whole(len(shape)).WithPartial(rows...)
	for d := range ids.Shape {
		spec = spec.WithDim(d, ids.Spec.Dim(d)...)
	}
	for d := 1; d < table.Rank(); d++ {
		spec = spec.WithDim(ids.Rank()+d-1, table.Spec.Dim(d)...)
	}
	return b.Global(v, shape, spec)
}
