package spmd_test

import (
	"errors"
	"strings"
	"testing"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/program"
	"weft/program/cost"
	"weft/sharding"
	"weft/spmd"
)

// conv builds one convolution of x by w, both whole or x as spec says, and shows the error.
func conv(t *testing.T, on string, d dtype.DType, x, w []int, spec sharding.Spec, pad ...[2]int) (*program.Program, error) {
	t.Helper()
	m := meshtest.Mesh(t, on)
	return spmd.Build("conv", m, func(b *spmd.Builder) {
		kernel := b.Input("w", dtype.F32, w, sharding.Whole(len(w)))
		b.Output("y", b.Conv(b.Input("x", d, x, spec), kernel, pad, dtype.F32), "")
	})
}

func TestConvRefuses(t *testing.T) {
	for _, c := range []struct {
		d    dtype.DType
		x, w []int
		pad  [][2]int
		kind error
		want string
	}{
		{dtype.F32, []int{1, 5, 2}, []int{4, 3, 3}, [][2]int{{1, 1}}, spmd.ErrShape, "2 channels meet a kernel from 3 to 4"},
		{dtype.F32, []int{1, 5, 2}, []int{4, 2, 3, 3}, [][2]int{{1, 1}}, spmd.ErrShape, "(N, S..., I)"},
		{dtype.F32, []int{1, 5, 2}, []int{4, 2, 3}, nil, spmd.ErrShape, "(N, S..., I)"},
		{dtype.F32, []int{1, 2}, []int{4, 2}, nil, spmd.ErrShape, "(N, S..., I)"},
		{dtype.F32, []int{1, 2, 2}, []int{4, 2, 4}, [][2]int{{1, 0}}, spmd.ErrShape, "a kernel of 4 on spatial dim 0 of size 2"},
		{dtype.F32, []int{1, 2, 2}, []int{4, 2, 1}, [][2]int{{-1, 0}}, spmd.ErrShape, "-1 zeros before"},
		{dtype.F32, []int{1, 2, 0}, []int{4, 0, 1}, [][2]int{{0, 0}}, spmd.ErrShape, "0 channels"},
		{dtype.BF16, []int{1, 2, 2}, []int{4, 2, 1}, [][2]int{{0, 0}}, spmd.ErrType, "convert one first"},
	} {
		_, err := conv(t, "", c.d, c.x, c.w, sharding.Whole(len(c.x)), c.pad...)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v by %v: %v, want %q", c.x, c.w, err, c.want)
		}
	}
}

// What a convolution in steps of 2 exchanges: it reads the row after a device's own and none
// before. Where a device has an odd number of rows, its first step begins at its second row
// or its first, so all rows are gathered.
func TestStridedConvExchanges(t *testing.T) {
	rows := sharding.NewSpec(nil, []string{"sp"})
	for _, c := range []struct {
		on      string
		rows, k int
		pad     [2]int
		stride  int
		want    string
		split   bool
	}{
		{"sp=2", 8, 3, [2]int{0, 1}, 2, "collective-permute sp     f32    1        6        24\n", true},
		{"sp=4", 8, 3, [2]int{0, 1}, 2, "collective-permute sp     f32    1        6        24\n", true},
		{"sp=4", 8, 3, [2]int{1, 0}, 2, "collective-permute sp     f32    1        6        24\n", true}, // the row before
		{"sp=4", 8, 1, [2]int{0, 0}, 2, "", true},                                                        // every other of its own
		{"sp=8", 8, 3, [2]int{0, 1}, 2, "all-gather         sp     f32    1        6       168\n", false},
		{"sp=2", 6, 3, [2]int{0, 1}, 2, "all-gather         sp     f32    1       18        72\n", false}, // 3 rows each
		{"sp=2", 8, 3, [2]int{0, 0}, 2, "all-gather         sp     f32    1       24        96\n", false}, // 3 rows of 8
	} {
		m := meshtest.Mesh(t, c.on)
		var got sharding.Spec
		p, err := spmd.Build("conv", m, func(b *spmd.Builder) {
			kernel := b.Input("w", dtype.F32, []int{5, 2, c.k, 1}, sharding.Whole(4))
			y := b.ConvStrided(b.Input("x", dtype.F32, []int{1, c.rows, 3, 2}, rows), kernel, [][2]int{c.pad, {0, 0}}, []int{c.stride, 1}, dtype.F32)
			got = y.Spec
			b.Output("y", y, "")
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := meshtest.Table(cost.Collectives(p)); got != c.want {
			t.Errorf("%s, %d rows, kernel of %d with %v: moves\n%swant\n%s", c.on, c.rows, c.k, c.pad, got, c.want)
		}
		if split := len(got.Dim(1)) > 0; split != c.split {
			t.Errorf("%s, %d rows: the result's rows are split: %v", c.on, c.rows, split)
		}
	}
}

func TestStridedConvRefuses(t *testing.T) {
	for _, c := range []struct {
		strides []int
		want    string
	}{{[]int{0}, "stride 0 on spatial dim 0: want 1 or more"}, {[]int{2, 2}, "strides [2 2] for 1 spatial dims"}} {
		_, err := spmd.Build("conv", meshtest.Mesh(t, ""), func(b *spmd.Builder) {
			x, w := b.Input("x", dtype.F32, []int{1, 5, 2}, sharding.Whole(3)), b.Input("w", dtype.F32, []int{4, 2, 3}, sharding.Whole(3))
			b.Output("y", b.ConvStrided(x, w, [][2]int{{1, 1}}, c.strides, dtype.F32), "")
		})
		if !errors.Is(err, spmd.ErrShape) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.strides, err, c.want)
		}
	}
}

