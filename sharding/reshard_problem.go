package sharding

import (
	"fmt"
	"slices"
	"strings"

	"weft/mesh"
)

// problem is a reshard reduced to the axes that move. The axes that both specs agree on
// (the major axes that a dim has in both, and those that are partial in both) never move,
// so the search has only the others.
type problem struct {
	m     *mesh.Mesh
	fixed Spec     // the axes that both specs agree on
	axes  []string // that change place, in mesh order
	sizes []int    // of axes
	dims  []int    // tensor dims that lose or gain an axis, ascending
	local []int    // sizes of those dims under fixed
	bytes int64    // held by a device under fixed
	from  place
	to    place
}

// place is one state of the search: the dim that each moving axis splits, if any.
type place struct {
	dims    [][]int // dims[i]: moving axes on problem.dims[i], after the fixed ones, major first
	partial []int   // moving axes that are partial, ascending
}

func newProblem(m *mesh.Mesh, from, to Spec, shape []int, bytes int64) *problem {
	p := &problem{m: m, fixed: Whole(len(shape))}
	for i := range shape {
		f, t := from.dim(i), to.dim(i)
		n := 0
		for n < len(f) && n < len(t) && f[n] == t[n] {
			n++
		}
		p.fixed.dims[i] = cloneAxes(f[:n])
		if n < len(f) || n < len(t) {
			p.dims = append(p.dims, i)
		}
	}
	p.fixed.partial = cloneAxes(to.partial) // each is partial in from too
	for _, a := range m.Names() {
		if !p.fixed.Uses(a) && (from.Uses(a) || to.Uses(a)) {
			p.axes, p.sizes = append(p.axes, a), append(p.sizes, m.Size(a))
		}
	}
	local := p.fixed.localShape(m, shape)
	p.bytes = bytes
	for i, size := range shape {
		if size > 0 {
			p.bytes = p.bytes / int64(size) * int64(local[i])
		}
	}
	for _, d := range p.dims {
		p.local = append(p.local, local[d])
	}
	p.from, p.to = p.placeOf(from), p.placeOf(to)
	return p
}

// placeOf gives the place of the moving axes in a spec, which is the spec without the
// fixed axes.
func (p *problem) placeOf(s Spec) place {
	at := place{dims: make([][]int, len(p.dims))}
	for i, d := range p.dims {
		for _, axis := range s.dim(d)[len(p.fixed.dim(d)):] {
			at.dims[i] = append(at.dims[i], slices.Index(p.axes, axis))
		}
	}
	for i, axis := range p.axes {
		if slices.Contains(s.partial, axis) {
			at.partial = append(at.partial, i)
		}
	}
	return at
}

// specOf gives the spec of a place: the fixed axes, then the moving ones.
func (p *problem) specOf(at place) Spec {
	s := p.fixed
	for i, d := range p.dims {
		s = s.WithDim(d, slices.Concat(s.dims[d], p.axisNames(at.dims[i]))...)
	}
	return s.WithPartial(p.axisNames(at.partial)...)
}

func (p *problem) axisNames(axes []int) []string {
	names := make([]string, len(axes))
	for i, a := range axes {
		names[i] = p.axes[a]
	}
	return names
}

// groupSize counts the devices of a group over some axes: the product of their sizes.
func (p *problem) groupSize(axes []int) int {
	n := 1
	for _, a := range axes {
		n *= p.sizes[a]
	}
	return n
}

// heldBytes counts the bytes of the tensor that a device holds at a place.
func (p *problem) heldBytes(at place) int64 {
	n := p.bytes
	for _, d := range at.dims {
		n /= int64(p.groupSize(d))
	}
	return n
}

// localSize gives the size of problem.dims[i] on a device at a place.
func (p *problem) localSize(at place, i int) int { return p.local[i] / p.groupSize(at.dims[i]) }

// moveOf writes a move of the search as a Move, with its reason for people.
func (p *problem) moveOf(e edge) Move {
	s := Move{
		Op: e.op, Axes: p.axisNames(e.axes), Dim: -1, SplitDim: -1, ConcatDim: -1,
		Bytes: e.bytes, From: p.specOf(e.from), To: p.specOf(e.to),
	}
	over := strings.Join(s.Axes, "+")
	switch e.op {
	case Slice:
		s.Dim = p.dims[e.dim]
		s.Reason = fmt.Sprintf("dim %d is to be split over %s, along which it is the same: each device keeps its part", s.Dim, over)
	case AllGather:
		s.Dim = p.dims[e.dim]
		s.Reason = fmt.Sprintf("dim %d is split over %s and is not to be", s.Dim, over)
	case ReduceScatter:
		s.Dim = p.dims[e.dim]
		s.Reason = fmt.Sprintf("the sum over %s is needed, and of it each device's part of dim %d only", over, s.Dim)
	case AllReduce:
		s.Reason = fmt.Sprintf("the sum over %s is needed whole on each of its devices", over)
	case AllToAll:
		s.ConcatDim, s.SplitDim = p.dims[e.dim], p.dims[e.other]
		s.Reason = fmt.Sprintf("%s is to split dim %d in place of dim %d", over, s.SplitDim, s.ConcatDim)
	case Permute:
		s.Axes = p.axisNames(p.movedAxes(e.from, e.to))
		s.Pairs = permutePairs(p.m, s.From, s.To)
		s.Reason = fmt.Sprintf("the pieces under %s are those under %s, on other devices", s.From, s.To)
	}
	return s
}
