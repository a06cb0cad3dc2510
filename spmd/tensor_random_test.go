package spmd_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/sharding"
	"weft/spmd"
)

// A randomTensors draws a program over tensors. It builds on a mesh, since what
// is legal depends on how values are held there, and writes down each step, so
// that the same steps can be taken on one device.
//
// There are two kinds. An exact program has small integers in f32, bf16 and i32
// and operations that keep them so: sharded and whole must agree to the bit. A
// smooth one has f64 and every operation: they agree to 1e-9, however much the
// program enlarges a rounding.
type randomTensors struct {
	t      *rapid.T
	b      *spmd.Builder
	axes   []string
	exact  bool
	prefix string
	pool   []drawn
	steps  []step
	in     meshtest.Values
}

type drawn struct {
	spmd.Tensor
	most float64 // bounds the sum over all addends of the size of an element
	gone bool    // too large to be used
}

// step makes tensors of those before it.
type step func(b *spmd.Builder, pool []spmd.Tensor) []spmd.Tensor

const (
	tensorMost  = 1 << 11 // elements of a tensor, at most
	partialMost = 32      // an input's addends are at most 2, but for the last
)

func (g *randomTensors) int(lo, hi int, what string) int {
	return rapid.IntRange(lo, hi).Draw(g.t, what)
}

func (g *randomTensors) yes(what string) bool { return rapid.Bool().Draw(g.t, what) }

// draw fills the builder with a program, and gives the same one for any mesh.
func (g *randomTensors) draw(b *spmd.Builder) (again func(b *spmd.Builder)) {
	g.b = b
	for i := range g.int(2, 4, "inputs") {
		g.input(i)
	}
	moves := []func(){g.linear, g.linear, g.linear, g.binary, g.binary, g.binary, g.unary, g.reduction, g.reduction, g.shape, g.shape, g.cut,
		g.concat, g.reshard, g.reshard, g.reshard, g.selected, g.together, g.mapped, g.taken, g.conv, g.conv, g.replicated, g.grid}
	if !g.exact {
		moves = append(moves, g.norm, g.norm, g.groupNorm, g.activation)
	}
	for range g.int(2, 12, "steps") {
		moves[g.int(0, len(moves)-1, "step")]()
	}
	outs := []int{len(g.pool) - 1}
	for range g.int(0, 2, "more outputs") {
		if i := g.int(0, len(g.pool)-1, "output"); !slices.Contains(outs, i) && !g.pool[i].gone {
			outs = append(outs, i)
		}
	}
	output := func(b *spmd.Builder, pool []spmd.Tensor) {
		for k, i := range outs {
			b.Output(fmt.Sprintf("%sy%d", g.prefix, k), pool[i], "")
		}
	}
	output(b, g.tensors())
	return func(b *spmd.Builder) {
		var pool []spmd.Tensor
		for _, s := range g.steps {
			pool = append(pool, s(b, pool)...)
		}
		output(b, pool)
	}
}

func (g *randomTensors) tensors() []spmd.Tensor {
	out := make([]spmd.Tensor, len(g.pool))
	for i, x := range g.pool {
		out[i] = x.Tensor
	}
	return out
}

// take makes a step and keeps its results, all bounded by most. A step whose
// result could be too large to be exact, or to stay a number, is followed by one
// that makes it small.
func (g *randomTensors) take(most float64, s step) {
	got := s(g.b, g.tensors())
	g.steps = append(g.steps, s)
	for _, x := range got {
		g.pool = append(g.pool, drawn{Tensor: x, most: most})
	}
	for i := len(g.pool) - len(got); i < len(g.pool); i++ {
		x := g.pool[i]
		limit := 1e3
		if g.exact {
			limit = map[dtype.DType]float64{dtype.F32: 1 << 22, dtype.BF16: 256, dtype.I32: 1 << 28}[x.DType]
		}
		if x.most > limit && x.DType != dtype.Bool && !x.gone {
			g.shrink(i)
		}
	}
}

