package spmd

import (
	"slices"

	"weft/dtype"
	"weft/program"
)

// LConv is LConvStrided with a stride of 1 along every dim.
func (b *Builder) LConv(x, w Local, lo, hi []int, out dtype.DType) Local {
	return b.LConvStrided(x, w, lo, hi, nil, out)
}

// LConvStrided is a convolution as neural networks have it: the kernel is not
// flipped. x is (N, S..., I) and w is (O, I, K...) as PyTorch keeps it, with one K for
// each spatial dim S. The result is (N, S'..., O) of type out, and sums run as in LDot.
// Along each spatial dim lo zeros stand before x and hi zeros after it, and the kernel
// moves by the dim's stride, so that S' = (lo + S + hi - K) / stride + 1, rounded down. nil
// stands for strides of 1.
func (b *Builder) LConvStrided(x, w Local, lo, hi, strides []int, out dtype.DType) Local {
	if x.DType != w.DType {
		b.failf(ErrType, nil, "%s: convolution of %v and %v", b.name, x.DType, w.DType)
	}
	if !slices.ContainsFunc(strides, func(s int) bool { return s != 1 }) {
		strides = nil
	}
	shape, err := program.ConvShape(x.Shape, w.Shape, lo, hi, strides)
	if err != nil {
		b.failf(ErrShape, nil, "%s: convolution of local %v by %v: %v", b.name, x.Shape, w.Shape, err)
	}
	x, w = b.widenOperand(x), b.widenOperand(w)
	return b.addInstr(program.Instr{Op: program.OpConv, Args: idsOf(x, w), Lo: cloneInts(lo), Hi: cloneInts(hi), Strides: slices.Clone(strides)}, out, shape)
}

// Conv is ConvStrided with a stride of 1 along every dim.
func (b *Builder) Conv(x, w Tensor, pad [][2]int, out dtype.DType) Tensor {
	return b.ConvStrided(x, w, pad, nil, out)
}

// ConvStrided is a convolution: x (N, S..., I), w (O, I, K...), result
// (N, S'..., O) of type out, with pad[d] zeros before and after spatial dim d, along which
// the kernel moves by strides[d]; nil stands for strides of 1. The
// caller adds a bias, after the sum is reduced.
//
// The channels follow the rules of Linear, where I is the contracted dim. The rules
// for a sharded spatial dim:
//
//  1. Where the result has the operand's size over the stride, and the stride divides the
//     rows of a device, each device gets the rows just before
//     and after its own from its neighbours on the axes, by collective-permutes, and
//     has zeros beyond the ends. Where a device has fewer rows than the kernel
//     reads, it gets them from several neighbours.
//  2. Elsewhere the dim is gathered first: the rows of the
//     result would not lie on the devices that have the operand's rows.
//  3. With several sharded dims the corners come by way of the neighbours: the later
//     dims send what they received along the earlier ones.
func (b *Builder) ConvStrided(x, w Tensor, pad [][2]int, strides []int, out dtype.DType) Tensor {
	return b.convolve(x, w, pad, strides, nil, out)
}

// ConvReplicated is ConvStrided with other numbers beyond the edges: there the kernel reads the
// nearest element of a dim in place of zeros. sizes[d] is how many elements spatial dim d has;
// what lies behind them pads the dim to a size that divides, and counts as beyond the edge. The
// result's elements behind those that the sizes give are not specified.
func (b *Builder) ConvReplicated(x, w Tensor, pad [][2]int, strides, sizes []int, out dtype.DType) Tensor {
	if len(sizes) != len(pad) || slices.Min(append([]int{1}, sizes...)) < 1 {
		b.failf(ErrShape, nil, "%s: convolution of %v over %v: want a size of 1 or more for each of %d spatial dims", b.name, x.Shape, sizes, len(pad))
	}
	return b.convolve(x, w, pad, strides, sizes, out)
}

