package numbers

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDivisors(t *testing.T) {
	for _, c := range []struct {
		n, limit int
		want     []int
	}{{12, 12, []int{1, 2, 3, 4, 6, 12}}, {12, 64, []int{1, 2, 3, 4, 6, 12}}, {12, 4, []int{1, 2, 3, 4}}, {1, 9, []int{1}}, {0, 9, []int{}}, {-4, 9, []int{}}} {
		if got := Divisors(c.n, c.limit); got == nil || !slices.Equal(got, c.want) {
			t.Errorf("%d up to %d: %v, want %v", c.n, c.limit, got, c.want)
		}
	}
}

func TestNearestMultiples(t *testing.T) {
	for _, c := range []struct {
		n, step int
		want    []int
	}{{7, 4, []int{4, 8}}, {8, 4, []int{8, 12}}, {3, 4, []int{4}}, {0, 4, []int{4}}, {-5, 4, []int{4}},
		{math.MaxInt, 4, []int{math.MaxInt - 3}}, {5, math.MaxInt, []int{math.MaxInt}}} {
		if got := NearestMultiples(c.n, c.step); !slices.Equal(got, c.want) {
			t.Errorf("%d by %d: %v, want %v", c.n, c.step, got, c.want)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for _, c := range [][3]int{{0, 4, 0}, {1, 4, 4}, {4, 4, 4}, {5, 4, 8}, {5, 0, 5}, {5, 1, 5}} {
		if got := RoundUp(c[0], c[1]); got != c[2] {
			t.Errorf("%d to a multiple of %d: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestProductAndShapeText(t *testing.T) {
	for _, c := range []struct {
		shape   []int
		product int
		text    string
		sizes   string
	}{{nil, 1, "()", ""}, {[]int{16}, 16, "(16)", "16"}, {[]int{16, 8}, 128, "(16,8)", "16x8"}, {[]int{2, 0, 3}, 0, "(2,0,3)", "2x0x3"}} {
		if got, text, sizes := Product(c.shape), ShapeText(c.shape), SizesText(c.shape); got != c.product || text != c.text || sizes != c.sizes {
			t.Errorf("%v: %d, %s and %s, want %d, %s and %s", c.shape, got, text, sizes, c.product, c.text, c.sizes)
		}
	}
}

func TestMulChecked(t *testing.T) {
	edge := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 1<<33), rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 2, 1 << 31, 1 << 32, 1 << 62, math.MaxInt64}))
	rapid.Check(t, func(t *rapid.T) {
		a, b := edge.Draw(t, "a"), edge.Draw(t, "b")
		exact := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		want := a >= 0 && b >= 0 && exact.IsInt64()
		product, fits := MulChecked(a, b)
		if fits != want || product != a*b {
			t.Errorf("%d times %d: %d, %v; want %v, %v", a, b, product, fits, exact, want)
		}
	})
}
