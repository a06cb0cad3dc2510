package interp

import (
	"slices"
	"sync"

	"weft/spmd"
)

// compute runs an instruction that needs no other device.
func (d *device) compute(in *spmd.Instr) *Array {
	t := d.program.Values[in.Out[0]]
	args := make([]*Array, len(in.Args))
	for i, id := range in.Args {
		args[i] = d.get(id)
	}
	switch in.Op {
	case spmd.OpConst:
		return filled(t, in.Value)
	case spmd.OpIota:
		return iota(t, in.Dims[0])
	case spmd.OpAxisIndex:
		return filled(t, float64(d.program.Mesh.Coord(d.pos, in.Axes[0])))
	case spmd.OpConvert:
		return convert(args[0], t.DType)
	case spmd.OpCompare:
		return compare(in.Cmp, args[0], args[1])
	case spmd.OpSelect:
		return choose(args[0], args[1], args[2])
	case spmd.OpReduce:
		return reduce(in.Reduction, args[0], in.Dims)
	case spmd.OpDot:
		return dot(args[0], args[1], in.Dot, t, d.split)
	case spmd.OpConv:
		return conv(args[0], args[1], in.Lo, t, d.split)
	case spmd.OpBroadcast, spmd.OpReshape, spmd.OpTranspose, spmd.OpSlice, spmd.OpPad, spmd.OpConcat, spmd.OpDynSlice, spmd.OpDynUpdate, spmd.OpTake:
		return rearrange(in, t, args)
	}
	if len(args) == 1 {
		return unary(in.Op, args[0])
	}
	return binary2(in.Op, args[0], args[1])
}

// rearrange is compute for operations that move elements.
func rearrange(in *spmd.Instr, t spmd.Type, args []*Array) *Array {
	x := args[0]
	switch in.Op {
	case spmd.OpBroadcast:
		steps, own := make([]int, len(t.Shape)), strides(x.Shape)
		for i, dim := range in.Dims {
			if x.Shape[i] > 1 {
				steps[dim] = own[i]
			}
		}
		return x.view(t.Shape, steps, 0)
	case spmd.OpReshape:
		return x.reshaped(t.Shape)
	case spmd.OpTranspose:
		return x.transposed(in.Dims)
	case spmd.OpSlice:
		steps, offset := strides(x.Shape), 0
		for i, lo := range in.Lo {
			offset += lo * steps[i]
		}
		return x.view(t.Shape, steps, offset)
	case spmd.OpPad:
		out := filled(t, in.Value)
		out.put(x, in.Lo)
		return out
	case spmd.OpConcat:
		return concat(in.Dims[0], args)
	case spmd.OpDynSlice:
		dim, n := in.Dims[0], in.Hi[0]
		return x.sliced(dim, clamp(args[1], x.Shape[dim]-n), n)
	}
	if in.Op == spmd.OpTake {
		return x.taken(in.Dims[0], args[1], t.Shape)
	}
	update, dim := args[1], in.Dims[0] // OpDynUpdate
	out := x.clone()
	at := make([]int, len(x.Shape))
	at[dim] = clamp(args[2], x.Shape[dim]-update.Shape[dim])
	out.put(update, at)
	return out
}

// clamp moves a start so that what is sliced fits, as XLA does.
func clamp(start *Array, most int) int { return int(min(max(start.I[0], 0), int64(most))) }

func (a *Array) clone() *Array {
	return &Array{a.DType, slices.Clone(a.Shape), slices.Clone(a.F), slices.Clone(a.D), slices.Clone(a.I)}
}

// Each worker of split cuts its rows into pieces, between which it looks whether the
// run has ended. Each piece of a contraction widens the other operand anew, so it has
// some rows to share that among.
const (
	pieces    = 32
	pieceRows = 32
)

// split shares work on n rows between this device's processor and those that
// no device is using. How it is cut changes no result. Once the run has ended the
// rest is left undone: body throws such a result away.
func (d *device) split(n int, work func(lo, hi int)) {
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
