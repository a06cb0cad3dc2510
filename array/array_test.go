package array_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/array"
	"weft/dtype"
	"weft/engine"
	"weft/mesh"
	"weft/program/interp"
	"weft/sharding"
	"weft/tensor"
)

func engines(t testing.TB) []engine.Engine {
	es := []engine.Engine{engine.NewReference(8, interp.Options{})}
	if os.Getenv("WEFT_SKIP_XLA") == "" {
		e, err := engine.Open(context.Background(), engine.CPU, 8, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		es = append(es, e)
	}
	return es
}

func counting(d dtype.DType, shape ...int) *tensor.Tensor {
	fs := make([]float32, tensor.Elements(shape))
	for i := range fs {
		fs[i] = float32(i%251 - 125)
	}
	t, _ := tensor.FromFloat32s(d, fs, shape...)
	return t
}

// randomSpec splits some dims over axes of m that divide them; axes may be left for later.
func randomSpec(t *rapid.T, m *mesh.Mesh, shape []int, label string) sharding.Spec {
	spec := sharding.Whole(len(shape))
	for _, axis := range rapid.Permutation(m.Names()).Draw(t, label+" order") {
		d := rapid.IntRange(-1, len(shape)-1).Draw(t, label+" dim of "+axis)
		if d < 0 {
			continue
		}
		next := spec.WithDim(d, append(spec.Dim(d), axis)...)
		if next.Check(m, shape) == nil {
			spec = next
		}
	}
	return spec
}

func randomMesh(t *rapid.T) *mesh.Mesh {
	axes, left := []mesh.Axis{}, 8
	for _, name := range []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "axes")] {
		n := rapid.SampledFrom([]int{1, 2, 3, 4}).Draw(t, "size")
		if n > left {
			n = 1
		}
		left /= n
		axes = append(axes, mesh.Axis{Name: name, Size: n})
	}
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// same compares every device's part with a cut of the whole.
func same(t *rapid.T, a *array.Array, whole *tensor.Tensor) {
	for pos := range a.Mesh.NumDevices() {
		got, err := a.Local(context.Background(), pos)
		if err != nil {
			t.Fatal(err)
		}
		lo, hi, _, err := array.Bounds(a.Mesh, a.Spec, a.Shape, pos)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, len(got.Data))
		tensor.Cut(want, whole.Data, whole.Shape, lo, hi, whole.DType.Size())
		if !bytes.Equal(got.Data, want) {
			t.Fatalf("position %d of %v on %v: not the slice [%v,%v)", pos, a.Spec, a.Mesh, lo, hi)
		}
	}
}

// Placed by any spec, moved to any other: what each device holds is the slice.
func TestPlaceAndReshard(t *testing.T) {
	ctx := context.Background()
	for _, eng := range engines(t) {
		t.Run(eng.Info().Name, func(t *testing.T) {
			runs := 0
			rapid.Check(t, func(t *rapid.T) {
				if runs++; eng.Info().Name != "reference" && runs > 25 {
					return // XLA compiles each: a sample
				}
				m := randomMesh(t)
				shape := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 3, 4, 6, 8, 12}), 0, 5).Draw(t, "shape")
				whole := counting(dtype.F32, shape...)
				from, to := randomSpec(t, m, shape, "from"), randomSpec(t, m, shape, "to")
				a, err := array.Place(ctx, eng, m, whole, from)
				if err != nil {
					t.Fatal(err)
				}
				same(t, a, whole)
				b, err := a.Reshard(ctx, to)
				if err != nil {
					t.Fatal(err)
				}
				if !b.Spec.Equal(to.Canonical(m, len(shape))) {
					t.Fatalf("%v came out as %v", to, b.Spec)
				}
				same(t, b, whole)
				back, err := b.Tensor(ctx)
				if err != nil || !bytes.Equal(back.Data, whole.Data) {
					t.Fatalf("did not come back whole: %v", err)
				}
				a.Free()
				b.Free()
			})
		})
	}
}

// The bytes that the interpreter counts on the way are those of the steps.
func TestReshardBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := randomMesh(t)
		shape := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 4, 6, 8, 12}), 1, 5).Draw(t, "shape")
		from, to := randomSpec(t, m, shape, "from"), randomSpec(t, m, shape, "to")
		steps, err := sharding.Reshard(m, from, to, shape, 4)
		if err != nil {
			t.Fatal(err)
		}
		var want int64
		for _, s := range steps {
			want += s.Bytes
		}
		p, err := array.Resharding(m, dtype.F32, shape, from, to)
		if err != nil {
			t.Fatal(err)
		}
		in := make([][]*interp.Array, m.NumDevices())
		for pos := range in {
			in[pos] = []*interp.Array{interp.NewArray(dtype.F32, p.Inputs[0].Local...)}
		}
		_, rep, err := interp.New(m, interp.Options{}).Run(context.Background(), p, in)
		if err != nil {
			t.Fatal(err)
		}
		var got int64
		for _, c := range rep.Collectives {
			got += c.Bytes
		}
		if got != want {
			t.Fatalf("%v to %v of %v on %v: %d bytes sent, %d predicted", from, to, shape, m, got, want)
		}
	})
}