// shrink puts a small tensor in the place of a large one: in a smooth program
// its tanh, in an exact one and of integers zeros of its layout.
func (g *randomTensors) shrink(i int) {
	exact := g.exact || !floats(g.pool[i]) // ids among the floats
	s := func(b *spmd.Builder, pool []spmd.Tensor) []spmd.Tensor {
		if exact {
			return []spmd.Tensor{b.Scale(pool[i], 0)}
		}
		return []spmd.Tensor{b.Unary(program.OpTanh, pool[i])}
	}
	x := s(g.b, g.tensors())[0]
	g.steps = append(g.steps, s)
	g.pool = append(g.pool, drawn{Tensor: x, most: 1})
	g.pool[i].gone = true
}

// pick draws the index of a tensor for which ok holds.
func (g *randomTensors) pick(what string, ok func(x drawn) bool) (int, bool) {
	var fit, partial []int
	for i, x := range g.pool {
		if !x.gone && (ok == nil && x.DType != dtype.Bool || ok != nil && ok(x)) {
			fit = append(fit, i)
			if len(x.Spec.Partial()) > 0 {
				partial = append(partial, i)
			}
		}
	}
	if len(fit) == 0 {
		return 0, false
	}
	if len(partial) > 0 && g.yes("a partial one") { // the state that most rules are about
		fit = partial
	}
	return rapid.SampledFrom(fit).Draw(g.t, what), true
}

func ranked(x drawn) bool { return x.DType != dtype.Bool && x.Rank() > 0 }
func floats(x drawn) bool { return x.DType.IsFloat() }

func (g *randomTensors) types() []dtype.DType {
	if g.exact {
		return []dtype.DType{dtype.F32, dtype.F32, dtype.BF16, dtype.I32}
	}
	return []dtype.DType{dtype.F64}
}

// spec draws a legal layout for a shape: each axis on a dim that it divides, or
// none, in any order; those in partial nowhere.
func (g *randomTensors) spec(shape []int, partial []string) sharding.Spec {
	s := sharding.Whole(len(shape)).WithPartial(partial...)
	if len(g.axes) == 0 || len(shape) == 0 {
		return s
	}
	m := g.b.Mesh()
	for _, a := range rapid.Permutation(g.axes).Draw(g.t, "axis order") {
		if slices.Contains(partial, a) {
			continue
		}
		var fit []int
		for d, n := range shape {
			parts := m.Size(a)
			for _, other := range s.Dim(d) {
				parts *= m.Size(other)
			}
			if n%parts == 0 {
				fit = append(fit, d)
			}
		}
		if d := rapid.SampledFrom(append(fit, -1)).Draw(g.t, "dim of "+a); d >= 0 {
			s = s.WithDim(d, append(s.Dim(d), a)...)
		}
	}
	return s
}

// some draws a few of the axes.
func (g *randomTensors) some(axes []string, what string) []string {
	var out []string
	for _, a := range axes {
		if g.yes(what + " " + a) {
			out = append(out, a)
		}
	}
	return out
}

var sizes = []int{1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12}

func (g *randomTensors) input(i int) {
	shape := rapid.SliceOfN(rapid.SampledFrom(sizes), 0, 4).Draw(g.t, "shape")
	for elementsIn(shape) > tensorMost/4 {
		shape = shape[1:]
	}
	d := rapid.SampledFrom(append(g.types(), dtype.Bool)).Draw(g.t, "type")
	if i < 2 && d == dtype.Bool {
		d = g.types()[0]
	}
	var partial []string
	most := 4.0
	if d != dtype.Bool && g.yes("partial") {
		if partial = g.some(g.axes, "partial over"); len(partial) > 0 {
			most = partialMost
		}
	}
	g.add(i, d, shape, g.spec(shape, partial), most)
}

