package ltx_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/tensor"
)

const testdata = "../../testdata/"

func drop(names ...string) func(map[string]*tensor.Tensor) {
	return func(in map[string]*tensor.Tensor) {
		for _, n := range names {
			delete(in, n)
		}
	}
}

// The fixture with one noise level a video, and with one for every token. The
// peers' float32 rotary tables differ by what 2e-4 allows for.
var (
	oneLevel   = modeltest.Case{Dir: testdata + "ltx_video", Inputs: drop("t_tokens"), Tolerance: 2e-4}
	tokenLevel = modeltest.Case{Dir: testdata + "ltx_video", Inputs: drop("t"), Want: "out_tokens_t", Tolerance: 2e-4}
)

func TestEveryValueAlongTheWay(t *testing.T) {
	if n := oneLevel.Traced(t); n != 6 {
		t.Errorf("%d values along the way, want 6", n)
	}
}

// The answer on every legal mesh, the stream whole and split.
func TestFixturesOnEveryLegalMesh(t *testing.T) {
	for _, c := range []modeltest.Case{oneLevel, tokenLevel} {
		c.Everywhere(t)
		split := c
		split.Options = weft.Options{SplitResidual: true}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
	}
}
