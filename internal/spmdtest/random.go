package spmdtest

import (
	"fmt"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/mesh"
	"weft/program"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

var meshes = [][]mesh.Axis{
	{},
	{{Name: mesh.TP, Size: 2}},
	{{Name: mesh.TP, Size: 3}},
	{{Name: mesh.DP, Size: 1}, {Name: mesh.TP, Size: 4}},
	{{Name: mesh.SP, Size: 5}},
	{{Name: mesh.DP, Size: 2}, {Name: mesh.TP, Size: 3}},
	{{Name: mesh.DP, Size: 2}, {Name: mesh.TP, Size: 2}, {Name: mesh.SP, Size: 2}},
	{{Name: mesh.DP, Size: 2}, {Name: mesh.TP, Size: 4}},
}

// Random draws a program on a mesh of 1 to 8 devices, and inputs for it. It uses every
// operation, but none where a difference in the last bit could become a large one:
// floats are compared only where they are inputs, and never become integers. Bounds says
// how far results may lie apart.
func Random(t *rapid.T) (*program.Program, [][]*interp.Array) {
	axes := rapid.SampledFrom(meshes).Draw(t, "mesh")
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	g := &programGenerator{t: t, bound: map[program.ID]float64{}}
	for _, a := range axes {
		if a.Size > 1 {
			g.axes = append(g.axes, a.Name)
		}
	}
	p, err := spmd.Build("random", m, g.drawProgram)
	if err != nil {
		t.Fatal(err)
	}
	return p, g.drawInputs(p)
}

type programGenerator struct {
	t     *rapid.T
	b     *spmd.Builder
	axes  []string // of size above 1
	pool  []spmd.Local
	given int                 // the number of inputs, with which the pool starts
	exact map[program.ID]bool // floats that are inputs
	bound map[program.ID]float64
	depth int
}

func (g *programGenerator) drawInt(lo, hi int, what string) int {
	return rapid.IntRange(lo, hi).Draw(g.t, what)
}

func (g *programGenerator) drawProgram(b *spmd.Builder) {
	g.b, g.exact = b, map[program.ID]bool{}
	types := []dtype.DType{dtype.F32, dtype.F32, dtype.BF16, dtype.I32}
	for i := range g.drawInt(2, 4, "inputs") {
		shape := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 3).Draw(g.t, "shape")
		d := rapid.SampledFrom(types).Draw(g.t, "type")
		x := b.Local(b.Input(fmt.Sprintf("x%d", i), d, shape, sharding.Whole(len(shape))))
		g.addValue(x, 4)
		g.exact[x.ID] = true
	}
	g.given = len(g.pool)
	g.addSteps(g.drawInt(3, 14, "steps"))
	donated := map[string]bool{}
	for i := range g.drawInt(1, 3, "outputs") {
		y := rapid.SampledFrom(g.pool).Draw(g.t, "output")
		g.b.Output(fmt.Sprintf("y%d", i), b.Global(y, y.Shape, sharding.Whole(y.Rank())), g.pickDonor(y, donated))
	}
}

// pickDonor sometimes finds an input of y's type.
func (g *programGenerator) pickDonor(y spmd.Local, taken map[string]bool) string {
	for i, x := range g.pool[:g.given] {
		name := fmt.Sprintf("x%d", i)
		if taken[name] || x.DType != y.DType || fmt.Sprint(x.Shape) != fmt.Sprint(y.Shape) {
			continue
		}
		if rapid.Bool().Draw(g.t, "donate") {
			taken[name] = true
			return name
		}
	}
	return ""
}

func (g *programGenerator) drawInputs(p *program.Program) [][]*interp.Array {
	rows := make([][]*interp.Array, p.Mesh.NumDevices())
	for pos := range rows {
		for _, in := range p.Inputs {
			a := interp.NewArray(in.DType, in.Local...)
			for i := range a.Len() { // multiples of 1/8 up to 4: exact in every type
				a.Set(i, float64(rapid.IntRange(-32, 32).Draw(g.t, "x"))/8)
			}
			rows[pos] = append(rows[pos], a)
		}
	}
	return rows
}

