package weft

import (
	"context"
	"testing"

	"weft/tensor"
)

const (
	i2vDir  = "testdata/wan21_i2v"
	ti2vDir = "testdata/wan22_ti2v"
)

// wanCase is a fixture's inputs and the name of what they give.
type wanCase struct {
	dir, out string
	drop     string // an input left out
	traced   int    // values along the way
}

var wanCases = []wanCase{
	{i2vDir, "out", "", 7},
	{ti2vDir, "out", "", 6},
	{ti2vDir, "out_uniform_t", "t_tokens", 6},
}

func (c wanCase) load(t *testing.T) (in, want map[string]*tensor.Tensor) {
	t.Helper()
	in, want = mustTensors(t, c.dir+"/inputs.safetensors"), mustTensors(t, c.dir+"/expected.safetensors")
	delete(in, c.drop)
	return in, want
}

// Every value along the way on one device, and the answer on every legal mesh,
// the stream whole and split.
func TestWanVariantsOnEveryLegalMesh(t *testing.T) {
	ctx := context.Background()
	for _, c := range wanCases {
		m := open(t, c.dir)
		in, want := c.load(t)
		r, err := m.Start(ctx, in, Options{Device: "reference"})
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		_, err = r.Trace(ctx, func(name string, x *tensor.Tensor) error {
			seen++
			if c.drop == "" { // the values along the way are of the first case
				compareTo(t, c.dir+" "+name, x, want[name], 1e-4)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if seen != c.traced {
			t.Errorf("%s: %d values along the way, want %d", c.dir, seen, c.traced)
		}
		for _, on := range legalTexts(t, m, in, 8) {
			for _, split := range []bool{false, true} {
				out := forward(t, m, in, Options{Device: "reference", Mesh: on, SplitResidual: split})
				compareTo(t, c.dir+" "+c.out+" "+on, out["out"], want[c.out], 1e-4)
			}
		}
	}
}

func TestWanVariantsThroughXLA(t *testing.T) {
	xla(t)
	for i, meshes := range [][]string{{"tp=3", "sp=3"}, {"tp=2", "sp=2"}, {""}} {
		c := wanCases[i]
		m := open(t, c.dir)
		in, want := c.load(t)
		for _, on := range meshes {
			out := forward(t, m, in, Options{Device: "cpu", Mesh: on})
			compareTo(t, c.dir+" "+c.out+" "+on, out["out"], want[c.out], 1e-4)
		}
	}
}
