package mesh_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"weft/mesh"
)

// Replica groups as JAX 0.10.2 prints them; the last row has the pipeline axis outermost
// on nodes of 8.
func TestGroups(t *testing.T) {
	tests := []struct {
		mesh string
		axes []string
		want string
	}{
		{"a=2,b=4", []string{"b"}, "[[0 1 2 3] [4 5 6 7]]"},
		{"a=2,b=4", []string{"a"}, "[[0 4] [1 5] [2 6] [3 7]]"},
		{"a=2,b=4", []string{"a", "b"}, "[[0 1 2 3 4 5 6 7]]"},
		{"a=2,b=4", []string{"b", "a"}, "[[0 4 1 5 2 6 3 7]]"},
		{"a=2,b=4", []string{"b", "b"}, "[[0 1 2 3] [4 5 6 7]]"},
		{"a=2,b=4", nil, "[[0] [1] [2] [3] [4] [5] [6] [7]]"},
		{"a=2,b=2", []string{"zz"}, "[[0] [1] [2] [3]]"},
		{"p=2,d=2,m=2", []string{"p"}, "[[0 4] [1 5] [2 6] [3 7]]"},
		{"p=2,d=2,m=2", []string{"d"}, "[[0 2] [1 3] [4 6] [5 7]]"},
		{"p=2,d=2,m=2", []string{"m"}, "[[0 1] [2 3] [4 5] [6 7]]"},
		{"p=2,d=2,m=2", []string{"d", "m"}, "[[0 1 2 3] [4 5 6 7]]"},
		{"p=2,d=2,m=2", []string{"p", "m"}, "[[0 1 4 5] [2 3 6 7]]"},
		{"p=2,d=2,m=2", []string{"m", "p"}, "[[0 4 1 5] [2 6 3 7]]"},
		{"p=2,d=2,m=8", []string{"m"}, "[[0 1 2 3 4 5 6 7] [8 9 10 11 12 13 14 15] [16 17 18 19 20 21 22 23] [24 25 26 27 28 29 30 31]]"},
	}
	for _, test := range tests {
		if got := fmt.Sprint(local(t, test.mesh).Groups(test.axes...)); got != test.want {
			t.Errorf("%s over %v: %s, want %s", test.mesh, test.axes, got, test.want)
		}
	}
}

// Pairs of a permute along a ring and along a line.
func TestPairs(t *testing.T) {
	tests := []struct {
		mesh, axis string
		shift      int
		wrap       bool
		want       string
	}{
		{"pp=4", "pp", 1, false, "[[0 1] [1 2] [2 3]]"},
		{"pp=4", "pp", -1, false, "[[1 0] [2 1] [3 2]]"},
		{"pp=2", "pp", 1, false, "[[0 1]]"},
		{"pp=2", "pp", -1, false, "[[1 0]]"},
		{"pp=1", "pp", 1, false, "[]"},
		{"pp=1", "pp", 1, true, "[[0 0]]"},
		{"tp=2", "pp", 1, false, "[]"},
		{"pp=2,dp=2,tp=2", "pp", 1, false, "[[0 4] [1 5] [2 6] [3 7]]"},
		{"pp=2,dp=2,tp=2", "pp", -1, false, "[[4 0] [5 1] [6 2] [7 3]]"},
		{"pp=4,tp=2", "pp", 1, false, "[[0 2] [1 3] [2 4] [3 5] [4 6] [5 7]]"},
		{"pp=4", "pp", 1, true, "[[0 1] [1 2] [2 3] [3 0]]"},
		{"pp=4", "pp", -1, true, "[[0 3] [1 0] [2 1] [3 2]]"},
		{"pp=4", "pp", 5, true, "[[0 1] [1 2] [2 3] [3 0]]"},
		{"pp=4", "pp", 4, false, "[]"},
	}
	for _, test := range tests {
		if got := fmt.Sprint(local(t, test.mesh).Pairs(test.axis, test.shift, test.wrap)); got != test.want {
			t.Errorf("%s pairs %s %+d wrap %v: %s, want %s", test.mesh, test.axis, test.shift, test.wrap, got, test.want)
		}
	}
}

