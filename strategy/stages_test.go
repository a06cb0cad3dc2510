package strategy_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/internal/faulttest"
	"weft/internal/meshtest"
	"weft/strategy"
)

// Layers in even numbers on stages: artifex's own counts, and models whose layers do not
// divide, which lose no layer.
func TestEven(t *testing.T) {
	for _, test := range []struct {
		layers, stages int
		want           string
	}{
		{12, 4, "[3 3 3 3]"}, {10, 4, "[3 3 2 2]"}, {7, 4, "[2 2 2 1]"}, {13, 4, "[4 3 3 3]"}, {24, 4, "[6 6 6 6]"},
		{7, 3, "[3 2 2]"}, {10, 3, "[4 3 3]"}, {13, 2, "[7 6]"}, {10, 8, "[2 2 1 1 1 1 1 1]"}, {32, 8, "[4 4 4 4 4 4 4 4]"}, {7, 1, "[7]"},
		{30, 4, "[8 8 7 7]"}, {40, 16, "[3 3 3 3 3 3 3 3 2 2 2 2 2 2 2 2]"}, {7, 2, "[4 3]"}, {40, 3, "[14 13 13]"},
	} {
		got, err := strategy.Even(test.layers, test.stages)
		if err != nil || fmt.Sprint(got.Counts()) != test.want {
			t.Errorf("%d over %d: %v, want %s: %v", test.layers, test.stages, got.Counts(), test.want, err)
		}
	}
}

// No stage is empty and no layer is lost.
func TestSplitRefuses(t *testing.T) {
	for _, test := range []struct {
		layers, stages int
		kind           error
		stage          int
	}{
		{3, 4, strategy.ErrEmptyStage, 3}, {0, 4, strategy.ErrNoLayers, 0}, {0, 1, strategy.ErrNoLayers, 0}, {1, 2, strategy.ErrEmptyStage, 1},
		{-3, 4, strategy.ErrSplit, 0}, {4, 0, strategy.ErrSplit, 0}, {4, -1, strategy.ErrSplit, 0}, {math.MaxInt, 1, strategy.ErrSplit, 0}, {math.MaxInt, math.MaxInt, strategy.ErrSplit, 0},
	} {
		_, even := strategy.Even(test.layers, test.stages)
		_, balanced := strategy.Balanced(test.layers, test.stages, 8, strategy.Costs{})
		for _, err := range []error{even, balanced} {
			faulttest.WantKinds(t, err, test.kind)
			if f, ok := fault.Fields[strategy.EmptyStage](err); ok && (f.Layers != test.layers || f.Stages != test.stages || f.Stage != test.stage || f.Most != test.layers) {
				t.Error(f)
			}
		}
	}
	nan := math.NaN()
	for _, c := range []strategy.Costs{{Embed: -1}, {Head: math.Inf(1)}, {Layer: []float64{1, 1}}, {Layer: []float64{1, nan, 1, 1}}} {
		_, err := strategy.Balanced(4, 2, 8, c)
		faulttest.WantKinds(t, err, strategy.ErrCosts)
	}
	_, err := strategy.Balanced(4, 2, 0, strategy.Costs{Embed: -1})
	faulttest.WantKinds(t, err, strategy.ErrCosts, strategy.ErrSchedule)
}

