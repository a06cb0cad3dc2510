package interp_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/internal/spmdtest"
	"weft/mesh"
	"weft/program"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// model says, element by element, what a collective gives: who is in a group
// follows from coordinates, and where an element comes from by arithmetic on
// its index. It shares no code with the interpreter.
type model struct {
	m    *mesh.Mesh
	axes []string
	in   []*interp.Array // by position
}

// group are the positions that differ from pos along the axes alone, in the
// order of their coordinates on the axes, first axis major.
func (k model) group(pos int) []int {
	var g []int
	for other := range k.m.NumDevices() {
		same := true
		for _, a := range k.m.Names() {
			same = same && (slices.Contains(k.axes, a) || k.m.Coord(other, a) == k.m.Coord(pos, a))
		}
		if same {
			g = append(g, other)
		}
	}
	slices.SortFunc(g, func(x, y int) int {
		for _, a := range k.axes {
			if c := cmp.Compare(k.m.Coord(x, a), k.m.Coord(y, a)); c != 0 {
				return c
			}
		}
		return 0
	})
	return g
}

func at(a *interp.Array, index []int) float64 {
	flat := 0
	for d, i := range index {
		flat = flat*a.Shape[d] + i
	}
	return a.At(flat)
}

func (k model) element(op program.Op, r program.Reduction, dims []int, pos int, index []int) float64 {
	g := k.group(pos)
	me, n := slices.Index(g, pos), len(g)
	index = slices.Clone(index)
	shape := k.in[pos].Shape
	join := func() float64 {
		v := at(k.in[g[0]], index)
		for _, p := range g[1:] {
			if w := at(k.in[p], index); r == program.Maximum {
				v = max(v, w)
			} else {
				v += w
			}
		}
		return v
	}
	switch op {
	case program.OpReduceScatter:
		index[dims[0]] += me * shape[dims[0]] / n
		return join()
	case program.OpAllGather:
		from := g[index[dims[0]]/shape[dims[0]]]
		index[dims[0]] %= shape[dims[0]]
		return at(k.in[from], index)
	case program.OpAllToAll:
		split, concat := dims[0], dims[1]
		piece := shape[concat] // of what one member sends, along concat
		if split == concat {
			piece /= n
		}
		from := g[index[concat]/piece]
		index[concat] %= piece
		index[split] += me * shape[split] / n
		return at(k.in[from], index)
	}
	return join()
}

func TestCollectivesAgainstModel(t *testing.T) {
	sizes := rapid.IntRange(1, 3)
	rapid.Check(t, func(rt *rapid.T) {
		m, err := mesh.Local(mesh.Axis{Name: "a", Size: sizes.Draw(rt, "a")}, mesh.Axis{Name: "b", Size: sizes.Draw(rt, "b")}, mesh.Axis{Name: "c", Size: sizes.Draw(rt, "c")})
		if err != nil {
			rt.Fatal(err)
		}
		axes := rapid.Permutation([]string{"a", "b", "c"}).Draw(rt, "order")[:rapid.IntRange(1, 3).Draw(rt, "axes")]
		n := m.Size(axes...)
		shape := rapid.SliceOfN(sizes, 1, 3).Draw(rt, "shape")
		dims := []int{rapid.IntRange(0, len(shape)-1).Draw(rt, "dim"), rapid.IntRange(0, len(shape)-1).Draw(rt, "other dim")}
		op := rapid.SampledFrom([]program.Op{program.OpAllReduce, program.OpAllGather, program.OpReduceScatter, program.OpAllToAll}).Draw(rt, "op")
		reduction := program.Sum
		switch op {
		case program.OpAllReduce:
			reduction = rapid.SampledFrom([]program.Reduction{program.Sum, program.Maximum}).Draw(rt, "reduction")
		case program.OpReduceScatter, program.OpAllToAll:
			shape[dims[0]] *= n
		}
		p, err := spmd.Build("one", m, func(b *spmd.Builder) {
			x := b.Local(b.Input("x", dtype.F32, shape, sharding.Whole(len(shape))))
			switch op {
			case program.OpAllReduce:
				x = b.LAllReduce(reduction, x, axes, "test")
			case program.OpAllGather:
				x = b.LAllGather(x, dims[0], axes, "test")
			case program.OpReduceScatter:
				x = b.LReduceScatter(x, dims[0], axes, "test")
			case program.OpAllToAll:
				x = b.LAllToAll(x, dims[0], dims[1], axes, "test")
			}
			b.Output("y", b.Global(x, x.Shape, sharding.Whole(x.Rank())), "")
		})
		if err != nil {
			rt.Fatal(err)
		}
		k := model{m: m, axes: axes}
		var in [][]*interp.Array
		for pos := range m.NumDevices() {
			x := spmdtest.Count(shape...)
			for i := range x.F {
				x.F[i] += float32(1000 * pos)
			}
			k.in = append(k.in, x)
			in = append(in, []*interp.Array{x})
		}
		out, _, err := interp.New(m, interp.Options{}).Run(t.Context(), p, in)
		if err != nil {
			rt.Fatal(err)
		}
		for pos := range out {
			y := out[pos][0]
			index := make([]int, len(y.Shape))
			for i := range y.Len() {
				for d, rest := len(index)-1, i; d >= 0; d-- {
					index[d], rest = rest%y.Shape[d], rest/y.Shape[d]
				}
				if want := k.element(op, reduction, dims, pos, index); y.At(i) != want {
					rt.Fatalf("%s over %v, dims %v, shape %v: device %d has %v at %v, want %v", op, axes, dims, shape, pos, y.At(i), index, want)
				}
			}
		}
	})
}