func (g *randomTensors) add(i int, d dtype.DType, shape []int, spec sharding.Spec, most float64) {
	name := fmt.Sprintf("%sx%d", g.prefix, i)
	seed := uint64(g.int(0, 1<<20, "values"))
	g.in[name] = meshtest.Fill(d, func(k int) float64 {
		h := (seed+uint64(k)+1)*0x9e3779b97f4a7c15 ^ (seed << 7)
		h ^= h >> 29
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 32
		switch {
		case d == dtype.Bool:
			return float64(h % 2)
		case g.exact:
			return float64(h%9) - 4
		}
		return float64(h%(1<<20))/(1<<17) - 4
	}, shape...)
	g.take(most, func(b *spmd.Builder, _ []spmd.Tensor) []spmd.Tensor {
		return []spmd.Tensor{b.Input(name, d, shape, spec)}
	})
}

func elementsIn(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

// linear multiplies by weights of a new input.
func (g *randomTensors) linear() {
	i, ok := g.pick("x", func(x drawn) bool { return floats(x) && x.Rank() > 0 })
	if !ok {
		return
	}
	x := g.pool[i]
	n := rapid.SampledFrom(sizes).Draw(g.t, "N")
	if elementsIn(x.Shape)/max(1, x.Dim(-1))*n > tensorMost {
		return
	}
	shape := []int{n, x.Dim(-1)}
	w, most := g.addWeights(x.DType, shape)
	out := g.resultOf(x.DType)
	g.take(float64(x.Dim(-1))*x.most*most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		return []spmd.Tensor{b.Linear(p[i], p[w], out)}
	})
}

// addWeights adds an input of weights, now and then partial, and gives its place in the pool
// and the bound of its elements.
func (g *randomTensors) addWeights(d dtype.DType, shape []int) (place int, most float64) {
	var partial []string
	most = 4.0
	if rapid.IntRange(0, 4).Draw(g.t, "partial weights") == 0 {
		if partial = g.some(g.axes, "partial over"); len(partial) > 0 {
			most = partialMost
		}
	}
	g.add(len(g.steps)+100, d, shape, g.spec(shape, partial), most)
	return len(g.pool) - 1, most
}

// resultOf gives the type of a product: bf16 may become f32.
func (g *randomTensors) resultOf(d dtype.DType) dtype.DType {
	if d == dtype.BF16 && g.yes("wide") {
		return dtype.F32
	}
	return d
}

// conv slides a kernel of a new input over a tensor: over its dims between the
// first and the last, mostly so that it keeps their sizes, over the stride.
func (g *randomTensors) conv() {
	i, ok := g.pick("slid over", func(x drawn) bool { return floats(x) && x.Rank() > 2 })
	if !ok {
		return
	}
	if g.pool[i].Rank() == 4 && g.yes("three spatial dims") {
		from := i
		g.take(g.pool[i].most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{b.ExpandDim(p[from], 0)} })
		i = len(g.pool) - 1
	}
	x := g.pool[i]
	o := rapid.SampledFrom(sizes).Draw(g.t, "outputs")
	shape, pads, strides := []int{o, x.Dim(-1)}, [][2]int{}, []int{}
	elements, taps := x.Shape[0]*o, x.Dim(-1)
	for _, n := range x.Shape[1 : x.Rank()-1] {
		k := g.int(1, 4, "kernel")
		pad := [2]int{g.int(0, k-1, "zeros before"), 0}
		pad[1] = k - 1 - pad[0]
		if rapid.IntRange(0, 3).Draw(g.t, "another size") == 0 {
			pad = [2]int{g.int(0, 3, "zeros before"), g.int(0, 3, "zeros after")}
			k = min(k, n+pad[0]+pad[1])
		}
		shape, pads = append(shape, k), append(pads, pad)
		strides = append(strides, rapid.SampledFrom([]int{1, 1, 2, 2, 3}).Draw(g.t, "stride"))
		elements *= n + pad[0] + pad[1] - k + 1
		taps *= k
	}
	if elements > tensorMost || elementsIn(shape) > tensorMost {
		return
	}
	w, most := g.addWeights(x.DType, shape)
	out := g.resultOf(x.DType)
	g.take(float64(taps)*x.most*most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		return []spmd.Tensor{b.ConvStrided(p[i], p[w], pads, strides, out)}
	})
}