// addValue puts a value in the pool. A value that may be large goes through tanh, or
// through a remainder, first.
func (g *programGenerator) addValue(x spmd.Local, bound float64) {
	if bound > 50 && x.DType.IsFloat() {
		x, bound = g.b.LUnary(program.OpTanh, x), 1
	}
	if bound > 1e6 && x.DType == dtype.I32 {
		x, bound = g.b.LBinary(program.OpRem, x, g.b.LConst(x.DType, 1000)), 1000
	}
	g.bound[x.ID] = bound
	g.pool = append(g.pool, x)
}

// pickValue draws a value for which ok holds.
func (g *programGenerator) pickValue(what string, ok func(x spmd.Local) bool) (spmd.Local, bool) {
	var fit []spmd.Local
	for _, x := range g.pool {
		if ok(x) {
			fit = append(fit, x)
		}
	}
	if len(fit) == 0 {
		return spmd.Local{}, false
	}
	return rapid.SampledFrom(fit).Draw(g.t, what), true
}

func (g *programGenerator) addSteps(n int) {
	moves := []func(){
		g.addUnary, g.addUnary, g.addBinary, g.addBinary, g.addInteger, g.addSelect, g.addSource,
		g.addRearrangement, g.addRearrangement, g.addDynamic, g.addReduce, g.addDot, g.addDot, g.addConv,
	}
	if len(g.axes) > 0 {
		moves = append(moves, g.addCollective, g.addCollective, g.addCollective)
	}
	if g.depth < 2 {
		moves = append(moves, g.addLoop)
	}
	for range n {
		moves[g.drawInt(0, len(moves)-1, "step")]()
	}
}

func isFloat(x spmd.Local) bool  { return x.DType.IsFloat() }
func isInt(x spmd.Local) bool    { return x.DType == dtype.I32 }
func isNumber(x spmd.Local) bool { return x.DType != dtype.Bool }

func (g *programGenerator) addUnary() {
	x, ok := g.pickValue("unary", isFloat)
	if !ok {
		return
	}
	b, bound := g.b, g.bound[x.ID]
	above := func() spmd.Local { // at least 1
		return b.LAdd(b.LUnary(program.OpAbs, x), b.LConst(x.DType, 1))
	}
	switch g.drawInt(0, 11, "function") {
	case 0:
		g.addValue(b.LUnary(program.OpNeg, x), bound)
	case 1:
		g.addValue(b.LUnary(program.OpAbs, x), bound)
	case 2:
		if bound <= 4 {
			g.addValue(b.LUnary(program.OpExp, x), 55)
		}
	case 3:
		g.addValue(b.LUnary(program.OpLog, above()), bound)
	case 4:
		g.addValue(b.LUnary(program.OpSqrt, above()), bound+1)
	case 5:
		g.addValue(b.LUnary(program.OpRsqrt, above()), 1)
	case 6:
		g.addValue(b.LUnary(program.OpTanh, x), 1)
	case 7:
		g.addValue(b.LUnary(program.OpSigmoid, x), 1)
	case 8:
		g.addValue(b.LUnary(program.OpSin, x), 1)
	case 9:
		g.addValue(b.LUnary(program.OpCos, x), 1)
	case 10:
		g.addValue(b.LScale(x, -0.75), bound)
	case 11:
		to := dtype.F32
		if x.DType == to {
			to = dtype.BF16
		}
		g.addValue(b.LConvert(x, to), bound)
	}
}

// pickPartner draws a second operand of x's type that broadcasts with x.
func (g *programGenerator) pickPartner(x spmd.Local) spmd.Local {
	y, ok := g.pickValue("partner", func(y spmd.Local) bool {
		if y.DType != x.DType {
			return false
		}
		for i := 1; i <= min(len(x.Shape), len(y.Shape)); i++ {
			a, c := x.Shape[len(x.Shape)-i], y.Shape[len(y.Shape)-i]
			if a != c && a != 1 && c != 1 {
				return false
			}
		}
		return true
	})
	if !ok {
		return x
	}
	return y
}

