package weft_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/request"
)

// The tolerance of verify is the documented one, of the layers that run: however
// many values are compared along the way.
func TestVerifyToleranceIsThatOfTheLayers(t *testing.T) {
	for _, c := range []struct {
		dir    string
		layers int // of the options
		run    int
	}{
		{wanDir, 0, 2}, {wanDir, 1, 1}, {wanDir, 5, 2}, {"testdata/umt5", 0, 2}, {"testdata/gemma4", 0, 6}, {"testdata/gemma4", 3, 3},
		{"testdata/wan21_vae", 0, 0}, // its residual blocks
	} {
		m := modeltest.Open(t, c.dir)
		got, err := m.Verify(context.Background(), weft.VerifyOptions{Meshes: request.MustMeshes("dp=2"), Options: weft.Options{Device: "reference", Request: request.Must("--layers=" + fmt.Sprint(c.layers))}})
		if err != nil {
			t.Fatal(c.dir, err)
		}
		rs, run := got.Results, c.run
		if run == 0 {
			run = m.Config().(interface{ Blocks() int }).Blocks()
		}
		if want := 1e-5 * math.Sqrt(float64(run)); rs[0].Tolerance != want || rs[0].Tolerance != weft.Tolerance(dtype.F32, run) || !rs[0].OK {
			t.Errorf("%s, %d layers: %+v, want a tolerance of %g", c.dir, c.layers, rs[0], want)
		}
	}
}

// Gemma's scores are not divided by the root of the heads' width: in bf16 its splits are further
// apart than the tolerance of other models, and no further than bf16 is from f32. In f32, and for
// models whose scores are divided, nothing of it is asked.
func TestVerifyOfASensitiveModel(t *testing.T) {
	for _, c := range []struct {
		dir, dtype string
		asks       bool
	}{{"testdata/gemma4", "bf16", true}, {"testdata/gemma4", "f32", false}, {wanDir, "bf16", false}} {
		m := modeltest.Open(t, c.dir)
		v, err := m.Verify(t.Context(), weft.VerifyOptions{Devices: 4, Options: weft.Options{Device: "reference", Request: request.Must("--dtype " + c.dtype)}})
		if err != nil {
			t.Fatal(err)
		}
		asked := false
		for _, r := range v.Results {
			if !r.OK || r.MaxRelDiff > r.Tolerance {
				t.Errorf("%s in %s: %+v", c.dir, c.dtype, r)
			}
			asked = asked || r.BF16Moves > 0
			if r.BF16Moves > 0 && (r.Tolerance > 2*r.BF16Moves || r.Tolerance > 0.1) {
				t.Errorf("%s in %s: %+v", c.dir, c.dtype, r)
			}
		}
		if asked != c.asks {
			t.Errorf("%s in %s: bf16 is asked for: %v", c.dir, c.dtype, asked)
		}
	}
}
