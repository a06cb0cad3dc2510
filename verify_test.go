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
