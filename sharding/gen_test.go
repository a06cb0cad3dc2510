package sharding_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weft/internal/meshtest"
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

// anyRank is 0 to 5, most often in the middle.
func anyRank(r *rand.Rand) int { return meshtest.Pick(r, 0, 1, 2, 2, 3, 3, 4, 5) }

// anyMesh has 1 to 4 axes and at most 36 devices, in any device order.
func anyMesh(r *rand.Rand) *mesh.Mesh {
	var axes []mesh.Axis
	n := 1
	for i := range meshtest.Pick(r, 1, 2, 2, 3, 3, 4, 4) {
		size := meshtest.Pick(r, 1, 2, 2, 2, 3, 4)
		if n*size > 36 {
			size = 1
		}
		axes = append(axes, mesh.Axis{Name: string(rune('a' + i)), Size: size})
		n *= size
	}
	devices := make([]mesh.Device, n)
	for i, id := range r.Perm(n) {
		devices[i] = mesh.Device{ID: id, Process: id % 2}
	}
	m, err := mesh.New(axes, devices)
	if err != nil {
		panic(err)
	}
	return m
}

// anySpec keeps S1 to S3: each axis of the mesh, in any order, goes to one of up
// to rank dims, or is partial if it is in mayBePartial, or is not used.
func anySpec(r *rand.Rand, m *mesh.Mesh, rank int, mayBePartial []string) sharding.Spec {
	dims := make([][]string, rank-r.IntN(rank+1)*r.IntN(2))
	var partial []string
	names := m.Names()
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, axis := range names {
		where := r.IntN(len(dims) + 2)
		switch {
		case where < len(dims):
			dims[where] = append(dims[where], axis)
		case where == len(dims) && slices.Contains(mayBePartial, axis):
			partial = append(partial, axis)
		}
	}
	return sharding.NewSpec(dims...).WithPartial(partial...)
}

// anyShape has sizes that the specs divide; now and then there are no elements.
func anyShape(r *rand.Rand, m *mesh.Mesh, rank int, specs ...sharding.Spec) []int {
	shape := make([]int, rank)
	for i := range shape {
		size := 1
		for _, s := range specs {
			size = lcm(size, parts(m, s, i))
		}
		shape[i] = size * meshtest.Pick(r, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3)
	}
	if rank > 0 && r.IntN(20) == 0 {
		shape[r.IntN(rank)] = 0
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
