package sharding_test

import (
	"fmt"
	"slices"

	"weft/mesh"
	"weft/sharding"
)

// A simulator of what steps do: one array of whole numbers for each position,
// and collectives as StableHLO defines them. It knows nothing of specs.

// array is row-major.
type array struct {
	shape []int
	data  []int64
}

func newArray(shape []int) array {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return array{slices.Clone(shape), make([]int64, n)}
}

// each visits every index of a box, last dim fastest.
func each(box []sharding.Range, visit func(index []int)) {
	index := make([]int, len(box))
	var next func(dim int)
	next = func(dim int) {
		if dim == len(box) {
			visit(index)
			return
		}
		for index[dim] = box[dim].Lo; index[dim] < box[dim].Hi; index[dim]++ {
			next(dim + 1)
		}
	}
	next(0)
}

func key(index []int) string { return fmt.Sprint(index) }

func whole(shape []int) []sharding.Range {
	box := make([]sharding.Range, len(shape))
	for i, n := range shape {
		box[i] = sharding.Range{Lo: 0, Hi: n}
	}
	return box
}

func (a array) at(index []int) *int64 {
	n := 0
	for i, x := range index {
		n = n*a.shape[i] + x
	}
	return &a.data[n]
}

// cut is the part of a in a box.
func (a array) cut(box []sharding.Range) array {
	shape := make([]int, len(box))
	for i, r := range box {
		shape[i] = r.Len()
	}
	out := newArray(shape)
	n := 0
	each(box, func(index []int) {
		out.data[n] = *a.at(index)
		n++
	})
	return out
}

// split cuts a dim in n equal parts.
func (a array) split(dim, n int) []array {
	out := make([]array, n)
	for i := range out {
		box := whole(a.shape)
		share := a.shape[dim] / n
		box[dim] = sharding.Range{Lo: i * share, Hi: (i + 1) * share}
		out[i] = a.cut(box)
	}
	return out
}

// concat puts arrays one after another along a dim.
func concat(arrays []array, dim int) array {
	shape := slices.Clone(arrays[0].shape)
	shape[dim] *= len(arrays)
	out := newArray(shape)
	for i, a := range arrays {
		each(whole(a.shape), func(index []int) {
			to := slices.Clone(index)
			to[dim] += i * a.shape[dim]
			*out.at(to) = *a.at(index)
		})
	}
	return out
}

func sum(arrays []array) array {
	out := newArray(arrays[0].shape)
	for _, a := range arrays {
		for i, x := range a.data {
			out.data[i] += x
		}
	}
	return out
}

// run does one step to the array of every position, and counts the bytes that
// the busiest position sends.
func run(m *mesh.Mesh, step sharding.Move, held []array, elemBytes int) (after []array, sent int64, err error) {
	after = make([]array, len(held))
	bytes := func(a array) int64 { return int64(len(a.data) * elemBytes) }
	if step.Op == sharding.Permute {
		targets := map[int]bool{}
		sources := map[int]bool{}
		for _, p := range step.Pairs {
			if targets[p[1]] || sources[p[0]] {
				return nil, 0, fmt.Errorf("permute pairs %v repeat a position", step.Pairs)
			}
			targets[p[1]], sources[p[0]] = true, true
			after[p[1]] = held[p[0]]
			if p[0] != p[1] {
				sent = max(sent, bytes(held[p[0]]))
			}
		}
		if len(targets) != len(held) {
			return nil, 0, fmt.Errorf("permute pairs %v leave a position without data", step.Pairs)
		}
		return after, sent, nil
	}
	for _, group := range m.Groups(step.Axes...) {
		in := make([]array, len(group))
		for i, pos := range group {
			in[i] = held[pos]
		}
		for i, pos := range group {
			out, n, err := member(step, in, i, bytes)
			if err != nil {
				return nil, 0, err
			}
			after[pos], sent = out, max(sent, n)
		}
	}
	return after, sent, nil
}

