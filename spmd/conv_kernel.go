package spmd

import (
	"slices"

	"weft/cpukernel"
	"weft/dtype"
	"weft/program"
)

// emitConvKernel computes a convolution over two or three spatial dims by weft's kernel for processors, where
// the target has it and the kernel takes the convolution. The kernel reads the frames of a concatenation where
// they lie, so that no copy of them is made. The convolution that emitConvPlain makes is its meaning.
func (b *Builder) emitConvKernel(x, w Local, lo, hi, strides []int, out dtype.DType) (Local, bool) {
	over := len(lo)
	if !b.target.HostKernels.Available || over < 2 || over > 3 || out != dtype.F32 && out != dtype.BF16 || slices.ContainsFunc(strides, func(s int) bool { return s != 1 }) {
		return Local{}, false
	}
	first := over - 2 // of the two dims that are rows and columns
	c := cpukernel.Convolution{DType: x.DType, Batch: x.Shape[0], Frames: 1, Taps: 1, Whole: true, Rows: x.Shape[1+first], Cols: x.Shape[2+first], In: x.Shape[3+first],
		Out: w.Shape[0], Kernel: [2]int{w.Shape[2+first], w.Shape[3+first]}, Before: [2]int{lo[first], lo[first+1]}, After: [2]int{hi[first], hi[first+1]}}
	frames := []Local{x}
	if over == 3 {
		if lo[0]+hi[0] > 0 {
			x = b.LPad(x, 1, lo[0], hi[0], 0)
		}
		frames = b.framesOf(x)
		c.Frames, c.Taps, c.Whole = x.Shape[1], w.Shape[2], len(frames) == 1
	}
	if c.Taps*c.Kernel[0]*c.Kernel[1] == 1 || c.Check() != nil {
		return Local{}, false
	}
	k := program.Kernel{Name: "convolution", Platform: "cpu", Call: cpukernel.ConvCallName, Foreign: true, Config: c.Config}
	y := b.LKernel(k, append(slices.Clone(frames), w), func(params []Local) Local {
		x, w := params[0], params[len(params)-1]
		around := [][]int{slices.Clone(lo), slices.Clone(hi)}
		if over == 3 {
			x = b.LConcat(1, params[:len(params)-1]...)
			around[0][0], around[1][0] = 0, 0 // these zeros are among the frames
		}
		return b.emitConvPlain(x, w, around[0], around[1], strides, dtype.F32)
	})
	return b.LConvert(y, out), true
}

// framesOf returns the frames (N, 1, S..., I) that x (N, T, S..., I) is a concatenation of, or x alone where it
// is none.
func (b *Builder) framesOf(x Local) []Local {
	for _, in := range *b.body {
		if in.Op != program.OpConcat || in.Out[0] != x.ID || in.Dims[0] != 1 {
			continue
		}
		var frames []Local
		for _, id := range in.Args {
			t := b.values[id]
			if t.Shape[1] != 1 {
				return []Local{x}
			}
			frames = append(frames, Local{ID: id, DType: t.DType, Shape: t.Shape})
		}
		return frames
	}
	return []Local{x}
}

// ReplaceAfter returns after, and x in the memory of old: for an output that takes over old's memory, which is an
// input of the program. Where the target has kernels, x is copied there as soon as after is computed, which
// has to be what reads old last, and what is computed of the first result is computed later. Elsewhere the
// compiler decides when: XLA's CPU plugin copies at the end of the program, and holds every such x until
// then.
func (b *Builder) ReplaceAfter(after, old, x Tensor) (Tensor, Tensor) {
	if !b.target.HostKernels.Available {
		return after, x
	}
	if old.DType != x.DType || !slices.Equal(old.local.Shape, x.local.Shape) {
		b.failf(ErrShape, nil, "%s: %v%v in the place of %v%v", b.name, x.DType, x.Shape, old.DType, old.Shape)
	}
	inPlace := func(call string, meaning int, args ...Local) Local {
		k := program.Kernel{Name: call, Platform: "cpu", Call: call, Foreign: true, InPlace: true, Config: func() string { return "" }}
		return b.LKernel(k, args, func(params []Local) Local { return b.LReshape(params[meaning], params[meaning].Shape...) })
	}
	// One number of after stands for it, so that after has one reader that may take over its memory.
	one := after.local
	for d := range one.Shape {
		one = b.LSlice(one, d, 0, 1)
	}
	kept := inPlace(cpukernel.CopyCallName, 1, old.local, x.local, one)
	ordered := inPlace(cpukernel.OrderCallName, 0, after.local, kept)
	return b.Global(ordered, after.Shape, after.Spec), b.Global(kept, x.Shape, x.Spec)
}
