package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/checkpoint"
	"weft/dtype"
	"weft/engine"
	"weft/graph"
	"weft/internal/meshtest"
	"weft/program"
	"weft/program/interp"
	"weft/session"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// wide is the side of the weights of heavyText: 17 MB each in f32.
const wide, heavyLayers = 2048, 5

// heavyText is a step whose request reads 84 MB of weights, to make one column of each, and whose
// step reads as much.
func heavyText(t testing.TB) (*graph.Graph, string) {
	m := meshtest.Mesh(t, "tp=1")
	whole := sharding.Whole(2)
	p := meshtest.Build(t, m, func(b *spmd.Builder) {
		x := b.Input("x", dtype.F32, []int{wide, 1}, whole)
		w := b.Input("w", dtype.F32, []int{wide, wide}, whole)
		b.Output("y", b.Add(x, b.Sum(w, -1)), "")
	})
	g := &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"rows": p}, Inputs: []graph.Input{
		{Name: "text", DType: dtype.F32, Shape: []int{wide, 1}, Spec: whole}, {Name: "latent", DType: dtype.F32, Shape: []int{wide, 1}, Spec: whole, Step: true}}}
	all := map[string]*tensor.Tensor{}
	from := map[bool]string{true: "text", false: "latent"}
	for _, request := range []bool{true, false} {
		for i := range heavyLayers {
			name, out := fmt.Sprintf("blocks.%d.%v", i, request), fmt.Sprintf("y.%v.%d", request, i)
			g.Weights = append(g.Weights, graph.Weight{Name: name, File: []int{wide, wide}, Shape: []int{wide, wide}, DType: dtype.F32, Spec: whole})
			g.Calls = append(g.Calls, graph.Call{Name: name, Program: "rows", Request: request, Layer: fmt.Sprint("blocks.", i),
				Args: []graph.Ref{{Name: from[request]}, {Name: name, Weight: true}}, Outs: []string{out}})
			from[request] = out
			if all[name] = tensor.New(dtype.F32, wide, wide); i == 0 { // one of them is not zero
				all[name].Data[2], all[name].Data[3] = 0x80, 0x3f
			}
		}
	}
	g.Outputs = []graph.Output{{Name: "kept", Value: from[true]}, {Name: "made", Value: from[false]}}
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := checkpoint.Write(path, all, nil, checkpoint.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return g, path
}

// residentBytes is the process's resident memory.
func residentBytes(t testing.TB) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("this system does not tell a process's resident memory")
	}
	_, after, _ := strings.Cut(string(b), "VmRSS:")
	var n int64
	if _, err := fmt.Sscanf(after, "%d kB", &n); err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// settledBytes is the resident memory once it has stopped to fall.
func settledBytes(t testing.TB) int64 {
	least, at := residentBytes(t), time.Now()
	for time.Since(at) < 300*time.Millisecond {
		if n := residentBytes(t); n < least {
			least, at = n, time.Now()
		}
		time.Sleep(5 * time.Millisecond)
	}
	return least
}

// Memory of weights that leave goes back to the system: weights as large follow, and the process's
// resident memory does not rise, within 5 % and what programs take as they first run. A second
// request leaves no more than the first. With streamed weights none of them is ever there.
func TestMemoryOfLeaversGoesBack(t *testing.T) {
	g, path := heavyText(t)
	const leaving = int64(heavyLayers * wide * wide * 4)
	for name, open := range map[string]func(t *testing.T) engine.Engine{
		"reference": func(*testing.T) engine.Engine { return engine.NewReference(1, interp.Options{}) },
		"xla":       func(t *testing.T) engine.Engine { return meshtest.XLA(t) },
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			for _, o := range []graph.Offload{{}, {Stream: true, Depth: 1}} {
				c, err := checkpoint.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				s, err := session.New(t.Context(), g, e, nil)
				if err != nil {
					t.Fatal(err)
				}
				before := settledBytes(t)
				if err := s.LoadOffloaded(t.Context(), c, func(name string) string { return name }, o, nil); err != nil {
					t.Fatal(err)
				}
				loaded := settledBytes(t)
				var after [2]int64
				for i := range after {
					for _, step := range []bool{false, true} {
						in := map[string]*tensor.Tensor{"latent": tensor.New(dtype.F32, wide, 1)}
						if !step {
							in["text"] = tensor.New(dtype.F32, wide, 1)
						}
						if err := s.Feed(t.Context(), "a", in); err != nil {
							t.Fatal(err)
						}
						if _, err := s.Run(t.Context(), []string{"a"}, session.RunOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					after[i] = settledBytes(t)
				}
				t.Logf("%+v: %d MB before, %d MB loaded, %d and %d MB after a request", o, before>>20, loaded>>20, after[0]>>20, after[1]>>20)
				const within, ofPrograms = leaving / 20, 48 << 20
				if rose := after[0] - loaded; !o.Stream && rose > within+ofPrograms {
					t.Errorf("resident memory rose by %d bytes: what follows is as large as the %d that leave", rose, leaving)
				}
				if inHeap := name == "reference" && o.Stream; !inHeap && after[1] > after[0]+within { // the interpreter has its copies in the collector's heap
					t.Errorf("%d bytes after the second request, %d after the first", after[1], after[0])
				}
				if o.Stream && name != "reference" && after[1]-before > 2*leaving/heavyLayers+within {
					t.Errorf("%d bytes more than before loading, two slots are %d", after[1]-before, 2*leaving/heavyLayers)
				}
				s.Close()
				if n := settledBytes(t); n > after[1]-leaving+within && !o.Stream {
					t.Errorf("%d bytes after a session with weights of %d was closed, %d before", n, leaving, after[1])
				}
			}
		})
	}
}
