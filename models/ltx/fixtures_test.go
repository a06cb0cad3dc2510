package ltx_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
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

// Noise levels that are many, each embedded, give the answer of those that are few.
func TestManyLevels(t *testing.T) {
	many := tokenLevel
	many.Inputs = func(in map[string]*tensor.Tensor) {
		tokenLevel.Inputs(in)
		modeltest.OwnTimes(in, 6e-8)
	}
	many.Tolerance = 6e-4
	for _, c := range []struct {
		of   modeltest.Case
		want int
	}{{tokenLevel, 2}, {many, 0}} {
		in := modeltest.Tensors(t, testdata+"ltx_video/inputs.safetensors")
		c.of.Inputs(in)
		r, err := modeltest.Config(t, testdata+"ltx_video").Request(in)
		if err != nil || r.Times != c.want || !r.TokenTimes {
			t.Errorf("%+v, %v: want %d levels", r, err, c.want)
		}
	}
	for _, on := range []string{"", "dp=2", "tp=2,sp=2"} {
		many.On(t, "reference", on)
	}
}

func TestEveryValueAlongTheWay(t *testing.T) {
	if n := oneLevel.Traced(t); n != 6 {
		t.Errorf("%d values along the way, want 6", n)
	}
}

// The answer on every legal mesh, the stream whole and split.
func TestFixturesOnEveryLegalMesh(t *testing.T) {
	oneLevel.Everywhere(t)
	tokenLevel.Largely(t)
	for _, c := range []modeltest.Case{oneLevel, tokenLevel} {
		split := c
		split.Options = weft.Options{Request: request.Must("--split-residual")}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
	}
}

// LTX-2.5 by vidax's numbers, from testdata/make/ltx25.py.
var (
	second       = modeltest.Case{Dir: testdata + "ltx25", Inputs: drop("t_tokens"), Tolerance: 2e-4}
	secondTokens = modeltest.Case{Dir: testdata + "ltx25", Inputs: drop("t"), Want: "out_tokens_t", Tolerance: 2e-4}
	connector    = modeltest.Case{Dir: testdata + "ltx25_connector", Tolerance: 1e-4}
	unmasked     = modeltest.Case{Dir: testdata + "ltx25_connector", Inputs: drop("context_mask"), Want: "out_nomask", Tolerance: 1e-4}
)

func TestSecondOnEveryLegalMesh(t *testing.T) {
	if n := second.Traced(t); n != 5 {
		t.Errorf("%d values along the way, want 5", n)
	}
	for _, c := range []modeltest.Case{second, secondTokens, connector, unmasked} {
		c.Largely(t)
		c.On(t, "reference", "pp=2")
		split := c
		split.Options = weft.Options{Request: request.Must("--split-residual")}
		split.On(t, "reference", "tp=2,sp=2")
	}
}
