package spmd

import (
	"slices"
	"sync"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/sharding"
)

// What can be wrong with a program while it is built.
var (
	ErrShape = fault.NewKind("shape")        // operands whose shapes do not fit the operation
	ErrType  = fault.NewKind("element-type") // operands whose element types do not fit
	ErrName  = fault.NewKind("duplicate-port")
	ErrSpec  = fault.NewKind("illegal-spec") // a layout the operation has no rule for
)

// Tensor is a distributed value: a global shape, and how the mesh holds it.
type Tensor struct {
	local Local
	Shape []int
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
	values    []Type
	body      *[]Instr
	depth     int // loops around the current instruction
	inputs    []Port
	outputs   []Port
	axisIndex map[string]Local
	arranged  map[string]Local // by value and layout, what Reshard made
	target    Target
	root      *[]Instr // the program's body; body is this or a loop's
	nested    int      // bodies that are open
	scratch   *scratch
	widened   map[ID]Local // values of the root widened to f32
	depths    []int        // by value: the loops around its definition
	groups    map[string][][]int
	ints      slab[int] // of the values' shapes
	ids       slab[ID]
	choices   []Choice
}

// scratch is what builds grow and the program does not keep: bodies of hundreds of large
// instructions, of which what stays is copied, and what is known of each value. The
// next build takes it over.
type scratch struct {
	bodies [][]Instr // by how many bodies are around it
	values []Type
	depths []int
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// openBody starts a body within the one at hand; closed gives what it became and goes back to
// that.
func (b *Builder) openBody() (closed func() []Instr) {
	outer, at := b.body, b.nested
	if at == len(b.scratch.bodies) {
		b.scratch.bodies = append(b.scratch.bodies, nil)
	}
	body := b.scratch.bodies[at][:0]
	b.body = &body
	b.nested++
	return func() []Instr {
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

// Build makes a program: define calls the builder's methods, and whatever first
// is wrong there comes back as the error.
func Build(name string, m *mesh.Mesh, define func(b *Builder), opts ...Option) (p *Program, err error) {
	b := &Builder{name: name, mesh: m, axisIndex: map[string]Local{}, arranged: map[string]Local{}, widened: map[ID]Local{}, groups: map[string][][]int{}}
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
	p = &Program{Name: name, Mesh: m, Inputs: b.inputs, Outputs: b.outputs, Values: slices.Clone(b.values), Body: closed(), Choices: b.choices}
	clear(b.values)
	b.scratch.values, b.scratch.depths = b.values, b.depths
	scratches.Put(b.scratch)
	if err := p.Finish(); err != nil {
		return nil, err
	}
	return p, nil
}

// Mesh is the mesh the program runs on.
func (b *Builder) Mesh() *mesh.Mesh { return b.mesh }

// Fail ends the build with err.
func (b *Builder) Fail(err error) { b.fail(err) }

// Input declares an input of a global shape, held as spec says. Inputs keep the
// order of their declaration.
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
	b.inputs = append(b.inputs, Port{Name: name, DType: d, Shape: cloneInts(shape), Local: v.Shape, Spec: spec, Value: v.ID, Donor: -1})
	return Tensor{v, b.ints.copy(shape), d, spec}
}

// Output declares a result. Donor names the input whose memory the result takes
// over, "" for none; both must have the same type and local shape.
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
	b.outputs = append(b.outputs, Port{Name: name, DType: t.DType, Shape: cloneInts(t.Shape), Local: t.local.Shape, Spec: t.Spec, Value: t.local.ID, Donor: d})
}

// Local is what each device holds of t. The caller takes over the duty to keep
// the layout right.
func (b *Builder) Local(t Tensor) Local { return t.local }

// Global declares that the devices' values v together are a tensor of a global
// shape under spec.
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

// canonicalSpec checks a spec against a shape and drops axes of size 1.
func (b *Builder) canonicalSpec(what string, shape []int, spec sharding.Spec) sharding.Spec {
	if err := spec.Check(b.mesh, shape); err != nil {
		b.fail(fault.New(ErrSpec, nil, "%s: %s %v %v: %w", b.name, what, shape, spec, err))
	}
	return spec.Canonical(b.mesh, len(shape))
}

func cloneInts(s []int) []int { return append([]int{}, s...) }

// Chose puts a choice down for those who read the program.
func (b *Builder) Chose(c Choice) { b.choices = append(b.choices, c) }