// Layers are assigned to stages by their costs.
func TestBalanced(t *testing.T) {
	for _, test := range []struct {
		layers, stages int
		embed, head    float64
		counts, costs  string
		peak, evenPeak int
		evenMax        float64
	}{
		{12, 4, 0, 0, "[3 3 3 3]", "[3 3 3 3]", 12, 12, 3},
		{10, 4, 0, 0, "[2 2 3 3]", "[2 2 3 3]", 8, 12, 3},
		{7, 4, 0, 0, "[1 2 2 2]", "[1 2 2 2]", 6, 8, 2},
		{13, 4, 0, 0, "[3 3 3 4]", "[3 3 3 4]", 12, 16, 4},
		{7, 3, 0, 0, "[2 2 3]", "[2 2 3]", 6, 9, 3},
		{5, 4, 0, 0, "[1 1 1 2]", "[1 1 1 2]", 4, 8, 2},
		{57, 4, 0, 0, "[14 14 14 15]", "[14 14 14 15]", 56, 60, 15},
		{16, 2, 1, 1, "[8 8]", "[9 9]", 16, 16, 9},
		{30, 4, 1, 1, "[7 8 8 7]", "[8 8 8 8]", 28, 32, 9},
		{32, 4, 1, 1, "[7 8 9 8]", "[8 8 9 9]", 28, 32, 9},
		{24, 4, 1, 2, "[5 7 7 5]", "[6 7 7 7]", 21, 24, 8},
		{32, 4, 0, 2, "[8 8 9 7]", "[8 8 9 9]", 32, 32, 10},
		{7, 1, 1, 2, "[7]", "[10]", 7, 7, 10},
	} {
		c := strategy.Costs{Embed: test.embed, Head: test.head}
		got, err := strategy.Balanced(test.layers, test.stages, 8, c)
		if err != nil || fmt.Sprint(got.Counts()) != test.counts || fmt.Sprint(c.Of(got)) != test.costs || got.Peak(8) != test.peak {
			t.Errorf("%+v: %v, costs %v, peak %d: %v", test, got.Counts(), c.Of(got), got.Peak(8), err)
		}
		even, _ := strategy.Even(test.layers, test.stages)
		most := 0.0
		for _, x := range c.Of(even) {
			most = max(most, x)
		}
		if even.Peak(8) != test.evenPeak || most != test.evenMax {
			t.Errorf("%+v: the even split has peak %d, largest cost %g", test, even.Peak(8), most)
		}
	}
}

// The best of all splits, by trying them all; and ranges that cover every layer once.
func TestBalancedIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		stages := 1 + r.IntN(4)
		layers, micro := stages+r.IntN(7), 1+r.IntN(6)
		c := strategy.Costs{Embed: meshtest.Pick(r, 0, 0.5, 1, 3), Head: meshtest.Pick(r, 0, 0.3, 2)}
		if r.IntN(2) == 0 {
			for range layers {
				c.Layer = append(c.Layer, meshtest.Pick(r, 0, 0.1, 1, 1, 2.5))
			}
		}
		got, err := strategy.Balanced(layers, stages, micro, c)
		if err != nil {
			t.Fatal(err)
		}
		covers(t, got, layers, stages)
		want, best := "", []float64(nil)
		eachSplit(layers, stages, nil, func(counts []int) {
			score := score(counts, micro, c)
			if best == nil || less(score, best) {
				want, best = fmt.Sprint(counts), score
			}
		})
		if fmt.Sprint(got.Counts()) != want {
			t.Fatalf("%d layers over %d, %d microbatches, %+v: %v scores %v, %s scores %v", layers, stages, micro, c, got.Counts(), score(got.Counts(), micro, c), want, best)
		}
		even, err := strategy.Even(layers, stages)
		if err != nil {
			t.Fatal(err)
		}
		covers(t, even, layers, stages)
	})
}

func covers(t *rapid.T, s strategy.Stages, layers, stages int) {
	if s.Len() != stages || s.Layers() != layers {
		t.Fatalf("%v covers %d layers with %d stages", s.Counts(), s.Layers(), s.Len())
	}
	at := 0
	for i, r := range s.Ranges() {
		if r.Lo != at || r.Len() < 1 {
			t.Fatalf("ranges %v", s.Ranges())
		}
		at = r.Hi
		for l := r.Lo; l < r.Hi; l++ {
			if got, err := s.OfLayer(l); err != nil || got != i {
				t.Fatalf("layer %d is on stage %d, not %d: %v", l, i, got, err)
			}
		}
	}
	if at != layers {
		t.Fatalf("ranges %v", s.Ranges())
	}
}

func eachSplit(layers, stages int, counts []int, visit func([]int)) {
	if stages == 1 {
		visit(append(append([]int{}, counts...), layers))
		return
	}
	for n := 1; n <= layers-stages+1; n++ {
		eachSplit(layers-n, stages-1, append(counts, n), visit)
	}
}

