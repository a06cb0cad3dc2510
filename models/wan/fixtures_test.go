package wan_test

import (
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
	"weft/tensor"
)

const (
	i2vDir  = "../../testdata/wan21_i2v"
	ti2vDir = "../../testdata/wan22_ti2v"
)

func uniform(in map[string]*tensor.Tensor) { delete(in, "t_tokens") }

func ownTimes(in map[string]*tensor.Tensor) { modeltest.OwnTimes(in, 3e-5) }

var (
	i2v       = modeltest.Case{Dir: i2vDir, Tolerance: 1e-4}
	ti2v      = modeltest.Case{Dir: ti2vDir, Tolerance: 1e-4}
	manyTimes = modeltest.Case{Dir: ti2vDir, Inputs: ownTimes, Tolerance: 4e-4}
	oneTime   = modeltest.Case{Dir: ti2vDir, Want: "out_uniform_t", Inputs: uniform, Tolerance: 1e-4}
)

func TestVariantsGiveEveryValueAlongTheWay(t *testing.T) {
	if n := i2v.Traced(t); n != 7 {
		t.Errorf("i2v: %d values along the way, want 7", n)
	}
	// Of few timesteps there is no embedding of every token.
	if n := ti2v.Traced(t); n != 4 {
		t.Errorf("ti2v: %d values along the way, want 4", n)
	}
	if n := manyTimes.Traced(t); n != 6 {
		t.Errorf("ti2v, many timesteps: %d values along the way, want 6", n)
	}
}

// Timesteps that are few are embedded once each; that many are not changes no answer. Two
// videos of a batch have their own.
func TestFewTimesAndMany(t *testing.T) {
	m := modeltest.Config(t, ti2vDir)
	for _, c := range []struct {
		of   modeltest.Case
		want int
	}{{ti2v, 2}, {manyTimes, 0}} {
		in := modeltest.Tensors(t, ti2vDir+"/inputs.safetensors")
		if c.of.Inputs != nil {
			c.of.Inputs(in)
		}
		r, err := m.Request(in)
		if err != nil || r.Times != c.want || !r.TokenTimes {
			t.Errorf("%+v, %v: want %d times", r, err, c.want)
		}
		for _, on := range []string{"", "tp=2", "sp=2", "pp=2"} {
			c.of.On(t, "reference", on)
		}
	}
	split := manyTimes
	split.Options = weft.Options{Request: request.Must("--split-residual")}
	split.On(t, "reference", "tp=2")

	both, err := m.Example(2, nil, 5)
	if err != nil {
		t.Fatal(err)
	}
	few := modeltest.Forward(t, modeltest.Open(t, ti2vDir), both, weft.Options{Device: "reference", Request: request.Must("--mesh dp=2,sp=2")})["out"]
	ownTimes(both)
	modeltest.Close(t, "two videos", modeltest.Forward(t, modeltest.Open(t, ti2vDir), both, weft.Options{Device: "reference"})["out"], few, 4e-4)
}

// The answer on every legal mesh, the stream whole and split.
func TestVariantsOnEveryLegalMesh(t *testing.T) {
	for _, c := range []modeltest.Case{i2v, ti2v, oneTime} {
		c.Everywhere(t)
		split := c
		split.Options = weft.Options{Request: request.Must("--split-residual")}
		for _, on := range split.Meshes(t, 8) {
			split.On(t, "reference", on)
		}
	}
}
