package wan

import (
	"os"
	"testing"

	"weft/dtype"
	"weft/mesh"
	"weft/models"
)

func fixture(t testing.TB) models.Model {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/wan21_t2v/config.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.FromConfig(raw, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGraphBuildsOnEveryLegalMesh(t *testing.T) {
	m := fixture(t)
	built := 0
	for dp := 1; dp <= 2; dp++ {
		for tp := 1; tp <= 8; tp++ {
			for sp := 1; sp*tp*dp <= 8; sp++ {
				on, err := mesh.Local(mesh.Axis{Name: "dp", Size: dp}, mesh.Axis{Name: "tp", Size: tp}, mesh.Axis{Name: "sp", Size: sp})
				if err != nil {
					t.Fatal(err)
				}
				for _, split := range []bool{false, true} {
					r := models.Request{Batch: 2, Latent: []int{16, 3, 8, 8}, Text: 11, DType: dtype.F32, SplitResidual: split}
					_, err = m.Graph(on, r)
					legal := m.Check(on, r) == nil
					if (err == nil) != legal {
						t.Errorf("%v split=%v: legal %v, graph: %v", on, split, legal, err)
					}
					if legal {
						built++
					}
				}
			}
		}
	}
	if built != 2*(3+3+2+2+2) {
		t.Logf("built %d", built)
	}
}