// score is what Balanced minimises, in order.
func score(counts []int, micro int, c strategy.Costs) []float64 {
	most, fewest, peak, at := 0.0, math.Inf(1), 0, 0
	for i, n := range counts {
		cost := 0.0
		for l := at; l < at+n; l++ {
			if c.Layer == nil {
				cost++
			} else {
				cost += c.Layer[l]
			}
		}
		at += n
		if i == 0 {
			cost += c.Embed
		}
		if i == len(counts)-1 {
			cost += c.Head
		}
		most, fewest, peak = max(most, cost), min(fewest, cost), max(peak, min(len(counts)-i, micro)*n)
	}
	out := []float64{most, -fewest, float64(peak)}
	for _, n := range counts {
		out = append(out, float64(n))
	}
	return out
}

func less(a, b []float64) bool {
	for i := range a {
		if d := a[i] - b[i]; d < -1e-6 || d > 1e-6 {
			return d < 0
		}
	}
	return false
}

// A parameter's name tells its stage, in a model of 24 layers.
func TestStagesOf(t *testing.T) {
	for _, test := range []struct {
		name string
		want map[int]int // stages -> stage
	}{
		{"embedding.weight", map[int]int{2: 0, 4: 0, 5: 0, 24: 0}},
		{"position_ids", map[int]int{2: 0, 4: 0, 5: 0, 24: 0}},
		{"layer_0.w", map[int]int{2: 0, 4: 0, 24: 0}},
		{"layer_5.w", map[int]int{2: 0, 4: 0, 24: 5}},
		{"layer_6.w", map[int]int{2: 0, 4: 1, 24: 6}},
		{"layer_11.w", map[int]int{2: 0, 4: 1, 24: 11}},
		{"layer_23.w", map[int]int{2: 1, 4: 3, 24: 23}},
		{"encoder_layer_7.w", map[int]int{2: 0, 4: 1, 24: 7}},
		{"logits", map[int]int{2: 1, 4: 3, 5: 4, 24: 23}},
		{"output.w", map[int]int{2: 1, 4: 3, 5: 4, 24: 23}},
		{"layer_3.attention.output.weight", map[int]int{2: 0, 4: 0, 24: 3}},
		{"layer_3.position_bias", map[int]int{4: 0, 24: 3}},
		{"layers.3.w", map[int]int{4: 0, 24: 3}},
		{"norm", map[int]int{4: 3}},
		{"model.norm.weight", map[int]int{4: 3}},
		{"lm_head.weight", map[int]int{4: 3}},
		{"blocks.23.ffn.2.weight", map[int]int{4: 3}},
		{"transformer_blocks.12.attn1.to_q.weight", map[int]int{4: 2}},
		{"blocks/6/attn/q/kernel", map[int]int{4: 1}},
		{"head.modulation", map[int]int{4: 3}},
		{"patch_embedding.weight", map[int]int{4: 0}},
		{"time_projection.1.weight", map[int]int{4: 0}},
		{"img_emb.proj.1.weight", map[int]int{4: 0}},
		{"double_blocks.6.img_attn_q.weight", map[int]int{4: 1}},
	} {
		for stages, want := range test.want {
			s, err := strategy.Even(24, stages)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Of(test.name); err != nil || got != want {
				t.Errorf("%s of %d stages: %d, want %d: %v", test.name, stages, got, want, err)
			}
		}
	}
	s, _ := strategy.Even(24, 4)
	for _, name := range []string{"w", "", "layer_24.w", "layer_47.w", "layers.99999999999999999999.w", "single_blocks.3.linear1.weight"} {
		_, err := s.Of(name)
		faulttest.WantKinds(t, err, strategy.ErrStage)
		if f, _ := fault.Fields[strategy.UnknownStage](err); f != (strategy.UnknownStage{Name: name, Layers: 24}) || !strings.Contains(err.Error(), "0 to 23") {
			t.Error(f, err)
		}
	}
	if _, err := s.OfLayer(-1); err == nil {
		t.Error("layer -1 is on a stage")
	}
	if _, err := (strategy.Stages{}).Of("norm"); err == nil {
		t.Error("no stages hold a norm")
	}
}
