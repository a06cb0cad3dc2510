package array

import (
	"context"

	"weft/dtype"
	"weft/engine"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// What the tests do with arrays beyond what package session needs: they hold package
// spmd's reshards, run on an engine, against cuts of the whole tensor.

// PlaceParts places a value that is partial over some axes: addend gives, for a
// mesh position, the whole tensor whose part that device holds. The value is
// the sum of the addends over the partial axes.
func PlaceParts(ctx context.Context, eng engine.Engine, m *mesh.Mesh, d dtype.DType, shape []int, spec sharding.Spec, addend func(pos int) *tensor.Tensor) (*Array, error) {
	return placeParts(ctx, eng, m, d, shape, spec, addend)
}

// Free gives the memory back.
func (a *Array) Free() { a.v.Free() }

// Local reads what the device at a mesh position holds.
func (a *Array) Local(ctx context.Context, pos int) (*tensor.Tensor, error) {
	typ := a.v.Type()
	t := tensor.New(typ.DType, typ.Shape...)
	return t, a.v.Get(ctx, pos, t.Data)
}

// Reshard moves the array to another spec on the devices, by the steps of
// sharding.Reshard. Partial axes that spec does not name are summed.
func (a *Array) Reshard(ctx context.Context, spec sharding.Spec) (*Array, error) {
	p, err := Resharding(a.Mesh, a.DType, a.Shape, a.Spec, spec)
	if err != nil {
		return nil, err
	}
	return a.runProgram(ctx, p)
}

// Mean reshards a sum over axes and divides it by how many devices they have, as data
// parallelism reduces gradients.
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
	return a.runProgram(ctx, p)
}

// Resharding returns the program that Reshard runs.
func Resharding(m *mesh.Mesh, d dtype.DType, shape []int, from, to sharding.Spec) (*program.Program, error) {
	return spmd.Build("reshard", m, func(b *spmd.Builder) {
		b.Output("y", b.Reshard(b.Input("x", d, shape, from), to, "reshard"), "")
	})
}

func (a *Array) runProgram(ctx context.Context, p *program.Program) (*Array, error) {
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
