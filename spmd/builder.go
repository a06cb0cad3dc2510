package spmd

import (
	"slices"
	"sync"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
)

// Kinds of errors that end a build.
var (
	ErrShape = fault.NewKind("shape")          // the operands' shapes do not fit the operation
	ErrType  = fault.NewKind("element-type")   // the operands' element types do not fit the operation
	ErrName  = fault.NewKind("duplicate-port") // two inputs or two outputs have one name, or an input is donated twice
	ErrSpec  = fault.NewKind("illegal-spec")   // a layout is no layout of the shape on the mesh
)

// Tensor is a distributed value: its global shape, its layout, and the value that
// each device holds of it.
type Tensor struct {
	local Local
	Shape []int // global
	DType dtype.DType
	Spec  sharding.Spec
}

// Rank is the number of dims.
func (t Tensor) Rank() int { return len(t.Shape) }

// Dim is the size of a dim; negative counts from the end.
func (t Tensor) Dim(d int) int {
	if d < 0 {
		d += len(t.Shape)
	}
	return t.Shape[d]
}

// Builder collects the instructions of one program. Its methods end the build
// on the first error, which Build returns.
type Builder struct {
	name      string
	mesh      *mesh.Mesh
	values    []program.Type
	body      *[]program.Instr
	depth     int // loops around the current instruction
	inputs    []program.Port
	outputs   []program.Port
	axisIndex map[string]Local         // by axis: this device's coordinate
	resharded map[program.ID][]reshard // by value: what Reshard has made of it already
	target    Target
	root      *[]program.Instr // the program's own body; body is this one or that of a loop or kernel
	nested    int              // bodies under construction
	scratch   *scratch
	widened   map[program.ID]Local // bf16 values that are defined outside of loops, as f32
	depths    []int                // by value: the loops around its definition
	groups    map[string][][]int   // by axes: the mesh's groups along them
	ints      slab[int]            // holds the values' shapes
	ids       slab[program.ID]     // holds the instructions' results
	choices   []program.Choice
}

// scratch holds slices that grow during a build and that the program does not keep:
// a finished body is copied out of them at its exact length. The next build uses the
// same slices again, since growing them anew took a good part of a build's time.
type scratch struct {
	bodies [][]program.Instr // by the number of bodies around it
	values []program.Type
	depths []int
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// openBody starts a body inside the current one. closed ends it, goes back to the
// body around it, and returns the instructions.
func (b *Builder) openBody() (closed func() []program.Instr) {
	outer, at := b.body, b.nested
	if at == len(b.scratch.bodies) {
		b.scratch.bodies = append(b.scratch.bodies, nil)
	}
	body := b.scratch.bodies[at][:0]
	b.body = &body
	b.nested++
	return func() []program.Instr {
		b.nested--
		b.body = outer
		done := slices.Clone(body)
		clear(body)
		b.scratch.bodies[at] = body
		return done
	}
}

type buildStop struct{ err error }

func (b *Builder) fail(err error) { panic(buildStop{err}) }

func (b *Builder) failf(k *fault.Kind, fields any, format string, args ...any) {
	b.fail(fault.New(k, fields, format, args...))
}

// Build makes a program: define calls the builder's methods. The first thing that is
// wrong ends the build and is the error: ErrShape, ErrType, ErrName, ErrSpec, an error
// of the layouts, one that define gave to Fail, or ErrMalformed.
func Build(name string, m *mesh.Mesh, define func(b *Builder), opts ...Option) (p *program.Program, err error) {
	b := &Builder{name: name, mesh: m, axisIndex: map[string]Local{}, resharded: map[program.ID][]reshard{}, widened: map[program.ID]Local{}, groups: map[string][][]int{}}
	b.scratch = scratches.Get().(*scratch)
	b.values, b.depths = b.scratch.values[:0], b.scratch.depths[:0]
	closed := b.openBody()
	b.root = b.body
	for _, o := range opts {
		o(b)
	}
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(buildStop)
			if !ok {
				panic(r)
			}
			p, err = nil, s.err
		}
	}()
	define(b)
	p = &program.Program{Name: name, Mesh: m, Inputs: b.inputs, Outputs: b.outputs, Values: slices.Clone(b.values), Body: closed(), Choices: b.choices, Platform: b.target.Platform}
	clear(b.values)
	b.scratch.values, b.scratch.depths = b.values, b.depths
	scratches.Put(b.scratch)
	if err := p.Finish(); err != nil {
		return nil, err
	}
	return p, nil
}

