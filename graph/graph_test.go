package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/graph"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
)

const rows, columns = 4, 8

var byColumns = sharding.NewSpec(nil, []string{mesh.TP})

// addProgram sums inputs f32 (4, 8), split over tp by columns. Where donate is named, the
// result takes over that input's memory.
func addProgram(t testing.TB, m *mesh.Mesh, donate string, inputs ...string) *program.Program {
	return meshtest.SumProgram(t, m, []int{rows, columns}, byColumns, donate, inputs...)
}

func weight(name string) graph.Weight {
	return graph.Weight{Name: name, File: []int{rows, columns}, Shape: []int{rows, columns}, DType: dtype.F32, Spec: byColumns}
}

func input(name string, step bool) graph.Input {
	return graph.Input{Name: name, DType: dtype.F32, Shape: []int{rows, columns}, Spec: byColumns, Step: step}
}

func value(name string) graph.Ref { return graph.Ref{Name: name} }
func param(name string) graph.Ref { return graph.Ref{Name: name, Weight: true} }

// twoBlocks is a step on tp=2: a request-only call makes ctx of the text, and two blocks turn
// the latent into the output. A block's result takes over the memory of its input h.
func twoBlocks(t testing.TB) *graph.Graph {
	m := meshtest.Mesh(t, "tp=2")
	return &graph.Graph{
		Mesh: m,
		Programs: map[string]*program.Program{
			"text":  addProgram(t, m, "", "x", "w"),
			"first": addProgram(t, m, "", "x", "w"),
			"block": addProgram(t, m, "h", "h", "ctx", "w"),
		},
		Weights: []graph.Weight{weight("wt"), weight("wf"), weight("w0"), weight("w1")},
		Inputs:  []graph.Input{input("text", false), input("latent", true)},
		Calls: []graph.Call{
			{Name: "text", Program: "text", Args: []graph.Ref{value("text"), param("wt")}, Outs: []string{"ctx"}, Request: true},
			{Name: "first", Program: "first", Args: []graph.Ref{value("latent"), param("wf")}, Outs: []string{"h0"}},
			{Name: "block 0", Program: "block", Args: []graph.Ref{value("h0"), value("ctx"), param("w0")}, Outs: []string{"h1"}, Layer: "blocks.0."},
			{Name: "block 1", Program: "block", Args: []graph.Ref{value("h1"), value("ctx"), param("w1")}, Outs: []string{"h2"}, Layer: "blocks.1."},
		},
		Outputs: []graph.Output{{Name: "velocity", Value: "h2"}},
	}
}

// Check refuses each way in which a graph can be broken, and names the call and the value.
func TestCheck(t *testing.T) {
	if err := twoBlocks(t).Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		spoil func(g *graph.Graph)
		says  []string
	}{
		{"unknown program", func(g *graph.Graph) { g.Calls[1].Program = "nothing" }, []string{`"first"`, `"nothing"`}},
		{"an input too few", func(g *graph.Graph) { g.Calls[2].Args = g.Calls[2].Args[:2] }, []string{`"block 0"`, "2 of 3 inputs"}},
		{"an output too many", func(g *graph.Graph) { g.Calls[2].Outs = []string{"a", "b"} }, []string{"2 of 1 outputs"}},
		{"unknown value", func(g *graph.Graph) { g.Calls[2].Args[0].Name = "h9" }, []string{`"h9"`, "nothing provides"}},
		{"value before it is made", func(g *graph.Graph) { g.Calls[2].Args[1].Name = "h2" }, []string{`"h2"`, "nothing provides"}},
		{"unknown weight", func(g *graph.Graph) { g.Weights = g.Weights[:3] }, []string{`"w1"`, "nothing provides"}},
		{"type", func(g *graph.Graph) { g.Inputs[1].DType = dtype.BF16 }, []string{`"latent"`, "bf16"}},
		{"shape", func(g *graph.Graph) { g.Weights[2].Shape = []int{rows, 16} }, []string{`"w0"`, "[4 16]"}},
		{"layout", func(g *graph.Graph) { g.Inputs[0].Spec = sharding.Whole(2) }, []string{`"text"`, "tp"}},
		{"value whose memory was taken over", func(g *graph.Graph) { g.Calls[3].Args[0].Name = "h0" }, []string{`"h0"`, "nothing provides"}},
		{"weight given away", func(g *graph.Graph) { g.Calls[2].Args[0] = param("w0") }, []string{`"w0"`, "gives away"}},
		{"value made twice", func(g *graph.Graph) { g.Calls[3].Outs[0] = "h1" }, []string{`"h1"`, "second time"}},
		{"unknown output", func(g *graph.Graph) { g.Outputs[0].Then = []string{"h7"} }, []string{`"velocity"`, `"h7"`}},
		{"weight of another stage", func(g *graph.Graph) {
			other := meshtest.Mesh(t, "tp=2")
			g.Programs["far"] = addProgram(t, other, "", "h", "ctx", "w")
			g.Calls[3].Program, g.Calls[3].Args[2] = "far", param("w0")
		}, []string{`"block 1"`, `"w0"`, "another stage"}},
	} {
		g := twoBlocks(t)
		c.spoil(g)
		err := g.Check()
		if err == nil {
			t.Errorf("%s: no error", c.what)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %s", c.what, err, s)
			}
		}
	}
}

