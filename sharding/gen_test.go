package sharding_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
	"weft/fault"
	"weft/mesh"
	"weft/sharding"
)

// grid makes a mesh of alternating names and sizes, spelled as given.
func grid(t testing.TB, namesAndSizes ...any) *mesh.Mesh {
	t.Helper()
	var axes []mesh.Axis
	for i := 0; i < len(namesAndSizes); i += 2 {
		axes = append(axes, mesh.Axis{Name: namesAndSizes[i].(string), Size: namesAndSizes[i+1].(int)})
	}
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func spec(t testing.TB, text string) sharding.Spec {
	t.Helper()
	s, err := sharding.ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantKinds checks the violations of err, in order.
func wantKinds(t testing.TB, err error, kinds ...error) {
	t.Helper()
	got := fault.Violations(err)
	if len(got) != len(kinds) {
		t.Fatalf("%d violations, want %d:\n%v", len(got), len(kinds), err)
	}
	for i := range got {
		if !errors.Is(got[i], kinds[i]) {
			t.Errorf("violation %d is %q, want kind %v", i, got[i], kinds[i])
		}
	}
}

// anyMesh draws a mesh of 1 to 4 axes and at most 36 devices, in any device order.
func anyMesh(t *rapid.T) *mesh.Mesh {
	var axes []mesh.Axis
	n := 1
	for i := range rapid.IntRange(1, 4).Draw(t, "axes") {
		size := rapid.IntRange(1, min(4, 36/n)).Draw(t, "size")
		axes = append(axes, mesh.Axis{Name: string(rune('a' + i)), Size: size})
		n *= size
	}
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	devices := make([]mesh.Device, n)
	for i, id := range rapid.Permutation(ids).Draw(t, "order") {
		devices[i] = mesh.Device{ID: id, Process: id % 2}
	}
	m, err := mesh.New(axes, devices)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// anySpec draws a spec that keeps S1 to S3: each axis of the mesh, in any order,
// goes to a dim, or is partial if it is in mayBePartial, or is not used.
func anySpec(t *rapid.T, m *mesh.Mesh, rank int, mayBePartial []string) sharding.Spec {
	dims := make([][]string, rank)
	var partial []string
	for _, axis := range rapid.Permutation(m.Names()).Draw(t, "axis order") {
		where := rapid.IntRange(0, rank+1).Draw(t, "where")
		switch {
		case where < rank:
			dims[where] = append(dims[where], axis)
		case where == rank && slices.Contains(mayBePartial, axis):
			partial = append(partial, axis)
		}
	}
	return sharding.NewSpec(dims...).WithPartial(partial...)
}

// anyShape draws sizes that the specs divide; now and then one has no elements.
func anyShape(t *rapid.T, m *mesh.Mesh, rank int, specs ...sharding.Spec) []int {
	shape := make([]int, rank)
	for i := range shape {
		size := 1
		for _, s := range specs {
			size = lcm(size, parts(m, s, i))
		}
		factor := rapid.SampledFrom([]int{1, 1, 1, 1, 2, 3, 0}).Draw(t, "factor")
		shape[i] = size * factor
	}
	return shape
}

func parts(m *mesh.Mesh, s sharding.Spec, dim int) int {
	n := 1
	for _, axis := range s.Dim(dim) {
		n *= m.Size(axis)
	}
	return n
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
