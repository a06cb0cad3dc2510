package sharding_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"weft/internal/meshtest"
	"weft/sharding"
)

// Nothing panics, whatever the spec, the shape and the numbers.
func TestNoPanics(t *testing.T) {
	names := []string{"a", "b", "c", "d", "x", "", "-", "a b", "a"}
	number := func(r *rand.Rand) int {
		return meshtest.Pick(r, 0, 1, 2, 3, 7, 12, -1, -12, math.MaxInt, math.MaxInt-1, math.MinInt, 1<<40)
	}
	anything := func(r *rand.Rand) sharding.Spec {
		dims := make([][]string, r.IntN(4))
		for i := range dims {
			for range r.IntN(3) {
				dims[i] = append(dims[i], meshtest.Pick(r, names...))
			}
		}
		s := sharding.NewSpec(dims...)
		for range r.IntN(2) {
			s = s.WithPartial(meshtest.Pick(r, names...))
		}
		return s.WithDim(r.IntN(8)-4, meshtest.Pick(r, names...))
	}
	rapid.Check(t, func(t *rapid.T) {
		r := meshtest.Draw(t)
		m, from, to := anyMesh(r), anything(r), anything(r)
		shape := make([]int, r.IntN(4))
		for i := range shape {
			shape[i] = number(r)
		}
		for _, s := range []sharding.Spec{from, to} {
			text := s.String() + s.JAX() + s.HLO(m, len(shape)) + s.Shardy(m, len(shape))
			_, _ = sharding.ParseSpec(text)
			_, _ = s.MarshalJSON()
			_, errLocal := s.Local(m, shape)
			if (errLocal == nil) != (s.Check(m, shape) == nil) {
				t.Fatalf("%s of %v: Local says %v", s, shape, errLocal)
			}
			_, _ = s.Ranges(m, shape, number(r))
			rule := sharding.Rule{Match: "*", Spec: s, Layout: sharding.Layout{Dim: number(r), Parts: []int{number(r), number(r)}, Heads: []int{number(r), number(r)}}}
			if a, err := (sharding.Rules{rule}).Apply(m, []sharding.Param{{Name: "p", Shape: shape}}); err == nil {
				_, _ = a[0].Ranges(m, number(r))
			}
		}
		_, _ = sharding.Reshard(m, from, to, shape, number(r))
		_ = sharding.CheckHeads(number(r), number(r), number(r))
		_, _, _ = sharding.KVHeads(number(r), number(r), number(r))
		_, _ = sharding.Layout{Parts: []int{number(r), number(r)}}.Ranges(number(r), number(r), number(r))
		_ = sharding.RingBytes(sharding.AllReduce, number(r), int64(number(r)))
		_, _ = sharding.Layout{Heads: []int{number(r)}}.Ranges(number(r), number(r), number(r))
	})
}
