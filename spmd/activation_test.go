package spmd_test

import (
	"math"
	"testing"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/program/interp"
	"weft/spmd"
)

// Against math.Erf on a grid beyond both ends of the approximation: 4e-7 for erf
// (3 units of f32 at 1), and for gelu as much of |x|/2 and a rounding of x.
func TestErfAndGelu(t *testing.T) {
	const n = 4001
	at := func(i int) float64 { return float64(float32(float64(i-n/2) / 300)) } // -6.7 to 6.7
	p := meshtest.Build(t, meshtest.Mesh(t, "a=1"), func(b *spmd.Builder) {
		x := b.Input("x", dtype.F32, []int{n}, layoutOf(""))
		b.Output("erf", b.Erf(x), "")
		b.Output("gelu", b.Gelu(x), "")
	})
	out := meshtest.Interp(t, p, map[string]*interp.Array{"x": meshtest.Fill(dtype.F32, at, n)})
	worst := [2]float64{}
	for i := range n {
		x := at(i)
		worst[0] = max(worst[0], math.Abs(out["erf"].At(i)-math.Erf(x)))
		d := math.Abs(out["gelu"].At(i) - x/2*(1+math.Erf(x/math.Sqrt2)))
		worst[1] = max(worst[1], d/(1+math.Abs(x)))
	}
	if worst[0] > 4e-7 || worst[1] > 4e-7 {
		t.Errorf("erf is off by %g, gelu by %g of 1+|x|", worst[0], worst[1])
	}
	t.Logf("erf is off by %g, gelu by %g of 1+|x|", worst[0], worst[1])
}
