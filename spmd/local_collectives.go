package spmd

import (
	"slices"
	"strings"

	"weft/program"
)

// Collectives. Along axes of size 1 alone a collective returns its operand. For a value
// without elements there is nothing to exchange, and StableHLO refuses some such
// collectives, so the result is a constant without elements.

// LAllReduce joins the values of the devices along axes.
func (b *Builder) LAllReduce(r program.Reduction, x Local, axes []string, reason string) Local {
	axes = b.realAxes(axes)
	if len(axes) == 0 || isEmpty(x) {
		return x
	}
	return b.addInstr(program.Instr{Op: program.OpAllReduce, Args: idsOf(x), Reduction: r, Axes: axes, Groups: b.groupsOf(axes), Reason: reason}, x.DType, x.Shape)
}

// LAllGather concatenates the values of the devices along axes on dim.
func (b *Builder) LAllGather(x Local, dim int, axes []string, reason string) Local {
	axes = b.realAxes(axes)
	if len(axes) == 0 {
		return x
	}
	shape := cloneInts(x.Shape)
	shape[dim] *= b.mesh.Size(axes...)
	if isEmpty(x) {
		return b.LConst(x.DType, 0, shape...)
	}
	return b.addInstr(program.Instr{Op: program.OpAllGather, Args: idsOf(x), Dims: []int{dim}, Axes: axes, Groups: b.groupsOf(axes), Reason: reason}, x.DType, shape)
}

// LReduceScatter sums over axes and keeps this device's part of dim.
func (b *Builder) LReduceScatter(x Local, dim int, axes []string, reason string) Local {
	axes = b.realAxes(axes)
	if len(axes) == 0 {
		return x
	}
	n := b.mesh.Size(axes...)
	if x.Shape[dim]%n != 0 {
		b.failf(ErrShape, nil, "%s: reduce-scatter of dim %d of local %v over %d devices", b.name, dim, x.Shape, n)
	}
	shape := cloneInts(x.Shape)
	shape[dim] /= n
	if isEmpty(x) {
		return b.LConst(x.DType, 0, shape...)
	}
	return b.addInstr(program.Instr{Op: program.OpReduceScatter, Args: idsOf(x), Reduction: program.Sum, Dims: []int{dim}, Axes: axes, Groups: b.groupsOf(axes),
		Reason: reason}, x.DType, shape)
}

// LAllToAll cuts dim split into one part for each device, sends each device its part, and
// concatenates the parts that it receives along dim concat.
func (b *Builder) LAllToAll(x Local, split, concat int, axes []string, reason string) Local {
	axes = b.realAxes(axes)
	if len(axes) == 0 {
		return x
	}
	n := b.mesh.Size(axes...)
	if x.Shape[split]%n != 0 {
		b.failf(ErrShape, nil, "%s: all-to-all of dim %d of local %v over %d devices", b.name, split, x.Shape, n)
	}
	shape := cloneInts(x.Shape)
	shape[split] /= n
	shape[concat] *= n
	if isEmpty(x) {
		return b.LConst(x.DType, 0, shape...)
	}
	return b.addInstr(program.Instr{Op: program.OpAllToAll, Args: idsOf(x), Dims: []int{split, concat}, Axes: axes, Groups: b.groupsOf(axes), Reason: reason}, x.DType, shape)
}

// LPermute sends values between devices: pairs of mesh positions [from, to],
// each position at most once on either side.
func (b *Builder) LPermute(x Local, pairs [][2]int, axes []string, reason string) Local {
	if isEmpty(x) {
		return x
	}
	return b.addInstr(program.Instr{Op: program.OpPermute, Args: idsOf(x), Pairs: pairs, Axes: append([]string{}, axes...), Reason: reason}, x.DType, x.Shape)
}

// LRotate sends x to the device that is one place further along axes, which are read as one axis with
// the first as the major one, and from the last to the first.
func (b *Builder) LRotate(x Local, axes []string, reason string) Local {
	axes = b.realAxes(axes)
	if len(axes) == 0 {
		return x
	}
	var pairs [][2]int
	for _, g := range b.groupsOf(axes) {
		for i, from := range g {
			pairs = append(pairs, [2]int{from, g[(i+1)%len(g)]})
		}
	}
	slices.SortFunc(pairs, func(p, q [2]int) int { return p[0] - q[0] })
	return b.LPermute(x, pairs, axes, reason)
}

// groupsOf is the mesh's groups along axes. They are made once for each set of axes,
// and the program's collectives share the lists.
func (b *Builder) groupsOf(axes []string) [][]int {
	key := strings.Join(axes, "+")
	g, ok := b.groups[key]
	if !ok {
		g = b.mesh.Groups(axes...)
		b.groups[key] = g
	}
	return g
}

func isEmpty(x Local) bool { return program.Type{Shape: x.Shape}.Elements() == 0 }

// realAxes drops axes of size 1.
func (b *Builder) realAxes(axes []string) []string {
	out := []string{}
	for _, a := range axes {
		if b.mesh.Size(a) > 1 {
			out = append(out, a)
		}
	}
	return out
}

// LShift sends x to the device that is places further along axes, which are read as one
// axis with the first as the major one. A device to which nobody sends has zeros.
func (b *Builder) LShift(x Local, places int, axes []string, reason string) Local {
	axes = b.realAxes(axes)
	var pairs [][2]int
	if len(axes) > 0 {
		for _, g := range b.mesh.Groups(axes...) {
			for i, from := range g {
				if to := i + places; to >= 0 && to < len(g) {
					pairs = append(pairs, [2]int{from, g[to]})
				}
			}
		}
	}
	switch {
	case places == 0:
		return x
	case len(pairs) == 0:
		return b.LConst(x.DType, 0, x.Shape...)
	}
	slices.SortFunc(pairs, func(p, q [2]int) int { return p[0] - q[0] })
	return b.LPermute(x, pairs, axes, reason)
}