// convolve is ConvReplicated, or ConvStrided where sizes is nil.
func (b *Builder) convolve(x, w Tensor, pad [][2]int, strides, sizes []int, out dtype.DType) Tensor {
	if x.DType != w.DType {
		b.failf(ErrType, nil, "%s: convolution of %v by %v weights; convert one first", b.name, x.DType, w.DType)
	}
	lo, hi := make([]int, len(pad)), make([]int, len(pad))
	for d, p := range pad {
		lo[d], hi[d] = p[0], p[1]
	}
	shape, err := program.ConvShape(x.Shape, w.Shape, lo, hi, strides)
	if err != nil {
		b.failf(ErrShape, nil, "%s: convolution of %v by weights %v: %v", b.name, x.Shape, w.Shape, err)
	}
	for d := 2; d < w.Rank(); d++ {
		w = b.gatherDim(w, d, "kernel gathered: every device slides all of it")
	}
	x, w, contracted := b.alignContraction(x, w)
	for d := range pad {
		stride := program.StrideOf(strides, d)
		if shape[1+d]*stride != x.Shape[1+d] || x.local.Shape[1+d]%stride != 0 {
			x = b.gatherDim(x, 1+d, "gathered for a convolution that changes the size of a split dim")
		}
	}
	v := x.local
	for d := range pad {
		if axes := x.Spec.Dim(1 + d); len(axes) > 0 {
			// The last place of the kernel on a device begins a stride before the device's end.
			after := max(0, w.Shape[2+d]-program.StrideOf(strides, d)-lo[d])
			if sizes == nil {
				v = b.exchangeHalo(v, 1+d, lo[d], after, axes)
			} else {
				v = b.extendByEdge(v, 1+d, lo[d], after, min(sizes[d], x.Shape[1+d]), axes)
			}
			lo[d], hi[d] = 0, 0
		}
	}
	if sizes == nil {
		v = b.emitConv(v, w.local, lo, hi, strides, out)
	} else {
		whole := cloneInts(v.Shape[1 : v.Rank()-1]) // of the dims whose edges stand already
		for d := range pad {
			if len(x.Spec.Dim(1+d)) == 0 {
				whole[d] = min(sizes[d], x.Shape[1+d])
			}
		}
		v = b.emitReplicated(v, w.local, lo, hi, strides, whole, out)
	}
	last := x.Rank() - 1
	return b.Global(v, shape, x.Spec.WithDim(last, w.Spec.Dim(0)...).WithPartial(contracted...))
}

// extendByEdge is exchangeHalo with the nearest of the dim's first size elements, in place of
// zeros, beyond its ends, as far as lo and hi reach beyond them.
func (b *Builder) extendByEdge(v Local, dim, lo, hi, size int, axes []string) Local {
	own, parts := v.Shape[dim], b.mesh.Size(axes...)
	device := b.LAxisIndex(axes...)
	if size == own*parts && max(lo, hi) <= own {
		// Only the first device and the last one lie at an edge, and rows come from one
		// neighbour on each side.
		return b.extendWhole(v, dim, lo, hi, device, axes)
	}
	v = b.exchangeHalo(v, dim, lo, hi, axes)
	shape := make([]int, v.Rank())
	for d := range shape {
		shape[d] = 1
	}
	shape[dim] = v.Shape[dim]
	at := b.LAdd(b.LIota(i32, dim, shape...), b.LSub(b.LMul(device, b.constI32(own)), b.constI32(lo)))
	n := v.Shape[dim]
	for k := 1; k <= lo; k++ {
		next := b.LConcat(dim, b.LSlice(v, dim, 1, n), b.LSlice(v, dim, n-1, n))
		v = b.LSelect(b.LCompare("EQ", at, b.constI32(-k)), next, v)
	}
	for k := range hi {
		before := b.LConcat(dim, b.LSlice(v, dim, 0, 1), b.LSlice(v, dim, 0, n-1))
		v = b.LSelect(b.LCompare("EQ", at, b.constI32(size+k)), before, v)
	}
	return v
}

// extendWhole is extendByEdge of a dim without padding, of which each device has lo and hi rows
// or more.
func (b *Builder) extendWhole(v Local, dim, lo, hi int, device Local, axes []string) Local {
	own, last := v.Shape[dim], b.mesh.Size(axes...)-1
	all := []Local{v}
	for _, side := range []struct{ need, way, edge, from, at int }{{lo, 1, 0, own - lo, 0}, {hi, -1, own - 1, 0, last}} {
		if side.need == 0 {
			continue
		}
		edge := b.LSlice(v, dim, side.edge, side.edge+1)
		rows := b.LShift(b.LSlice(v, dim, side.from, side.from+side.need), side.way, axes, "rows of a neighbour under the kernel's edge")
		rows = b.LSelect(b.LCompare("EQ", device, b.constI32(side.at)), b.LBroadcast(edge, rows.Shape...), rows)
		if side.way > 0 {
			all = append([]Local{rows}, all...)
		} else {
			all = append(all, rows)
		}
	}
	return b.LConcat(dim, all...)
}

// repeatEdges puts the first element of dim lo times before it, and the last one of the first
// size in the place of those behind it and hi times more.
func (b *Builder) repeatEdges(v Local, dim, lo, hi, size int) Local {
	edge := func(at, times int) []Local {
		if times == 0 {
			return nil
		}
		shape := cloneInts(v.Shape)
		shape[dim] = times
		return []Local{b.LBroadcast(b.LSlice(v, dim, at, at+1), shape...)}
	}
	return b.LConcat(dim, slices.Concat(edge(0, lo), []Local{b.LSlice(v, dim, 0, size)}, edge(size-1, hi+v.Shape[dim]-size))...)
}

