package stablehlo_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/internal/golden"
	"weft/internal/meshtest"
	"weft/internal/spmdtest"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/program/stablehlo"
	"weft/sharding"
	"weft/spmd"
)

func TestGoldenText(t *testing.T) {
	p := spmdtest.Block(t)
	golden.Compare(t, "testdata/block.mlir", stablehlo.Text(p))
	golden.Compare(t, "testdata/block.txt", p.String())
	var all, listing strings.Builder
	for _, c := range spmdtest.Cases() {
		p, err := c.Program()
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(stablehlo.Text(p))
		listing.WriteString(p.String())
	}
	golden.Compare(t, "testdata/operations.mlir", all.String())
	golden.Compare(t, "testdata/operations.txt", listing.String())
}

// The same program gives the same bytes, however often it is built.
func TestTextIsDeterministic(t *testing.T) {
	first := spmdtest.Block(t)
	for range 20 {
		if again := spmdtest.Block(t); stablehlo.Text(again) != stablehlo.Text(first) || again.String() != first.String() {
			t.Fatal("two builds differ")
		}
	}
}

// What the emitted text says about traffic is what the program says: the
// operations, axes, element types, counts and elements.
func TestTextAgreesWithProgram(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, _ := spmdtest.Random(rt)
		text := stablehlo.Text(p)
		found, err := meshtest.CountText(text)
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		for _, line := range strings.Split(text, "\n") {
			if _, typ, ok := strings.Cut(line, "stablehlo.constant "); ok && strings.Contains(typ[strings.Index(typ, "tensor<"):], "x") {
				rt.Fatalf("a constant that is no scalar: %s", line)
			}
		}
		want := cost.Instances(p)
		if len(found) != len(want) {
			rt.Fatalf("%d collectives in the text, %d in the program\n%s", len(found), len(want), text)
		}
		for i, f := range found {
			w := want[i]
			if f.Op != w.Op || f.DType != w.DType || f.Times != w.Count || f.Elements*int64(f.Times) != w.Elements {
				rt.Fatalf("collective %d: text %+v, program %+v", i, f, w)
			}
			// A permute along an axis may move nothing, and then shows none.
			if axes := strings.Join(f.Axes(p.Mesh), "+"); axes != w.Axis && (f.Op != program.OpPermute || axes != "") {
				rt.Fatalf("collective %d: text over %q, program over %q", i, axes, w.Axis)
			}
		}
	})
}

func TestCountTextRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no groups":  `%1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64}> : (tensor<2xf32>) -> tensor<4xf32>`,
		"no type":    `%1 = "stablehlo.all_gather"(%0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>`,
		"short list": `%1 = "stablehlo.all_gather"(%0) <{replica_groups = dense<[[0]]> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<4xf32>`,
		"open loop":  "cond {\n%t = stablehlo.constant dense<3> : tensor<i32>\n} do {",
		"no trips":   "cond {\n} do {\n}",
	} {
		if got, err := meshtest.CountText(text); err == nil {
			t.Errorf("%s: %v and no error", name, got)
		}
	}
}

// Groups along no set of axes have no axes.
func TestTextAxes(t *testing.T) {
	m := spmdtest.NewMesh(t, mesh.Axis{Name: "a", Size: 2}, mesh.Axis{Name: "b", Size: 2})
	for _, c := range []struct {
		groups [][]int
		want   string
	}{
		{[][]int{{0, 1}, {2, 3}}, "b"},
		{[][]int{{0, 2}, {1, 3}}, "a"},
		{[][]int{{0, 1, 2, 3}}, "a+b"},
		{[][]int{{0, 3}, {1, 2}}, "none"},
	} {
		got := "none"
		if axes := (meshtest.TextCollective{Op: program.OpAllReduce, Groups: c.groups}).Axes(m); axes != nil {
			got = strings.Join(axes, "+")
		}
		if got != c.want {
			t.Errorf("%v: axes %s, want %s", c.groups, got, c.want)
		}
	}
}

// Names that are no identifiers, a permute that moves nothing, and numbers
// without a decimal form still give text that parses; XLA's test compiles it.
func odd(t testing.TB) *program.Program {
	t.Helper()
	m := spmdtest.NewMesh(t, mesh.Axis{Name: "tp", Size: 2})
	p, err := spmd.Build("a \"b\"\n1", m, func(b *spmd.Builder) {
		x := b.Local(b.Input("x\ny", dtype.F16, []int{3}, sharding.Whole(1)))
		y := b.LPermute(x, nil, []string{"tp"}, "nothing\nmoves")
		y = b.LMax(b.LMax(y, b.LConst(dtype.F16, math.Inf(-1), 3)), b.LConst(dtype.F16, math.Copysign(0, -1)))
		b.Output("", b.Global(y, []int{3}, sharding.Whole(1)), "x\ny")
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOddNames(t *testing.T) { golden.Compare(t, "testdata/odd.mlir", stablehlo.Text(odd(t))) }
