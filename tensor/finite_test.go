package tensor

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
)

// Every bit pattern of the small types is judged as its value is.
func TestNonFiniteOfEveryPattern(t *testing.T) {
	for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
		for p := range 1 << 16 {
			x := New(d, 1)
			binary.LittleEndian.PutUint16(x.Data, uint16(p))
			fs, err := x.Float32s()
			if err != nil {
				t.Fatal(err)
			}
			bad := math.IsNaN(float64(fs[0])) || math.IsInf(float64(fs[0]), 0)
			if count, first := x.NonFinite(); (count == 1) != bad || (first == 0) != bad {
				t.Fatalf("%v %#x is %v: %d, %d", d, p, fs[0], count, first)
			}
		}
	}
	// One NaN of either sign; an infinity and three NaNs of either sign.
	for d, want := range map[dtype.DType]int{dtype.F8E4M3: 2, dtype.F8E5M2: 8} {
		x := New(d, 256)
		for p := range x.Data {
			x.Data[p] = byte(p)
		}
		if count, first := x.NonFinite(); count != want || first != 128-want/2 {
			t.Errorf("%v: %d, the first %#x", d, count, first)
		}
	}
}

func TestNonFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 5), 0, 3).Draw(t, "shape")
		fs := rapid.SliceOfN(rapid.SampledFrom([]float32{0, 1, -1e38, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, 1e-45}), Elements(shape), Elements(shape)).Draw(t, "values")
		count, first := 0, -1
		for i, f := range fs {
			if v := float64(f); math.IsNaN(v) || math.IsInf(v, 0) {
				if count++; first < 0 {
					first = i
				}
			}
		}
		x, err := FromFloat32s(dtype.F32, fs, shape...)
		if err != nil {
			t.Fatal(err)
		}
		if c, f := x.NonFinite(); c != count || f != first {
			t.Fatalf("%d at %d, want %d at %d", c, f, count, first)
		}
		wide := New(dtype.F64, shape...)
		for i, f := range fs {
			binary.LittleEndian.PutUint64(wide.Data[8*i:], math.Float64bits(float64(f)))
		}
		if c, f := wide.NonFinite(); c != count || f != first {
			t.Fatalf("f64: %d at %d, want %d at %d", c, f, count, first)
		}
		if first >= 0 {
			place := 0
			for d, i := range x.Index(first) {
				place = place*shape[d] + i
			}
			if place != first {
				t.Fatalf("index %v of %d in %v", x.Index(first), first, shape)
			}
		}
	})
	if at := New(dtype.I32, 2, 3, 4).Index(23); !slices.Equal(at, []int{1, 2, 3}) {
		t.Error(at)
	}
}

func BenchmarkNonFinite(b *testing.B) {
	x := New(dtype.F32, 1<<22)
	b.SetBytes(int64(len(x.Data)))
	for b.Loop() {
		x.NonFinite()
	}
}