// What a request keeps and an output that calls read is never dropped; everything else goes
// with the call that uses it last, or that makes it for nobody or for the host.
func TestLastUse(t *testing.T) {
	g := twoBlocks(t)
	sorted := func() string {
		last := g.LastUse()
		for i := range last {
			slices.Sort(last[i])
		}
		return fmt.Sprint(last)
	}
	if got := sorted(); got != "[[] [latent] [h0] [h1 h2]]" {
		t.Error(got)
	}
	g.Calls[2].Args[1] = value("latent")
	if got := sorted(); got != "[[] [] [h0 latent] [h1 h2]]" {
		t.Error(got)
	}
	g.Outputs[0].Then = []string{"h1"}
	if last := g.LastUse(); slices.Contains(last[3], "h1") {
		t.Error("an output's value is dropped:", last)
	}
	g.Outputs[0].Value, g.Outputs[0].Then = "h1", nil
	if last := g.LastUse(); !slices.Contains(last[3], "h2") {
		t.Error("a value that nobody uses stays:", last)
	}
}

// For chains that use any earlier values: no value is used after it was dropped, and each
// value of a step is dropped once, but for an output that calls read.
func TestLastUseOfRandomChains(t *testing.T) {
	m := meshtest.Mesh(t, "tp=1")
	add := addProgram(t, m, "", "a", "b")
	rapid.Check(t, func(t *rapid.T) {
		g := &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"add": add}, Inputs: []graph.Input{input("text", false), input("v0", true)}}
		names := []string{"text", "v0"}
		for i := range rapid.IntRange(1, 12).Draw(t, "calls") {
			name := fmt.Sprint("v", i+1)
			pick := func() graph.Ref { return value(rapid.SampledFrom(names).Draw(t, "argument of "+name)) }
			g.Calls = append(g.Calls, graph.Call{Name: name, Program: "add", Args: []graph.Ref{pick(), pick()}, Outs: []string{name}})
			names = append(names, name)
		}
		out := rapid.SampledFrom(names[2:]).Draw(t, "output")
		g.Outputs = []graph.Output{{Name: "out", Value: out}}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		dropped := map[string]int{}
		for i, gone := range g.LastUse() {
			for _, r := range g.Calls[i].Args {
				if dropped[r.Name] > 0 {
					t.Fatalf("call %d uses %s, which was dropped", i, r.Name)
				}
			}
			for _, name := range gone {
				dropped[name]++
			}
		}
		for _, name := range names {
			want := 1
			used := slices.ContainsFunc(g.Calls, func(c graph.Call) bool { return c.Args[0].Name == name || c.Args[1].Name == name })
			if name == "text" || name == out && used || name == "v0" && !used { // an input that nothing reads has no last use
				want = 0
			}
			if dropped[name] != want {
				t.Fatalf("%s is dropped %d times, want %d; the output is %s", name, dropped[name], want, out)
			}
		}
	})
}

