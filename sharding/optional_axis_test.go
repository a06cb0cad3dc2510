package sharding_test

import (
	"errors"
	"testing"

	"weft/mesh"
	"weft/sharding"
)

// A spec may name a ring on a mesh without one, where it splits nothing; other axes must be there.
func TestSpecsMayNameARing(t *testing.T) {
	without, err := mesh.Local(mesh.Axis{Name: "sp", Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	with, err := mesh.Local(mesh.Axis{Name: "ring", Size: 3}, mesh.Axis{Name: "sp", Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := sharding.NewSpec([]string{"ring", "sp"})
	for m, want := range map[*mesh.Mesh]int{without: 6, with: 2} {
		local, err := s.Local(m, []int{12})
		if err != nil || local[0] != want {
			t.Errorf("%s: local shape %v, %v: want %d", m, local, err, want)
		}
	}
	if got := s.Canonical(without, 1).String(); got != "[sp]" {
		t.Errorf("canonical without a ring: %s", got)
	}
	if got := s.Canonical(with, 1).String(); got != "[ring+sp]" {
		t.Errorf("canonical with a ring: %s", got)
	}
	if got := s.OnMesh(without).String() + s.OnMesh(with).String(); got != "[sp][ring+sp]" {
		t.Errorf("as shown: %s", got)
	}
	if err := sharding.NewSpec([]string{"rang"}).Check(without, []int{12}); !errors.Is(err, mesh.ErrUnknownAxis) {
		t.Errorf("an axis that nobody knows: %v", err)
	}
}
