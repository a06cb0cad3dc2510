package attention_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/attention"
	"weft/dtype"
	"weft/engine"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// call is one attention on whole tensors, and how its operands are held. The
// batch is split over dp.
type call struct {
	q, k, v    *interp.Array
	bias, mask *interp.Array // or nil
	table      *interp.Array // of a bias by distance, or nil
	o          attention.Options
	target     spmd.Target

	qTokens, kTokens, qHeads, kHeads []string
	partial                          []string // q is partial over these
}

func (c call) program(t meshtest.TB, m *mesh.Mesh) *program.Program {
	t.Helper()
	return meshtest.Build(t, m, c.define, spmd.WithTarget(c.target))
}

func (c call) define(b *spmd.Builder) { c.into(b, "", "out") }

// into adds the call to a program under names of its own.
func (c call) into(b *spmd.Builder, prefix, out string) {
	batch := []string{}
	if b.Mesh().Has("dp") {
		batch = append(batch, "dp")
	}
	kSpec := sharding.NewSpec(batch, c.kTokens, c.kHeads)
	q := b.Input(prefix+"q", c.q.DType, c.q.Shape, sharding.NewSpec(batch, c.qTokens, c.qHeads).WithPartial(c.partial...))
	k := b.Input(prefix+"k", c.k.DType, c.k.Shape, kSpec)
	v := b.Input(prefix+"v", c.v.DType, c.v.Shape, kSpec)
	o := c.o
	for _, x := range []struct {
		name string
		a    *interp.Array
		to   **spmd.Tensor
	}{{"bias", c.bias, &o.Bias}, {"mask", c.mask, &o.Mask}} {
		if x.a != nil {
			in := b.Input(prefix+x.name, x.a.DType, x.a.Shape, sharding.Whole(4))
			*x.to = &in
		}
	}
	if c.table != nil {
		o.Relative = &attention.Relative{Table: b.Input(prefix+"table", c.table.DType, c.table.Shape, sharding.Whole(2)), Bucket: bucket(c.table.Shape[0])}
	}
	b.Output(out, attention.Attend(b, q, k, v, o), "")
}

// bucket counts distances from 3 before the query to as many as there are
// buckets; what is further is in the first or the last.
func bucket(n int) func(b *spmd.Builder, distance spmd.Local) spmd.Local {
	return func(b *spmd.Builder, distance spmd.Local) spmd.Local {
		least, most := b.LConst(dtype.I32, 0), b.LConst(dtype.I32, float64(n-1))
		return b.LBinary(program.OpMin, b.LMax(b.LAdd(distance, b.LConst(dtype.I32, 3)), least), most)
	}
}

func (c call) values() meshtest.Values {
	return meshtest.Values{"q": c.q, "k": c.k, "v": c.v, "bias": c.bias, "mask": c.mask, "table": c.table}
}

// runTogether runs calls as one program: XLA is slow to compile, not to run.
func runTogether(t testing.TB, e engine.Engine, m *mesh.Mesh, all map[string]call) meshtest.Values {
	t.Helper()
	in := meshtest.Values{}
	p := meshtest.Build(t, m, func(b *spmd.Builder) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			all[name].into(b, name+".", name)
			for port, x := range all[name].values() {
				in[name+"."+port] = x
			}
		}
	})
	return meshtest.Run(t, e, p, in)
}

// on runs the call on a mesh through the interpreter.
func (c call) on(t meshtest.TB, m *mesh.Mesh) *interp.Array {
	t.Helper()
	return meshtest.Interp(t, c.program(t, m), c.values())["out"]
}

