package interp

import (
	"weft/spmd"
)

// share computes what all members of a meeting get alike; the last to arrive
// does it for all.
func (mt *meeting) share() {
	switch mt.in.Op {
	case spmd.OpAllReduce:
		mt.shared = joined(mt.in.Reduction, mt.slots)
	case spmd.OpAllGather:
		mt.shared = concat(mt.in.Dims[0], mt.slots)
	case spmd.OpReduceScatter:
		mt.shared = joined(spmd.Sum, mt.slots)
	}
}

// result is what the device at pos gets.
func (mt *meeting) result(pos int) *Array {
	in, me, n := mt.in, mt.index(pos), len(mt.members)
	switch in.Op {
	case spmd.OpReduceScatter:
		return part(mt.shared, in.Dims[0], me, n)
	case spmd.OpAllToAll:
		parts := make([]*Array, n)
		for i, x := range mt.slots {
			parts[i] = part(x, in.Dims[0], me, n)
		}
		return concat(in.Dims[1], parts)
	case spmd.OpPermute:
		for _, pair := range in.Pairs {
			if pair[1] == pos {
				return mt.slots[mt.index(pair[0])]
			}
		}
		return NewArray(mt.slots[me].DType, mt.slots[me].Shape...)
	}
	return mt.shared
}

// part is the i-th of n equal parts of dim.
func part(x *Array, dim, i, n int) *Array {
	size := x.Shape[dim] / n
	return x.sliced(dim, i*size, size)
}