// emitConv is emitConvKernel where that computes the convolution, and else emitConvPlain.
func (b *Builder) emitConv(x, w Local, lo, hi, strides []int, out dtype.DType) Local {
	if y, ok := b.emitConvKernel(x, w, lo, hi, strides, out); ok {
		return y
	}
	return b.emitConvPlain(x, w, lo, hi, strides, out)
}

// emitConvPlain is LConvStrided, or where the target wants it the sum of one convolution for each
// place of the kernel along the first spatial dim. The sum runs in f32 at least and is
// rounded once.
func (b *Builder) emitConvPlain(x, w Local, lo, hi, strides []int, out dtype.DType) Local {
	if !b.target.FlatConv || len(lo) < 3 {
		return b.LConvStrided(x, w, lo, hi, strides, out)
	}
	f := b.flatConv(x, w, lo, hi, strides, out)
	x = b.LPad(x, 1, lo[0], hi[0], 0)
	if f.isLoop() {
		return f.emitLoop(func(at Local) Local { return b.LDynSlice(x, 1, at, 1) })
	}
	sum := f.sumTaps(func(k int) Local { return b.everyNth(x, 1, k, f.stride, f.shape[1]) }, f.placeAt)
	return b.LConvert(b.LReshape(sum, f.shape...), out)
}

// emitReplicated is emitConv with the nearest of the first sizes[d] elements of spatial dim d
// beyond its edges.
func (b *Builder) emitReplicated(x, w Local, lo, hi, strides, sizes []int, out dtype.DType) Local {
	none := make([]int, len(lo))
	if b.target.FlatConv && len(lo) >= 3 && sizes[0] == x.Shape[1] {
		shape := cloneInts(x.Shape) // of x with the edges of all dims but the first
		for d := 1; d < len(lo); d++ {
			shape[1+d] += lo[d] + hi[d]
		}
		f := b.flatConv(Local{DType: x.DType, Shape: shape}, w, append([]int{lo[0]}, none[1:]...), append([]int{hi[0]}, none[1:]...), strides, out)
		if f.isLoop() {
			return f.emitLoop(func(at Local) Local {
				// A place before the first row or behind the last one is moved to it.
				row := b.LDynSlice(x, 1, b.LSub(at, b.constI32(lo[0])), 1)
				for d := 1; d < len(lo); d++ {
					row = b.repeatEdges(row, 1+d, lo[d], hi[d], sizes[d])
				}
				return row
			})
		}
	}
	for d := range lo {
		x = b.repeatEdges(x, 1+d, lo[d], hi[d], sizes[d])
	}
	return b.emitConv(x, w, none, none, strides, out)
}

// flatConv is a convolution over three spatial dims or more that is computed as the sum of
// convolutions over the rest, one for each place of the kernel along the first.
type flatConv struct {
	b       *Builder
	w       Local
	shape   []int // of the result
	inner   []int // of the operand, without its first two dims
	stride  int   // along the first spatial dim
	lo, hi  []int // zeros around the rest
	strides []int // along the rest
	out     dtype.DType
}

func (b *Builder) flatConv(x, w Local, lo, hi, strides []int, out dtype.DType) flatConv {
	shape, err := program.ConvShape(x.Shape, w.Shape, lo, hi, strides)
	if err != nil {
		b.failf(ErrShape, nil, "%s: convolution of local %v by %v: %v", b.name, x.Shape, w.Shape, err)
	}
	f := flatConv{b: b, w: w, shape: shape, inner: x.Shape[2:], stride: program.StrideOf(strides, 0), lo: lo[1:], hi: hi[1:], out: out}
	if strides != nil {
		f.strides = strides[1:]
	}
	return f
}

// isLoop says whether the steps of the result are computed one after another. All at once, each
// place of the kernel would hold a copy of all rows that it reads.
func (f flatConv) isLoop() bool { return f.w.Shape[2] > 1 && f.shape[1] > 1 && f.b.depth == 0 }

// placeAt is the kernel at place k along the first spatial dim.
func (f flatConv) placeAt(k int) Local {
	return f.b.LReshape(f.b.LSlice(f.w, 2, k, k+1), append(cloneInts(f.w.Shape[:2]), f.w.Shape[3:]...)...)
}