func (g *programGenerator) addBinary() {
	x, ok := g.pickValue("left", isNumber)
	if !ok {
		return
	}
	y := g.pickPartner(x)
	b, bx, by := g.b, g.bound[x.ID], g.bound[y.ID]
	odd := func(y spmd.Local) spmd.Local { return b.LBinary(program.OpOr, y, b.LConst(y.DType, 1)) } // never 0
	switch g.drawInt(0, 6, "op") {
	case 0:
		g.addValue(b.LAdd(x, y), bx+by)
	case 1:
		g.addValue(b.LSub(x, y), bx+by)
	case 2:
		g.addValue(b.LMul(x, y), bx*by)
	case 3:
		g.addValue(b.LMax(x, y), max(bx, by))
	case 4:
		g.addValue(b.LBinary(program.OpMin, x, y), max(bx, by))
	case 5:
		if isFloat(x) {
			g.addValue(b.LDiv(x, b.LAdd(b.LUnary(program.OpAbs, y), b.LConst(y.DType, 1))), bx)
		} else {
			g.addValue(b.LDiv(x, odd(y)), bx)
		}
	case 6:
		if isInt(x) {
			g.addValue(b.LBinary(program.OpRem, x, odd(y)), max(bx, by+1))
		}
	}
}

func (g *programGenerator) addInteger() {
	x, ok := g.pickValue("int", isInt)
	if !ok {
		return
	}
	b := g.b
	switch g.drawInt(0, 4, "int op") {
	case 0:
		g.addValue(b.LBinary(program.OpAnd, x, g.pickPartner(x)), 1e6)
	case 1:
		g.addValue(b.LBinary(program.OpOr, x, g.pickPartner(x)), 1e6)
	case 2:
		g.addValue(b.LUnary(program.OpNot, x), g.bound[x.ID]+1)
	case 3:
		if g.bound[x.ID] <= 2000 {
			f := b.LConvert(x, dtype.F32)
			g.addValue(f, g.bound[x.ID])
		}
	case 4:
		g.addValue(b.LConvert(x, dtype.I32), g.bound[x.ID])
	}
}

// addSelect compares what is exact and selects by it.
func (g *programGenerator) addSelect() {
	x, ok := g.pickValue("compared", func(x spmd.Local) bool { return isInt(x) || g.exact[x.ID] })
	if !ok {
		return
	}
	y := x
	if isInt(x) {
		y = g.pickPartner(x)
	} else {
		y = g.b.LConst(x.DType, 0.5)
	}
	cmp := rapid.SampledFrom(program.Comparisons).Draw(g.t, "cmp")
	p := g.b.LCompare(cmp, x, y)
	if rapid.Bool().Draw(g.t, "not") {
		p = g.b.LBinary(program.OpOr, g.b.LUnary(program.OpNot, p), p)
		p = g.b.LBinary(program.OpAnd, p, g.b.LCompare(cmp, x, y))
	}
	then, ok := g.pickValue("then", func(v spmd.Local) bool { return isNumber(v) && fmt.Sprint(v.Shape) == fmt.Sprint(p.Shape) })
	if !ok {
		return
	}
	other := g.b.LConst(then.DType, -2)
	g.addValue(g.b.LSelect(p, then, other), max(2, g.bound[then.ID]))
}

func (g *programGenerator) addSource() {
	shape := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 3).Draw(g.t, "source shape")
	d := rapid.SampledFrom([]dtype.DType{dtype.F32, dtype.BF16, dtype.I32}).Draw(g.t, "source type")
	switch g.drawInt(0, 2, "source") {
	case 0:
		g.addValue(g.b.LConst(d, float64(g.drawInt(-3, 3, "constant")), shape...), 3)
	case 1:
		g.addValue(g.b.LIota(d, g.drawInt(0, len(shape)-1, "dim"), shape...), 3)
	case 2:
		g.addValue(g.b.LAxisIndex(g.axes...), 8)
	}
}

// withRank draws a value of rank at least 1, and one of its dims.
func (g *programGenerator) withRank(what string) (spmd.Local, int, bool) {
	x, ok := g.pickValue(what, func(x spmd.Local) bool { return isNumber(x) && x.Rank() > 0 })
	if !ok {
		return x, 0, false
	}
	return x, g.drawInt(0, x.Rank()-1, "dim"), true
}

