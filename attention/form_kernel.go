package attention

import (
	"fmt"
	"math"

	"weft/attention/mosaic"
	"weft/dtype"
	"weft/fault"
	"weft/program"
	"weft/spmd"
)

// kernelForm is the kernel of weft's own that the target has: that of package mosaic on TPUs, of package
// triton on GPUs, and of package cpukernel on processors.
type kernelForm struct{}

func (kernelForm) name() string { return Kernel }

func (kernelForm) help() string { return "on TPUs, NVIDIA's GPUs and x86-64 processors, or an error" }

func (kernelForm) plan(c call) (formPlan, error) {
	switch {
	case isGPU(c.chip):
		return planTriton(c)
	case c.chip == "" && c.host != (spmd.HostKernels{}):
		return planHostKernel(c)
	}
	return planMosaic(c)
}

// planMosaic plans a call as the kernel of package mosaic. The scores never leave the chip's vector
// memory. The running softmax does not either: it lives in the kernel's scratch.
func planMosaic(c call) (formPlan, error) {
	s := mosaic.Kernel{Chip: c.chip, Batch: c.batch, Queries: c.queries, Keys: c.keys, Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.headDim}
	if c.o.Keys > 0 {
		s.Real = []mosaic.Range{{From: 0, To: c.o.Keys}}
	}
	if err := checkKernelTakes(c, s); err != nil {
		return formPlan{}, err
	}
	// The kernel takes powers of 2, so the softmax's scale comes with log2(e).
	scale := c.o.Scale * math.Log2E
	tiles := s.Tiles()
	return formPlan{
		why:          fmt.Sprintf("weft's kernel for %s, in steps of %d queries by %d keys", s.Chip, tiles.Q, tiles.K),
		scratchBytes: addedBytes(c),
		mergesHeads:  true,
		skipsPadding: true,
		queryScale:   scale,
		emit: func(b *spmd.Builder, in localOperands) spmd.Local {
			spec := s
			if !in.scaled {
				spec.Scale = scale
			}
			return emitKernel(b, spec, in, c.o)
		},
	}, nil
}

// checkKernelTakes gives every reason why the kernel does not take a call.
func checkKernelTakes(c call, s mosaic.Kernel) error {
	if s.Chip == "" {
		return fault.New(mosaic.ErrUnsupported, nil, "kernels are for TPUs, GPUs, and processors through XLA's CPU plugin")
	}
	var l fault.List
	bad := func(format string, args ...any) { l.Add(fault.New(mosaic.ErrUnsupported, nil, format, args...)) }
	if c.dtype != dtype.BF16 {
		bad("operands are %v; the kernel takes bf16", c.dtype)
	}
	l.Add(checkAddsByKey(c, mosaic.ErrUnsupported))
	l.Add(s.Check())
	return l.Err()
}

// emitKernel calls the kernel. The instructions of the blocked form stand beside it in the
// program and say what it means: the interpreter runs them.
func emitKernel(b *spmd.Builder, s mosaic.Kernel, in localOperands, o Options) spmd.Local {
	mergeHeads := func(x spmd.Local) spmd.Local { return b.LReshape(x, x.Shape[0], x.Shape[1], x.Shape[2]*x.Shape[3]) }
	args := []spmd.Local{mergeHeads(in.q), mergeHeads(in.k), mergeHeads(in.v)}
	if added := addedToScores(b, in.bias, in.mask, s.Keys); added != nil {
		s.Mask, s.MaskBatch = true, added.Shape[0]
		args = append(args, *added)
	}
	if in.scaled { // q has the scale and log2(e); the blocked form takes powers of e
		o.Scale = math.Ln2
	}
	kernel := program.Kernel{Name: "attention", Platform: "tpu", Call: mosaic.Call, Config: s.Config}
	out := b.LKernel(kernel, args, func(params []spmd.Local) spmd.Local {
		splitHeads := func(x spmd.Local, like spmd.Local) spmd.Local { return b.LReshape(x, like.Shape...) }
		split := append([]spmd.Local{splitHeads(params[0], in.q), splitHeads(params[1], in.k), splitHeads(params[2], in.v)}, params[3:]...)
		return mergeHeads(emitMeaning(b, split, o))
	})
	return b.LReshape(out, in.q.Shape...)
}

// emitMeaning computes by the blocked form what a kernel computes of its operands: q, k, v and, where there
// is one, what addedToScores made.
func emitMeaning(b *spmd.Builder, params []spmd.Local, o Options) spmd.Local {
	k, v := params[1], params[2]
	if o.Keys > 0 {
		k, v = b.LSlice(k, 1, 0, o.Keys), b.LSlice(v, 1, 0, o.Keys)
	}
	return emitBlocked(b, localOperands{q: params[0], k: k, v: v, bias: addedBias(b, params, k.Shape[1])}, o)
}

// addedToScores returns what the kernel adds to the scores of each key, (B|1, 1, Sk) times
// log2(e), for a bias and a mask (B|1, 1, 1, real keys); nil where there is neither.
func addedToScores(b *spmd.Builder, bias, mask *spmd.Local, keys int) *spmd.Local {
	if bias == nil && mask == nil {
		return nil
	}
	byKey := func(x *spmd.Local, batch int) spmd.Local {
		y := b.LReshape(*x, x.Shape[0], 1, x.Shape[3])
		return b.LBroadcast(y, batch, 1, x.Shape[3])
	}
	var out spmd.Local
	switch {
	case mask == nil:
		out = byKey(bias, bias.Shape[0])
	case bias == nil:
		m := byKey(mask, mask.Shape[0])
		zero := b.LConst(dtype.F32, 0, m.Shape...)
		out = b.LSelect(m, zero, b.LConst(dtype.F32, spmd.NegInf, m.Shape...))
	default:
		batch := max(bias.Shape[0], mask.Shape[0])
		x := byKey(bias, batch)
		out = b.LSelect(byKey(mask, batch), x, b.LConst(dtype.F32, spmd.NegInf, x.Shape...))
	}
	out = b.LScale(out, math.Log2E)
	if n := out.Shape[2]; n < keys {
		out = b.LPad(out, 2, 0, keys-n, 0)
	}
	return &out
}
