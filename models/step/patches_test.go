package step_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/internal/numbers"
	"weft/models/step"
	"weft/program/cost"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

func numbered(shape ...int) *interp.Array {
	return meshtest.Fill(dtype.F32, func(i int) float64 { return float64(i + 1) }, shape...)
}

// Each token has what its frame has, wherever the split cuts, and without traffic.
func TestEveryTokenOnAnySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
		grid := step.Grid{Frames: n("frames", 6), Rows: n("rows", 3), Cols: n("cols", 4)}
		m := meshtest.Mesh(t, fmt.Sprintf("sp=%d,tp=%d", n("sp", 5), n("tp", 2)))
		axes := [][]string{{"sp"}, {"sp", "tp"}, nil}[rapid.IntRange(0, 2).Draw(t, "axes")]
		parts := 1
		if axes != nil {
			parts = m.Size(axes...)
		}
		padded := numbers.RoundUp(grid.Tokens(), parts*n("multiple", 4))
		x := numbered(2, grid.Frames, 3)
		p := meshtest.Build(t, m, func(b *spmd.Builder) {
			p := step.ProgramBuilder{Builder: b}
			b.Output("y", p.EveryToken(b.Input("x", dtype.F32, x.Shape, sharding.Whole(3)), grid, padded, sharding.NewSpec(nil, axes)), "")
		})
		y := meshtest.Interp(t, p, meshtest.Values{"x": x})["y"]
		for b := range 2 {
			for s := range grid.Tokens() {
				frame, _, _ := grid.At(s)
				for c := range 3 {
					want := float64(b*grid.Frames*3 + frame*3 + c + 1)
					if grid.Frames == 1 { // what is one for the video stays one
						if got := y.At(b*3 + c); got != want {
							t.Fatalf("video %d has %g, want %g", b, got, want)
						}
					} else if got := y.At((b*padded+s)*3 + c); got != want {
						t.Fatalf("video %d, token %d of %v on %s over %v: %g, want %g", b, s, grid, m, axes, got, want)
					}
				}
			}
		}
		if len(cost.Instances(p)) > 0 {
			t.Fatalf("%v", cost.Collectives(p))
		}
	})
}

// What Patches cuts Latents puts together, in any order of a patch's elements.
func TestPatchesAndLatents(t *testing.T) {
	patch, grid := [3]int{2, 3, 2}, step.Grid{Frames: 2, Rows: 1, Cols: 3}
	x := numbered(2, 3, 4, 3, 6)
	for _, on := range []string{"sp=1", "sp=4", "dp=2,sp=3"} {
		for _, order := range []string{"ctyx", "tyxc", "yxtc"} {
			p := meshtest.Build(t, meshtest.Mesh(t, on), func(b *spmd.Builder) {
				p := step.ProgramBuilder{Builder: b}
				spec := sharding.NewSpec(nil)
				if b.Mesh().Has("dp") {
					spec = sharding.NewSpec([]string{"dp"})
				}
				y := p.Patches(b.Input("x", dtype.F32, x.Shape, spec), patch, order)
				b.Output("tokens", y, "")
				y = b.Reshard(b.PadTo(y, 1, 12), spec.WithDim(1, "sp"), "split")
				b.Output("x", p.Latents(y, grid, patch, order), "")
			})
			out := meshtest.Interp(t, p, meshtest.Values{"x": x})
			if d := meshtest.Differ(out["x"], x, 0); d != "" {
				t.Errorf("%s %s: %s", on, order, d)
			}
			// The first two elements of the first token.
			first := map[string]float64{"ctyx": 2, "tyxc": 73, "yxtc": 73}[order] // the next column, the next channel
			if a, b := out["tokens"].At(0), out["tokens"].At(1); a != 1 || b != first {
				t.Errorf("%s: a patch begins %g %g", order, a, b)
			}
		}
	}
}

// Halves rotate, [a, b] to [a cos - b sin, b cos + a sin], by tables for all
// videos or for each, on any split without traffic.
func TestRopeHalves(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	x := meshtest.Fill(dtype.F32, func(int) float64 { return r.NormFloat64() }, 2, 3, 2, 4)
	for _, shape := range [][]int{{3, 4}, {2, 3, 4}, {2, 3, 2, 4}} {
		cos := numbered(shape...)
		sin := meshtest.Fill(dtype.F32, func(i int) float64 { return -2 * float64(i) }, shape...)
		at := func(i int) int { // of element i of x, in a table
			b, s, h, c := i/24, i/8%3, i/4%2, i%4
			switch len(shape) {
			case 2:
				return s*4 + c
			case 3:
				return (b*3+s)*4 + c
			}
			return ((b*3+s)*2+h)*4 + c
		}
		for _, on := range []string{"sp=1", "sp=3", "tp=2"} {
			p := meshtest.Build(t, meshtest.Mesh(t, on), func(b *spmd.Builder) {
				p := step.ProgramBuilder{Builder: b, Step: &step.Step{}}
				p.Step.Request.DType = dtype.F32
				var tokens, heads []string
				if b.Mesh().Has("sp") {
					tokens = []string{"sp"}
				} else {
					heads = []string{"tp"}
				}
				table := func(name string) spmd.Tensor {
					spec := sharding.NewSpec(nil, tokens)
					switch len(shape) {
					case 2:
						spec = sharding.NewSpec(tokens)
					case 4:
						spec = sharding.NewSpec(nil, tokens, heads)
					}
					return b.Input(name, dtype.F32, shape, spec)
				}
				b.Output("y", p.RopeHalves(b.Input("x", dtype.F32, x.Shape, sharding.NewSpec(nil, tokens, heads)), table("cos"), table("sin")), "")
			})
			y := meshtest.Interp(t, p, meshtest.Values{"x": x, "cos": cos, "sin": sin})["y"]
			for i := range x.Len() {
				c := i % 4
				turned := x.At(i - c + (c+2)%4)
				if c < 2 {
					turned = -turned
				}
				want := x.At(i)*cos.At(at(i)) + turned*sin.At(at(i))
				if d := y.At(i) - want; d > 1e-4 || d < -1e-4 {
					t.Fatalf("%s, tables %v: element %d is %g, want %g", on, shape, i, y.At(i), want)
				}
			}
			if len(cost.Instances(p)) > 0 {
				t.Errorf("%s, tables %v: %v", on, shape, cost.Collectives(p))
			}
		}
	}
}
