package attention

import (
	"fmt"
	"math"

	"weft/attention/triton"
	"weft/fault"
	"weft/program"
	"weft/spmd"
	"weft/topology"
)

// isGPU reports whether a target's chip is a GPU.
func isGPU(chip string) bool {
	_, ok := topology.GPUByName(chip)
	return ok
}

// planTriton plans a call as the kernel of package triton. The scores and the running softmax
// never leave the registers.
func planTriton(c call) (formPlan, error) {
	s := triton.Kernel{Chip: c.chip, DType: c.dtype, Batch: c.batch, Queries: c.queries, Keys: c.keys, Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.headDim}
	if c.o.Keys > 0 {
		s.Real = []triton.Range{{From: 0, To: c.o.Keys}}
	}
	var l fault.List
	l.Add(checkAddsByKey(c, triton.ErrUnsupported))
	l.Add(s.Check())
	if err := l.Err(); err != nil {
		return formPlan{}, err
	}
	tiles := s.Tiles()
	scale := c.o.Scale * math.Log2E // the kernel takes powers of 2
	return formPlan{
		why:          fmt.Sprintf("weft's kernel for %s, in blocks of %d queries by %d keys", s.Chip, tiles.Queries, tiles.Keys),
		scratchBytes: addedBytes(c),
		handsOnState: true,
		skipsPadding: true,
		queryScale:   scale,
		emit: func(b *spmd.Builder, in localOperands) spmd.Local {
			spec := s
			if !in.scaled {
				spec.Scale = scale
			}
			return emitTriton(b, spec, in, c.o)
		},
	}, nil
}

// emitTriton calls the kernel. The instructions of the blocked form stand beside it in the
// program and say what it means: the interpreter runs them.
func emitTriton(b *spmd.Builder, s triton.Kernel, in localOperands, o Options) spmd.Local {
	args := []spmd.Local{in.q, in.k, in.v}
	if added := addedToScores(b, in.bias, in.mask, s.Keys); added != nil {
		s.Mask, s.MaskBatch = true, added.Shape[0]
		args = append(args, *added)
	}
	if in.scaled { // q has the scale and log2(e); the blocked form takes powers of e
		o.Scale = math.Ln2
	}
	kernel := program.Kernel{Name: "attention", Platform: "cuda", Call: triton.Call, Config: s.Config, Typed: true}
	return b.LKernel(kernel, args, func(params []spmd.Local) spmd.Local { return emitMeaning(b, params, o) })
}

// addedBytes is the memory of what a kernel adds to the scores: one number for each key.
func addedBytes(c call) int64 {
	if c.o.Bias == nil && c.o.Mask == nil {
		return 0
	}
	return int64(c.batch) * int64(c.keys) * 4
}

// addedBias is what a kernel's fourth parameter means to the blocked form: a bias of each key that is
// real; nil where there is no such parameter.
func addedBias(b *spmd.Builder, params []spmd.Local, keys int) *spmd.Local {
	if len(params) < 4 {
		return nil
	}
	x := b.LScale(b.LSlice(params[3], 2, 0, keys), math.Ln2)
	x = b.LReshape(x, x.Shape[0], 1, 1, x.Shape[2])
	return &x
}

// checkAddsByKey gives every reason, as errors of a kind, why a kernel that adds one number for each key
// to the scores does not take a call.
func checkAddsByKey(c call, kind *fault.Kind) error {
	var l fault.List
	bad := func(format string, args ...any) { l.Add(fault.New(kind, nil, format, args...)) }
	if c.o.Causal {
		bad("causal; the kernel sees all keys")
	}
	if c.o.Relative != nil {
		bad("a bias by distance; the kernel adds one by key")
	}
	for _, x := range []struct {
		what string
		t    *spmd.Tensor
	}{{"bias", c.o.Bias}, {"mask", c.o.Mask}} {
		if x.t != nil && (x.t.Shape[1] > 1 || x.t.Shape[2] > 1) {
			bad("a %s by head or query, %v; the kernel takes one by key", x.what, x.t.Shape)
		}
	}
	return l.Err()
}
