package nonfinite

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/fault"
	"weft/tensor"
)

func values(t *testing.T, vs ...float32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloat32s(dtype.F32, vs, len(vs)/2, 2)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Every tensor that is no number is named, with where; finite and absent ones are not.
func TestRefused(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	step := 3
	c := Checker{}
	err := c.CheckTensors("latents", &step, map[string]*tensor.Tensor{"a": values(t, 1, 2), "b": values(t, 1, 2, nan, 4, inf, nan), "c": nil, "d": values(t, inf, 0)})
	if n := len(fault.Violations(err)); n != 2 || !errors.Is(err, Err) || len(c.Notes) != 0 {
		t.Fatalf("%d violations, notes %v: %v", n, c.Notes, err)
	}
	f, ok := fault.Fields[Found](fault.Violations(err)[0])
	if !ok || f.Of != "latents" || f.Tensor != "b" || f.Count != 3 || f.Elements != 6 || !slices.Equal(f.First, []int{1, 0}) || *f.Step != 3 {
		t.Errorf("%+v", f)
	}
	if err := c.CheckTensors("input", nil, map[string]*tensor.Tensor{"a": values(t, 1, 2)}); err != nil {
		t.Error(err)
	}
}

// Allowed, they are notes: one for each tensor outside a loop, and within one the first
// step's alone.
func TestNoted(t *testing.T) {
	bad := values(t, 0, float32(math.NaN()))
	c := Checker{Allow: true}
	for range 2 {
		if err := c.CheckTensors("output", nil, map[string]*tensor.Tensor{"out": bad, "other": bad}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.Notes) != 2 || !strings.Contains(c.Notes[0], `output "other"`) || !strings.Contains(c.Notes[1], `1 of 2 values are NaN or infinite, the first at [0 1]`) {
		t.Errorf("%q", c.Notes)
	}
	c = Checker{Allow: true}
	for i := range 3 {
		if err := c.CheckTensors("latents", &i, map[string]*tensor.Tensor{"latents": values(t, float32(i), float32(math.Inf(1)))}); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.Notes) != 1 {
		t.Errorf("%q", c.Notes)
	}
}
