package spmd_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/internal/numbers"
	"weft/program/cost"
	"weft/sharding"
	"weft/spmd"
)

// somePart draws how much of each dim between the first and the last is no padding.
func (g *randomTensors) somePart(x spmd.Tensor) []int {
	var sizes []int
	for _, n := range x.Shape[1 : x.Rank()-1] {
		size := n
		if g.yes("padded") {
			size = g.int(1, n, "size")
		}
		sizes = append(sizes, size)
	}
	return sizes
}

func hasElements(x drawn) bool { return numbers.Product(x.Shape) > 0 }

// replicated slides a kernel over a tensor whose edges are replicated. What lies behind the
// results that are specified is set to zero.
func (g *randomTensors) replicated() {
	i, ok := g.pick("slid over", func(x drawn) bool { return floats(x) && x.Rank() > 2 && hasElements(x) })
	if !ok {
		return
	}
	if g.pool[i].Rank() == 4 && g.yes("three spatial dims") {
		from := i
		g.take(g.pool[i].most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor { return []spmd.Tensor{b.ExpandDim(p[from], 0)} })
		i = len(g.pool) - 1
	}
	x := g.pool[i]
	o := rapid.SampledFrom(sizes).Draw(g.t, "outputs")
	shape, pads, strides := []int{o, x.Dim(-1)}, [][2]int{}, []int{}
	elements, taps := x.Shape[0]*o, x.Dim(-1)
	part := g.somePart(x.Tensor)
	var specified []int
	for d, n := range x.Shape[1 : x.Rank()-1] {
		k := g.int(1, 4, "kernel")
		before := g.int(0, k-1, "before")
		pad, stride := [2]int{before, k - 1 - before}, rapid.SampledFrom([]int{1, 1, 2}).Draw(g.t, "stride")
		shape, pads, strides = append(shape, k), append(pads, pad), append(strides, stride)
		specified = append(specified, (part[d]-1)/stride+1)
		elements *= n
		taps *= k
	}
	if elements > tensorMost || numbers.Product(shape) > tensorMost {
		return
	}
	w, most := g.addWeights(x.DType, shape)
	out := g.resultOf(x.DType)
	g.take(float64(taps)*x.most*most, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		y := b.Reduced(b.ConvReplicated(p[i], p[w], pads, strides, part, out), "to be zero in part")
		for d, n := range specified {
			y = b.ZeroFrom(y, 1+d, n)
		}
		return []spmd.Tensor{y}
	})
}

// groupNorm normalises groups of channels over part of a tensor's positions.
func (g *randomTensors) groupNorm() {
	i, ok := g.pick("normed by groups", func(x drawn) bool { return floats(x) && x.Rank() > 1 && hasElements(x) })
	if !ok {
		return
	}
	x := g.pool[i]
	groups := rapid.SampledFrom(numbers.Divisors(x.Dim(-1), x.Dim(-1))).Draw(g.t, "groups")
	part := g.somePart(x.Tensor)
	if g.yes("all") {
		part = nil
	}
	g.take(16, func(b *spmd.Builder, p []spmd.Tensor) []spmd.Tensor {
		return []spmd.Tensor{b.GroupNorm(p[i], groups, 1e-3, part)}
	})
}

// The first device and the last one repeat their own edge; the others get their neighbours'.
func TestReplicatedConvExchanges(t *testing.T) {
	rows := sharding.NewSpec(nil, []string{"sp"})
	for _, c := range []struct {
		on         string
		rows, size int
		stride     int
		want       string
	}{
		{"sp=1", 8, 8, 1, ""}, {"sp=1", 8, 7, 1, ""},
		{"sp=2", 8, 8, 1, "collective-permute sp     f32    2       12        24\n"},
		{"sp=4", 8, 8, 1, "collective-permute sp     f32    2       12        48\n"},
		{"sp=4", 8, 7, 1, "collective-permute sp     f32    2       12        48\n"}, // padding moves nothing more
		{"sp=4", 8, 8, 2, "collective-permute sp     f32    1        6        24\n"}, // the row before alone
	} {
		m := meshtest.Mesh(t, c.on)
		values := meshtest.Values{"x": meshtest.Fill(dtype.F32, func(i int) float64 { return float64(i / 6) }, 1, c.rows, 3, 2), "w": meshtest.Fill(dtype.F32, func(int) float64 { return 1 }, 1, 2, 3, 1)}
		p := meshtest.Build(t, m, func(b *spmd.Builder) {
			x, w := b.Input("x", dtype.F32, values["x"].Shape, rows), b.Input("w", dtype.F32, values["w"].Shape, sharding.Whole(4))
			b.Output("y", b.ConvReplicated(x, w, [][2]int{{1, 1}, {0, 0}}, []int{c.stride, 1}, []int{c.size, 3}, dtype.F32), "")
		})
		if got := meshtest.Table(cost.Collectives(p)); got != c.want {
			t.Errorf("%s, %d of %d rows: moves\n%swant\n%s", c.on, c.size, c.rows, got, c.want)
		}
		// Rows have their own numbers, and each sum is of 2 channels and 3 rows of them.
		y := meshtest.Interp(t, p, values)["y"].F
		for r := 0; r < c.size/c.stride; r++ {
			at := r * c.stride
			want := float32(2 * (max(at-1, 0) + at + min(at+1, c.size-1)))
			if y[3*r] != want {
				t.Errorf("%s, %d of %d rows: row %d is %g, want %g", c.on, c.size, c.rows, r, y[3*r], want)
			}
		}
	}
}

