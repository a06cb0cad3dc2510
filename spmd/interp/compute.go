package interp

import (
	"slices"
	"sync"

	"weft/spmd"
)

// computeLocal runs an instruction that needs no other device.
func (d *device) computeLocal(in *spmd.Instr) *Array {
	t := d.program.Values[in.Out[0]]
	args := make([]*Array, len(in.Args))
	for i, id := range in.Args {
		args[i] = d.arrayOf(id)
	}
	switch in.Op {
	case spmd.OpConst:
		return filledArray(t, in.Value)
	case spmd.OpIota:
		return iotaArray(t, in.Dims[0])
	case spmd.OpAxisIndex:
		return filledArray(t, float64(d.program.Mesh.Coord(d.pos, in.Axes[0])))
	case spmd.OpConvert:
		return convertArray(args[0], t.DType)
	case spmd.OpCompare:
		return compareArrays(in.Cmp, args[0], args[1])
	case spmd.OpSelect:
		return selectArrays(args[0], args[1], args[2])
	case spmd.OpReduce:
		return reduceDims(in.Reduction, args[0], in.Dims)
	case spmd.OpDot:
		return dotArrays(args[0], args[1], in.Dot, t, d.shareWork)
	case spmd.OpConv:
		return convolve(args[0], args[1], in.Lo, t, d.shareWork)
	case spmd.OpBroadcast, spmd.OpReshape, spmd.OpTranspose, spmd.OpSlice, spmd.OpPad, spmd.OpConcat, spmd.OpDynSlice, spmd.OpDynUpdate, spmd.OpTake:
		return rearrangeElements(in, t, args)
	}
	if len(args) == 1 {
		return applyUnary(in.Op, args[0])
	}
	return applyBinary(in.Op, args[0], args[1])
}

// rearrangeElements is compute for operations that move elements.
func rearrangeElements(in *spmd.Instr, t spmd.Type, args []*Array) *Array {
	x := args[0]
	switch in.Op {
	case spmd.OpBroadcast:
		steps, own := make([]int, len(t.Shape)), rowMajorStrides(x.Shape)
		for i, dim := range in.Dims {
			if x.Shape[i] > 1 {
				steps[dim] = own[i]
			}
		}
		return x.copyStrided(t.Shape, steps, 0)
	case spmd.OpReshape:
		return x.reshapeTo(t.Shape)
	case spmd.OpTranspose:
		return x.transposeDims(in.Dims)
	case spmd.OpSlice:
		steps, offset := rowMajorStrides(x.Shape), 0
		for i, lo := range in.Lo {
			offset += lo * steps[i]
		}
		return x.copyStrided(t.Shape, steps, offset)
	case spmd.OpPad:
		out := filledArray(t, in.Value)
		out.putAt(x, in.Lo)
		return out
	case spmd.OpConcat:
		return concatArrays(in.Dims[0], args)
	case spmd.OpDynSlice:
		dim, n := in.Dims[0], in.Hi[0]
		return x.sliceDim(dim, clampStart(args[1], x.Shape[dim]-n), n)
	}
	if in.Op == spmd.OpTake {
		return x.takeFrom(in.Dims[0], args[1], t.Shape)
	}
	update, dim := args[1], in.Dims[0] // OpDynUpdate
	out := x.cloneArray()
	at := make([]int, len(x.Shape))
	at[dim] = clampStart(args[2], x.Shape[dim]-update.Shape[dim])
	out.putAt(update, at)
	return out
}

// clampStart moves a start so that what is sliced fits, as XLA does.
func clampStart(start *Array, most int) int { return int(min(max(start.I[0], 0), int64(most))) }

func (a *Array) cloneArray() *Array {
	return &Array{a.DType, slices.Clone(a.Shape), slices.Clone(a.F), slices.Clone(a.D), slices.Clone(a.I)}
}

// shareWork shares work on n rows between this device's processor and those that
// no device is using. How it is cut changes no result.
func (d *device) shareWork(n int, work func(lo, hi int)) {
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
			work(n*w/workers, n*(w+1)/workers)
		})
	}
	func() {
		defer func() { failed[0] = recover() }()
		work(0, n/workers)
	}()
	done.Wait()
	for _, f := range failed {
		if f != nil {
			panic(f)
		}
	}
}