// On tp=2 a device has half of each f32 (4, 8): 64 bytes.
func TestResidency(t *testing.T) {
	const half = rows * columns / 2 * 4
	three := func(program string) (int, int) {
		if program == "block" {
			return 3, 1
		}
		return 1, 1
	}
	// The weights of the text leave after its call, the others follow; w0 and w1 can be streamed.
	stay := graph.WeightMemory{Stay: 3 * half, Leave: half, Follow: 3 * half}
	one := graph.WeightMemory{Stay: 2 * half, Leave: half, Follow: 2 * half, Slots: half, SlotCount: 1, Step: half}
	for _, c := range []struct {
		what    string
		passes  graph.Passes
		weights graph.WeightMemory
		moments []graph.Moment
	}{
		{"one pass", graph.Passes{}, stay, []graph.Moment{
			{half, half, half},         // the text and the latent
			{3 * half, 2 * half, half}, // and ctx, for the rest of the request
			{3 * half, 2 * half, half}, // h0 instead of the latent
			{3 * half, 2 * half, half}, // h1 in h0's memory
		}},
		{"two passes: the other's text, ctx and latent stay", graph.Passes{N: 2}, stay, []graph.Moment{
			{half, 3 * half, 2 * half}, {3 * half, 4 * half, 2 * half}, {3 * half, 4 * half, 2 * half}, {3 * half, 4 * half, 2 * half},
		}},
		{"each block stands for three", graph.Passes{Times: three}, graph.WeightMemory{Stay: 7 * half, Leave: half, Follow: 7 * half}, []graph.Moment{
			{half, half, half}, {7 * half, 2 * half, half}, {7 * half, 2 * half, half}, {7 * half, 2 * half, half},
		}},
		{"both blocks streamed, one read ahead", graph.Passes{Offload: graph.Offload{Stream: true, Depth: 1}},
			graph.WeightMemory{Stay: half, Leave: half, Follow: half, Slots: 2 * half, SlotCount: 2, Step: 2 * half}, []graph.Moment{
				{3 * half, half, half}, {3 * half, 2 * half, half}, {3 * half, 2 * half, half}, {3 * half, 2 * half, half},
			}},
		{"nothing read ahead", graph.Passes{Offload: graph.Offload{Stream: true}},
			graph.WeightMemory{Stay: half, Leave: half, Follow: half, Slots: half, SlotCount: 1, Step: 2 * half}, []graph.Moment{
				{2 * half, half, half}, {2 * half, 2 * half, half}, {2 * half, 2 * half, half}, {2 * half, 2 * half, half},
			}},
		{"no more slots than blocks", graph.Passes{Offload: graph.Offload{Stream: true, Keep: 1, Depth: 4}}, one, []graph.Moment{
			{2 * half, half, half}, {3 * half, 2 * half, half}, {3 * half, 2 * half, half}, {3 * half, 2 * half, half},
		}},
		{"as many kept as there are", graph.Passes{Offload: graph.Offload{Stream: true, Keep: 2, Depth: 1}}, stay, []graph.Moment{
			{half, half, half}, {3 * half, 2 * half, half}, {3 * half, 2 * half, half}, {3 * half, 2 * half, half},
		}},
		{"four of six blocks kept", graph.Passes{Times: three, Offload: graph.Offload{Stream: true, Keep: 4, Depth: 9}},
			graph.WeightMemory{Stay: 5 * half, Leave: half, Follow: 5 * half, Slots: 2 * half, SlotCount: 2, Step: 2 * half}, []graph.Moment{
				{3 * half, half, half}, {7 * half, 2 * half, half}, {7 * half, 2 * half, half}, {7 * half, 2 * half, half},
			}},
		{"two passes call by call", graph.Passes{N: 2, Offload: graph.Offload{Stream: true}},
			graph.WeightMemory{Stay: half, Leave: half, Follow: half, Slots: half, SlotCount: 1, Step: 2 * half}, []graph.Moment{
				{2 * half, 3 * half, 2 * half}, {2 * half, 4 * half, 2 * half}, {2 * half, 4 * half, 2 * half}, {2 * half, 4 * half, 2 * half},
			}},
	} {
		got, err := twoBlocks(t).Residency(c.passes)
		if err != nil {
			t.Fatal(err)
		}
		if got.Weights != c.weights || !slices.Equal(got.Moments, c.moments) {
			t.Errorf("%s: %+v, %v; want %+v, %v", c.what, got.Weights, got.Moments, c.weights, c.moments)
		}
		for _, name := range []string{"text", "latent", "ctx", "h0", "h1", "h2"} {
			if got.Values[name] != half {
				t.Errorf("%s: %s has %d bytes, want %d", c.what, name, got.Values[name], half)
			}
		}
	}
	g := twoBlocks(t)
	g.Calls[3].Stage = 1
	if _, err := g.Residency(graph.Passes{}); err == nil || !strings.Contains(err.Error(), "2 pipeline stages") {
		t.Errorf("a pipeline: %v", err)
	}
}

