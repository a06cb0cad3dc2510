package strategy_test

import (
	"strconv"
	"strings"
	"testing"

	"weft/mesh"
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
