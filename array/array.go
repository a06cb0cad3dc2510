// Package array places tensors on an engine's devices as a spec says and reads them
// back. Package session places weights and inputs with it.
package array

import (
	"context"
	"fmt"
	"slices"

	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
	"weft/tensor"
)

// ErrPartial: each device holds an addend of the value, where a whole value is needed.
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

// Place cuts t as spec says and puts each part on its devices. Positions that hold
// the same part share one block of host memory where the engine allows it. Errors:
// those of Spec.Check, such as sharding.ErrUneven, and ErrPartial.
func Place(ctx context.Context, eng engine.Engine, m *mesh.Mesh, t *tensor.Tensor, spec sharding.Spec) (*Array, error) {
	if len(spec.Partial()) > 0 {
		return nil, fault.New(ErrPartial, nil, "%v is partial over %v: every device needs an addend of its own, and there is one tensor", spec, spec.Partial())
	}
	return placeParts(ctx, eng, m, t.DType, t.Shape, spec, func(int) *tensor.Tensor { return t })
}

// placeParts places parts of the tensors that source gives for each mesh position. For
// a spec without partial axes that is one tensor for all positions.
func placeParts(ctx context.Context, eng engine.Engine, m *mesh.Mesh, d dtype.DType, shape []int, spec sharding.Spec, source func(pos int) *tensor.Tensor) (*Array, error) {
	if err := spec.Check(m, shape); err != nil {
		return nil, err
	}
	spec = spec.Canonical(m, len(shape))
	local, err := spec.Local(m, shape)
	if err != nil {
		return nil, err
	}
	typ := program.Type{DType: d, Shape: local}
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

// Of returns the array whose parts on the devices are the value v.
func Of(eng engine.Engine, m *mesh.Mesh, v engine.Value, shape []int, spec sharding.Spec) *Array {
	return &Array{DType: v.Type().DType, Shape: slices.Clone(shape), Spec: spec, Mesh: m, eng: eng, v: v}
}

// Value returns the parts on the devices, as programs take them.
func (a *Array) Value() engine.Value { return a.v }

// Bounds returns the part of a tensor that a mesh position holds, [lo, hi) along every
// dim, and a key that is equal for positions that hold the same part.
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

// Tensor reads the whole array back to the host. A part that several devices hold is
// read from the first of them. Error: ErrPartial.
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
