package attention

import (
	"fmt"

	"weft/cpukernel"
	"weft/fault"
	"weft/program"
	"weft/spmd"
)

// planHostKernel plans the kernel of package cpukernel, which XLA's CPU plugin calls.
func planHostKernel(c call) (formPlan, error) {
	a := hostAttention(c)
	var l fault.List
	bad := func(format string, args ...any) { l.Add(fault.New(cpukernel.ErrUnsupported, nil, format, args...)) }
	if !c.host.Available {
		bad("%s", c.host.Why)
	}
	l.Add(checkAddsByKey(c, cpukernel.ErrUnsupported))
	l.Add(a.Check())
	if err := l.Err(); err != nil {
		return formPlan{}, err
	}
	return formPlan{
		why:          fmt.Sprintf("weft's kernel for processors, here at level %v", cpukernel.Best(c.dtype)),
		scratchBytes: a.ScratchBytes(),
		skipsPadding: true,
		emit:         func(b *spmd.Builder, in localOperands) spmd.Local { return emitHostKernel(b, a, in, c.o) },
	}, nil
}

// hostAttention is a call as package cpukernel describes it.
func hostAttention(c call) cpukernel.Attention {
	a := cpukernel.Attention{DType: c.dtype, Batch: c.batch, Queries: c.queries, Keys: c.keys, Real: c.keys,
		Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.headDim, Scale: c.o.Scale}
	if c.o.Keys > 0 {
		a.Real = c.o.Keys
	}
	return a
}

// emitHostKernel calls the kernel, which reads q, k and v as they lie in memory. Its meaning stands beside it, as
// in emitKernel.
func emitHostKernel(b *spmd.Builder, a cpukernel.Attention, in localOperands, o Options) spmd.Local {
	args := []spmd.Local{in.q, in.k, in.v}
	if added := addedToScores(b, in.bias, in.mask, a.Keys); added != nil {
		a.BiasBatch = added.Shape[0]
		args = append(args, *added)
	}
	kernel := program.Kernel{Name: "attention", Platform: "cpu", Call: cpukernel.CallName, Foreign: true, Config: a.Config}
	return b.LKernel(kernel, args, func(params []spmd.Local) spmd.Local { return emitMeaning(b, params, o) })
}