// member is what member i of a group has after a step, and the bytes it sent:
// counted message by message around a ring, each message a whole array or one of
// as many chunks as there are members.
func member(step sharding.Move, in []array, i int, bytes func(array) int64) (out array, sent int64, err error) {
	n := len(in)
	divides := func(dim int) error {
		if in[0].shape[dim]%n != 0 {
			return fmt.Errorf("%s: local dim %d of %v does not divide by %d", step.Op, dim, in[0].shape, n)
		}
		return nil
	}
	chunk := (bytes(in[i]) + int64(n) - 1) / int64(n)
	rounds := func(size int64) {
		for range n - 1 {
			sent += size
		}
	}
	switch step.Op {
	case sharding.Slice:
		if err := divides(step.Dim); err != nil {
			return out, 0, err
		}
		return in[i].split(step.Dim, n)[i], 0, nil
	case sharding.AllGather:
		rounds(bytes(in[i]))
		return concat(in, step.Dim), sent, nil
	case sharding.AllReduce:
		rounds(chunk)
		rounds(chunk)
		return sum(in), sent, nil
	case sharding.ReduceScatter:
		if err := divides(step.Dim); err != nil {
			return out, 0, err
		}
		rounds(chunk)
		return sum(in).split(step.Dim, n)[i], sent, nil
	case sharding.AllToAll:
		if err := divides(step.SplitDim); err != nil {
			return out, 0, err
		}
		rounds(chunk)
		received := make([]array, n)
		for j := range received {
			received[j] = in[j].split(step.SplitDim, n)[i]
		}
		return concat(received, step.ConcatDim), sent, nil
	}
	return out, 0, fmt.Errorf("unknown op %q", step.Op)
}

// place lays a tensor out as a spec says: each position its part, and of a
// partial spec its addend: pseudo-random, with the last addend making up the sum.
func place(m *mesh.Mesh, s sharding.Spec, a array) ([]array, error) {
	addends := 1
	for _, axis := range s.Partial() {
		addends *= m.Size(axis)
	}
	held := make([]array, m.NumDevices())
	for pos := range held {
		box, err := s.Ranges(m, a.shape, pos)
		if err != nil {
			return nil, err
		}
		held[pos] = a.cut(box)
		which, n := m.Index(pos, s.Partial()...), 0
		each(box, func(index []int) {
			held[pos].data[n] = addend(*a.at(index), which, addends)
			n++
		})
	}
	return held, nil
}

func addend(value int64, which, of int) int64 {
	one := func(i int) int64 { return (value*31 + int64(i)*17) % 1000 }
	if which < of-1 {
		return one(which)
	}
	last := value
	for i := range of - 1 {
		last -= one(i)
	}
	return last
}

// laidOut checks that positions hold a tensor as a spec says: over the partial
// axes the arrays sum to the part, and positions that hold the same addend agree.
func laidOut(m *mesh.Mesh, s sharding.Spec, a array, held []array) error {
	partial := append(s.Partial(), "none")
	for _, group := range m.Groups(partial...) {
		box, err := s.Ranges(m, a.shape, group[0])
		if err != nil {
			return err
		}
		want := a.cut(box)
		in := make([]array, len(group))
		for i, pos := range group {
			in[i] = held[pos]
			if !slices.Equal(held[pos].shape, want.shape) {
				return fmt.Errorf("position %d holds shape %v, want %v", pos, held[pos].shape, want.shape)
			}
		}
		if got := sum(in); !slices.Equal(got.data, want.data) {
			return fmt.Errorf("positions %v hold %v, want %v", group, got.data, want.data)
		}
	}
	var unused []string
	for _, axis := range m.Names() {
		if !s.Uses(axis) {
			unused = append(unused, axis)
		}
	}
	if len(unused) == 0 {
		return nil
	}
	for _, group := range m.Groups(unused...) {
		for _, pos := range group {
			if !slices.Equal(held[pos].data, held[group[0]].data) {
				return fmt.Errorf("positions %d and %d should hold the same", group[0], pos)
			}
		}
	}
	return nil
}
