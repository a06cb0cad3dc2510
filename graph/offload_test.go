package graph_test

import (
	"fmt"
	"testing"

	"weft/graph"
	"weft/internal/meshtest"
	"weft/program"
)

// twoCallsALayer is a step of n layers of two calls each, "kv" and "block", on tp=2, with a text
// that a request-only call of each layer reads, and a weight that all blocks share.
func twoCallsALayer(t testing.TB, n int) *graph.Graph {
	m := meshtest.Mesh(t, "tp=2")
	one := addProgram(t, m, "", "x", "w")
	g := &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"text": one, "kv": one, "block": addProgram(t, m, "", "h", "kv", "w", "all")},
		Inputs: []graph.Input{input("text", false), input("latent", true)}, Weights: []graph.Weight{weight("all")}}
	layer := func(i int) string { return fmt.Sprintf("blocks.%d.", i) }
	for i := range n {
		g.Weights = append(g.Weights, weight(layer(i)+"text"), weight(layer(i)+"kv"), weight(layer(i)+"w"))
		g.Calls = append(g.Calls, graph.Call{Name: fmt.Sprint("text ", i), Program: "text", Layer: layer(i), Request: true,
			Args: []graph.Ref{value("text"), param(layer(i) + "text")}, Outs: []string{fmt.Sprint("t", i)}})
	}
	for i := range n {
		g.Calls = append(g.Calls, graph.Call{Name: fmt.Sprint("kv ", i), Program: "kv", Layer: layer(i),
			Args: []graph.Ref{value(fmt.Sprint("t", i)), param(layer(i) + "kv")}, Outs: []string{fmt.Sprint("k", i)}})
	}
	h := "latent"
	for i := range n {
		g.Calls = append(g.Calls, graph.Call{Name: fmt.Sprint("block ", i), Program: "block", Layer: layer(i),
			Args: []graph.Ref{value(h), value(fmt.Sprint("k", i)), param(layer(i) + "w"), param("all")}, Outs: []string{fmt.Sprint("h", i)}})
		h = fmt.Sprint("h", i)
	}
	g.Outputs = []graph.Output{{Name: "out", Value: h}}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	return g
}

// A layer's calls keep their weights together; what several calls read stays, and what only the
// request reads leaves, or is streamed where layers are. Where something leaves, what only steps
// read follows.
func TestPlace(t *testing.T) {
	const n, half = 3, rows * columns / 2 * 4
	g := twoCallsALayer(t, n)
	for _, c := range []struct {
		o      graph.Offload
		kept   int // layers
		memory graph.WeightMemory
	}{
		{graph.Offload{}, n, graph.WeightMemory{Stay: 7 * half, Leave: 3 * half, Follow: 7 * half}},
		{graph.Offload{Stream: true, Depth: 1}, 0, graph.WeightMemory{Stay: half, Slots: 2 * half, SlotCount: 2, Step: 6 * half, Request: 3 * half}},
		{graph.Offload{Stream: true, Keep: 1, Depth: 9}, 1, graph.WeightMemory{Stay: 3 * half, Slots: 4 * half, SlotCount: 4, Step: 4 * half, Request: 3 * half}},
		{graph.Offload{Stream: true, Keep: 2}, 2, graph.WeightMemory{Stay: 5 * half, Slots: half, SlotCount: 1, Step: 2 * half, Request: 3 * half}},
		{graph.Offload{Stream: true, Keep: 3, Depth: 1}, n, graph.WeightMemory{Stay: 7 * half, Leave: 3 * half, Follow: 7 * half}},
		{graph.Offload{Stream: true, Keep: 99}, n, graph.WeightMemory{Stay: 7 * half, Leave: 3 * half, Follow: 7 * half}},
	} {
		p := g.Place(c.o)
		if p.Layers != n || p.Stream != (c.kept < n) {
			t.Errorf("%+v: %d layers, streams %v", c.o, p.Layers, p.Stream)
		}
		for i := range n {
			of, text := graph.Streams, graph.Streams
			if i < c.kept {
				of = graph.Stays
			}
			if !p.Stream {
				of, text = graph.Follows, graph.Leaves
			}
			layer := fmt.Sprintf("blocks.%d.", i)
			if p.Of[layer+"kv"] != of || p.Of[layer+"w"] != of || p.Of[layer+"text"] != text {
				t.Errorf("%+v: layer %d: kv %v, w %v, text %v", c.o, i, p.Of[layer+"kv"], p.Of[layer+"w"], p.Of[layer+"text"])
			}
		}
		if want := map[bool]graph.Residence{true: graph.Stays, false: graph.Follows}[p.Stream]; p.Of["all"] != want || p.AnyLeaves == p.Stream {
			t.Errorf("%+v: what all blocks read %v", c.o, p.Of["all"])
		}
		got, err := g.WeightMemory(c.o)
		if err != nil || len(got) != 2 || got[0] != c.memory || got[1] != c.memory {
			t.Errorf("%+v: %+v, %v; want %+v", c.o, got, err, c.memory)
		}
		stays, err := g.HostBytes(p, graph.Stays, graph.Follows)
		if err != nil || stays != 2*c.memory.Stay {
			t.Errorf("%+v: %d bytes stay in host memory, want %d: %v", c.o, stays, 2*c.memory.Stay, err)
		}
	}
}