// A frame of an input is there from the first call that reads it to the last, and a part of an
// output until the next call has been issued.
func TestResidencyOfFrames(t *testing.T) {
	const half = rows * columns / 2 * 4
	m := meshtest.Mesh(t, "tp=2")
	g := &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"add": addProgram(t, m, "", "a", "b")}, Outputs: []graph.Output{{Name: "out", Value: "y0", Then: []string{"y1", "y2"}}}}
	for i := range 3 {
		in := input(fmt.Sprint("x", i), true)
		in.Of, in.Frame = "x", i
		g.Inputs = append(g.Inputs, in)
		before := value(fmt.Sprint("x", max(0, i-1)))
		g.Calls = append(g.Calls, graph.Call{Name: fmt.Sprint("call ", i), Program: "add", Args: []graph.Ref{value(in.Name), before}, Outs: []string{fmt.Sprint("y", i)}})
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	got, err := g.Residency(graph.Passes{})
	if err != nil {
		t.Fatal(err)
	}
	want := []graph.Moment{{Alive: half}, {Alive: 3 * half}, {Alive: 3 * half}} // x0; x0, x1 and y0; x1, x2 and y1
	if !slices.Equal(got.Moments, want) {
		t.Errorf("%v, want %v", got.Moments, want)
	}
	g.Inputs[1].Step = false
	if err := g.Check(); err == nil || !strings.Contains(err.Error(), `"x1" is a frame of "x" and no input of the step`) {
		t.Error(err)
	}
}

// A call whose result takes nothing over needs room for both.
func TestResidencyWithoutDonation(t *testing.T) {
	const half = rows * columns / 2 * 4
	g := twoBlocks(t)
	g.Programs["block"] = addProgram(t, g.Mesh, "", "h", "ctx", "w")
	g.Calls[3].Args[1] = value("h0") // h0 lives on beside h1
	got, err := g.Residency(graph.Passes{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (graph.Moment{Weights: 3 * half, Kept: 2 * half, Alive: 2 * half}); got.Moments[3] != want {
		t.Errorf("%+v, want %+v", got.Moments[3], want)
	}
	if n := g.ArgumentBytes(3); n != 3*half {
		t.Errorf("%d bytes of arguments, want %d", n, 3*half)
	}
	g.Calls[3].Args[1] = value("h1")
	if n := g.ArgumentBytes(3); n != 2*half {
		t.Errorf("%d bytes of arguments where one is bound twice, want %d", n, 2*half)
	}
}

// A stage is sent the values of a step that other stages make, each once; what the
// request made is not among them.
func TestFlow(t *testing.T) {
	g := twoBlocks(t)
	if got := fmt.Sprint(g.Flow()); got != "[[]]" {
		t.Error("without a pipeline:", got)
	}
	g.Calls[2].Stage, g.Calls[3].Stage = 1, 2
	g.Calls[3].Args[1] = value("h0")
	if got := fmt.Sprint(g.Flow()); got != "[[] [h0] [h1 h0]]" {
		t.Error(got)
	}
	g.Calls[3].Stage = 1
	if got := fmt.Sprint(g.Flow()); got != "[[] [h0]]" {
		t.Error("a value that a stage uses twice:", got)
	}
	if got := g.Stages(); got != 2 {
		t.Error(got, "stages")
	}
}

// A key head that two devices share is read from the file once for each.
func TestFileRows(t *testing.T) {
	w := graph.Weight{Name: "k", Repeat: 2, Unit: 4}
	for _, c := range [][4]int{{0, 4, 0, 4}, {4, 8, 0, 4}, {8, 12, 4, 8}, {13, 15, 5, 7}} {
		from, to, err := w.FileRows(c[0], c[1])
		if err != nil || from != c[2] || to != c[3] {
			t.Errorf("rows %d to %d are %d to %d of the file, want %d to %d: %v", c[0], c[1], from, to, c[2], c[3], err)
		}
	}
	if _, _, err := w.FileRows(2, 6); err == nil || !strings.Contains(err.Error(), "k: rows 2 to 6") {
		t.Errorf("rows of two units: %v", err)
	}
	if from, to, err := (graph.Weight{}).FileRows(2, 6); err != nil || from != 2 || to != 6 {
		t.Error(from, to, err)
	}
}
