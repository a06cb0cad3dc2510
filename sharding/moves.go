package sharding

import "slices"

// edge is one step of a search: a move from one place to another.
type edge struct {
	op       Op
	axes     []int // in group order; of a permute none, problem.step finds them
	dim      int   // index into problem.dims: of slice, all-gather, reduce-scatter; of all-to-all the dim put together
	other    int   // of an all-to-all, the dim newly split
	bytes    int64
	from, to place
}

// moves calls visit with every step that can be made at a place. After a permute
// there is no other: the two would be one.
func (p *problem) moves(at place, permuted bool, visit func(edge)) {
	held := p.held(at)
	visitOp := func(op Op, axes []int, dim, other int, to place) {
		visit(edge{op, axes, dim, other, RingBytes(op, p.product(axes), held), at, to})
	}
	p.slices(at, visitOp)
	p.unsplits(at, visitOp)
	p.reductions(at, visitOp)
	if !permuted {
		p.permutes(at, func(to place) {
			visit(edge{op: Permute, bytes: held, from: at, to: to})
		})
	}
}

type visitor func(op Op, axes []int, dim, other int, to place)

// slices gives every way to split a dim over axes that nothing uses. Only axes
// that are to end on the dim are tried.
func (p *problem) slices(at place, visit visitor) {
	for i := range p.dims {
		var free []int
		for _, a := range p.to.dims[i] {
			if !at.uses(a) {
				free = append(free, a)
			}
		}
		arrangements(free, func(axes []int) {
			if p.size(at, i)%p.product(axes) == 0 {
				visit(Slice, axes, i, -1, at.append(i, axes))
			}
		})
	}
}

// unsplits gives the all-gathers of minor axes and their all-to-alls to another dim.
func (p *problem) unsplits(at place, visit visitor) {
	for i, d := range at.dims {
		for n := range d {
			axes := slices.Clone(d[n:])
			less := at.cut(i, n)
			visit(AllGather, axes, i, -1, less)
			for j := range at.dims {
				if j != i && p.size(at, j)%p.product(axes) == 0 {
					visit(AllToAll, axes, i, j, less.append(j, axes))
				}
			}
		}
	}
}

// reductions gives the all-reduces and reduce-scatters over partial axes.
func (p *problem) reductions(at place, visit visitor) {
	arrangements(at.partial, func(axes []int) {
		less := at.reduce(axes)
		if slices.IsSorted(axes) {
			visit(AllReduce, axes, -1, -1, less)
		}
		for i := range p.dims {
			if p.size(at, i)%p.product(axes) == 0 {
				visit(ReduceScatter, axes, i, -1, less.append(i, axes))
			}
		}
	})
}

// permutes gives every other place with the same local sizes and partial axes.
func (p *problem) permutes(at place, visit func(place)) {
	want := make([]int, len(at.dims))
	split := false
	for i, d := range at.dims {
		want[i] = p.product(d)
		split = split || len(d) > 0
	}
	if !split {
		return
	}
	to := place{dims: make([][]int, len(at.dims)), partial: at.partial}
	var fill func(i, left int)
	fill = func(i, left int) {
		if left == 1 {
			if i+1 < len(want) {
				fill(i+1, want[i+1])
			} else if !to.equal(at) {
				visit(to.clone())
			}
			return
		}
		for a, size := range p.sizes {
			if left%size == 0 && !to.uses(a) {
				n := len(to.dims[i])
				to.dims[i] = append(to.dims[i], a)
				fill(i, left/size)
				to.dims[i] = to.dims[i][:n]
			}
		}
	}
	fill(0, want[0])
}

// moved lists the axes whose place differs.
func (p *problem) moved(a, b place) []int {
	var out []int
	for axis, code := range p.key(a) {
		if code != p.key(b)[axis] {
			out = append(out, axis)
		}
	}
	return out
}

// arrangements visits every ordered choice of one or more of a list.
func arrangements(list []int, visit func([]int)) {
	var chosen []int
	var next func()
	next = func() {
		for _, a := range list {
			if slices.Contains(chosen, a) {
				continue
			}
			chosen = append(chosen, a)
			visit(slices.Clone(chosen))
			next()
			chosen = chosen[:len(chosen)-1]
		}
	}
	next()
}

func (at place) uses(axis int) bool {
	for _, d := range at.dims {
		if slices.Contains(d, axis) {
			return true
		}
	}
	return slices.Contains(at.partial, axis)
}

func (at place) equal(o place) bool {
	return slices.Equal(at.partial, o.partial) && slices.EqualFunc(at.dims, o.dims, slices.Equal[[]int])
}

func (at place) clone() place {
	dims := make([][]int, len(at.dims))
	for i, d := range at.dims {
		dims[i] = slices.Clone(d)
	}
	return place{dims, slices.Clone(at.partial)}
}

// append is at with axes as the minor ones of dim i. Places share what they do
// not change, and never write into it.
func (at place) append(i int, axes []int) place {
	at.dims = slices.Clone(at.dims)
	at.dims[i] = slices.Concat(at.dims[i], axes)
	return at
}

// cut is at with only the first n axes left on dim i.
func (at place) cut(i, n int) place {
	at.dims = slices.Clone(at.dims)
	at.dims[i] = at.dims[i][:n:n]
	return at
}

// reduce is at, no longer partial over axes.
func (at place) reduce(axes []int) place {
	at.partial = slices.DeleteFunc(slices.Clone(at.partial), func(a int) bool { return slices.Contains(axes, a) })
	return at
}