// grid draws what else is done to pictures: each element again, zeros at the end, bounds.
func (g *randomTensors) grid() {
	i, ok := g.pick("grid", ranked)
	if !ok {
		return
	}
	x := g.pool[i]
	dim := g.int(0, x.Rank()-1, "dim")
	switch g.int(0, 2, "grid") {
	case 0:
		if n := g.int(1, 3, "times"); n*elementsIn(x.Shape) <= tensorMost {
			g.take(x.most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{b.Repeat(p[i], dim, n)} })
		}
	case 1:
		n := g.int(0, x.Shape[dim]+1, "zeros from")
		g.take(x.most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{b.ZeroFrom(p[i], dim, n)} })
	case 2:
		g.take(x.most+1, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
			return []spmd.Tensor{b.AtMost(b.AtLeast(p[i], -1), 1)}
		})
	}
}

// taken looks rows up in a table by ids of a new input, some of which it does not have.
func (g *randomTensors) taken() {
	i, ok := g.pick("table", func(x drawn) bool { return ranked(x) && x.Shape[0] > 0 })
	if !ok {
		return
	}
	x := g.pool[i]
	shape := rapid.SliceOfN(rapid.SampledFrom(sizes), 0, 2).Draw(g.t, "ids")
	if elementsIn(shape)*elementsIn(x.Shape)/x.Shape[0] > tensorMost {
		return
	}
	g.add(len(g.steps)+100, dtype.I32, shape, g.spec(shape, nil), 4)
	ids := len(g.pool) - 1
	g.take(x.most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{b.Take(p[i], p[ids])} })
}

// mapped runs a few operations block by block along a dim that is not the last.
func (g *randomTensors) mapped() {
	i, ok := g.pick("mapped", func(x drawn) bool { return floats(x) && x.Rank() > 1 })
	if !ok {
		return
	}
	x := g.pool[i]
	dim, rows := g.int(0, x.Rank()-2, "dim"), g.int(0, 5, "rows")
	n := rapid.SampledFrom(sizes).Draw(g.t, "N")
	if elementsIn(x.Shape)/x.Dim(-1)*n > tensorMost {
		return
	}
	shape := []int{n, x.Dim(-1)}
	// The weights' axes are others than the rows': a block lives on each device alone.
	spec := g.spec(shape, nil)
	for d := range 2 {
		var free []string
		for _, a := range spec.Dim(d) {
			if x.Spec.DimOf(a) != dim {
				free = append(free, a)
			}
		}
		spec = spec.WithDim(d, free...)
	}
	g.add(len(g.steps)+100, x.DType, shape, spec, 4)
	w := len(g.pool) - 1
	smooth := !g.exact
	g.take(8*float64(x.Dim(-1))*x.most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		return []spmd.Tensor{b.MapRows(p[i], dim, rows, func(x spmd.Tensor) spmd.Tensor {
			if smooth {
				x = b.GeluTanh(x)
			} else {
				x = b.Scale(x, 2)
			}
			return b.Linear(x, p[w], x.DType)
		})}
	})
}

// partner draws a tensor that broadcasts with x: another, or a slice of x.
func (g *randomTensors) partner(i int) int {
	x := g.pool[i]
	j, ok := g.pick("partner", func(y drawn) bool {
		if y.DType != x.DType {
			return false
		}
		n := 1
		for k := 1; k <= max(x.Rank(), y.Rank()); k++ {
			a, c := 1, 1
			if k <= x.Rank() {
				a = x.Dim(-k)
			}
			if k <= y.Rank() {
				c = y.Dim(-k)
			}
			if a != c && a != 1 && c != 1 {
				return false
			}
			n *= max(a, c)
		}
		return n <= tensorMost
	})
	if !ok {
		return i
	}
	return j
}

