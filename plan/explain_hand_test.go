package plan

import (
	"math"
	"strings"
	"testing"

	"weft/dtype"
	"weft/graph"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// twoLayers is a step of two calls of one program on tp=4: a matmul by a weight that is split along
// what is summed, and a reduce-scatter, whose result lies in the memory of the argument.
func twoLayers(t testing.TB) *graph.Graph {
	m := meshtest.Mesh(t, "tp=4")
	split := sharding.NewSpec(nil, []string{mesh.TP})
	block := meshtest.Build(t, m, func(b *spmd.Builder) {
		h := b.Input("h", dtype.BF16, []int{64, 128}, split)
		w := b.Input("w", dtype.BF16, []int{128, 128}, split)
		y := b.LDot(b.Local(h), b.Local(w), program.DotDims{LeftContract: []int{1}, RightContract: []int{1}}, dtype.BF16)
		b.Output("y", b.Global(b.LReduceScatter(y, 1, []string{mesh.TP}, "sum of the columns"), []int{64, 128}, split), "h")
	})
	weight := func(name string) graph.Weight {
		return graph.Weight{Name: name, File: []int{128, 128}, Shape: []int{128, 128}, DType: dtype.BF16, Spec: split, Rule: "blocks.*.w"}
	}
	call := func(name, from, weight, to string) graph.Call {
		return graph.Call{Name: name, Program: "block", Args: []graph.Ref{{Name: from}, {Weight: true, Name: weight}}, Outs: []string{to}}
	}
	return &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"block": block}, Weights: []graph.Weight{weight("blocks.0.w"), weight("blocks.1.w")},
		Inputs:  []graph.Input{{Name: "h0", DType: dtype.BF16, Shape: []int{64, 128}, Spec: split, Step: true}},
		Calls:   []graph.Call{call("block 0", "h0", "blocks.0.w", "h1"), call("block 1", "h1", "blocks.1.w", "h2")},
		Outputs: []graph.Output{{Name: "out", Value: "h2"}}}
}

