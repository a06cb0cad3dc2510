package hunyuan_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/tensor"
)

var (
	fixture15 = modeltest.Case{Dir: testdata + "hunyuan15", Tolerance: 1e-4}
	// Text-to-video, of which the peers' inputs are zeros for the image's.
	text15 = modeltest.Case{Dir: testdata + "hunyuan15", Want: "out_t2v", Tolerance: 1e-4, Inputs: without("y", "vision")}
)

func without(names ...string) func(map[string]*tensor.Tensor) {
	return func(in map[string]*tensor.Tensor) {
		for _, n := range names {
			delete(in, n)
		}
	}
}

func TestPeerSpecsAndNames15(t *testing.T) {
	modeltest.Oracle(t, "hunyuan1.5", testdata+"oracle/hunyuan1.5.json")
	modeltest.Mapping(t, "hunyuan1.5", testdata+"oracle/mappings/hunyuan1.5.json", "")
}

// The patches, the time, the refined text and both layers' video. The peers' rows
// of text are in another order, which nothing depends on.
func TestEveryValueAlongTheWay15(t *testing.T) {
	if n := fixture15.Traced(t); n != 5 {
		t.Errorf("%d values along the way, want 5", n)
	}
}

// Four heads, batch 2. The peers sort the text's rows, the real ones first: a mask
// over them where they are gives the same.
func TestFixtureOnEveryLegalMesh15(t *testing.T) {
	if got := fixture15.Meshes(t, 8); len(got) != 12 {
		t.Errorf("legal meshes are %v", got)
	}
	fixture15.Everywhere(t)
	text15.Largely(t)
	split := fixture15
	split.Options = weft.Options{SplitResidual: true}
	for _, on := range []string{"tp=2,sp=2", "dp=2,tp=4"} {
		split.On(t, "reference", on)
	}
}
