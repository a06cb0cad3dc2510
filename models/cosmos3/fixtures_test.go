package cosmos3_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

const (
	nanoDir = "../../testdata/cosmos3_nano"
	edgeDir = "../../testdata/cosmos3_edge"
)

// given takes the variant in which the first frame is given.
func given(in map[string]*tensor.Tensor) {
	in["noisy_mask"] = in["noisy_mask_first_given"]
	delete(in, "noisy_mask_first_given")
}

var cases = []modeltest.Case{
	{Dir: nanoDir, Tolerance: 1e-4},
	{Dir: nanoDir, Want: "out_first_given", Inputs: given, Tolerance: 1e-4},
	{Dir: edgeDir, Tolerance: 1e-4},
	{Dir: edgeDir, Want: "out_first_given", Inputs: given, Tolerance: 1e-4},
}

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	for _, name := range []string{"cosmos3-nano", "cosmos3-edge"} {
		modeltest.Oracle(t, name, "../../testdata/oracle/"+name+".json")
		modeltest.Mapping(t, name, "../../testdata/oracle/mappings/"+name+".json", "")
	}
}

// Both streams of both layers, with the first frame given.
func TestEveryValueAlongTheWay(t *testing.T) {
	for _, c := range []modeltest.Case{cases[1], cases[3]} {
		if n := c.Traced(t); n != 4 {
			t.Errorf("%s: %d values along the way, want 4", c.Dir, n)
		}
	}
}

// Two key heads on up to four devices: whole, split, and copied.
func TestEveryLegalMesh(t *testing.T) {
	for _, c := range cases {
		c.Everywhere(t)
		split := c
		split.Options = weft.Options{Request: request.Must("--split-residual")}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
		c.On(t, "reference", "pp=2,tp=2")
		shared := c
		shared.Options = weft.Options{Request: request.Must("--fsdp sp")}
		shared.On(t, "reference", "tp=2,sp=2")
		copied := modeltest.Case{Dir: c.Dir, Want: c.Want, Inputs: c.Inputs, Tolerance: c.Tolerance, Options: weft.Options{Request: request.Must("--fsdp fsdp")}}
		copied.On(t, "reference", "tp=4,fsdp=2") // shares of copied heads
	}
}

// The positions that the fixture gives are those made where none are, at its
// frame rate or the base rate.
func TestPositionsOfOurOwn(t *testing.T) {
	c := cases[2] // at 24 frames a second, the base rate
	c.Inputs = func(in map[string]*tensor.Tensor) {
		delete(in, "und_position_ids")
		delete(in, "gen_position_ids")
	}
	c.On(t, "reference", "")
}

func TestRunsEverythingTheInputsAllow(t *testing.T) {
	m := modeltest.Open(t, nanoDir)
	in := modeltest.Tensors(t, nanoDir+"/inputs.safetensors")
	runs := models.Runs(m.Model, in)
	if len(runs) != 2 || runs[0].Suffix != "" || runs[1].Suffix != "_first_given" {
		t.Fatalf("%d runs", len(runs))
	}
	want := modeltest.Tensors(t, nanoDir+"/expected.safetensors")
	for _, r := range runs {
		out := modeltest.Forward(t, m, r.Inputs, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})
		modeltest.Close(t, "out"+r.Suffix, out["out"], want["out"+r.Suffix], 1e-4)
	}
}
