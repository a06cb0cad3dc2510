package sharding

import "slices"

// edge is one move of the search, from one place to another.
type edge struct {
	op       Op
	axes     []int // in group order; a permute has none, problem.stepOf finds them
	dim      int   // index into problem.dims: the dim of slice, all-gather, reduce-scatter; of all-to-all the one that is put together
	other    int   // of an all-to-all, the dim newly split
	bytes    int64
	from, to place
}

// visitMoves calls visit with every move that a place allows. After a permute it gives no
// other permute, because one could do the work of both.
func (p *problem) visitMoves(at place, permuted bool, visit func(edge)) {
	held := p.heldBytes(at)
	visitOp := func(op Op, axes []int, dim, other int, to place) {
		visit(edge{op, axes, dim, other, RingBytes(op, p.groupSize(axes), held), at, to})
	}
	p.visitSlices(at, visitOp)
	p.visitUnsplits(at, visitOp)
	p.visitReductions(at, visitOp)
	if !permuted {
		p.visitPermutes(at, func(to place) {
			visit(edge{op: Permute, bytes: held, from: at, to: to})
		})
	}
}

type visitor func(op Op, axes []int, dim, other int, to place)

// visitSlices gives every way to split a dim over axes that nothing uses. It tries only
// axes that split the dim in the end.
func (p *problem) visitSlices(at place, visit visitor) {
	for i := range p.dims {
		var free []int
		for _, a := range p.to.dims[i] {
			if !at.hasAxis(a) {
				free = append(free, a)
			}
		}
		visitArrangements(free, func(axes []int) {
			if p.localSize(at, i)%p.groupSize(axes) == 0 {
				visit(Slice, axes, i, -1, at.appendAxes(i, axes))
			}
		})
	}
}

// visitUnsplits gives every all-gather of the minor axes of a dim, and every all-to-all
// that moves them to another dim.
func (p *problem) visitUnsplits(at place, visit visitor) {
	for i, d := range at.dims {
		for n := range d {
			axes := slices.Clone(d[n:])
			less := at.cutAxes(i, n)
			visit(AllGather, axes, i, -1, less)
			for j := range at.dims {
				if j != i && p.localSize(at, j)%p.groupSize(axes) == 0 {
					visit(AllToAll, axes, i, j, less.appendAxes(j, axes))
				}
			}
		}
	}
}

// visitReductions gives every all-reduce and reduce-scatter over partial axes.
func (p *problem) visitReductions(at place, visit visitor) {
	visitArrangements(at.partial, func(axes []int) {
		less := at.reduceAxes(axes)
		if slices.IsSorted(axes) {
			visit(AllReduce, axes, -1, -1, less)
		}
		for i := range p.dims {
			if p.localSize(at, i)%p.groupSize(axes) == 0 {
				visit(ReduceScatter, axes, i, -1, less.appendAxes(i, axes))
			}
		}
	})
}

// visitPermutes gives every other place with the same local sizes and partial axes: the
// places that one exchange of whole pieces reaches.
func (p *problem) visitPermutes(at place, visit func(place)) {
	want := make([]int, len(at.dims))
	split := false
	for i, d := range at.dims {
		want[i] = p.groupSize(d)
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
			if left%size == 0 && !to.hasAxis(a) {
				n := len(to.dims[i])
				to.dims[i] = append(to.dims[i], a)
				fill(i, left/size)
				to.dims[i] = to.dims[i][:n]
			}
		}
	}
	fill(0, want[0])
}

// movedAxes lists the axes that are not in the same place in a and b.
func (p *problem) movedAxes(a, b place) []int {
	var out []int
	for axis, code := range p.keyOf(a) {
		if code != p.keyOf(b)[axis] {
			out = append(out, axis)
		}
	}
	return out
}

// visitArrangements calls visit with every ordered choice of one or more of a list.
func visitArrangements(list []int, visit func([]int)) {
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

func (at place) hasAxis(axis int) bool {
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

// appendAxes gives the place where axes are the minor ones of dim i besides. Places share
// the lists that they do not change, and never write into them.
func (at place) appendAxes(i int, axes []int) place {
	at.dims = slices.Clone(at.dims)
	at.dims[i] = slices.Concat(at.dims[i], axes)
	return at
}

// cutAxes gives the place where dim i keeps only its first n axes.
func (at place) cutAxes(i, n int) place {
	at.dims = slices.Clone(at.dims)
	at.dims[i] = at.dims[i][:n:n]
	return at
}

// reduceAxes gives the place that is no longer partial over axes.
func (at place) reduceAxes(axes []int) place {
	at.partial = slices.DeleteFunc(slices.Clone(at.partial), func(a int) bool { return slices.Contains(axes, a) })
	return at
}