func (g *programGenerator) addRearrangement() {
	x, dim, ok := g.withRank("moved")
	if !ok {
		return
	}
	b, n, bound := g.b, x.Shape[dim], g.bound[x.ID]
	switch g.drawInt(0, 6, "move") {
	case 0:
		g.addValue(b.LBroadcast(x, append([]int{2}, x.Shape...)...), bound)
	case 1:
		g.addValue(b.LReshape(x, x.Shape[0], tensor.Elements(x.Shape[1:])), bound)
	case 2:
		perm := rapid.Permutation(countUpTo(x.Rank())).Draw(g.t, "perm")
		g.addValue(b.LTranspose(x, perm...), bound)
	case 3:
		lo := g.drawInt(0, n-1, "lo")
		g.addValue(b.LSlice(x, dim, lo, g.drawInt(lo+1, n, "hi")), bound)
	case 4:
		g.addValue(b.LPad(x, dim, g.drawInt(0, 2, "before"), g.drawInt(0, 2, "after"), 1), max(1, bound))
	case 5:
		g.addValue(b.LConcat(dim, x, x), bound)
	case 6:
		g.addValue(b.LReshape(x, tensor.Elements(x.Shape)), bound)
	}
}

func (g *programGenerator) addDynamic() {
	x, dim, ok := g.withRank("cut")
	if !ok {
		return
	}
	start, ok := g.pickValue("start", func(s spmd.Local) bool { return isInt(s) && s.Rank() == 0 })
	if !ok {
		start = g.b.LConst(dtype.I32, float64(g.drawInt(-1, 4, "start")))
	}
	if g.drawInt(0, 3, "take") == 0 { // places of another value, few and in range or not
		if ids, ok := g.pickValue("places", func(s spmd.Local) bool { return isInt(s) && tensor.Elements(s.Shape)*tensor.Elements(x.Shape) < 1<<12 }); ok {
			g.addValue(g.b.LTake(x, dim, ids), g.bound[x.ID])
			return
		}
	}
	size := g.drawInt(1, x.Shape[dim], "size")
	part := g.b.LDynSlice(x, dim, start, size)
	g.addValue(part, g.bound[x.ID])
	if rapid.Bool().Draw(g.t, "update") {
		g.addValue(g.b.LDynUpdate(x, part, dim, g.b.LConst(dtype.I32, 1)), g.bound[x.ID])
	}
}

func (g *programGenerator) addReduce() {
	x, dim, ok := g.withRank("reduced")
	if !ok {
		return
	}
	if rapid.Bool().Draw(g.t, "sum") {
		g.addValue(g.b.LReduce(program.Sum, x, dim), g.bound[x.ID]*float64(x.Shape[dim]))
	} else {
		g.addValue(g.b.LReduceKeep(program.Maximum, x, dim), g.bound[x.ID])
	}
}

// addDot contracts a dim of a value with a dim of the same size of another, or takes the
// two as a batch.
func (g *programGenerator) addDot() {
	x, i, ok := g.withRank("left")
	if !ok || !isFloat(x) {
		return
	}
	y, ok := g.pickValue("right", func(y spmd.Local) bool {
		return y.DType == x.DType && y.Rank() > 0 && x.Rank()+y.Rank() <= 5 && (y.Shape[0] == x.Shape[i] || y.Shape[y.Rank()-1] == x.Shape[i])
	})
	if !ok {
		return
	}
	j := 0
	if y.Shape[0] != x.Shape[i] {
		j = y.Rank() - 1
	}
	d, k := program.DotDims{LeftContract: []int{i}, RightContract: []int{j}}, x.Shape[i]
	if rapid.IntRange(0, 3).Draw(g.t, "batch") == 0 {
		d, k = program.DotDims{LeftBatch: []int{i}, RightBatch: []int{j}}, 1
	}
	out := rapid.SampledFrom([]dtype.DType{dtype.F32, dtype.F32, x.DType}).Draw(g.t, "sum type")
	g.addValue(g.b.LDot(x, y, d, out), float64(k)*g.bound[x.ID]*g.bound[y.ID])
}