// What a convolution over a split dim exchanges: 8 rows of 3 columns and 2 channels.
func TestConvExchanges(t *testing.T) {
	rows := sharding.NewSpec(nil, []string{"sp"})
	for _, c := range []struct {
		on   string
		k    int
		pad  [2]int
		want string
	}{
		// An edge of one row, 3*2 elements, each way. Of two devices each has one neighbour.
		{"sp=2", 3, [2]int{1, 1}, "collective-permute sp     f32    2       12        24\n"},
		{"sp=4", 3, [2]int{1, 1}, "collective-permute sp     f32    2       12        48\n"},
		// A causal kernel reads two rows before its own and none after.
		{"sp=4", 3, [2]int{2, 0}, "collective-permute sp     f32    1       12        48\n"},
		// One row each and a kernel that reads three before: three neighbours send theirs.
		{"sp=8", 4, [2]int{3, 0}, "collective-permute sp     f32    3       18        72\n"},
		// Nothing beyond its own row.
		{"sp=8", 1, [2]int{0, 0}, ""},
		// Another size: the rows would lie elsewhere, so all are gathered.
		{"sp=4", 3, [2]int{0, 0}, "all-gather         sp     f32    1       12       144\n"},
	} {
		p, err := conv(t, c.on, dtype.F32, []int{1, 8, 3, 2}, []int{5, 2, c.k, 1}, rows, c.pad, [2]int{0, 0})
		if err != nil {
			t.Fatal(err)
		}
		if got := meshtest.Table(cost.Collectives(p)); got != c.want {
			t.Errorf("%s, kernel of %d with %v: moves\n%swant\n%s", c.on, c.k, c.pad, got, c.want)
		}
	}
}

// Cut up along the first spatial dim it is the same convolution, in f32 and rounded once to bf16.
// Its steps are computed one after another, so that no copy of all rows is held.
func TestFlatConv(t *testing.T) {
	m := meshtest.Mesh(t, "sp=2")
	small := func(i int) float64 { return float64(i*7%9) - 4 }
	in := meshtest.Values{"x": meshtest.Fill(dtype.BF16, small, 2, 4, 6, 5, 2), "w": meshtest.Fill(dtype.BF16, small, 3, 2, 3, 3, 2)}
	for _, out := range []dtype.DType{dtype.F32, dtype.BF16} {
		build := func(target spmd.Target) *program.Program {
			return meshtest.Build(t, m, func(b *spmd.Builder) {
				x := b.Input("x", dtype.BF16, in["x"].Shape, sharding.NewSpec(nil, nil, []string{"sp"}))
				w := b.Input("w", dtype.BF16, in["w"].Shape, sharding.Whole(5))
				b.Output("y", b.Conv(x, w, [][2]int{{2, 0}, {1, 1}, {0, 1}}, out), "")
			}, spmd.WithTarget(target))
		}
		flat := build(spmd.Target{FlatConv: true})
		if got, want := meshtest.Interp(t, flat, in)["y"], meshtest.Interp(t, build(spmd.Target{}), in)["y"]; meshtest.Differ(got, want, 0) != "" {
			t.Errorf("%v: %s", out, meshtest.Differ(got, want, 0))
		}
		n := 0
		flat.Walk(func(in *program.Instr, _ int) {
			if in.Op == program.OpConv && len(in.Lo) == 2 {
				n++
			}
		})
		if n != 3 {
			t.Errorf("%d convolutions over two dims, want one for each of 3 places", n)
		}
	}
}
