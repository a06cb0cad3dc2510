package sharding

import (
	"container/heap"
	"slices"
)

const (
	// maxMoving is how many axes may change place at once in a search.
	maxMoving = 8
	// searchLimit is how many places a search looks at before it takes steps that are
	// right but perhaps not the cheapest. Four axes over any number of dims stay below it.
	searchLimit = 20000
)

// key is a place as a map key. It has a number for each moving axis: 0 for an axis that
// is unused, 1 for a partial one, else one for the dim and the position in it.
type key [maxMoving]uint8

func (p *problem) keyOf(at place) key {
	var k key
	for i, d := range at.dims {
		for n, axis := range d {
			k[axis] = uint8(2 + i*maxMoving + n)
		}
	}
	for _, axis := range at.partial {
		k[axis] = 1
	}
	return k
}

// reached is the best way to a place that is known so far.
type reached struct {
	bytes int64
	steps int
	hops  int
	order int // number of the way; of two equal ways the first is taken, so that results do not vary
	last  edge
	at    place
}

// less orders by bytes, then steps, then hops, then the order found.
func (r *reached) less(o *reached) bool {
	switch {
	case r.bytes != o.bytes:
		return r.bytes < o.bytes
	case r.steps != o.steps:
		return r.steps < o.steps
	case r.hops != o.hops:
		return r.hops < o.hops
	}
	return r.order < o.order
}

type frontier []*reached

func (f frontier) Len() int           { return len(f) }
func (f frontier) Less(i, j int) bool { return f[i].less(f[j]) }
func (f frontier) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *frontier) Push(x any)        { *f = append(*f, x.(*reached)) }
func (f *frontier) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// findPath finds the cheapest moves from p.from to p.to by Dijkstra's algorithm over places.
func (p *problem) findPath() []edge {
	if len(p.axes) > maxMoving {
		return p.plainPath()
	}
	best := map[key]*reached{}
	var open frontier
	order := 0
	add := func(r *reached) {
		k := p.keyOf(r.at)
		if old := best[k]; old != nil && !r.less(old) {
			return
		}
		best[k] = r
		heap.Push(&open, r)
	}
	add(&reached{at: p.from})
	goal := p.keyOf(p.to)
	plain := p.plainPath()
	bound := int64(0) // the bytes of a known way; one that sends more is not the cheapest
	for _, e := range plain {
		bound += e.bytes
	}
	for done := 0; len(open) > 0; {
		r := heap.Pop(&open).(*reached)
		k := p.keyOf(r.at)
		if best[k] != r {
			continue // a better way was found since
		}
		if k == goal {
			return p.tracePath(best, r)
		}
		if done++; done > searchLimit {
			break
		}
		p.visitMoves(r.at, r.last.op == Permute, func(e edge) {
			if r.bytes+e.bytes > bound {
				return
			}
			if p.keyOf(e.to) == goal {
				bound = r.bytes + e.bytes
			}
			order++
			hops := r.hops + p.countHops(e)
			add(&reached{r.bytes + e.bytes, r.steps + 1, hops, order, e, e.to})
		})
	}
	return plain
}

func (p *problem) countHops(e edge) int {
	if e.op == Permute {
		return 1
	}
	return Hops(e.op, p.groupSize(e.axes))
}

func (p *problem) tracePath(best map[key]*reached, r *reached) []edge {
	var edges []edge
	for r.steps > 0 {
		edges = append(edges, r.last)
		r = best[p.keyOf(r.last.from)]
	}
	slices.Reverse(edges)
	return edges
}

// plainPath gives a path that is always possible, though seldom the cheapest: it reduces,
// gathers each dim, and then slices each dim.
func (p *problem) plainPath() []edge {
	var edges []edge
	at := p.from
	add := func(op Op, axes []int, dim int, to place) {
		if len(axes) > 0 {
			edges = append(edges, edge{op, axes, dim, -1, RingBytes(op, p.groupSize(axes), p.heldBytes(at)), at, to})
			at = to
		}
	}
	add(AllReduce, at.partial, -1, at.reduceAxes(at.partial))
	for i := range p.dims {
		add(AllGather, at.dims[i], i, at.cutAxes(i, 0))
	}
	for i := range p.dims {
		add(Slice, p.to.dims[i], i, at.appendAxes(i, p.to.dims[i]))
	}
	return edges
}