// sumTaps adds up what the places of the kernel make of the rows (N, steps, S..., I) that each
// reads: (N steps, S'..., O).
func (f flatConv) sumTaps(rows, place func(k int) Local) Local {
	wide := f.out
	if wide.Size() < dtype.F32.Size() {
		wide = dtype.F32
	}
	var sum Local
	for k := range f.w.Shape[2] {
		part := rows(k)
		part = f.b.LReshape(part, append([]int{part.Shape[0] * part.Shape[1]}, f.inner...)...)
		y := f.b.LConvStrided(part, place(k), f.lo, f.hi, f.strides, wide)
		if k > 0 {
			y = f.b.LAdd(sum, y)
		}
		sum = y
	}
	return sum
}

// emitLoop computes one step after another. row gives the row (N, 1, S..., I) at a place that is
// counted from the first one that the kernel reads.
func (f flatConv) emitLoop(row func(at Local) Local) Local {
	b := f.b
	places := make([]Local, f.w.Shape[2])
	for k := range places {
		places[k] = f.placeAt(k)
	}
	return b.LLoop(f.shape[1], []Local{b.LConst(f.out, 0, f.shape...)}, func(i Local, made []Local) []Local {
		first := b.LMul(i, b.constI32(f.stride))
		sum := f.sumTaps(func(k int) Local { return row(b.LAdd(first, b.constI32(k))) }, func(k int) Local { return places[k] })
		step := b.LConvert(b.LReshape(sum, append([]int{f.shape[0], 1}, f.shape[2:]...)...), f.out)
		return []Local{b.LDynUpdate(made[0], step, 1, i)}
	})[0]
}

// everyNth keeps n elements of dim, from the first on by every stride-th.
func (b *Builder) everyNth(x Local, dim, first, stride, n int) Local {
	end := min(x.Shape[dim], first+stride*n)
	x = b.LSlice(x, dim, first, end)
	if stride == 1 {
		return x
	}
	x = b.LPad(x, dim, 0, stride*n-(end-first), 0)
	groups := slices.Insert(cloneInts(x.Shape), dim+1, stride)
	groups[dim] = n
	kept := cloneInts(x.Shape)
	kept[dim] = n
	return b.LReshape(b.LSlice(b.LReshape(x, groups...), dim+1, 0, 1), kept...)
}

// exchangeHalo extends v along dim by the lo last rows of the devices before this one
// and the hi first rows of those after it. At the ends of the axes the rows are zeros.
func (b *Builder) exchangeHalo(v Local, dim, lo, hi int, axes []string) Local {
	own := v.Shape[dim]
	rows := func(need, way int) []Local { // nearest first
		var parts []Local
		for hop := 1; need > 0; hop++ {
			n := min(need, own)
			part := b.LSlice(v, dim, 0, n)
			if way > 0 {
				part = b.LSlice(v, dim, own-n, own)
			}
			parts = append(parts, b.LShift(part, hop*way, axes, "rows of a neighbour under the kernel's edge"))
			need -= n
		}
		return parts
	}
	before, after := rows(lo, 1), rows(hi, -1)
	slices.Reverse(before)
	return b.LConcat(dim, append(append(before, v), after...)...)
}

// ZeroFrom puts zeros at position n of dim and beyond. Where a sharded dim was padded
// to a size that divides, a convolution then reads the padding as it reads what lies
// beyond the edge: as zeros.
func (b *Builder) ZeroFrom(x Tensor, dim, n int) Tensor {
	dim = b.dimIndex(x, dim)
	if n < 0 {
		b.failf(ErrShape, nil, "%s: zeros from %d of dim %d of %v", b.name, n, dim, x.Shape)
	}
	if n >= x.Shape[dim] {
		return x
	}
	own := make([]int, x.Rank())
	for d := range own {
		own[d] = 1
	}
	own[dim] = x.local.Shape[dim]
	at := b.LAdd(b.LIota(i32, dim, own...), b.LMul(b.LAxisIndex(x.Spec.Dim(dim)...), b.constI32(own[dim])))
	v := b.LSelect(b.LCompare("LT", at, b.constI32(n)), x.local, b.LConst(x.DType, 0))
	return b.Global(v, x.Shape, x.Spec)
}

// Repeat repeats each element along dim n times in a row, as nearest-neighbour
// upsampling does. The layout stays as it is.
func (b *Builder) Repeat(x Tensor, dim, n int) Tensor {
	dim = b.dimIndex(x, dim)
	if n < 1 {
		b.failf(ErrShape, nil, "%s: each element of dim %d of %v %d times", b.name, dim, x.Shape, n)
	}
	own := cloneInts(x.local.Shape)
	one := slices.Insert(cloneInts(own), dim+1, 1)
	many := slices.Insert(cloneInts(own), dim+1, n)
	own[dim] *= n
	v := b.LReshape(b.LBroadcast(b.LReshape(x.local, one...), many...), own...)
	shape := cloneInts(x.Shape)
	shape[dim] *= n
	return b.Global(v, shape, x.Spec)
}
