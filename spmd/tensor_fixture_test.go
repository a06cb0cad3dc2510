package spmd_test

import (
	"fmt"
	"testing"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// op is a program of inputs held as specs say, with one output.
type tensorOp struct {
	in    meshtest.Values
	specs map[string]sharding.Spec
	f     func(b *spmd.Builder, in map[string]spmd.Tensor) spmd.Tensor
}

func (o tensorOp) build(t meshtest.TB, on string) *program.Program {
	t.Helper()
	return meshtest.Build(t, meshtest.Mesh(t, on), func(b *spmd.Builder) {
		in := map[string]spmd.Tensor{}
		for name, x := range o.in {
			in[name] = b.Input(name, x.DType, x.Shape, o.specs[name])
		}
		b.Output("out", o.f(b, in), "")
	})
}

func (o tensorOp) run(t meshtest.TB, on string) (*program.Program, *interp.Array) {
	t.Helper()
	p := o.build(t, on)
	return p, meshtest.Interp(t, p, o.in)["out"]
}

func within(t testing.TB, what string, got, want *interp.Array, tolerance float64) {
	t.Helper()
	if d := meshtest.Differ(got, want, tolerance); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

// moves checks what a program exchanges: one line for each kind, as in meshtest.Table.
func moves(t testing.TB, what string, p *program.Program, want ...cost.Traffic) {
	t.Helper()
	for i := range want {
		if want[i].DType == dtype.Invalid {
			want[i].DType = dtype.F32
		}
		want[i].Type = want[i].DType.String()
	}
	if got, want := meshtest.Table(cost.Collectives(p)), meshtest.Table(want); got != want {
		t.Errorf("%s moves\n%swant\n%s%s", what, got, want, p)
	}
}

func tpOver(dims ...int) sharding.Spec {
	s := sharding.Whole(3)
	for _, d := range dims {
		s = s.WithDim(d, "tp")
	}
	return s
}

// The norms of q and k over a dim split over tp: sums of squares over all
// shards, both in one reduction, and the fixtures' numbers.
func TestTensorRMSNorm(t *testing.T) {
	for _, c := range []struct {
		x, want string
		eps     float64
	}{
		{"norm.x", "rmsnorm.eps1e-06", 1e-6}, {"norm.x", "rmsnorm.eps1e-06.ref", 1e-6},
		{"norm.x", "rmsnorm.eps1e-05", 1e-5}, {"norm.x", "rmsnorm.eps1e-05.ref", 1e-5},
		{"norm.x_small", "rmsnorm.small.eps1e-06", 1e-6},
	} {
		x, scale, want := meshtest.Primitive(t, c.x), meshtest.Primitive(t, "norm.scale"), meshtest.Primitive(t, c.want)
		half := meshtest.Fill(dtype.F32, func(i int) float64 { return scale.At(i) / 2 }, 96)
		o := tensorOp{
			in:    meshtest.Values{"q": x, "k": x, "wq": scale, "wk": half},
			specs: map[string]sharding.Spec{"q": tpOver(2), "k": tpOver(2), "wq": sharding.NewSpec([]string{"tp"}), "wk": sharding.NewSpec([]string{"tp"})},
			f: func(b *spmd.Builder, in map[string]spmd.Tensor) spmd.Tensor {
				qk := b.RMSNorms(c.eps, []spmd.Tensor{in["q"], in["k"]}, []spmd.Tensor{in["wq"], in["wk"]})
				return b.Sub(b.Scale(qk[0], 3), b.Scale(qk[1], 4)) // 3 - 4/2 times the norm
			},
		}
		for _, n := range []int{1, 2, 3, 4, 8} {
			on := fmt.Sprintf("tp=%d", n)
			p, got := o.run(t, on)
			within(t, c.want+" on "+on, got, want, 3e-5) // 1e-5 of the fixture, times 3
			if n == 1 {
				moves(t, on, p)
				continue
			}
			rows := int64(want.Len() / 96)
			chunk := (4*2*rows + int64(n) - 1) / int64(n)
			moves(t, on, p, cost.Traffic{Op: program.OpAllReduce, Axis: "tp", Count: 1, Elements: 2 * rows, Bytes: 2 * int64(n-1) * chunk})
		}
	}
}

// Norms of other layouts travel apart, and a list that is passed in stays as it is.
func TestTensorRMSNormsApart(t *testing.T) {
	x := meshtest.Primitive(t, "norm.x")
	o := tensorOp{in: meshtest.Values{"q": x, "k": x, "w": meshtest.Primitive(t, "norm.scale")},
		specs: map[string]sharding.Spec{"q": tpOver(2), "k": sharding.Whole(3).WithPartial("tp")},
		f: func(b *spmd.Builder, in map[string]spmd.Tensor) spmd.Tensor {
			xs := []spmd.Tensor{in["q"], in["k"]}
			y := b.RMSNorms(1e-6, xs, []spmd.Tensor{in["w"], in["w"]})
			if !xs[1].Spec.Equal(in["k"].Spec) {
				t.Error("the caller's list was written to")
			}
			return b.Sub(b.Scale(y[0], 2), y[1])
		}}
	_, got := o.run(t, "tp=4")
	within(t, "norms", got, meshtest.Primitive(t, "rmsnorm.eps1e-06"), 3e-5)
}

func TestTensorLayerNorm(t *testing.T) {
	for _, c := range []struct {
		want string
		eps  float64
	}{{"layernorm.eps1e-06", 1e-6}, {"layernorm.eps1e-06.ref", 1e-6}, {"layernorm.eps1e-05", 1e-5}, {"layernorm.eps1e-05.ref", 1e-5}} {
		o := tensorOp{in: meshtest.Values{"x": meshtest.Primitive(t, "norm.x"), "w": meshtest.Primitive(t, "norm.scale"), "b": meshtest.Primitive(t, "norm.bias")},
			f: func(b *spmd.Builder, in map[string]spmd.Tensor) spmd.Tensor {
				return b.Add(b.Mul(b.LayerNorm(in["x"], c.eps), in["w"]), in["b"])
			}}
		for _, n := range []int{1, 2, 4, 8} {
			on := fmt.Sprintf("tp=%d", n)
			o.specs = map[string]sharding.Spec{"x": tpOver(2)}
			p, got := o.run(t, on)
			within(t, c.want+" on "+on, got, meshtest.Primitive(t, c.want), 1e-5)
			if n > 1 { // the mean, then the variance
				chunk := (int64(4*14) + int64(n) - 1) / int64(n)
				moves(t, on, p, cost.Traffic{Op: program.OpAllReduce, Axis: "tp", Count: 2, Elements: 2 * 14, Bytes: 2 * 2 * int64(n-1) * chunk})
			}
			o.specs = map[string]sharding.Spec{"x": sharding.Whole(3).WithPartial("tp")}
			p, got = o.run(t, on)
			within(t, c.want+" of partial sums on "+on, got, meshtest.Primitive(t, c.want), 3e-5)
			if n > 1 && cost.Collectives(p)[0].Count != 1 {
				t.Errorf("%s: %v", on, cost.Collectives(p))
			}
		}
	}
}

func TestTensorActivations(t *testing.T) {
	for name, f := range map[string]func(*spmd.Builder, spmd.Tensor) spmd.Tensor{
		"act.gelu_tanh": (*spmd.Builder).GeluTanh, "act.silu": (*spmd.Builder).Silu,
	} {
		o := tensorOp{in: meshtest.Values{"x": meshtest.Primitive(t, "act.x")},
			f: func(b *spmd.Builder, in map[string]spmd.Tensor) spmd.Tensor { return f(b, in["x"]) }}
		for _, s := range []sharding.Spec{sharding.Whole(1), sharding.Whole(1).WithPartial("tp")} { // 97 elements divide by nothing
			o.specs = map[string]sharding.Spec{"x": s}
			p, got := o.run(t, "tp=2")
			within(t, name+" "+s.String(), got, meshtest.Primitive(t, name), 1e-5)
			if want := len(s.Partial()); len(cost.Instances(p)) != want { // a non-linear op reduces first, once
				t.Errorf("%s of %v: %v", name, s, cost.Collectives(p))
			}
		}
	}
}

// A row-parallel layer's bias is added once, after the sum: added before, it would count
// once for each device.
// With small integers there is nothing to round: x = [1 2 3 4], W = 0..11 as 4
// rows of 3, b = [100 200 300]. The file has W as (out, in).
func TestTensorRowParallelBias(t *testing.T) {
	w := meshtest.Fill(dtype.F32, func(i int) float64 { return float64(3*(i%4) + i/4) }, 3, 4)
	x, bias := meshtest.Arr(dtype.F32, []int{1, 4}, 1, 2, 3, 4), meshtest.Arr(dtype.F32, []int{3}, 100, 200, 300)
	want := meshtest.Arr(dtype.F32, []int{1, 3}, 160, 270, 380)
	row := sharding.NewSpec(nil, []string{"tp"})
	o := tensorOp{in: meshtest.Values{"x": x, "w": w, "b": bias}, f: func(b *spmd.Builder, in map[string]spmd.Tensor) spmd.Tensor {
		return b.Add(b.Linear(in["x"], in["w"], dtype.F32), in["b"])
	}}
	for _, n := range []int{1, 2, 4} {
		for _, xs := range []sharding.Spec{row, sharding.Whole(2)} { // split already, or cut for nothing
			o.specs = map[string]sharding.Spec{"x": xs, "w": row}
			on := fmt.Sprintf("tp=%d", n)
			p, got := o.run(t, on)
			within(t, on, got, want, 0)
			if n > 1 {
				chunk := (int64(4*3) + int64(n) - 1) / int64(n)
				moves(t, on, p, cost.Traffic{Op: program.OpAllReduce, Axis: "tp", Count: 1, Elements: 3, Bytes: 2 * int64(n-1) * chunk})
			}
		}
	}

	o.in = meshtest.Values{"x": meshtest.Primitive(t, "rowparallel.x"), "w": meshtest.Primitive(t, "rowparallel.weight"), "b": meshtest.Primitive(t, "rowparallel.bias")}
	for _, n := range []int{1, 2, 4, 8} {
		o.specs = map[string]sharding.Spec{"x": tpOver(2), "w": row}
		_, got := o.run(t, fmt.Sprintf("tp=%d", n))
		within(t, "rowparallel", got, meshtest.Primitive(t, "rowparallel.out"), 1e-5)
	}
}

// The same through XLA, all in one program.
func TestTensorFixturesXLA(t *testing.T) {
	e := meshtest.XLA(t)
	in := meshtest.Values{}
	for _, n := range []string{"norm.x", "norm.scale", "norm.bias", "act.x", "rowparallel.x", "rowparallel.weight", "rowparallel.bias"} {
		in[n] = meshtest.Primitive(t, n)
	}
	p := meshtest.Build(t, meshtest.Mesh(t, "tp=4"), func(b *spmd.Builder) {
		get := func(name string, s sharding.Spec) spmd.Tensor {
			return b.Input(name, dtype.F32, in[name].Shape, s)
		}
		vec := sharding.NewSpec([]string{"tp"})
		x, scale := get("norm.x", tpOver(2)), get("norm.scale", vec)
		b.Output("rmsnorm.eps1e-06", b.RMSNorms(1e-6, []spmd.Tensor{x}, []spmd.Tensor{scale})[0], "")
		b.Output("layernorm.eps1e-05", b.Add(b.Mul(b.LayerNorm(x, 1e-5), scale), get("norm.bias", vec)), "")
		act := get("act.x", sharding.Whole(1).WithPartial("tp"))
		b.Output("act.gelu_tanh", b.GeluTanh(act), "")
		b.Output("act.silu", b.Silu(act), "")
		y := b.Linear(get("rowparallel.x", tpOver(2)), get("rowparallel.weight", sharding.NewSpec(nil, []string{"tp"})), dtype.F32)
		b.Output("rowparallel.out", b.Add(y, get("rowparallel.bias", sharding.Whole(1))), "")
	})
	for name, got := range meshtest.Run(t, e, p, in) {
		within(t, name, got, meshtest.Primitive(t, name), 1e-5)
	}
}