// The figures of one small step, and their parts, counted by hand.
func TestExplanationByHand(t *testing.T) {
	g := twoLayers(t)
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	got, err := measureGraph(g, 0, 1, graph.Offload{})
	if err != nil {
		t.Fatal(err)
	}
	on := slice(t, "v4-8")
	s := &search{m: model(t, "wan2.1-t2v-1.3b"), o: at480, passes: 1, explains: true}
	p := &Plan{Slice: on.String(), Breakdown: Breakdown{DiT: Phase{Memory: &got.memory}}, Collectives: got.step, CollectiveBytes: byAxis(got.step), split: split{pp: 1, dp: 1, fsdp: 1, tp: 4, sp: 1}}
	if err := s.addTimes(p, on, got); err != nil {
		t.Fatal(err)
	}
	s.judgeMemory(p, on)
	e := &explainer{search: s, on: on, p: p, got: got, logs: map[*scaledGraph]map[string]*programEvidence{}}

	type part struct {
		value float64
		calls int
		line  int
		op    string
		what  string
	}
	const (
		dot     = "%2 = dot %0, %1 contract [1] x [1] : bf16[64,128]"
		scatter = "%3 = reduce-scatter %2 dims [1] : bf16[64,32] over tp  # sum of the columns"
		rate    = 1.2e12 * 0.75   // bytes of a v4 chip's memory in a second, and the share that is assumed
		link    = 5e10 * 0.80 * 2 // of a ring over four neighbours, both ways round
	)
	sent := 2 * (12288/link + 1e-5)
	for _, c := range []struct {
		figure string
		want   []part
	}{
		// Each device has 32 of 128 columns of both weights, 32 columns of the argument, and the
		// matmul's result in full; the scattered sum lies where the argument was.
		{"hbm", []part{{2 * 128 * 32 * 2, 2, 0, "weight", "blocks.*.w"}, {64 * 128 * 2, 1, 4, "dot", dot}, {64 * 32 * 2, 1, 0, "input", "h0"}}},
		{"weights", []part{{16384, 2, 0, "weight", "blocks.*.w"}}},
		{"residual", []part{{4096, 1, 0, "input", "h0"}}},
		{"temp", []part{{16384, 1, 4, "dot", dot}}},
		{"attention", nil},
		{"gathered", nil},
		{"flops", []part{{2 * (2 * 64 * 128 * 32), 2, 4, "dot", dot}}},
		{"flops:block", []part{{2 * 64 * 128 * 32, 1, 4, "dot", dot}}},
		// The matmul reads 4096 and 8192 bytes and writes 16384, which the collective reads; that writes 4096.
		{"moved", []part{{2 * 28672, 2, 4, "dot", dot}, {2 * 20480, 2, 5, "reduce-scatter", scatter}}},
		{"peak_bytes:block", []part{{16384, 1, 4, "dot", dot}, {8192, 1, 0, "input", "w"}, {4096, 1, 0, "input", "h"}}},
		{"argument_bytes:block", []part{{8192, 1, 0, "input", "w"}, {4096, 1, 0, "input", "h"}}},
		// Of a ring of four, each device sends three quarters of 16384 bytes.
		{"sent", []part{{2 * 12288, 2, 5, "reduce-scatter", scatter}}},
		{"reduce-scatter:tp", []part{{2 * 12288, 2, 5, "reduce-scatter", scatter}}},
		{"all-reduce", nil},
		// Memory traffic takes longer than 2^20 FLOPs do.
		{"step", []part{{sent, 2, 5, "reduce-scatter", scatter}, {57344 / rate, 2, 4, "dot", dot}, {40960 / rate, 2, 5, "reduce-scatter", scatter}}},
		{"memory", []part{{57344 / rate, 2, 4, "dot", dot}, {40960 / rate, 2, 5, "reduce-scatter", scatter}}},
		{"tp", []part{{sent, 2, 5, "reduce-scatter", scatter}}},
		{"matmuls", nil},
	} {
		f, err := parseFigure(c.figure)
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.explain(f)
		if err != nil {
			t.Errorf("%s: %v", c.figure, err)
			continue
		}
		checkAddsUp(t, *p, d, f)
		parts := d.Parts
		if n := len(parts); n > 0 && parts[n-1].Op == "rounding" && d.Unit == unitSeconds {
			parts = parts[:n-1]
		}
		if len(parts) != len(c.want) {
			t.Errorf("%s: %d parts, want %d: %+v", c.figure, len(parts), len(c.want), parts)
			continue
		}
		for i, w := range c.want {
			if x := parts[i]; math.Abs(x.Value-w.value) > 1e-12*w.value || x.Calls != w.calls || x.Line != w.line || x.Op != w.op || x.What != w.what {
				t.Errorf("%s, part %d: %v of %d calls, line %d, %s, %q; want %+v", c.figure, i, x.Value, x.Calls, x.Line, x.Op, x.What, w)
			}
		}
	}
	d, err := e.explain(figure{&figureEntry{key: "step_seconds", unit: unitSeconds, explain: (*explainer).explainTime}, ""})
	if err != nil {
		t.Fatal(err)
	}
	if x := d.Parts[0]; !strings.Contains(x.Rule, "12288 B / (5e+10 B/s x 0.8 x 2 links) + 1 x 1e-05 s") || !strings.Contains(x.Source, "ici_bytes_per_s_per_link_one_way of v4: ") || !strings.Contains(x.Source, "link, assumed") {
		t.Errorf("%q, %q", x.Rule, x.Source)
	}
	if x := d.Parts[1]; strings.Join(x.Reads, " ") != "h w" || len(d.Parts[0].Reads) != 0 {
		t.Errorf("the matmul reads %v, the collective %v", x.Reads, d.Parts[0].Reads)
	}
	if x := d.Parts[1]; !strings.Contains(x.Rule, "28672 B / (1.2e+12 B/s x 0.75)") || !strings.Contains(x.Rule, "longer than the arithmetic's") || !strings.Contains(x.Source, "hbm_bytes_per_s of v4: ") {
		t.Errorf("%q, %q", x.Rule, x.Source)
	}
}