func (g *randomTensors) binary() {
	i, ok := g.pick("left", nil)
	if !ok {
		return
	}
	j := g.partner(i)
	if g.yes("swapped") {
		i, j = j, i
	}
	x, y := g.pool[i], g.pool[j]
	two := func(most float64, f func(b *spmd.Builder, x, y spmd.Tensor) spmd.Tensor) {
		g.take(most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{f(b, p[i], p[j])} })
	}
	switch n := g.int(0, 4, "binary"); {
	case n == 0:
		two(x.most+y.most, (*spmd.Builder).Add)
	case n == 1:
		two(x.most+y.most, (*spmd.Builder).Sub)
	case n == 2:
		two(x.most*y.most, (*spmd.Builder).Mul)
	case n == 3 && !g.exact:
		two(x.most, func(b *spmd.Builder, x, y spmd.Tensor) spmd.Tensor { // by at least 1
			return b.Div(x, b.Shift(b.Mul(y, y), 1))
		})
	case n == 3 && x.DType.IsFloat(): // by a power of two: still a multiple of 1, where it was of 2
		two(2*x.most, func(b *spmd.Builder, x, y spmd.Tensor) spmd.Tensor {
			return b.Div(x, b.Constant(x.DType, 0.5))
		})
	case n == 4: // a sum that is partial, and a term after it
		two(x.most+4*y.most, func(b *spmd.Builder, x, y spmd.Tensor) spmd.Tensor { return b.Sub(x, b.Scale(y, -4)) })
	}
}

func (g *randomTensors) unary() {
	i, ok := g.pick("operand", nil)
	if !ok {
		return
	}
	x := g.pool[i]
	one := func(most float64, f func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor) {
		g.take(most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{f(b, p[i])} })
	}
	fn := func(op program.Op, most float64) {
		one(most, func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor { return b.Unary(op, x) })
	}
	n := 4
	if !g.exact {
		n = 10
	}
	switch g.int(0, n, "unary") {
	case 0:
		fn(program.OpNeg, x.most)
	case 1:
		fn(program.OpAbs, x.most)
	case 2:
		one(3*x.most, func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor { return b.Scale(x, -3) })
	case 3:
		one(x.most+2, func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor { return b.Shift(x, 2) })
	case 4:
		if g.exact && (x.most <= 256 || x.DType == dtype.BF16) {
			to := rapid.SampledFrom(g.types()).Draw(g.t, "to")
			one(x.most, func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor { return b.Convert(x, to) })
		}
	case 5:
		fn(program.OpTanh, 1)
	case 6:
		fn(program.OpSigmoid, 1)
	case 7:
		fn(program.OpSin, 1)
	case 8:
		fn(program.OpCos, 1)
	case 9:
		one(1, func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor {
			return b.Unary(program.OpRsqrt, b.Shift(b.Mul(x, x), 1))
		})
	case 10:
		one(3, func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor {
			return b.Unary(program.OpExp, b.Unary(program.OpTanh, x))
		})
	}
}

func (g *randomTensors) activation() {
	i, ok := g.pick("operand", floats)
	if !ok {
		return
	}
	f := (*spmd.Builder).Silu
	if g.yes("gelu") {
		f = (*spmd.Builder).GeluTanh
	}
	g.take(g.pool[i].most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{f(b, p[i])} })
}

func (g *randomTensors) norm() {
	i, ok := g.pick("normed", func(x drawn) bool { return floats(x) && x.Rank() > 0 })
	if !ok {
		return
	}
	x := g.pool[i]
	if g.yes("layer norm") {
		g.take(4, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{b.LayerNorm(p[i], 1e-3)} })
		return
	}
	j, ok := g.pick("normed too", func(y drawn) bool { return floats(y) && y.Rank() > 0 && y.Dim(-1) == x.Dim(-1) })
	if !ok {
		j = i
	}
	shape := []int{x.Dim(-1)}
	g.add(len(g.steps)+100, x.DType, shape, g.spec(shape, nil), 4)
	w := len(g.pool) - 1
	g.take(16, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		return b.RMSNorms(1e-3, []spmd.Tensor{p[i], p[j]}, []spmd.Tensor{p[w], p[w]})
	})
}