// anyMesh draws a mesh of 0 to 4 axes.
func anyMesh(t *rapid.T) *mesh.Mesh {
	var axes []mesh.Axis
	for i := range rapid.IntRange(0, 4).Draw(t, "axes") {
		axes = append(axes, mesh.Axis{Name: string(rune('a' + i)), Size: rapid.IntRange(1, 4).Draw(t, "size")})
	}
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// anyAxes draws a sequence of different axes, at times one the mesh does not have.
func anyAxes(t *rapid.T, m *mesh.Mesh) []string {
	names := rapid.Permutation(append(m.Names(), "none")).Draw(t, "names")
	return names[:rapid.IntRange(0, len(names)).Draw(t, "n")]
}

// positionAt counts positions row-major, the last axis fastest.
func positionAt(m *mesh.Mesh, coords []int) int {
	pos := 0
	for i, a := range m.Axes() {
		pos = pos*a.Size + coords[i]
	}
	return pos
}

func TestCoordsAreMixedRadix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMesh(t)
		for pos := range m.NumDevices() {
			coords := m.Coords(pos)
			if got := positionAt(m, coords); got != pos {
				t.Fatalf("%s: position %d has coords %v, which are position %d", m, pos, coords, got)
			}
			if m.Index(pos, m.Names()...) != pos {
				t.Fatalf("%s: the index over all axes is not the position", m)
			}
			for i, a := range m.Axes() {
				if m.Coord(pos, a.Name) != coords[i] || coords[i] < 0 || coords[i] >= a.Size {
					t.Fatalf("%s: coord %s of %d is not %d", m, a.Name, pos, coords[i])
				}
				if c := slices.Clone(coords); c[i]+1 < a.Size {
					c[i]++
					if positionAt(m, c)-pos != m.Stride(a.Name) {
						t.Fatalf("%s: the stride of %s is not %d", m, a.Name, m.Stride(a.Name))
					}
				}
			}
		}
		if m.Coord(0, "none") != 0 || m.Stride("none") != 0 {
			t.Fatal("an axis the mesh does not have has coord and stride 0")
		}
	})
}

func TestGroupsPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMesh(t)
		axes := anyAxes(t, m)
		seen := map[int]bool{}
		least := -1
		for _, g := range m.Groups(axes...) {
			if len(g) != max(1, m.Size(append(axes, "none")...)) {
				t.Fatalf("%s over %v: group %v has the wrong length", m, axes, g)
			}
			if slices.Min(g) <= least {
				t.Fatalf("%s over %v: groups are not ordered by smallest member", m, axes)
			}
			least = slices.Min(g)
			for i, pos := range g {
				if seen[pos] || m.Index(pos, axes...) != i {
					t.Fatalf("%s over %v: %d of group %v is out of place", m, axes, pos, g)
				}
				seen[pos] = true
				for _, other := range m.Names() {
					if !slices.Contains(axes, other) && m.Coord(pos, other) != m.Coord(g[0], other) {
						t.Fatalf("%s over %v: group %v crosses axis %s", m, axes, g, other)
					}
				}
			}
		}
		if len(seen) != m.NumDevices() {
			t.Fatalf("%s over %v: %d of %d positions are in a group", m, axes, len(seen), m.NumDevices())
		}
	})
}

func TestPairsStayOnTheAxis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMesh(t)
		axis := rapid.SampledFrom(append(m.Names(), "none")).Draw(t, "axis")
		shift := rapid.Int().Draw(t, "shift")
		wrap := rapid.Bool().Draw(t, "wrap")
		pairs := m.Pairs(axis, shift, wrap)
		if wrap && len(pairs) != m.NumDevices() {
			t.Fatalf("a ring has %d pairs, want %d", len(pairs), m.NumDevices())
		}
		targets := map[int]bool{}
		for _, p := range pairs {
			moved, size := m.Coord(p[1], axis)-m.Coord(p[0], axis), m.Size(axis, "none")
			if wrap {
				moved, shift = (moved%size+size)%size, (shift%size+size)%size
			}
			if moved != shift || targets[p[1]] {
				t.Fatalf("%s: pair %v of %s %+d", m, p, axis, shift)
			}
			targets[p[1]] = true
			back := slices.Index(m.Names(), axis)
			from, to := m.Coords(p[0]), m.Coords(p[1])
			if back >= 0 {
				from[back], to[back] = 0, 0
			}
			if d := cmp.Diff(from, to); d != "" {
				t.Fatal(d)
			}
		}
	})
}
