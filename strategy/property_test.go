package strategy_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// anyMesh has 1 to 4 of the axes dp, fsdp, tp, sp and x, at most 48 devices.
func anyMesh(r *rand.Rand) *mesh.Mesh {
	names := []string{"dp", "fsdp", "tp", "sp", "x"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var axes []mesh.Axis
	n := 1
	for _, name := range names[:1+r.IntN(4)] {
		size := meshtest.Pick(r, 1, 2, 2, 3, 4)
		if n*size > 48 {
			size = 1
		}
		n *= size
		axes = append(axes, mesh.Axis{Name: name, Size: size})
	}
	m, err := mesh.Local(axes...)
	if err != nil {
		panic(err)
	}
	return m
}

// anyTensor has rank 0 to 5 and awkward sizes.
func anyTensor(r *rand.Rand) strategy.Tensor {
	t := strategy.Tensor{Name: meshtest.Pick(r, "blocks.1.attn.q.weight", "blocks.1.attn.o.weight", "x", "norm"), Dims: []string{}, Shape: []int{}, Elem: meshtest.Pick(r, 1, 2, 4)}
	for range meshtest.Pick(r, 0, 1, 2, 2, 3, 4, 5) {
		t.Dims = append(t.Dims, meshtest.Pick(r, "out", "in", "batch", "sequence", "heads", "hidden"))
		t.Shape = append(t.Shape, meshtest.Pick(r, 1, 2, 3, 4, 6, 7, 8, 12, 16, 17))
	}
	return t
}

// anySpec puts each axis of the mesh on a dim that it divides, makes it partial, or leaves it out.
func anySpec(r *rand.Rand, m *mesh.Mesh, shape []int) sharding.Spec {
	s := sharding.Whole(len(shape))
	for _, axis := range m.Names() {
		i := r.IntN(2*len(shape) + 2)
		switch {
		case i < len(shape):
			if next := s.WithDim(i, append(s.Dim(i), axis)...); next.Check(m, shape) == nil {
				s = next
			}
		case i == len(shape) && r.IntN(4) == 0:
			s = s.WithPartial(axis)
		}
	}
	return s
}

func anyStrategy(r *rand.Rand, m *mesh.Mesh) strategy.Strategy {
	some := func() []string {
		names := m.Names()
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		return names[:r.IntN(len(names)+1)]
	}
	switch r.IntN(5) {
	case 0:
		return strategy.DataParallel{Axes: some()}
	case 1, 2:
		return strategy.FSDP{Axes: some(), MinSize: meshtest.Pick(r, 1, 1, 8, 64, 0)}
	case 3:
		return strategy.TensorParallel{Axis: meshtest.Pick(r, m.Names()...), Rules: meshtest.Pick(r, all("out"), all("in"), all("heads"), nil)}
	}
	return strategy.Plan{strategy.TensorParallel{Rules: all("out")}, strategy.FSDP{MinSize: 1}, strategy.DataParallel{}}
}

// Whatever a strategy or a plan is given: its spec is legal, shards tile the tensor
// with each element on as many devices as the unused axes multiply to, axes that
// were there stay where they were, and what FSDP and TP leave undone has a note.
func TestRefineRandom(t *testing.T) {
	refined := 0
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		m, x := anyMesh(r), anyTensor(r)
		before := anySpec(r, m, x.Shape)
		if r.IntN(2) == 0 {
			before = sharding.Spec{}
		}
		s := anyStrategy(r, m)
		if r.IntN(2) == 0 {
			s = strategy.Plan{s, anyStrategy(r, m)}
		}
		got, notes, err := s.Refine(m, x, before)
		if err != nil {
			for _, v := range fault.Violations(err) {
				if strings.Contains(v.Error(), "\n") || strings.Contains(v.Error(), "%!") {
					t.Fatalf("%q", v)
				}
			}
			return
		}
		refined++
		if got.Canonical(m, len(x.Shape)).String() != got.String() || got.Rank() != len(x.Shape) {
			t.Fatalf("%s is not canonical on %s", got, m)
		}
		for _, axis := range m.Names() {
			if m.Size(axis) == 1 {
				continue
			}
			if before.DimOf(axis) >= 0 && got.DimOf(axis) != before.DimOf(axis) {
				t.Fatalf("%s became %s: axis %s has moved", before, got, axis)
			}
		}
		for _, n := range notes {
			if n.Reason == "" || n.Strategy == "" || n.Tensor != x.Name || strings.Contains(n.Text, "%!") || strings.Contains(n.Text, "\n") || len(n.Axes) == 0 {
				t.Fatalf("%+v", n)
			}
		}
		tiles(t, m, got, x.Shape)
		if f, ok := s.(strategy.FSDP); ok && len(notes) == 0 {
			axes := f.Axes
			if len(axes) == 0 {
				axes = []string{"fsdp"}
			}
			for _, axis := range axes {
				if m.Size(axis) > 1 && !got.Uses(axis) {
					t.Fatalf("%s of %v on %s: axis %s was not applied and there is no note", got, x.Shape, m, axis)
				}
			}
		}
	})
	if refined == 0 {
		t.Error("nothing was refined")
	}
}