func (g *randomTensors) reduction() {
	i, ok := g.pick("reduced", ranked)
	if !ok {
		return
	}
	x := g.pool[i]
	dim := g.int(-x.Rank(), x.Rank()-1, "dim")
	if g.yes("max") {
		g.take(x.most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{maxAlong(b, p[i], dim)} })
		return
	}
	g.take(x.most*float64(x.Dim(dim)), func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{b.Sum(p[i], dim)} })
}

// parts is in how many pieces a tensor's dim is held.
func (g *randomTensors) parts(x spmd.Tensor, dim int) int {
	n := 1
	for _, a := range x.Spec.Dim(dim) {
		n *= g.b.Mesh().Size(a)
	}
	return n
}

func (g *randomTensors) shape() {
	i, ok := g.pick("reshaped", ranked)
	if !ok {
		return
	}
	x := g.pool[i]
	dim := g.int(0, x.Rank()-1, "dim")
	one := func(f func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor) {
		g.take(x.most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{f(b, p[i])} })
	}
	switch g.int(0, 4, "shape") {
	case 0:
		var fit []int
		for n := 1; n <= x.Shape[dim]; n++ {
			if x.Shape[dim]%n == 0 && n%g.parts(x.Tensor, dim) == 0 {
				fit = append(fit, n)
			}
		}
		if len(fit) == 0 || x.Rank() > 4 {
			return
		}
		first := rapid.SampledFrom(fit).Draw(g.t, "major")
		one(func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor {
			return b.SplitDim(x, dim, first, x.Shape[dim]/first)
		})
	case 1:
		n := g.int(1, x.Rank()-dim, "merged")
		one(func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor { return b.MergeDims(x, dim, n) })
	case 2:
		perm := rapid.Permutation(countTo(x.Rank())).Draw(g.t, "perm")
		one(func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor { return b.Transpose(x, perm...) })
	case 3:
		if x.Rank() > 4 {
			return
		}
		at := g.int(0, x.Rank(), "at")
		one(func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor { return b.ExpandDim(x, at) })
	case 4:
		if x.Shape[dim] != 1 {
			return
		}
		one(func(b *spmd.Builder, x spmd.Tensor) spmd.Tensor { return b.DropDim(x, dim) })
	}
}

func countTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func (g *randomTensors) cut() {
	i, ok := g.pick("cut", ranked)
	if !ok {
		return
	}
	x := g.pool[i]
	dim := g.int(0, x.Rank()-1, "dim")
	n := x.Shape[dim]
	if g.yes("pad") {
		more := g.int(0, 3, "more")
		if elementsIn(x.Shape)/max(1, n)*(n+more) > tensorMost {
			return
		}
		g.take(x.most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{b.PadTo(p[i], dim, n+more)} })
		return
	}
	lo := g.int(0, n-1, "lo")
	hi := g.int(lo+1, n, "hi")
	g.take(x.most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{b.Slice(p[i], dim, lo, hi)} })
}

func (g *randomTensors) concat() {
	i, ok := g.pick("first", ranked)
	if !ok {
		return
	}
	x := g.pool[i]
	dim := g.int(0, x.Rank()-1, "dim")
	list, most, n := []int{i}, x.most, x.Shape[dim]
	for range g.int(0, 2, "more") {
		j, _ := g.pick("next", func(y drawn) bool {
			if y.DType != x.DType || y.Rank() != x.Rank() {
				return false
			}
			for d := range y.Shape {
				if d != dim && y.Shape[d] != x.Shape[d] {
					return false
				}
			}
			return true
		})
		list, most, n = append(list, j), max(most, g.pool[j].most), n+g.pool[j].Shape[dim]
	}
	if elementsIn(x.Shape)/max(1, x.Shape[dim])*n > tensorMost {
		return
	}
	g.take(most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		xs := make([]spmd.Tensor, len(list))
		for k, j := range list {
			xs[k] = p[j]
		}
		return []spmd.Tensor{b.Concat(dim, xs...)}
	})
}