// Mesh is the mesh that the program runs on.
func (b *Builder) Mesh() *mesh.Mesh { return b.mesh }

// Fail ends the build with err.
func (b *Builder) Fail(err error) { b.fail(err) }

// Input declares an input of a global shape with the layout spec. Inputs keep the
// order in which they are declared.
func (b *Builder) Input(name string, d dtype.DType, shape []int, spec sharding.Spec) Tensor {
	for _, p := range b.inputs {
		if p.Name == name {
			b.failf(ErrName, nil, "%s: input %q declared twice", b.name, name)
		}
	}
	spec = b.canonicalSpec(name, shape, spec)
	local, err := spec.Local(b.mesh, shape)
	if err != nil {
		b.fail(err)
	}
	v := b.newValue(d, local)
	b.inputs = append(b.inputs, program.Port{Name: name, DType: d, Shape: cloneInts(shape), Local: v.Shape, Spec: spec, Value: v.ID, Donor: -1})
	return Tensor{v, b.ints.copy(shape), d, spec}
}

// Output declares a result. donor names the donated input: the result is written into
// its memory, so both must have the same type and local shape. "" donates nothing.
func (b *Builder) Output(name string, t Tensor, donor string) {
	for _, p := range b.outputs {
		if p.Name == name {
			b.failf(ErrName, nil, "%s: output %q declared twice", b.name, name)
		}
	}
	d := -1
	if donor != "" {
		for i, in := range b.inputs {
			if in.Name == donor {
				d = i
			}
		}
		if d < 0 || b.inputs[d].DType != t.DType || !slices.Equal(b.inputs[d].Local, t.local.Shape) {
			b.failf(ErrShape, nil, "%s: output %q %v%v cannot take over input %q", b.name, name, t.DType, t.local.Shape, donor)
		}
		for _, o := range b.outputs {
			if o.Donor == d {
				b.failf(ErrName, nil, "%s: input %q is donated twice", b.name, donor)
			}
		}
	}
	b.outputs = append(b.outputs, program.Port{Name: name, DType: t.DType, Shape: cloneInts(t.Shape), Local: t.local.Shape, Spec: t.Spec, Value: t.local.ID, Donor: d})
}

// Local is the value that each device holds of t. Nothing checks what local code does
// with it: the caller keeps the layout right and says it to Global.
func (b *Builder) Local(t Tensor) Local { return t.local }

// Global declares that the values v of all devices together are a tensor of a global
// shape with the layout spec. The local shape must be the one that spec gives.
func (b *Builder) Global(v Local, shape []int, spec sharding.Spec) Tensor {
	spec = b.canonicalSpec("value", shape, spec)
	want, err := spec.Local(b.mesh, shape)
	if err != nil {
		b.fail(err)
	}
	if !slices.Equal(want, v.Shape) {
		b.failf(ErrShape, nil, "%s: a device holds %v of global %v %v, which asks for %v", b.name, v.Shape, shape, spec, want)
	}
	return Tensor{v, b.ints.copy(shape), v.DType, spec}
}

// canonicalSpec checks a layout against a shape and drops the axes of size 1.
func (b *Builder) canonicalSpec(what string, shape []int, spec sharding.Spec) sharding.Spec {
	if err := spec.Check(b.mesh, shape); err != nil {
		b.fail(fault.New(ErrSpec, nil, "%s: %s %v %v: %w", b.name, what, shape, spec, err))
	}
	return spec.Canonical(b.mesh, len(shape))
}

func cloneInts(s []int) []int { return append([]int{}, s...) }

// Chose records a choice in Program.Choices.
func (b *Builder) Chose(c program.Choice) { b.choices = append(b.choices, c) }