// naive is the definition, in float64: softmax(scale q k^T + bias) v over the
// first keys keys, query head h with key head h / (H/Hkv).
func naive(c call) *interp.Array {
	b, sq, h, d := c.q.Shape[0], c.q.Shape[1], c.q.Shape[2], c.q.Shape[3]
	sk, kv := c.k.Shape[1], c.k.Shape[2]
	keys := c.o.Keys
	if keys == 0 {
		keys = sk
	}
	scale := c.o.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(d))
	}
	out := interp.NewArray(c.q.DType, c.q.Shape...)
	row := make([]float64, keys)
	for n := range b {
		for i := range sq {
			for head := range h {
				g := head / (h / kv)
				most := math.Inf(-1)
				for j := range keys {
					s := 0.0
					for x := range d {
						s += c.q.At(((n*sq+i)*h+head)*d+x) * c.k.At(((n*sk+j)*kv+g)*d+x)
					}
					s *= scale
					if c.bias != nil {
						s += broadcastAt(c.bias, n, head, i, j)
					}
					if c.mask != nil && broadcastAt(c.mask, n, head, i, j) == 0 {
						s = spmd.NegInf
					}
					if c.table != nil {
						s += c.table.At(min(max(j-i+3, 0), c.table.Shape[0]-1)*h + head)
					}
					if c.o.Causal && j > i {
						s = math.Inf(-1)
					}
					row[j] = s
					most = max(most, s)
				}
				sum := 0.0
				for j := range row {
					row[j] = math.Exp(row[j] - most)
					sum += row[j]
				}
				for x := range d {
					y := 0.0
					for j := range row {
						y += row[j] * c.v.At(((n*sk+j)*kv+g)*d+x)
					}
					out.Set(((n*sq+i)*h+head)*d+x, y/sum)
				}
			}
		}
	}
	return out
}

// broadcastAt reads (B|1, H|1, Sq|1, Sk).
func broadcastAt(a *interp.Array, n, h, i, j int) float64 {
	at := 0
	for d, x := range []int{n, h, i, j} {
		if a.Shape[d] == 1 {
			x = 0
		}
		at = at*a.Shape[d] + x
	}
	return a.At(at)
}

// random makes normally distributed elements.
func random(r *rand.Rand, d dtype.DType, shape ...int) *interp.Array {
	return meshtest.Fill(d, func(int) float64 { return r.NormFloat64() }, shape...)
}

func compare(t meshtest.TB, what string, got, want *interp.Array, tolerance float64) {
	t.Helper()
	if d := meshtest.Differ(got, want, tolerance); d != "" {
		t.Fatalf("%s: %s", what, d)
	}
}

// fixture gives tensors of the numeric fixtures, by name.
func fixture(t testing.TB) func(name string) *interp.Array {
	return func(name string) *interp.Array {
		t.Helper()
		return meshtest.Primitive(t, name)
	}
}

// part keeps [lo, hi) of a dim.
func part(x *interp.Array, dim, lo, hi int) *interp.Array {
	shape := append([]int{}, x.Shape...)
	shape[dim] = hi - lo
	outer, inner := 1, 1
	for d, n := range x.Shape {
		if d < dim {
			outer *= n
		} else if d > dim {
			inner *= n
		}
	}
	run := (hi - lo) * inner
	return meshtest.Fill(x.DType, func(i int) float64 {
		return x.At(i/run*x.Shape[dim]*inner + lo*inner + i%run)
	}, shape...)
}

// padded extends dim to n with values that would show if they were read.
func padded(x *interp.Array, dim, n int) *interp.Array {
	shape := append([]int{}, x.Shape...)
	shape[dim] = n
	inner := 1
	for _, s := range x.Shape[dim+1:] {
		inner *= s
	}
	return meshtest.Fill(x.DType, func(i int) float64 {
		o, rest := i/(n*inner), i%(n*inner)
		if rest >= x.Shape[dim]*inner {
			return 1e3 + float64(rest)
		}
		return x.At(o*x.Shape[dim]*inner + rest)
	}, shape...)
}

// joined concatenates along dim 1.
func joined(x, y *interp.Array) *interp.Array {
	shape := append([]int{}, x.Shape...)
	shape[1] += y.Shape[1]
	inner := x.Shape[2] * x.Shape[3]
	return meshtest.Fill(x.DType, func(i int) float64 {
		n, rest := i/(shape[1]*inner), i%(shape[1]*inner)
		if a := x.Shape[1] * inner; rest >= a {
			return y.At(n*y.Shape[1]*inner + rest - a)
		}
		return x.At(n*x.Shape[1]*inner + rest)
	}, shape...)
}