func (g *randomTensors) reshard() {
	i, ok := g.pick("moved", func(x drawn) bool { return true })
	if !ok {
		return
	}
	x := g.pool[i]
	to := g.spec(x.Shape, g.some(x.Spec.Partial(), "still partial over"))
	g.take(x.most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		// On one device nothing is partial, and nothing can become so.
		to := to
		if len(p[i].Spec.Partial()) == 0 {
			to = to.WithoutPartial()
		}
		return []spmd.Tensor{b.Reshard(p[i], to, "for its own sake")}
	})
}

func (g *randomTensors) selected() {
	i, ok := g.pick("predicate", func(x drawn) bool { return x.DType == dtype.Bool })
	if !ok {
		return
	}
	j, ok := g.pick("then", func(y drawn) bool {
		return y.DType != dtype.Bool && (fmt.Sprint(y.Shape) == fmt.Sprint(g.pool[i].Shape) || y.Rank() == 0 || g.pool[i].Rank() == 0)
	})
	if !ok {
		return
	}
	k := g.partner(j)
	if fmt.Sprint(g.pool[k].Shape) != fmt.Sprint(g.pool[j].Shape) {
		k = j
	}
	g.take(max(g.pool[j].most, g.pool[k].most), func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		return []spmd.Tensor{b.Select(p[i], p[j], p[k])}
	})
}

func (g *randomTensors) together() {
	var list []int
	most := 0.0
	for range g.int(2, 3, "number") {
		i, ok := g.pick("reduced together", func(x drawn) bool {
			return x.DType != dtype.Bool && (len(x.Spec.Partial()) > 0 || rapid.IntRange(0, 9).Draw(g.t, "whole") == 0)
		})
		if !ok {
			return
		}
		list, most = append(list, i), max(most, g.pool[i].most)
	}
	g.take(most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		xs := make([]spmd.Tensor, len(list))
		for k, j := range list {
			xs[k] = p[j]
		}
		return b.ReducedTogether("together", xs...)
	})
}

// randomMesh draws one to eight devices on up to three axes.
func randomMesh(t *rapid.T) *mesh.Mesh {
	sizes := rapid.SampledFrom([][]int{{}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {2, 2}, {2, 3}, {3, 2}, {4, 2}, {2, 4}, {1, 4}, {2, 2, 2}, {2, 1, 3}}).Draw(t, "mesh")
	names := rapid.Permutation([]string{"dp", "tp", "sp"}).Draw(t, "names")
	var axes []mesh.Axis
	for i, n := range sizes {
		axes = append(axes, mesh.Axis{Name: names[i], Size: n})
	}
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newRandom(t *rapid.T, m *mesh.Mesh, prefix string) *randomTensors {
	return &randomTensors{t: t, axes: m.Names(), exact: rapid.Bool().Draw(t, "exact"), prefix: prefix, in: meshtest.Values{}}
}

func (g *randomTensors) tolerance() float64 {
	if g.exact {
		return 0
	}
	return 1e-9
}

// Random programs over tensors, layouts, partial inputs and meshes give on the
// mesh what they give on one device. What is exchanged is what the program and
// its text say; copies of a piece are equal to the bit.
func TestTensorRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := randomMesh(rt)
		g := newRandom(rt, m, "")
		var again func(*spmd.Builder)
		p := meshtest.Build(rt, m, func(b *spmd.Builder) { again = g.draw(b) })
		got := meshtest.Interp(rt, p, g.in)
		one := meshtest.Build(rt, meshtest.One(rt, m), again)
		if n := len(cost.Instances(one)); n > 0 {
			rt.Fatalf("one device has %d collectives\n%s", n, one)
		}
		want := meshtest.Interp(rt, one, g.in)
		if len(want) != len(got) {
			rt.Fatalf("%d outputs, want %d", len(got), len(want))
		}
		for name, w := range want {
			if d := meshtest.Differ(got[name], w, g.tolerance()); d != "" {
				rt.Fatalf("%s: %s\non one device:\n%s\non the mesh:\n%s", name, d, one, p)
			}
		}
		sameTraffic(rt, p)

		// A target cuts computations up otherwise, and changes nothing else.
		target := spmd.Target{RowTile: g.int(1, 6, "rows in a tile"), WideBF16: g.yes("bf16 widened"), FlatConv: g.yes("flat convolutions")}
		cut := meshtest.Build(rt, m, func(b *spmd.Builder) { again(b) }, spmd.WithTarget(target))
		if got, want := meshtest.Table(cost.Collectives(cut)), meshtest.Table(cost.Collectives(p)); got != want {
			rt.Fatalf("%+v: moves\n%swhere without it\n%s", target, got, want)
		}
		for name, y := range meshtest.Interp(rt, cut, g.in) {
			if d := meshtest.Differ(y, want[name], g.tolerance()); d != "" {
				rt.Fatalf("%+v, %s: %s\n%s", target, name, d, cut)
			}
		}
	})
}

