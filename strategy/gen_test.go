package strategy_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"weft/fault"
	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

// grid makes a mesh of "data=2,model=4", its names spelled as given.
func grid(t testing.TB, text string) *mesh.Mesh {
	t.Helper()
	var axes []mesh.Axis
	for part := range strings.SplitSeq(text, ",") {
		name, size, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(size)
		if err != nil {
			t.Fatal(err)
		}
		axes = append(axes, mesh.Axis{Name: name, Size: n})
	}
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tensor makes a bf16 tensor of "out,in" and sizes.
func tensor(name, dims string, shape ...int) strategy.Tensor {
	var names []string
	if dims != "" {
		names = strings.Split(dims, ",")
	}
	return strategy.Tensor{Name: name, Dims: names, Shape: shape, Elem: 2}
}

func spec(t testing.TB, text string) sharding.Spec {
	t.Helper()
	s, err := sharding.ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantKinds checks the violations of err, in order.
func wantKinds(t testing.TB, err error, kinds ...error) {
	t.Helper()
	got := fault.Violations(err)
	if len(got) != len(kinds) {
		t.Fatalf("%d violations, want %d:\n%v", len(got), len(kinds), err)
	}
	for i := range got {
		if !errors.Is(got[i], kinds[i]) {
			t.Errorf("violation %d is %q, want kind %v", i, got[i], kinds[i])
		}
	}
}

// reasons are those of notes, joined.
func reasons(notes []strategy.Note) string {
	var out []string
	for _, n := range notes {
		out = append(out, string(n.Reason))
	}
	return strings.Join(out, " ")
}

// all is the rule that splits one dim of every tensor.
func all(dim string) []strategy.Rule { return []strategy.Rule{{Match: "*", Dim: dim}} }

// draw gives the randomness of one case: rapid's own generators favour small
// values so much that most specs would split nothing.
func draw(t *rapid.T) *rand.Rand {
	var seed [32]byte
	copy(seed[:], rapid.SliceOfN(rapid.Byte(), len(seed), len(seed)).Draw(t, "seed"))
	return rand.New(rand.NewChaCha8(seed))
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
