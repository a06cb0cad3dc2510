package attention_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weft/attention"
	"weft/dtype"
	"weft/internal/meshtest"
	"weft/program/cost"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// Video queries see a text's keys, masked, and their own: on every split what
// plain attention over both gives, with key heads whole, split and copied.
func TestPrefixed(t *testing.T) {
	const text, tokens, padded = 7, 13, 16
	r := rand.New(rand.NewPCG(3, 3))
	q := random(r, dtype.F32, 2, padded, 8, 4)
	mask := meshtest.Fill(dtype.Bool, func(int) float64 { return 1 }, 2, 1, 1, text+tokens)
	for i := 4; i < text; i++ { // the second text has four real keys
		mask.Set(text+tokens+i, 0)
	}
	for _, kv := range []int{8, 2, 1} {
		tk, tv := random(r, dtype.F32, 2, text, kv, 4), random(r, dtype.F32, 2, text, kv, 4)
		vk, vv := random(r, dtype.F32, 2, padded, kv, 4), random(r, dtype.F32, 2, padded, kv, 4)
		real := func(x *interp.Array) *interp.Array { return part(x, 1, 0, tokens) }
		want := naive(call{q: q, k: joined(tk, real(vk)), v: joined(tv, real(vv)), mask: mask})
		for on, moves := range map[string]int{"sp=1,tp=1": 0, "sp=2,tp=1": 4, "sp=4,tp=1": 4, "sp=8,tp=1": 4, "sp=1,tp=2": 0, "sp=2,tp=2": 4, "dp=2,sp=2,tp=2": 4} {
			m := meshtest.Mesh(t, on)
			if kv == 1 && m.Size("tp") > 1 {
				continue // a head is not cut
			}
			for _, block := range []int{0, 5} {
				p := meshtest.Build(t, m, func(b *spmd.Builder) {
					dp := []string{}
					if m.Has("dp") {
						dp = []string{"dp"}
					}
					in := func(name string, x *interp.Array, tokens []string) spmd.Tensor {
						return b.Input(name, x.DType, x.Shape, sharding.NewSpec(dp, tokens, tp))
					}
					by := b.Input("mask", dtype.Bool, mask.Shape, sharding.NewSpec(dp))
					out := attention.Prefixed(b, attention.Parts{K: in("tk", tk, nil), V: in("tv", tv, nil)},
						attention.Parts{Q: in("q", q, sp), K: in("vk", vk, sp), V: in("vv", vv, sp)}, tokens,
						attention.Options{Mask: &by, BlockQ: block, BlockK: block})
					b.Output("out", out, "")
				})
				got := meshtest.Interp(t, p, meshtest.Values{"q": q, "tk": tk, "tv": tv, "vk": vk, "vv": vv, "mask": mask})["out"]
				what := fmt.Sprintf("%d key heads on %s, blocks of %d", kv, on, block)
				compare(t, what, part(got, 1, 0, tokens), part(want, 1, 0, tokens), tolerance)
				if n := len(cost.Instances(p)); n != moves {
					t.Errorf("%s: %d collectives, want %d: %v", what, n, moves, cost.Collectives(p))
				}
			}
		}
	}
}