// Gradients: each device's addend differs; the reduction is their mean, whole
// (all-reduce) or in shares (reduce-scatter), or in shares over one axis and
// summed over another (hybrid).
func TestGradientsAreReduced(t *testing.T) {
	ctx := context.Background()
	m, err := mesh.Local(mesh.Axis{Name: "dp", Size: 2}, mesh.Axis{Name: "fsdp", Size: 4})
	if err != nil {
		t.Fatal(err)
	}
	shape := []int{8, 6}
	grads := make([]*tensor.Tensor, 8)
	mean := make([]float32, 48)
	for pos := range grads {
		fs := make([]float32, 48)
		for i := range fs {
			fs[i] = float32((pos*7+i*3)%32 - 16) // sums are exact
			mean[i] += fs[i] / 8
		}
		grads[pos], _ = tensor.FromFloat32s(dtype.F32, fs, shape...)
	}
	before := sharding.Whole(2).WithPartial("dp", "fsdp")
	for _, eng := range engines(t) {
		for _, after := range []sharding.Spec{sharding.Whole(2), sharding.NewSpec([]string{"fsdp"}), sharding.NewSpec([]string{"fsdp", "dp"})} {
			g, err := array.PlaceParts(ctx, eng, m, dtype.F32, shape, before, func(pos int) *tensor.Tensor { return grads[pos] })
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Tensor(ctx); !errors.Is(err, array.ErrPartial) {
				t.Errorf("a partial array was read: %v", err)
			}
			r, err := g.Mean(ctx, after)
			if err != nil {
				t.Fatal(err)
			}
			out, err := r.Tensor(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if fs, _ := out.Float32s(); !slices.Equal(fs, mean) {
				t.Errorf("%s to %v: %v, want %v", eng.Info().Name, after, fs, mean)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	ctx := context.Background()
	m, err := mesh.Local(mesh.Axis{Name: "data", Size: 8})
	if err != nil {
		t.Fatal(err)
	}
	eng := engine.NewReference(8, interp.Options{})
	for _, c := range []struct {
		spec sharding.Spec
		kind error
	}{
		{sharding.NewSpec([]string{"data"}), sharding.ErrUneven}, // 17 rows over 8
		{sharding.NewSpec([]string{"model"}), mesh.ErrUnknownAxis},
		{sharding.NewSpec(nil, []string{"data"}, nil), sharding.ErrRank},
		{sharding.Whole(2).WithPartial("data"), array.ErrPartial},
	} {
		if _, err := array.Place(ctx, eng, m, counting(dtype.F32, 17, 16), c.spec); !errors.Is(err, c.kind) {
			t.Errorf("%v: %v, want %v", c.spec, err, c.kind)
		}
	}
	small, err := mesh.Local(mesh.Axis{Name: "data", Size: 16})
	if err != nil {
		t.Fatal(err)
	}
	a, err := array.Place(ctx, eng, small, counting(dtype.F32, 16), sharding.Whole(1))
	if err == nil {
		_, err = a.Reshard(ctx, sharding.NewSpec([]string{"data"}))
	}
	if err == nil {
		t.Error("16 devices of an engine that has 8")
	}
}

// A dim of size 0 splits into nothing everywhere, on every engine.
func TestEmptyArraysMove(t *testing.T) {
	ctx := context.Background()
	m, err := mesh.Local(mesh.Axis{Name: "a", Size: 2}, mesh.Axis{Name: "b", Size: 4})
	if err != nil {
		t.Fatal(err)
	}
	specs := []sharding.Spec{sharding.Whole(2), sharding.NewSpec([]string{"a"}), sharding.NewSpec([]string{"b"}, []string{"a"}), sharding.NewSpec(nil, []string{"a", "b"})}
	for _, eng := range engines(t) {
		for _, from := range specs {
			for _, to := range specs {
				a, err := array.Place(ctx, eng, m, tensor.New(dtype.F32, 0, 8), from)
				if err != nil {
					t.Fatal(err)
				}
				b, err := a.Reshard(ctx, to)
				if err != nil {
					t.Fatalf("%s, %v to %v: %v", eng.Info().Name, from, to, err)
				}
				if x, err := b.Tensor(ctx); err != nil || len(x.Data) != 0 || !slices.Equal(x.Shape, []int{0, 8}) {
					t.Errorf("%s, %v to %v: %v, %v", eng.Info().Name, from, to, x, err)
				}
			}
		}
	}
}
