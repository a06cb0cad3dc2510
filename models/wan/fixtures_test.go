package wan_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/tensor"
)

const (
	i2vDir  = "../../testdata/wan21_i2v"
	ti2vDir = "../../testdata/wan22_ti2v"
)

func uniform(in map[string]*tensor.Tensor) { delete(in, "t_tokens") }

var (
	i2v     = modeltest.Case{Dir: i2vDir, Tolerance: 1e-4}
	ti2v    = modeltest.Case{Dir: ti2vDir, Tolerance: 1e-4}
	oneTime = modeltest.Case{Dir: ti2vDir, Want: "out_uniform_t", Inputs: uniform, Tolerance: 1e-4}
)

func TestVariantsGiveEveryValueAlongTheWay(t *testing.T) {
	if n := i2v.Traced(t); n != 7 {
		t.Errorf("i2v: %d values along the way, want 7", n)
	}
	if n := ti2v.Traced(t); n != 6 {
		t.Errorf("ti2v: %d values along the way, want 6", n)
	}
}

// The answer on every legal mesh, the stream whole and split.
func TestVariantsOnEveryLegalMesh(t *testing.T) {
	for _, c := range []modeltest.Case{i2v, ti2v, oneTime} {
		c.Everywhere(t)
		split := c
		split.Options = weft.Options{SplitResidual: true}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
	}
}
