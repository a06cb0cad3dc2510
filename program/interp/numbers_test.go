package interp

import (
	"math"
	"testing"

	"weft/dtype"
	"weft/tensor"
)

// Every bit pattern of the narrow floats decodes to a number that encodes to
// the same pattern, and the formats' known values are right.
func TestNarrowFloatsRoundTrip(t *testing.T) {
	for d, f := range narrowFormats {
		for b := range 1 << f.width {
			v := f.decodeBits(uint16(b))
			if math.IsNaN(v) {
				if got := f.decodeBits(f.encodeBits(v)); !math.IsNaN(got) {
					t.Errorf("%s: %x is no number and comes back as %v", d, b, got)
				}
				continue
			}
			if r := f.round(v); r != v {
				t.Errorf("%s: %x is %v and rounds to %v", d, b, v, r)
			}
			if got := f.encodeBits(v); got != uint16(b) {
				t.Errorf("%s: %x is %v and encodes to %x", d, b, v, got)
			}
		}
	}
	for _, c := range []struct {
		d    dtype.DType
		bits uint16
		want float64
	}{
		{dtype.BF16, 0x3F80, 1}, {dtype.BF16, 0xC000, -2}, {dtype.BF16, 0x7F80, math.Inf(1)},
		{dtype.F16, 0x3C00, 1}, {dtype.F16, 0x0001, 0x1p-24}, {dtype.F16, 0x7BFF, 65504},
		// E4M3 has no infinity and its largest number is 448; E5M2 has one, as IEEE has.
		{dtype.F8E4M3, 0x38, 1}, {dtype.F8E4M3, 0xB0, -0.5}, {dtype.F8E4M3, 0x7E, 448}, {dtype.F8E4M3, 0x7F, math.NaN()},
		{dtype.F8E5M2, 0x3C, 1}, {dtype.F8E5M2, 0x7B, 57344}, {dtype.F8E5M2, 0x7C, math.Inf(1)},
	} {
		if got := narrowFormats[c.d].decodeBits(c.bits); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s %x is %v, want %v", c.d, c.bits, got, c.want)
		}
	}
}

// The fast bf16 rounding is the general one.
func TestRoundBF16(t *testing.T) {
	for b := uint64(0); b < 1<<32; b += 7919 {
		x := math.Float32frombits(uint32(b))
		want := narrowFormats[dtype.BF16].round(float64(x))
		if got := float64(roundBF16(x)); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("%x rounds to %v, want %v", b, got, want)
		}
	}
}

func TestTensorRoundTrip(t *testing.T) {
	for d := dtype.F64; d <= dtype.Bool; d++ {
		a := NewArray(d, 2, 3)
		for i := range a.Len() {
			a.Set(i, float64(i)-2)
		}
		got := FromTensor(a.Tensor())
		for i := range a.Len() {
			if got.At(i) != a.At(i) {
				t.Errorf("%s: element %d is %v, want %v", d, i, got.At(i), a.At(i))
			}
		}
	}
	host := tensor.New(dtype.U64, 1)
	for i := range host.Data {
		host.Data[i] = 0xFF
	}
	if v := FromTensor(host).At(0); v != 0x1p64 {
		t.Errorf("all ones are %v", v)
	}
}
