package hunyuan_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
)

const testdata = "../../testdata/"

var fixture = modeltest.Case{Dir: testdata + "hunyuan_video", Tolerance: 1e-4}

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	for _, name := range []string{"hunyuanvideo", "hunyuanvideo-cfgdistill"} {
		modeltest.Oracle(t, name, testdata+"oracle/"+name+".json")
	}
}

// The padded rows of the text's stream differ between programs and feed nothing.
func TestEveryValueAlongTheWay(t *testing.T) {
	if n := fixture.Traced(t); n != 7 {
		t.Errorf("%d values along the way, want 7", n)
	}
}

// The answer on every legal mesh, the stream whole and split.
func TestFixtureOnEveryLegalMesh(t *testing.T) {
	if got := fixture.Meshes(t, 8); len(got) != 3 { // two heads, batch 1
		t.Errorf("legal meshes are %v", got)
	}
	fixture.Everywhere(t)
	split := fixture
	split.Options = weft.Options{Request: request.Must("--split-residual")}
	for _, on := range split.Meshes(t, 8) {
		split.On(t, "reference", on)
	}
}

// README.md's figure: bf16 weights that a device keeps less at tp=4.
func TestSaved(t *testing.T) {
	for name, want := range map[string]int64{"hunyuanvideo": 5398004736, "hunyuanvideo-cfgdistill": 5413349376} {
		if got := modeltest.Saved(t, name, 4); got != want {
			t.Errorf("%s: %d bytes, README.md says %d", name, got, want)
		}
	}
}
