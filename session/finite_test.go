package session_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weft/checkpoint"
	"weft/dtype"
	"weft/engine"
	"weft/graph"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/nonfinite"
	"weft/program"
	"weft/program/interp"
	"weft/session"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// passOn is a step whose output is its input, (4, 12) in a layout, of which crop is kept.
func passOn(t testing.TB, m *mesh.Mesh, d dtype.DType, spec sharding.Spec, crop []int) *graph.Graph {
	p := meshtest.Build(t, m, func(b *spmd.Builder) { b.Output("y", b.Scale(b.Input("x", d, []int{4, 12}, spec), 1), "") })
	return &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"pass": p},
		Inputs:  []graph.Input{{Name: "x", DType: d, Shape: []int{4, 12}, Spec: spec, Step: true}},
		Calls:   []graph.Call{{Name: "pass", Program: "pass", Args: []graph.Ref{{Name: "x"}}, Outs: []string{"y"}}},
		Outputs: []graph.Output{{Name: "out", Value: "y", Shape: crop}}}
}

// emptyCheckpoint has no weights that a graph reads.
func emptyCheckpoint(t testing.TB) *checkpoint.Checkpoint {
	path := t.TempDir() + "/w.safetensors"
	if err := checkpoint.Write(path, map[string]*tensor.Tensor{"other": filled(t, 1)}, nil, checkpoint.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// finiteSession is a session of a graph without weights.
func finiteSession(t testing.TB, e engine.Engine, g *graph.Graph, c *checkpoint.Checkpoint) *session.Session {
	s, err := session.New(t.Context(), g, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.Load(t.Context(), c, func(name string) string { return name }, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// lookAt runs a step on x and gives what the devices saw.
func lookAt(t interface{ Fatal(...any) }, s *session.Session, tt testing.TB, x *tensor.Tensor) nonfinite.Counts {
	var seen []nonfinite.Counts
	if err := s.Feed(tt.Context(), "a", map[string]*tensor.Tensor{"x": x}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Run(tt.Context(), []string{"a"}, session.RunOptions{Finite: func(_ string, c nonfinite.Counts) error { seen = append(seen, c); return nil }})
	if err != nil || len(seen) != 1 {
		t.Fatal(seen, err)
	}
	return seen[0]
}

// The devices count the values of an output that are NaN or infinite: in every layout, each value
// once though several devices hold it, and those that only pad the output not at all. The largest
// finite values are none of them.
func TestDevicesCountNonFiniteValues(t *testing.T) {
	c := emptyCheckpoint(t)
	engines := map[string]func(n int) engine.Engine{"reference": func(n int) engine.Engine { return engine.NewReference(n, interp.Options{}) },
		"xla": func(int) engine.Engine { return meshtest.XLA(t) }}
	for _, layout := range []struct {
		mesh string
		spec sharding.Spec
	}{
		{"tp=1", sharding.Whole(2)},
		{"tp=2", byColumns},
		{"tp=2", sharding.Whole(2)}, // replicated
		{"sp=4", sharding.NewSpec(nil, []string{"sp"})},
		{"dp=2,tp=3", sharding.NewSpec([]string{"dp"}, []string{"tp"})},
		{"dp=2,sp=2", sharding.NewSpec([]string{"dp"})}, // replicated over sp
		{"dp=2,tp=2", sharding.NewSpec(nil, []string{"dp", "tp"})},
	} {
		for name, open := range engines {
			m := meshtest.Mesh(t, layout.mesh)
			e := open(m.NumDevices())
			for _, d := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F16} {
				for _, crop := range [][]int{nil, {4, 7}, {3, 12}} {
					if name == "xla" && (d == dtype.F16 || crop != nil && crop[1] == 12 || d == dtype.BF16 && len(m.Axes()) == 2) {
						continue // each is a program to compile
					}
					s := finiteSession(t, e, passOn(t, m, d, layout.spec, crop), c)
					rapid.Check(t, func(rt *rapid.T) {
						values, want := make([]float32, 48), 0
						largest := map[dtype.DType]float32{dtype.F32: math.MaxFloat32, dtype.BF16: math.Float32frombits(0x7f7f0000), dtype.F16: 65504}[d]
						var first []int
						for i := range values {
							inside := crop == nil || i/12 < crop[0] && i%12 < crop[1]
							switch rapid.IntRange(0, 9).Draw(rt, "kind") {
							case 0:
								values[i] = float32(math.NaN())
							case 1:
								values[i] = float32(math.Inf(1))
							case 2:
								values[i] = float32(math.Inf(-1))
							case 3:
								values[i] = -largest
								continue
							default:
								values[i] = float32(i)
								continue
							}
							if inside {
								if want++; first == nil {
									first = []int{i / 12, i % 12}
								}
							}
						}
						x, err := tensor.FromFloat32s(d, values, 4, 12)
						if err != nil {
							rt.Fatal(err)
						}
						got := lookAt(rt, s, t, x)
						if got.Count != want || !slices.Equal(got.First, first) || (len(got.Devices) > 0) != (want > 0) || got.DType != d {
							rt.Fatalf("%s %v crop %v on %s: %+v; want %d, the first at %v, of %v", layout.mesh, layout.spec, crop, name, got, want, first, values)
						}
					})
					s.Close()
				}
			}
		}
	}
}

// A device whose copy of a replicated output differs is heard, though the host reads the copy of
// another.
func TestOneDevicesCopyIsNotFinite(t *testing.T) {
	m := meshtest.Mesh(t, "dp=2,tp=2")
	whole := sharding.Whole(2)
	p := meshtest.Build(t, m, func(b *spmd.Builder) {
		x := b.Local(b.Input("x", dtype.F32, []int{rows, columns}, whole))
		bad := b.LCompare("EQ", b.LAxisIndex("dp", "tp"), b.LConst(dtype.I32, 2))
		b.Output("y", b.Global(b.LSelect(bad, b.LConst(dtype.F32, math.NaN(), rows, columns), x), []int{rows, columns}, whole), "")
	})
	g := &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"p": p}, Inputs: []graph.Input{{Name: "x", DType: dtype.F32, Shape: []int{rows, columns}, Spec: whole, Step: true}},
		Calls: []graph.Call{{Name: "p", Program: "p", Args: []graph.Ref{{Name: "x"}}, Outs: []string{"y"}}}, Outputs: []graph.Output{{Name: "out", Value: "y"}}}
	c := emptyCheckpoint(t)
	for name, e := range map[string]engine.Engine{"reference": engine.NewReference(4, interp.Options{}), "xla": meshtest.XLA(t)} {
		seen := lookAt(t, finiteSession(t, e, g, c), t, filled(t, 1))
		if seen.Count != rows*columns || seen.First != nil || !slices.Equal(seen.Devices, []int{m.Devices()[2].ID}) {
			t.Errorf("%s: %+v", name, seen)
		}
		allowing := nonfinite.Checker{}
		err := allowing.CheckCounts(nonfinite.Found{Of: "velocity"}, seen)
		if want := fmt.Sprintf("on devices [%d] alone", seen.Devices[0]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkFiniteCheck measures what looking at the latents of a video of 832 x 480 and 81 frames
// adds to a step, beside handing them over.
func BenchmarkFiniteCheck(b *testing.B) {
	shape := []int{1, 16, 21, 60, 104}
	m := meshtest.Mesh(b, "tp=1")
	p := meshtest.Build(b, m, func(bd *spmd.Builder) {
		bd.Output("y", bd.Scale(bd.Input("x", dtype.F32, shape, sharding.Whole(5)), 2), "")
	})
	g := &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"p": p}, Inputs: []graph.Input{{Name: "x", DType: dtype.F32, Shape: shape, Spec: sharding.Whole(5), Step: true}},
		Calls: []graph.Call{{Name: "p", Program: "p", Args: []graph.Ref{{Name: "x"}}, Outs: []string{"y"}}}, Outputs: []graph.Output{{Name: "out", Value: "y"}}}
	s := finiteSession(b, meshtest.XLA(b), g, emptyCheckpoint(b))
	x := tensor.New(dtype.F32, shape...)
	for _, looks := range []bool{false, true} {
		b.Run(fmt.Sprintf("looks=%v", looks), func(b *testing.B) {
			o := session.RunOptions{}
			if looks {
				o.Finite = func(string, nonfinite.Counts) error { return nil }
			}
			least := time.Hour // which other work on the machine does not change
			for range b.N {
				if err := s.Feed(b.Context(), "a", map[string]*tensor.Tensor{"x": x}); err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				if _, err := s.Run(b.Context(), []string{"a"}, o); err != nil {
					b.Fatal(err)
				}
				least = min(least, time.Since(start))
			}
			b.ReportMetric(float64(least.Microseconds()), "least-us")
		})
	}
}
