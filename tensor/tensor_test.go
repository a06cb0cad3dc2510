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

func TestTransposeAndSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rank := rapid.IntRange(1, 5).Draw(t, "rank")
		shape, order := make([]int, rank), make([]int, rank)
		for d := range shape {
			shape[d], order[d] = rapid.IntRange(0, 4).Draw(t, "size"), d
		}
		perm := rapid.Permutation(order).Draw(t, "perm")
		x := New(dtype.BF16, shape...)
		for i := range x.Elements() {
			x.Data[2*i], x.Data[2*i+1] = byte(i), byte(i>>8)
		}
		// place is the index of element i of a tensor along every dim.
		place := func(i int, shape []int) []int {
			out := make([]int, len(shape))
			for d := len(shape) - 1; d >= 0; d-- {
				out[d] = i % shape[d]
				i /= shape[d]
			}
			return out
		}
		at := func(place, shape []int) int {
			i := 0
			for d, n := range shape {
				i = i*n + place[d]
			}
			return 2 * i
		}
		y := x.Transpose(perm...)
		for i := range y.Elements() {
			from := make([]int, rank)
			for d, p := range place(i, y.Shape) {
				from[perm[d]] = p
			}
			j := at(from, shape)
			if y.Data[2*i] != x.Data[j] || y.Data[2*i+1] != x.Data[j+1] {
				t.Fatalf("%v to %v: element %d is not that of %v", shape, perm, i, from)
			}
		}
		dim := rapid.IntRange(0, rank-1).Draw(t, "dim")
		lo := rapid.IntRange(0, shape[dim]).Draw(t, "lo")
		hi := rapid.IntRange(lo, shape[dim]).Draw(t, "hi")
		z := x.Slice(dim, lo, hi)
		for i := range z.Elements() {
			from := place(i, z.Shape)
			from[dim] += lo
			if j := at(from, shape); z.Data[2*i] != x.Data[j] || z.Data[2*i+1] != x.Data[j+1] {
				t.Fatalf("%v along %d from %d: element %d is not that of %v", shape, dim, lo, i, from)
			}
		}
	})
}
