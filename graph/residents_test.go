package graph_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"weft/graph"
	"weft/internal/meshtest"
	"weft/program"
)

func addUp(held []graph.Resident) (n int64) {
	for _, r := range held {
		n += r.Bytes
	}
	return n
}

// checkResidents demands that the values which are listed add up to Residency's figures at every
// call.
func checkResidents(t rapid.TB, g *graph.Graph, p graph.Passes) {
	t.Helper()
	whole, err := g.Residency(p)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range g.Calls {
		weights, err := g.ResidentWeights(p, c.Request)
		if err != nil {
			t.Fatal(err)
		}
		if n := addUp(weights); n != whole.Moments[i].Weights {
			t.Errorf("%s: the weights add up to %d, want %d: %v", c.Name, n, whole.Moments[i].Weights, weights)
		}
	}
	for i, c := range g.Calls {
		held, err := g.ResidentsAt(p, i)
		if err != nil {
			t.Fatal(err)
		}
		if n := addUp(held.Kept); n != whole.Moments[i].Kept {
			t.Errorf("%s: what is kept adds up to %d, want %d: %v", c.Name, n, whole.Moments[i].Kept, held.Kept)
		}
		if n := addUp(held.Alive); n != whole.Moments[i].Alive {
			t.Errorf("%s: what is alive adds up to %d, want %d: %v", c.Name, n, whole.Moments[i].Alive, held.Alive)
		}
	}
}

func TestResidentsAddUp(t *testing.T) {
	three := func(program string) (int, int) {
		if program == "block" {
			return 3, 1
		}
		return 1, 1
	}
	for _, p := range []graph.Passes{{}, {N: 2}, {Times: three}, {N: 3, Times: three}, {Offload: graph.Offload{Stream: true, Depth: 1}}, {N: 2, Times: three, Offload: graph.Offload{Stream: true, Keep: 4}}} {
		checkResidents(t, twoBlocks(t), p)
	}
	// By hand: at block 1, the text and ctx of both passes, and the latent of the other pass beside
	// h1, which lies in h0's memory.
	const half = rows * columns / 2 * 4
	held, err := twoBlocks(t).ResidentsAt(graph.Passes{N: 2}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(held), fmt.Sprintf("{[{text %d %d} {ctx %d %d}] [{latent %d %d} {h1 %d %d}]}", half, 2*half, half, 2*half, half, half, half, half); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Chains of calls that use any earlier values, some of them once a request, some in an argument's
// memory.
func TestResidentsOfRandomChainsAddUp(t *testing.T) {
	m := meshtest.Mesh(t, "tp=2")
	programs := map[string]*program.Program{"add": addProgram(t, m, "", "a", "b", "w"), "donate": addProgram(t, m, "a", "a", "b", "w")}
	rapid.Check(t, func(t *rapid.T) {
		g := &graph.Graph{Mesh: m, Programs: programs, Inputs: []graph.Input{input("text", false), input("v0", true)}}
		requests := rapid.IntRange(0, 4).Draw(t, "calls of the request")
		kept, names := []string{"text"}, []string{"text", "v0"}
		for i := range requests + rapid.IntRange(1, 8).Draw(t, "calls of a step") {
			name := fmt.Sprint("v", i+1)
			from := names
			if i < requests {
				from = kept
			}
			pick := func() graph.Ref { return value(rapid.SampledFrom(from).Draw(t, "argument of "+name)) }
			weights := fmt.Sprint("w", rapid.IntRange(0, i).Draw(t, "weight of "+name))
			if g.Weights == nil || len(g.Weights) <= i {
				g.Weights = append(g.Weights, weight(fmt.Sprint("w", i)))
			}
			g.Calls = append(g.Calls, graph.Call{Name: name, Program: rapid.SampledFrom([]string{"add", "donate"}).Draw(t, "program of "+name),
				Args: []graph.Ref{pick(), pick(), param(weights)}, Outs: []string{name}, Request: i < requests, Layer: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "layer of "+name)})
			names = append(names, name)
			if i < requests {
				kept = append(kept, name)
			}
		}
		g.Outputs = []graph.Output{{Name: "out", Value: names[len(names)-1]}}
		if err := g.Check(); err != nil {
			t.Skip(err) // a value is used after its memory was given away
		}
		n := rapid.IntRange(1, 5).Draw(t, "times")
		o := graph.Offload{Stream: rapid.Bool().Draw(t, "streams"), Keep: rapid.IntRange(0, 9).Draw(t, "kept layers"), Depth: rapid.IntRange(0, 3).Draw(t, "depth")}
		checkResidents(t, g, graph.Passes{N: rapid.IntRange(0, 3).Draw(t, "passes"), Offload: o, Times: func(string) (int, int) { return n, 1 }})
	})
}
