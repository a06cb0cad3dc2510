package tensor

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
)

func TestCutAndPasteMoveExactlyTheBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rank := rapid.IntRange(0, 5).Draw(t, "rank")
		shape, lo, hi, block := make([]int, rank), make([]int, rank), make([]int, rank), make([]int, rank)
		for d := range shape {
			shape[d] = rapid.IntRange(0, 5).Draw(t, "size")
			lo[d] = rapid.IntRange(0, shape[d]).Draw(t, "lo")
			hi[d] = rapid.IntRange(lo[d], shape[d]).Draw(t, "hi")
			block[d] = hi[d] - lo[d]
		}
		n := Elements(shape)
		src := make([]byte, 2*n)
		for i := range n {
			src[2*i], src[2*i+1] = byte(i), byte(i>>8)
		}
		got := make([]byte, 2*Elements(block))
		Cut(got, src, shape, lo, hi, 2)
		back := make([]byte, 2*n)
		for i := range back {
			back[i] = 0xee
		}
		Paste(back, got, shape, lo, hi, 2)
		at := 0
		for i := range n {
			rest, inside := i, true
			for d := rank - 1; d >= 0; d-- {
				c := rest % shape[d]
				rest /= shape[d]
				inside = inside && c >= lo[d] && c < hi[d]
			}
			v := int(back[2*i]) | int(back[2*i+1])<<8
			switch {
			case inside && (v != i || int(got[2*at])|int(got[2*at+1])<<8 != i):
				t.Fatalf("element %d of %v [%v,%v) came back as %d", i, shape, lo, hi, v)
			case !inside && v != 0xeeee:
				t.Fatalf("element %d of %v outside [%v,%v) was written", i, shape, lo, hi)
			}
			if inside {
				at++
			}
		}
		if at != len(got)/2 {
			t.Fatalf("block of %d elements, %d inside", len(got)/2, at)
		}
	})
}

func TestBF16RoundsToNearestEven(t *testing.T) {
	for _, c := range []struct {
		in   float32
		want uint16
	}{
		{1, 0x3f80}, {1 + 1.0/256, 0x3f80}, {1 + 3.0/256, 0x3f82}, {1 + 1.0/256 + 1.0/65536, 0x3f81},
		{-2, 0xc000}, {0, 0}, {float32(math.Inf(1)), 0x7f80}, {math.MaxFloat32, 0x7f80},
		{math.Float32frombits(1), 0}, {math.Float32frombits(0x00010000), 1},
	} {
		if got := BF16(c.in); got != c.want {
			t.Errorf("BF16(%g) = %#04x, want %#04x", c.in, got, c.want)
		}
	}
	if f := FromBF16(BF16(float32(math.NaN()))); f == f {
		t.Error("NaN became a number")
	}
	if f := FromBF16(BF16(math.Float32frombits(0x7f800001))); f == f {
		t.Error("a NaN whose high bits are those of infinity became a number")
	}
}

func TestAsConvertsWithoutLossWhereItCan(t *testing.T) {
	fs := []float32{0, -1.5, 3, 1 << 10, float32(math.Inf(-1))}
	for _, d := range []dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16} {
		x, err := FromFloat32s(d, fs, 5)
		if err != nil {
			t.Fatal(err)
		}
		back, err := x.As(dtype.F32)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := back.Float32s()
		for i := range fs {
			if got[i] != fs[i] {
				t.Errorf("%v: %g came back as %g", d, fs[i], got[i])
			}
		}
	}
	if _, err := New(dtype.I32, 2).Float32s(); err == nil {
		t.Error("integers were taken for floats")
	}
	if _, err := FromFloat32s(dtype.F32, fs, 4); err == nil {
		t.Error("5 elements made a tensor of 4")
	}
}