// A mean that is large beside the deviation costs no digits, and each reduction is one collective
// of N x groups numbers.
func TestGroupNorm(t *testing.T) {
	x := meshtest.Fill(dtype.F32, func(i int) float64 { return 1000 + float64(i%7) }, 2, 6, 4, 6)
	for _, on := range []string{"", "sp=2", "tp=2,sp=3", "dp=2,sp=2"} {
		p := meshtest.Build(t, meshtest.Mesh(t, on), func(b *spmd.Builder) {
			spec := sharding.Whole(4)
			if on != "" {
				spec = sharding.NewSpec(nil, []string{"sp"})
			}
			if strings.Contains(on, "tp") {
				spec = spec.WithDim(2, "tp")
			}
			if strings.Contains(on, "dp") {
				spec = spec.WithDim(0, "dp")
			}
			b.Output("y", b.GroupNorm(b.Input("x", dtype.F32, x.Shape, spec), 3, 1e-6, []int{5, 4}), "")
		})
		if worst := worstOfNorm(x.F, meshtest.Interp(t, p, meshtest.Values{"x": x})["y"].F); worst > 2e-5 {
			t.Errorf("%s: differs by %g", on, worst)
		}
		want := 2
		if on == "" {
			want = 0
		}
		if n := len(cost.Instances(p)); n != want {
			t.Errorf("%s: %d collectives, want %d", on, n, want)
		}
	}
}

// worstOfNorm is how far y (2, 6, 4, 6) is from the norm of x in 3 groups over 5 of the 6 rows,
// in f64, and from zero in the sixth.
func worstOfNorm(x, y []float32) float64 {
	worst := 0.0
	each := func(n, group int, visit func(at, row int)) {
		for row := range 6 {
			for col := range 4 {
				for c := 2 * group; c < 2*group+2; c++ {
					visit(((n*6+row)*4+col)*6+c, row)
				}
			}
		}
	}
	for n := range 2 {
		for group := range 3 {
			sum, squares := 0.0, 0.0
			each(n, group, func(at, row int) {
				if row < 5 {
					sum += float64(x[at])
				}
			})
			mean := sum / 40
			each(n, group, func(at, row int) {
				if row < 5 {
					squares += (float64(x[at]) - mean) * (float64(x[at]) - mean)
				}
			})
			each(n, group, func(at, row int) {
				want := 0.0
				if row < 5 {
					want = (float64(x[at]) - mean) / math.Sqrt(squares/40+1e-6)
				}
				worst = max(worst, math.Abs(float64(y[at])-want))
			})
		}
	}
	return worst
}

func TestPicturesRefused(t *testing.T) {
	for _, c := range []struct {
		build func(b *spmd.Builder, x, w spmd.Tensor) spmd.Tensor
		want  string
	}{
		{func(b *spmd.Builder, x, _ spmd.Tensor) spmd.Tensor { return b.GroupNorm(x, 4, 1e-6, nil) }, "in 4 groups of channels"},
		{func(b *spmd.Builder, x, _ spmd.Tensor) spmd.Tensor { return b.GroupNorm(x, 3, 1e-6, []int{5, 1}) }, "want a size of 1 or more for each spatial dim"},
		{func(b *spmd.Builder, x, _ spmd.Tensor) spmd.Tensor { return b.GroupNorm(x, 3, 1e-6, []int{0}) }, "want a size of 1 or more for each spatial dim"},
		{func(b *spmd.Builder, x, w spmd.Tensor) spmd.Tensor {
			return b.ConvReplicated(x, w, [][2]int{{1, 1}}, nil, nil, dtype.F32)
		}, "want a size of 1 or more for each of 1 spatial dims"},
	} {
		_, err := spmd.Build("refused", meshtest.Mesh(t, ""), func(b *spmd.Builder) {
			b.Output("y", c.build(b, b.Input("x", dtype.F32, []int{1, 5, 6}, sharding.Whole(3)), b.Input("w", dtype.F32, []int{1, 6, 3}, sharding.Whole(3))), "")
		})
		if !errors.Is(err, spmd.ErrShape) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
