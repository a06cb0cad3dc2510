package dtype_test

import (
	"testing"

	"weft/dtype"
)

// Every element type is found again by both of its names, and has a size.
func TestNames(t *testing.T) {
	for d := dtype.F64; d <= dtype.Bool; d++ {
		if got, err := dtype.Parse(d.String()); err != nil || got != d {
			t.Errorf("Parse(%q) is %v: %v", d.String(), got, err)
		}
		if got, ok := dtype.FromSafetensors(d.Safetensors()); !ok || got != d {
			t.Errorf("FromSafetensors(%q) is %v", d.Safetensors(), got)
		}
		if n := d.Size(); n != 1 && n != 2 && n != 4 && n != 8 {
			t.Errorf("%v has %d bytes", d, n)
		}
		if d.IsFloat() != (d <= dtype.F8E5M2) {
			t.Errorf("%v is a float: %v", d, d.IsFloat())
		}
	}
	if dtype.Invalid.Size() != 0 || dtype.Invalid.IsFloat() || dtype.Invalid.String() != "dtype(0)" {
		t.Error("Invalid has a size or a name")
	}
	if d, err := dtype.Parse("bf17"); err == nil || d != dtype.Invalid {
		t.Errorf("bf17 is %v", d)
	}
	if d, ok := dtype.FromSafetensors("BF17"); ok || d != dtype.Invalid {
		t.Errorf("BF17 is %v", d)
	}
}
