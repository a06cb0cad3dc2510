package sharding_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/sharding"
)

// A spec that names one axis twice is an error. Dropping one of the two would change
// which dim is split.
func TestAxisNamedTwice(t *testing.T) {
	m := grid(t, "dp", 2, "tp", 2, "sp", 2)
	for text, want := range map[string]sharding.DuplicateAxis{
		"[tp,tp]":    {Axis: "tp", Dims: []int{0, 1}},
		"[tp+tp]":    {Axis: "tp", Dims: []int{0, 0}},
		"[dp+tp,tp]": {Axis: "tp", Dims: []int{0, 1}},
		"[-,tp]|tp":  {Axis: "tp", Dims: []int{1}, Partial: true},
		"[-]|tp+tp":  {Axis: "tp", Dims: []int{}, Partial: true},
	} {
		err := meshtest.Spec(t, text).Check(m, []int{8, 8})
		faulttest.WantKinds(t, err, sharding.ErrDuplicateAxis)
		got, _ := fault.Fields[sharding.DuplicateAxis](err)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(text, d)
		}
	}
	err := meshtest.Spec(t, "[model]").Check(m, []int{8, 8})
	faulttest.WantKinds(t, err, mesh.ErrUnknownAxis)
	got, _ := fault.Fields[mesh.UnknownAxis](err)
	if d := cmp.Diff(mesh.UnknownAxis{Axis: "model", Known: []string{"dp", "tp", "sp"}}, got); d != "" {
		t.Error(d)
	}
	if !strings.Contains(err.Error(), "called tp") {
		t.Error("the message does not say that model is tp here:", err)
	}
}

// A batch of 17 does not divide over 8 devices, and the error names the nearest sizes.
func TestUneven(t *testing.T) {
	m := grid(t, "data", 8)
	err := meshtest.Spec(t, "[data,-]").Check(m, []int{17, 16})
	faulttest.WantKinds(t, err, sharding.ErrUneven)
	got, _ := fault.Fields[sharding.Uneven](err)
	want := sharding.Uneven{Dim: 0, Size: 17, Parts: 8, Axes: []string{"data"}, Nearest: []int{16, 24}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := err.Error(); got != "dim 0 of size 17 does not divide into 8 parts over data; nearest sizes 16 and 24" {
		t.Error(got)
	}
}

func TestCheckReportsEverything(t *testing.T) {
	m := grid(t, "a", 2, "b", 3)
	err := meshtest.Spec(t, "[x+a,a,b,b+y]|y").Check(m, []int{3, -1, 4})
	faulttest.WantKinds(t, err,
		mesh.ErrUnknownAxis, sharding.ErrDuplicateAxis, sharding.ErrDuplicateAxis, mesh.ErrUnknownAxis, sharding.ErrDuplicateAxis,
		sharding.ErrRank, sharding.ErrUneven, sharding.ErrShape, sharding.ErrUneven)
	rank, _ := fault.Fields[sharding.Rank](err)
	if d := cmp.Diff(sharding.Rank{Spec: 4, Rank: 3}, rank); d != "" {
		t.Error(d)
	}
	if got := strings.Count(err.Error(), "\n"); got != 8 {
		t.Errorf("%d line breaks for 9 violations", got)
	}
	if err := meshtest.Spec(t, "[-,-]").Check(m, []int{1}); !errors.Is(err, sharding.ErrRank) {
		t.Error("a whole spec of rank 2 on rank 1:", err)
	}
}

func TestAxesOfSizeOneSplitAnything(t *testing.T) {
	m := grid(t, "a", 1, "b", 3)
	if local, err := meshtest.Spec(t, "[a,b]").Local(m, []int{17, 3}); err != nil || !slices.Equal(local, []int{17, 1}) {
		t.Error(local, err)
	}
	if err := meshtest.Spec(t, "[a,a]").Check(m, []int{1, 1}); !errors.Is(err, sharding.ErrDuplicateAxis) {
		t.Error("an axis of size 1 may not occur twice either:", err)
	}
}

// Shards tile the tensor, each element is held by as many devices as the unused
// axes multiply to, and sizes that do not divide are refused.
func TestShardsTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		m, rank := anyMesh(r), anyRank(r)
		s := anySpec(r, m, rank, m.Names())
		shape, even := make([]int, rank), true
		for i := range shape {
			n := parts(m, s, i)
			shape[i] = meshtest.Pick(r, n, n, n, n, n, n, n, 2*n, 2*n, n+1, n-1, 1, 0)
			even = even && shape[i]%n == 0
		}
		local, err := s.Local(m, shape)
		if even != (err == nil) {
			t.Fatalf("%s on %s of %v: %v", s, m, shape, err)
		}
		if err != nil {
			for _, v := range fault.Violations(err) {
				if f, ok := fault.Fields[sharding.Uneven](v); !ok || f.Size != shape[f.Dim] || f.Size%f.Parts == 0 || !isNearest(f) {
					t.Fatalf("%s on %s of %v: %v", s, m, shape, v)
				}
			}
			return
		}
		checkTiling(t, m, s, shape, local)
	})
}

// isNearest checks that what an error calls nearest are positive multiples around the size.
func isNearest(f sharding.Uneven) bool {
	lo, hi := f.Size/f.Parts*f.Parts, f.Size/f.Parts*f.Parts+f.Parts
	if lo == 0 {
		return slices.Equal(f.Nearest, []int{hi})
	}
	return slices.Equal(f.Nearest, []int{lo, hi})
}

func checkTiling(t *rapid.T, m *mesh.Mesh, s sharding.Spec, shape, local []int) {
	holders := map[string]int{}
	for pos := range m.NumDevices() {
		ranges, err := s.Ranges(m, shape, pos)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range ranges {
			if r.Len() != local[i] || r.Lo < 0 || r.Hi > shape[i] {
				t.Fatalf("%s on %s of %v: device %d holds %v, local shape %v", s, m, shape, pos, ranges, local)
			}
		}
		each(ranges, func(index []int) { holders[key(index)]++ })
	}
	want := meshtest.Holders(m, s)
	for _, axis := range s.Partial() { // each addend of an element counts as an element
		want *= m.Size(axis)
	}
	elements := 1
	for _, n := range shape {
		elements *= n
	}
	if len(holders) != elements {
		t.Fatalf("%s on %s of %v: %d of %d elements are held", s, m, shape, len(holders), elements)
	}
	for index, n := range holders {
		if n != want {
			t.Fatalf("%s on %s of %v: %d devices hold element %s, want %d", s, m, shape, n, index, want)
		}
	}
}

func TestRangesPosition(t *testing.T) {
	m := grid(t, "a", 2)
	for _, pos := range []int{-1, 2} {
		_, err := meshtest.Spec(t, "[a]").Ranges(m, []int{3}, pos)
		faulttest.WantKinds(t, err, sharding.ErrUneven, sharding.ErrPosition)
	}
}
