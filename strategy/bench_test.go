package strategy_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"weft/mesh"
	"weft/models"
	_ "weft/models/all"
	"weft/sharding"
	"weft/strategy"
)

// wan14B are the 1,095 parameters of Wan2.1-14B, with dims named out and in.
func wan14B(t testing.TB) []strategy.Tensor {
	t.Helper()
	model, err := models.ByName("wan2.1-t2v-14b")
	if err != nil {
		t.Fatal(err)
	}
	dims := [][]string{{}, {"out"}, {"out", "in"}, {"a", "b", "hidden"}, {"a", "b", "c", "d"}, {"out", "in", "frames", "height", "width"}}
	var out []strategy.Tensor
	for _, p := range model.Params(0) {
		out = append(out, strategy.Tensor{Name: p.Name, Dims: dims[len(p.Shape)], Shape: p.Shape, Elem: 2})
	}
	return out
}

func mesh512(t testing.TB) *mesh.Mesh {
	t.Helper()
	m, err := strategy.Degrees{Data: 4, Shard: 16, Model: 8}.Mesh()
	if err != nil || m.NumDevices() != 512 {
		t.Fatal(m, err)
	}
	return m
}

var plan512 = strategy.Plan{strategy.TensorParallel{}, strategy.FSDP{}, strategy.DataParallel{}}

// The 14B model on 512 devices: all but the small is over tp and fsdp.
func TestPlan14B(t *testing.T) {
	params := wan14B(t)
	start := time.Now()
	r, err := plan512.Explain(mesh512(t), params)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d parameters, %d bytes of %d on each device, %v", len(params), r.LocalBytes, r.TotalBytes, time.Since(start))
	if len(params) < 1000 || r.TotalBytes < 28e9 || r.LocalBytes > r.TotalBytes/100 {
		t.Errorf("%d parameters, %d bytes, %d local", len(params), r.TotalBytes, r.LocalBytes)
	}
	for i, want := range map[string]string{
		"blocks.39.self_attn.q.weight": "[tp,fsdp]", "blocks.39.ffn.2.weight": "[fsdp,tp]", "blocks.0.ffn.0.weight": "[tp,fsdp]",
		"blocks.0.self_attn.q.bias": "[tp]", "blocks.0.norm3.weight": "[-]", "patch_embedding.weight": "[fsdp,-,-,-,-]",
	} {
		for _, p := range r.Tensors {
			if p.Name == i && p.Spec.String() != want {
				t.Errorf("%s: %s, want %s; %v", p.Name, p.Spec, want, p.Notes)
			}
		}
	}
}

// Refining the spec of every parameter of a 14B model on 512 devices: at most 20 ms.
func BenchmarkRefine14B(b *testing.B) {
	params, m := wan14B(b), mesh512(b)
	fastest(b, func() {
		for _, p := range params {
			if _, _, err := plan512.Refine(m, p, sharding.Spec{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The same with local bytes and notes.
func BenchmarkExplain14B(b *testing.B) {
	params, m := wan14B(b), mesh512(b)
	fastest(b, func() {
		if _, err := plan512.Explain(m, params); err != nil {
			b.Fatal(err)
		}
	})
}

// fastest reports, beside the mean, the fastest run: what it takes where nothing
// else runs on the machine.
func fastest(b *testing.B, run func()) {
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		run()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(best.Microseconds())/1e3, "fastest-ms")
}

func BenchmarkBalanced(b *testing.B) {
	for _, n := range [][2]int{{40, 4}, {1024, 64}} {
		b.Run(fmt.Sprintf("%d layers over %d", n[0], n[1]), func(b *testing.B) {
			for b.Loop() {
				if _, err := strategy.Balanced(n[0], n[1], 8, strategy.Costs{Embed: 1, Head: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
