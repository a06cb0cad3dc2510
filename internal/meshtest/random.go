package meshtest

import (
	"math/rand/v2"

	"pgregory.net/rapid"
)

// Draw gives the randomness of one case. Rapid's own generators favour small values so
// much that most specs would split nothing; a failing case prints its mesh, specs and
// shape, which is all there is to it.
func Draw(t *rapid.T) *rand.Rand {
	var seed [32]byte
	copy(seed[:], rapid.SliceOfN(rapid.Byte(), len(seed), len(seed)).Draw(t, "seed"))
	return rand.New(rand.NewChaCha8(seed))
}

// Pick gives one of some values.
func Pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