// addConv slides a value over itself. Its last dim is the channels; as the kernel, its
// first dim is the outputs.
func (g *programGenerator) addConv() {
	x, ok := g.pickValue("slid over", func(x spmd.Local) bool { return isFloat(x) && x.Rank() == 3 })
	if !ok {
		return
	}
	n := x.Shape[1]
	k := g.drawInt(1, n, "kernel")
	w := g.b.LSlice(g.b.LTranspose(x, 0, 2, 1), 2, 0, k)
	lo, hi := g.drawInt(0, 2, "zeros before"), g.drawInt(0, 2, "zeros after")
	out := rapid.SampledFrom([]dtype.DType{dtype.F32, x.DType}).Draw(g.t, "sum type")
	stride := g.drawInt(1, 3, "stride")
	g.addValue(g.b.LConvStrided(x, w, []int{lo}, []int{hi}, []int{stride}, out), float64(k*x.Shape[2])*g.bound[x.ID]*g.bound[x.ID])
}

func (g *programGenerator) addCollective() {
	x, dim, ok := g.withRank("exchanged")
	if !ok {
		return
	}
	order := rapid.Permutation(g.axes).Draw(g.t, "axes")
	axes := order[:g.drawInt(1, len(order), "number of axes")]
	b, n, bound := g.b, g.b.Mesh().Size(axes...), g.bound[x.ID]
	switch g.drawInt(0, 5, "collective") {
	case 0:
		g.addValue(b.LAllReduce(program.Sum, x, axes, "sum"), bound*float64(n))
	case 1:
		g.addValue(b.LAllReduce(program.Maximum, x, axes, "maximum"), bound)
	case 2:
		g.addValue(b.LAllGather(x, dim, axes, "whole"), bound)
	case 3:
		x = b.LConcat(dim, repeatValue(x, n)...)
		g.addValue(b.LReduceScatter(x, dim, axes, "sum and split"), bound*float64(n))
	case 4:
		x = b.LConcat(dim, repeatValue(x, n)...)
		g.addValue(b.LAllToAll(x, dim, g.drawInt(0, x.Rank()-1, "concat"), axes, "regroup"), bound)
	case 5:
		pairs := b.Mesh().Pairs(axes[0], g.drawInt(-2, 2, "shift"), rapid.Bool().Draw(g.t, "wrap"))
		g.addValue(b.LPermute(x, pairs, axes[:1], "shift"), bound)
	}
}

// addLoop carries floats. The results of a round go through tanh, so that values do not
// grow from round to round.
func (g *programGenerator) addLoop() {
	x, ok := g.pickValue("carried", isFloat)
	if !ok {
		return
	}
	init := []spmd.Local{x}
	if y, ok := g.pickValue("carried too", isNumber); ok {
		init = append(init, y)
	}
	outer := len(g.pool)
	outs := g.b.LLoop(g.drawInt(1, 3, "trips"), init, func(i spmd.Local, carried []spmd.Local) []spmd.Local {
		g.depth++
		defer func() { g.depth--; g.pool = g.pool[:outer] }()
		g.addValue(i, 3)
		for k, c := range carried {
			g.bound[c.ID] = max(1, g.bound[init[k].ID])
			g.pool = append(g.pool, c)
		}
		g.addSteps(g.drawInt(1, 4, "body"))
		results := make([]spmd.Local, len(carried))
		for k, c := range carried {
			r, _ := g.pickValue("result", func(r spmd.Local) bool { return r.DType == c.DType && fmt.Sprint(r.Shape) == fmt.Sprint(c.Shape) })
			switch {
			case isFloat(r):
				r = g.b.LUnary(program.OpTanh, r)
			case r.ID != c.ID && isInt(r):
				r = g.b.LBinary(program.OpRem, r, g.b.LConst(r.DType, 5))
			}
			results[k] = r
		}
		return results
	})
	for k, o := range outs {
		g.addValue(o, max(5, g.bound[init[k].ID]))
	}
}

// repeatValue is x n times.
func repeatValue(x spmd.Local, n int) []spmd.Local {
	out := make([]spmd.Local, n)
	for i := range out {
		out[i] = x
	}
	return out
}

// countUpTo is 0 .. n-1.
func countUpTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
