package strategy_test

import (
	"testing"

	"pgregory.net/rapid"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// Every number that an error names in place of the one refused is taken in its place.
func TestAdviceWorks(t *testing.T) {
	advised := map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		n := func(what string, least, most int) int { return rapid.IntRange(least, most).Draw(r, what) }

		layers, stages := n("layers", 0, 40), n("stages", 1, 50)
		_, err := strategy.Even(layers, stages)
		if f, ok := fault.Fields[strategy.EmptyStage](err); ok {
			_, legal := f.Choice()
			for _, p := range legal {
				advised["stages"]++
				if _, err := strategy.Even(layers, p); err != nil {
					r.Errorf("%d layers over %d: %d is advised: %v", layers, stages, p, err)
				}
			}
		}

		micro, chunks := n("micro", 1, 40), n("chunks", 1, 4)
		_, err = strategy.Schedule(strategy.Interleaved, stages, micro, chunks)
		if f, ok := fault.Fields[strategy.BadSchedule](err); ok {
			for _, m := range f.Nearest {
				advised["schedule"]++
				if _, err := strategy.Schedule(strategy.Interleaved, stages, m, chunks); err != nil {
					r.Errorf("%d stages, %d microbatches, %d chunks: %d is advised: %v", stages, micro, chunks, m, err)
				}
			}
		}

		tp, devices := n("tp", 1, 40), n("devices", 1, 64)
		_, err = strategy.Degrees{Data: -1, Model: tp, Pipeline: 1}.Resolve(devices)
		if f, ok := fault.Fields[strategy.NotDivisible](err); ok {
			for _, p := range f.Nearest {
				advised["degrees"]++
				if _, err := (strategy.Degrees{Data: -1, Model: p, Pipeline: 1}).Resolve(devices); err != nil {
					r.Errorf("%d devices, tp=%d: %d is advised: %v", devices, tp, p, err)
				}
			}
		}

		size, parts := n("size", 1, 100), n("parts", 1, 9)
		on, meshErr := mesh.Local(mesh.Axis{Name: "tp", Size: parts})
		if meshErr != nil {
			r.Fatal(meshErr)
		}
		heads := rapid.SampledFrom([]int{0, 1, 2, 3, 4, 8, 12}).Draw(r, "heads")
		rule := strategy.TensorParallel{Axis: "tp", Rules: []strategy.Rule{{Match: "*", Dim: "out", Heads: heads}}}
		weight := func(size int) strategy.Tensor {
			return strategy.Tensor{Name: "w", Dims: []string{"out"}, Shape: []int{size}, Elem: 4}
		}
		_, _, err = rule.Refine(on, weight(size), sharding.Spec{})
		if f, ok := fault.Fields[sharding.Uneven](err); ok {
			for _, s := range f.Nearest {
				advised["uneven"]++
				if _, _, err := rule.Refine(on, weight(s), sharding.Spec{}); err != nil {
					r.Errorf("size %d over %d: %d is advised: %v", size, parts, s, err)
				}
			}
		}

		q, sp := n("q heads", 1, 48), n("sp", 1, 12)
		if f, ok := fault.Fields[sharding.HeadsNotDivisible](sharding.CheckHeads(q, tp, sp)); ok {
			for _, k := range f.Legal {
				advised["heads"]++
				at := map[string][2]int{"tp": {k, sp}, "sp": {tp, k}, "tp*sp": {k, 1}}[f.Axis]
				if err := sharding.CheckHeads(q, at[0], at[1]); err != nil {
					r.Errorf("%d heads, tp=%d, sp=%d: %s=%d is advised: %v", q, tp, sp, f.Axis, k, err)
				}
			}
		}
		kv := n("kv heads", 1, 16)
		_, _, err = sharding.KVHeads(q, kv, parts)
		if f, ok := fault.Fields[sharding.KVHeadsMismatch](err); ok {
			for _, k := range f.Legal {
				advised["kv heads"]++
				if _, _, err := sharding.KVHeads(q, kv, k); err != nil {
					r.Errorf("%d q and %d kv heads over %d: %d is advised: %v", q, kv, parts, k, err)
				}
			}
		}
	})
	for _, what := range []string{"stages", "schedule", "degrees", "uneven", "heads", "kv heads"} {
		if advised[what] == 0 {
			t.Errorf("no advice on %s was met", what)
		}
	}
}
