// Package array holds tensors on an engine's devices: placed by a spec, moved
// to any other, and brought back. It is what a strategy's specs are for where no
// model is involved; package session places weights and inputs with it.
package array

import (
	"context"
	"fmt"
	"slices"

	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/mesh"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// ErrPartial: a value of which each device holds an addend was asked for whole.
var ErrPartial = fault.NewKind("partial-value")

// Array is a tensor on the devices of a mesh. It is immutable.
type Array struct {
	DType dtype.DType
	Shape []int // global
	Spec  sharding.Spec
	Mesh  *mesh.Mesh

	eng engine.Engine
	v   engine.Value
}

// Place cuts t by spec and puts each part on its devices. Positions that hold
// the same part share one block of host memory where the engine allows it.
// Errors are those of Spec.Check; a dim that does not divide is one of them.
func Place(ctx context.Context, eng engine.Engine, m *mesh.Mesh, t *tensor.Tensor, spec sharding.Spec) (*Array, error) {
	if len(spec.Partial()) > 0 {
		return nil, fault.New(ErrPartial, nil, "%v is partial over %v: place the addends with PlaceParts", spec, spec.Partial())
	}
	return put(ctx, eng, m, t.DType, t.Shape, spec, func(int) *tensor.Tensor { return t })
}

// PlaceParts places a value that is partial over some axes: addend gives, for a
// mesh position, the whole tensor whose part that device holds. The value is
// the sum of the addends over the partial axes.
func PlaceParts(ctx context.Context, eng engine.Engine, m *mesh.Mesh, d dtype.DType, shape []int, spec sharding.Spec, addend func(pos int) *tensor.Tensor) (*Array, error) {
	return put(ctx, eng, m, d, shape, spec, addend)
}

func put(ctx context.Context, eng engine.Engine, m *mesh.Mesh, d dtype.DType, shape []int, spec sharding.Spec, source func(pos int) *tensor.Tensor) (*Array, error) {
	if err := spec.Check(m, shape); err != nil {
		return nil, err
	}
	spec = spec.Canonical(m, len(shape))
	local, err := spec.Local(m, shape)
	if err != nil {
		return nil, err
	}
	typ := spmd.Type{DType: d, Shape: local}
	type part struct {
		from *tensor.Tensor
		key  string
	}
	blocks := make([]*engine.Block, m.NumDevices())
	shared := map[part]*engine.Block{}
	for pos := range blocks {
		lo, hi, key, err := Bounds(m, spec, shape, pos)
		if err != nil {
			return nil, err
		}
		t := source(pos)
		if t.DType != d || !slices.Equal(t.Shape, shape) {
			return nil, fmt.Errorf("part for position %d is %v, want %v%v", pos, t, d, shape)
		}
		p := part{t, key}
		if shared[p] == nil {
			b, err := NewBlock(int(typ.Bytes()))
			if err != nil {
				return nil, err
			}
			tensor.Cut(b.Data, t.Data, t.Shape, lo, hi, d.Size())
			shared[p] = b
		}
		blocks[pos] = shared[p]
	}
	v, err := eng.Put(ctx, m, typ, blocks)
	if err != nil {
		return nil, err
	}
	return Of(eng, m, v, shape, spec), nil
}

// Of makes an array of a value that a program made.
func Of(eng engine.Engine, m *mesh.Mesh, v engine.Value, shape []int, spec sharding.Spec) *Array {
	return &Array{DType: v.Type().DType, Shape: slices.Clone(shape), Spec: spec, Mesh: m, eng: eng, v: v}
}

// Value is the array as programs take it.
func (a *Array) Value() engine.Value { return a.v }

// Free gives the memory back.
func (a *Array) Free() { a.v.Free() }

// Bounds is the part of a tensor that a mesh position holds, [lo, hi) along
// every dim, and a key equal for positions that hold the same.
func Bounds(m *mesh.Mesh, spec sharding.Spec, shape []int, pos int) (lo, hi []int, key string, err error) {
	rs, err := spec.Ranges(m, shape, pos)
	if err != nil {
		return nil, nil, "", err
	}
	for _, r := range rs {
		lo, hi = append(lo, r.Lo), append(hi, r.Hi)
	}
	return lo, hi, fmt.Sprint(lo, hi), nil
}

// Local is what the device at a mesh position holds. It waits for the value.
func (a *Array) Local(ctx context.Context, pos int) (*tensor.Tensor, error) {
	typ := a.v.Type()
	t := tensor.New(typ.DType, typ.Shape...)
	return t, a.v.Get(ctx, pos, t.Data)
}

// Tensor brings the whole array back. Parts that several devices hold are read
// from the first. Error: ErrPartial.
func (a *Array) Tensor(ctx context.Context) (*tensor.Tensor, error) {
	if len(a.Spec.Partial()) > 0 {
		return nil, fault.New(ErrPartial, nil, "the array is partial over %v: reshard it first", a.Spec.Partial())
	}
	t := tensor.New(a.DType, a.Shape...)
	buf := make([]byte, a.v.Type().Bytes())
	seen := map[string]bool{}
	for pos := range a.Mesh.NumDevices() {
		lo, hi, key, err := Bounds(a.Mesh, a.Spec, a.Shape, pos)
		if err != nil {
			return nil, err
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if err := a.v.Get(ctx, pos, buf); err != nil {
			return nil, err
		}
		tensor.Paste(t.Data, buf, t.Shape, lo, hi, t.DType.Size())
	}
	return t, nil
}

// Reshard moves the array to another spec by the steps of sharding.Reshard, on
// the devices; a keeps what it holds. Partial axes that spec does not name are
// summed, so a gradient's reduction is a reshard from its spec before to its
// spec after.
func (a *Array) Reshard(ctx context.Context, spec sharding.Spec) (*Array, error) {
	p, err := Resharding(a.Mesh, a.DType, a.Shape, a.Spec, spec)
	if err != nil {
		return nil, err
	}
	return a.run(ctx, p)
}

// Mean is Reshard of a sum over axes divided by how many devices they have: the
// mean that data parallelism makes of gradients.
func (a *Array) Mean(ctx context.Context, spec sharding.Spec) (*Array, error) {
	n := 1
	for _, axis := range a.Spec.Partial() {
		n *= a.Mesh.Size(axis)
	}
	p, err := spmd.Build("mean", a.Mesh, func(b *spmd.Builder) {
		x := b.Input("x", a.DType, a.Shape, a.Spec)
		b.Output("y", b.Scale(b.Reshard(x, spec, "gradient reduction"), 1/float64(n)), "")
	})
	if err != nil {
		return nil, err
	}
	return a.run(ctx, p)
}

// Resharding is the program of a Reshard: its collectives can be counted before
// anything runs.
func Resharding(m *mesh.Mesh, d dtype.DType, shape []int, from, to sharding.Spec) (*spmd.Program, error) {
	return spmd.Build("reshard", m, func(b *spmd.Builder) {
		b.Output("y", b.Reshard(b.Input("x", d, shape, from), to, "reshard"), "")
	})
}

func (a *Array) run(ctx context.Context, p *spmd.Program) (*Array, error) {
	exe, err := a.eng.Compile(ctx, p)
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	outs, err := exe.Run(ctx, []engine.Value{a.v})
	if err != nil {
		return nil, err
	}
	return Of(a.eng, a.Mesh, outs[0], a.Shape, p.Outputs[0].Spec), nil
}
