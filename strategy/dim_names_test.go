package strategy_test

import (
	"fmt"
	"slices"
	"testing"

	"weft/mesh"
	"weft/sharding"
	"weft/strategy"
)

func TestAxesOfDims(t *testing.T) {
	for _, test := range []struct {
		dims []strategy.DimName
		want string
	}{
		{nil, "[]"}, {[]strategy.DimName{strategy.None}, "[]"},
		{[]strategy.DimName{strategy.Tokens, strategy.Heads}, "[ring sp tp]"},
		{[]strategy.DimName{strategy.Heads, strategy.FFN, strategy.Vocab, strategy.Width}, "[tp]"},
		{[]strategy.DimName{strategy.Batch, strategy.AtRest, strategy.Layers}, "[dp fsdp pp]"},
	} {
		if got := fmt.Sprint(strategy.Axes(test.dims...)); got != test.want {
			t.Errorf("%v: %s, want %s", test.dims, got, test.want)
		}
	}
	// What a caller does with the result changes no other's.
	axes := strategy.Axes(strategy.Tokens)
	axes[0] = "x"
	if got := strategy.Axes(strategy.Tokens); !slices.Equal(got, []string{mesh.Ring, mesh.SP}) {
		t.Errorf("the table changed to %v", got)
	}
}

func TestSpecOfDims(t *testing.T) {
	for want, got := range map[string]sharding.Spec{
		"[]":           strategy.SpecOf(),
		"[dp,ring+sp]": strategy.SpecOf(strategy.Batch, strategy.Tokens),
		"[dp,-,tp]":    strategy.SpecOf(strategy.Batch, strategy.None, strategy.Heads),
		"[dp,-,sp,tp]": strategy.SpecOf(strategy.Batch, strategy.None, strategy.Rows, strategy.Columns),
		"[tp]":         strategy.ColumnParallel(strategy.FFN),
		"[-,tp]":       strategy.RowParallel(strategy.FFN),
	} {
		if got.String() != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestUnknownDimsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"no such name": func() { strategy.Axes("width ") },
		"in a spec":    func() { strategy.SpecOf(strategy.Batch, "x") },
		"no axis":      func() { strategy.Axis(strategy.None) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// The dims that a strategy finds its axes by when none are given are those of the table: "tokens"
// is the name that models use, and "sequence" is read as the same.
func TestStrategiesTakeTheTable(t *testing.T) {
	m := grid(t, "dp=2,fsdp=2,sp=2,tp=2")
	for _, tokens := range []string{"tokens", "sequence"} {
		x := tensor("x", "a,batch,"+tokens, 8, 8, 8) // an activation, by its batch beside tokens
		got, notes, err := strategy.Plan{fsdp(), dp()}.Refine(m, x, sharding.Spec{})
		if err != nil || got.String() != "[-,dp+fsdp,-]" || reasons(notes) != "activation" {
			t.Errorf("%s: %s %q %v", tokens, got, reasons(notes), err)
		}
	}
}
