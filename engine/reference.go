package engine

import (
	"context"
	"fmt"

	"weft/mesh"
	"weft/program"
	"weft/program/interp"
	"weft/spmd"
	"weft/tensor"
)

// Reference is the interpreter as an engine. It is slow and exact, and runs on every
// machine.
type Reference struct {
	n    int
	opts interp.Options
}

// NewReference makes an engine of n virtual devices.
func NewReference(n int, opts interp.Options) *Reference { return &Reference{n, opts} }

// Info names the engine.
func (*Reference) Info() Info { return Info{Name: "reference"} }

// Devices is the number given to NewReference.
func (r *Reference) Devices() int { return r.n }

// Target is empty: the interpreter has no caches or kernels to adapt programs to.
func (*Reference) Target() spmd.Target { return spmd.Target{} }

// Cache is always zero: nothing is compiled.
func (*Reference) Cache() (hits, misses int) { return 0, 0 }

// Close does nothing.
func (*Reference) Close() error { return nil }

// Compile keeps the program as it is.
func (r *Reference) Compile(_ context.Context, p *program.Program) (Executable, error) {
	if err := checkDevices(p.Mesh, r.n); err != nil {
		return nil, err
	}
	return &refExe{p: p, it: interp.New(p.Mesh, r.opts)}, nil
}

// checkDevices reports a device that a mesh names and the engine, with n devices, does not
// have.
func checkDevices(m *mesh.Mesh, n int) error {
	for _, d := range m.Devices() {
		if d.ID < 0 || d.ID >= n {
			return fmt.Errorf("mesh %s names device %d; the engine has devices 0 to %d", m, d.ID, n-1)
		}
	}
	return nil
}

// Put copies the blocks; positions that share a block share the copy.
func (r *Reference) Put(_ context.Context, m *mesh.Mesh, t program.Type, blocks []*Block) (Value, error) {
	v := &refValue{t: t, shards: make([]*interp.Array, len(blocks))}
	seen := map[*Block]*interp.Array{}
	for i, b := range blocks {
		if seen[b] == nil {
			if int64(len(b.Data)) != t.Bytes() {
				return nil, fmt.Errorf("block of %d bytes for %v%v", len(b.Data), t.DType, t.Shape)
			}
			seen[b] = interp.FromTensor(&tensor.Tensor{DType: t.DType, Shape: t.Shape, Data: b.Data})
			if b.Release != nil {
				b.Release()
			}
		}
		v.shards[i] = seen[b]
	}
	return v, nil
}

type refExe struct {
	p  *program.Program
	it *interp.Interp
}

func (e *refExe) Run(ctx context.Context, args []Value) ([]Value, error) {
	n := e.p.Mesh.NumDevices()
	in := make([][]*interp.Array, n)
	for pos := range in {
		in[pos] = make([]*interp.Array, len(args))
		for i, a := range args {
			v, ok := a.(*refValue)
			if !ok || v.shards == nil || len(v.shards) != n {
				return nil, fmt.Errorf("program %s: input %q was freed or belongs to another mesh", e.p.Name, e.p.Inputs[i].Name)
			}
			in[pos][i] = v.shards[pos]
		}
	}
	out, _, err := e.it.Run(ctx, e.p, in)
	if err != nil {
		return nil, err
	}
	for _, o := range e.p.Outputs {
		if o.Donor >= 0 {
			args[o.Donor].Free()
		}
	}
	vs := make([]Value, len(e.p.Outputs))
	for i, o := range e.p.Outputs {
		v := &refValue{t: program.Type{DType: o.DType, Shape: o.Local}, shards: make([]*interp.Array, n)}
		for pos := range out {
			v.shards[pos] = out[pos][i]
		}
		vs[i] = v
	}
	return vs, nil
}

func (e *refExe) Close() {}

type refValue struct {
	t      program.Type
	shards []*interp.Array
}

func (v *refValue) Type() program.Type { return v.t }

// Wait returns at once: a value is computed before Run returns it.
func (v *refValue) Wait(context.Context) error { return nil }

func (v *refValue) Free() { v.shards = nil }

func (v *refValue) Get(_ context.Context, pos int, dst []byte) error {
	if v.shards == nil {
		return fmt.Errorf("value was freed")
	}
	t := v.shards[pos].Tensor()
	if len(dst) != len(t.Data) {
		return fmt.Errorf("destination of %d bytes for a value of %d", len(dst), len(t.Data))
	}
	copy(dst, t.Data)
	return nil
}
