package interp

import (
	"slices"
	"sync"

	"weft/program"
)

// computation gives the result, of type t, of an instruction that needs no other device.
type computation func(d *device, in *program.Instr, t program.Type, args []*Array) *Array

// computations says how each operation is computed. An elementwise operation that is
// not among them is one of numbers of one type: applyUnary or applyBinary. The
// collectives are in exchanges; what runs a body is in runStep.
var computations = map[program.Op]computation{
	program.OpConst: func(_ *device, in *program.Instr, t program.Type, _ []*Array) *Array { return filledArray(t, in.Value) },
	program.OpIota:  func(_ *device, in *program.Instr, t program.Type, _ []*Array) *Array { return iotaArray(t, in.Dims[0]) },
	program.OpAxisIndex: func(d *device, in *program.Instr, t program.Type, _ []*Array) *Array {
		return filledArray(t, float64(d.program.Mesh.Coord(d.pos, in.Axes[0])))
	},

	program.OpConvert: func(_ *device, _ *program.Instr, t program.Type, args []*Array) *Array {
		return convertArray(args[0], t.DType)
	},
	program.OpCompare: func(_ *device, in *program.Instr, _ program.Type, args []*Array) *Array {
		return compareArrays(in.Cmp, args[0], args[1])
	},
	program.OpSelect: func(_ *device, _ *program.Instr, _ program.Type, args []*Array) *Array {
		return selectArrays(args[0], args[1], args[2])
	},

	program.OpBroadcast: func(_ *device, in *program.Instr, t program.Type, args []*Array) *Array {
		return args[0].broadcastTo(t.Shape, in.Dims)
	},
	program.OpReshape: func(_ *device, _ *program.Instr, t program.Type, args []*Array) *Array {
		return args[0].reshapeTo(t.Shape)
	},
	program.OpTranspose: func(_ *device, in *program.Instr, _ program.Type, args []*Array) *Array {
		return args[0].transposeDims(in.Dims)
	},
	program.OpSlice: func(_ *device, in *program.Instr, t program.Type, args []*Array) *Array {
		return args[0].copyBlock(in.Lo, t.Shape)
	},
	program.OpPad: func(_ *device, in *program.Instr, t program.Type, args []*Array) *Array {
		out := filledArray(t, in.Value)
		out.putAt(args[0], in.Lo)
		return out
	},
	program.OpConcat: func(_ *device, in *program.Instr, _ program.Type, args []*Array) *Array {
		return concatArrays(in.Dims[0], args)
	},
	program.OpDynSlice: func(_ *device, in *program.Instr, _ program.Type, args []*Array) *Array {
		x, dim, n := args[0], in.Dims[0], in.Hi[0]
		return x.sliceDim(dim, clampStart(args[1], x.Shape[dim]-n), n)
	},
	program.OpDynUpdate: func(_ *device, in *program.Instr, _ program.Type, args []*Array) *Array {
		return args[0].updateDim(in.Dims[0], args[1], args[2])
	},
	program.OpTake: func(_ *device, in *program.Instr, t program.Type, args []*Array) *Array {
		return args[0].takeFrom(in.Dims[0], args[1], t.Shape)
	},

	program.OpReduce: func(_ *device, in *program.Instr, _ program.Type, args []*Array) *Array {
		return reduceDims(in.Reduction, args[0], in.Dims)
	},
	program.OpDot: func(d *device, in *program.Instr, t program.Type, args []*Array) *Array {
		return dotArrays(args[0], args[1], in.Dot, t, d.shareWork)
	},
	program.OpConv: func(d *device, in *program.Instr, t program.Type, args []*Array) *Array {
		return convolveArray(args[0], args[1], in.Lo, in.Strides, t, d.shareWork)
	},
}

// computeLocal runs an instruction that needs no other device.
func (d *device) computeLocal(in *program.Instr) *Array {
	args := make([]*Array, len(in.Args))
	for i, id := range in.Args {
		args[i] = d.arrayOf(id)
	}
	if compute := computations[in.Op]; compute != nil {
		return compute(d, in, d.program.Values[in.Out[0]], args)
	}
	if len(args) == 1 {
		return applyUnary(in.Op, args[0])
	}
	return applyBinary(in.Op, args[0], args[1])
}

// broadcastTo has dim i of a as dim dims[i] of shape, where a size of 1 stretches.
func (a *Array) broadcastTo(shape, dims []int) *Array {
	steps, own := make([]int, len(shape)), rowMajorStrides(a.Shape)
	for i, dim := range dims {
		if a.Shape[i] > 1 {
			steps[dim] = own[i]
		}
	}
	return a.copyStrided(shape, steps, 0)
}

// copyBlock is the block of a shape whose first element is at corner.
func (a *Array) copyBlock(corner, shape []int) *Array {
	steps, offset := rowMajorStrides(a.Shape), 0
	for i, lo := range corner {
		offset += lo * steps[i]
	}
	return a.copyStrided(shape, steps, offset)
}

// updateDim is a with update written over part of dim.
func (a *Array) updateDim(dim int, update, start *Array) *Array {
	out := a.cloneArray()
	at := make([]int, len(a.Shape))
	at[dim] = clampStart(start, a.Shape[dim]-update.Shape[dim])
	out.putAt(update, at)
	return out
}

// clampStart moves a start into 0..most, as XLA does, so that the slice fits.
func clampStart(start *Array, most int) int { return int(min(max(start.I[0], 0), int64(most))) }

func (a *Array) cloneArray() *Array {
	return &Array{a.DType, slices.Clone(a.Shape), slices.Clone(a.F), slices.Clone(a.D), slices.Clone(a.I)}
}

// Each worker of shareWork cuts its rows into pieces, and looks between them whether the
// run has ended. Each piece of a contraction widens the other operand anew, so it has
// some rows to share that among.
const (
	pieces    = 32
	pieceRows = 32
)

// shareWork divides work on n rows between this device's processor and the processors
// that no device uses. The result does not depend on how the rows are divided. Once the
// run has ended it leaves the rest undone: runBody throws such a result away.
func (d *device) shareWork(n int, work func(lo, hi int)) {
	inPieces := func(lo, hi int) {
		for at := lo; at < hi && d.ctx.Err() == nil; {
			end := min(hi, at+max(pieceRows, (hi-lo+pieces-1)/pieces))
			work(at, end)
			at = end
		}
	}
	workers := 1
	for free := true; free && workers < n; {
		select {
		case d.tokens <- struct{}{}:
			workers++
		default:
			free = false
		}
	}
	failed := make([]any, workers)
	var done sync.WaitGroup
	for w := 1; w < workers; w++ {
		done.Go(func() {
			defer func() { failed[w] = recover(); <-d.tokens }()
			inPieces(n*w/workers, n*(w+1)/workers)
		})
	}
	func() {
		defer func() { failed[0] = recover() }()
		inPieces(0, n/workers)
	}()
	done.Wait()
	for _, f := range failed {
		if f != nil {
			panic(f)
		}
	}
}
