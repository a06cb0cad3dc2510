package interp

import (
	"weft/spmd"
)

// computeShared computes what all members of a meeting get alike; the last to arrive
// does it for all.
func (mt *meeting) computeShared() {
	switch mt.in.Op {
	case spmd.OpAllReduce:
		mt.shared = joinArrays(mt.in.Reduction, mt.slots)
	case spmd.OpAllGather:
		mt.shared = concatArrays(mt.in.Dims[0], mt.slots)
	case spmd.OpReduceScatter:
		mt.shared = joinArrays(spmd.Sum, mt.slots)
	}
}

// resultFor is what the device at pos gets.
func (mt *meeting) resultFor(pos int) *Array {
	in, me, n := mt.in, mt.memberIndex(pos), len(mt.members)
	switch in.Op {
	case spmd.OpReduceScatter:
		return equalPart(mt.shared, in.Dims[0], me, n)
	case spmd.OpAllToAll:
		parts := make([]*Array, n)
		for i, x := range mt.slots {
			parts[i] = equalPart(x, in.Dims[0], me, n)
		}
		return concatArrays(in.Dims[1], parts)
	case spmd.OpPermute:
		for _, pair := range in.Pairs {
			if pair[1] == pos {
				return mt.slots[mt.memberIndex(pair[0])]
			}
		}
		return NewArray(mt.slots[me].DType, mt.slots[me].Shape...)
	}
	return mt.shared
}

// equalPart is the i-th of n equal parts of dim.
func equalPart(x *Array, dim, i, n int) *Array {
	size := x.Shape[dim] / n
	return x.sliceDim(dim, i*size, size)
}