// tiles checks that the shards hold every element equally often, by counting the
// elements of each device, and which of them are held where.
func tiles(t *rapid.T, m *mesh.Mesh, s sharding.Spec, shape []int) {
	local, err := s.Local(m, shape)
	if err != nil {
		t.Fatal(err)
	}
	for dim := range shape { // a grid of ranges tiles if each dim's ranges do
		held := make([]int, shape[dim])
		for pos := range m.NumDevices() {
			ranges, err := s.Ranges(m, shape, pos)
			if err != nil || ranges[dim].Len() != local[dim] {
				t.Fatalf("%s on %s of %v: device %d holds %v, local %v: %v", s, m, shape, pos, ranges, local, err)
			}
			for i := ranges[dim].Lo; i < ranges[dim].Hi; i++ {
				held[i]++
			}
		}
		for i, n := range held {
			if want := m.NumDevices() * local[dim] / shape[dim]; n != want {
				t.Fatalf("%s on %s of %v: %d devices hold index %d of dim %d, want %d", s, m, shape, n, i, dim, want)
			}
		}
	}
	corner := map[string]int{}
	for pos := range m.NumDevices() {
		ranges, _ := s.Ranges(m, shape, pos)
		key := ""
		for _, r := range ranges {
			key += r.String() + " "
		}
		corner[key]++
	}
	holders := meshtest.Holders(m, s.WithoutPartial())
	for key, n := range corner {
		if n != holders {
			t.Fatalf("%s on %s of %v: %d devices hold %s, want %d", s, m, shape, n, key, holders)
		}
	}
}

// A gradient ends where its parameter is, a gather starts there, and both are
// whole over FSDP's axes in between.
func TestGradientRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		m, x := anyMesh(r), anyTensor(r)
		p := strategy.Plan{anyStrategy(r, m), anyStrategy(r, m)}
		stored, _, err := p.Refine(m, x, sharding.Spec{})
		g, gerr := p.Gradient(m, x)
		gather, aerr := p.Gather(m, x)
		if (err == nil) != (gerr == nil) || (err == nil) != (aerr == nil) {
			t.Fatal(err, gerr, aerr)
		}
		if err != nil {
			return
		}
		if g.After.String() != stored.String() {
			t.Fatalf("the gradient ends at %s, the parameter is at %s", g.After, stored)
		}
		at := g.Before.Canonical(m, len(x.Shape))
		for _, step := range g.Steps {
			if step.From.String() != at.String() {
				t.Fatalf("%v does not start at %s", step, at)
			}
			at = step.To
		}
		if at.String() != g.After.String() {
			t.Fatalf("the steps end at %s, not %s", at, g.After)
		}
		if len(gather) > 0 {
			if computed := gather[len(gather)-1].To; computed.String() != g.Before.WithoutPartial().Canonical(m, len(x.Shape)).String() {
				t.Fatalf("gathered to %s, the gradient begins at %s", computed, g.Before)
			}
		}
		if g.Bytes() < 0 {
			t.Fatal(g)
		}
	})
}