// sameTraffic holds a program's account of its collectives against its text.
func sameTraffic(t meshtest.TB, p *program.Program) {
	t.Helper()
	type row struct {
		op              program.Op
		axis            string
		d               dtype.DType
		count           int
		elements, bytes int64
	}
	table := func(ts []cost.Traffic) map[row]bool {
		sums := map[string]row{}
		for _, x := range ts {
			if x.Op == program.OpPermute {
				x.Axis = "" // the text shows the axes along which something moves
			}
			k := fmt.Sprint(x.Op, x.Axis, x.DType)
			r := sums[k]
			sums[k] = row{x.Op, x.Axis, x.DType, r.count + x.Count, r.elements + x.Elements, r.bytes + x.Bytes}
		}
		rows := map[row]bool{}
		for _, r := range sums {
			rows[r] = true
		}
		return rows
	}
	if got, want := fmt.Sprint(table(meshtest.Text(t, p))), fmt.Sprint(table(cost.Collectives(p))); got != want {
		t.Fatalf("the text moves %v, the program %v\n%s", got, want, p)
	}
}

// The same through XLA: several random programs at once on each of a few
// meshes; with WEFT_LONG many times as many.
func TestTensorRandomXLA(t *testing.T) {
	e := meshtest.XLA(t)
	seeds := 1
	if os.Getenv("WEFT_LONG") != "" {
		seeds = 30
	}
	for seed := range seeds {
		for k, on := range []string{"tp=2,sp=2", "dp=2,tp=2,sp=2", "tp=3,sp=2", "tp=8"} {
			gen := rapid.Custom(func(rt *rapid.T) bool {
				m := meshtest.Mesh(rt, on)
				var gs []*randomTensors
				in := meshtest.Values{}
				p := meshtest.Build(rt, m, func(b *spmd.Builder) {
					for i := range 6 {
						g := newRandom(rt, m, fmt.Sprintf("p%d.", i))
						g.draw(b)
						for name, x := range g.in {
							in[name] = x
						}
						gs = append(gs, g)
					}
				})
				want := meshtest.Interp(rt, p, in)
				got := meshtest.Run(rt, e, p, in)
				for _, g := range gs {
					for name, w := range want {
						if name[:len(g.prefix)] != g.prefix {
							continue
						}
						if d := meshtest.Differ(got[name], w, g.tolerance()); d != "" {
							t.Errorf("%s, seed %d, %s: XLA's %s\n%s", on, seed, name, d, p)
						}
					}
				}
				return true
			})
			gen.Example(4*seed + k)
		}
	}
}
