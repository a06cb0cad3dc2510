package interp

import (
	"weft/program"
)

// exchange is how a collective is computed. Either part may be missing.
type exchange struct {
	// shared computes the result that all members of the group get, or of which each gets
	// a part. The last member to arrive computes it for all.
	shared func(mt *meeting) *Array
	// own computes the result of the device at pos. Without it, that is the shared one.
	own func(mt *meeting, pos int) *Array
}

// exchanges says how each collective is computed.
var exchanges = map[program.Op]exchange{
	program.OpAllReduce: {shared: func(mt *meeting) *Array { return joinArrays(mt.in.Reduction, mt.slots) }},
	program.OpAllGather: {shared: func(mt *meeting) *Array { return concatArrays(mt.in.Dims[0], mt.slots) }},
	program.OpReduceScatter: {
		shared: func(mt *meeting) *Array { return joinArrays(program.Sum, mt.slots) },
		own: func(mt *meeting, pos int) *Array {
			return equalPart(mt.shared, mt.in.Dims[0], mt.memberIndex(pos), len(mt.members))
		},
	},
	program.OpAllToAll: {own: func(mt *meeting, pos int) *Array {
		parts := make([]*Array, len(mt.slots))
		for i, x := range mt.slots {
			parts[i] = equalPart(x, mt.in.Dims[0], mt.memberIndex(pos), len(mt.members))
		}
		return concatArrays(mt.in.Dims[1], parts)
	}},
	program.OpPermute: {own: func(mt *meeting, pos int) *Array {
		for _, pair := range mt.in.Pairs {
			if pair[1] == pos {
				return mt.slots[mt.memberIndex(pair[0])]
			}
		}
		x := mt.slots[mt.memberIndex(pos)]
		return NewArray(x.DType, x.Shape...)
	}},
}

// computeShared computes what the members of a meeting share.
func (mt *meeting) computeShared() {
	if shared := exchanges[mt.in.Op].shared; shared != nil {
		mt.shared = shared(mt)
	}
}

// resultFor is the result of the device at pos.
func (mt *meeting) resultFor(pos int) *Array {
	if own := exchanges[mt.in.Op].own; own != nil {
		return own(mt, pos)
	}
	return mt.shared
}

// equalPart is the i-th of n equal parts of dim.
func equalPart(x *Array, dim, i, n int) *Array {
	size := x.Shape[dim] / n
	return x.sliceDim(dim, i*size, size)
}
