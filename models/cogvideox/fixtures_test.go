package cogvideox_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
)

var (
	twoB  = modeltest.Case{Dir: "../../testdata/cogvideox_2b", Tolerance: 1e-4}
	fiveB = modeltest.Case{Dir: "../../testdata/cogvideox_5b", Tolerance: 1e-4}
)

func TestEveryValueAlongTheWay(t *testing.T) {
	for _, c := range []struct {
		modeltest.Case
		values int
	}{{twoB, 5}, {fiveB, 7}} {
		if n := c.Traced(t); n != c.values {
			t.Errorf("%s: %d values along the way, want %d", c.Dir, n, c.values)
		}
	}
}

// The answer on every legal mesh, the stream whole and split.
func TestFixturesOnEveryLegalMesh(t *testing.T) {
	for _, c := range []modeltest.Case{twoB, fiveB} {
		meshes := c.Meshes(t, 8)
		if len(meshes) != 3 { // two heads: one device, tp=2, sp=2
			t.Errorf("%s: legal meshes are %v", c.Dir, meshes)
		}
		for _, on := range meshes {
			for _, device := range modeltest.Devices() {
				c.On(t, device, on)
			}
			split := c
			split.Options = weft.Options{SplitResidual: true}
			split.On(t, "reference", on)
		}
	}
}
