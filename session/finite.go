package session

import (
	"context"
	"fmt"
	"math"
	"slices"

	"weft/array"
	"weft/dtype"
	"weft/engine"
	"weft/mesh"
	"weft/nonfinite"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
	"weft/tensor"
)

// finiteCheck is the program with which the devices look at one output of a graph: each counts
// the values of its own part that are NaN or infinite, and leaves out what only pads the output.
// It exchanges nothing, so that it is the same on every mesh, and devices that hold one part do
// not hide each other's values.
type finiteCheck struct {
	exe  engine.Executable
	m    *mesh.Mesh
	spec sharding.Spec // of the counts, one a device
}

// countNonFinite counts on the devices the values of an output's part that are NaN or infinite.
// t is the part as it came to the host, with its padding cut off. Integers are passed over.
func (s *Session) countNonFinite(ctx context.Context, l *lane, value, output string, t *tensor.Tensor) (nonfinite.Counts, error) {
	seen := nonfinite.Counts{Tensor: output, DType: t.DType, Shape: t.Shape}
	if !t.DType.IsFloat() || t.Elements() == 0 {
		return seen, nil
	}
	v, m, ok := l.peekValue(value)
	if !ok {
		return seen, fmt.Errorf("no value %q", value)
	}
	check, err := s.finiteCheckOf(ctx, value, m, v.Type(), t.Shape)
	if err != nil {
		return seen, err
	}
	made, err := check.exe.Run(ctx, []engine.Value{v})
	if err != nil {
		return seen, err
	}
	defer made[0].Free()
	counts, err := array.Of(s.eng, m, made[0], []int{m.NumDevices()}, check.spec).Tensor(ctx)
	if err != nil {
		return seen, err
	}
	numbers, err := counts.Int64s()
	if err != nil {
		return seen, err
	}
	if err := s.addCounts(&seen, m, value, numbers); err != nil || seen.Count == 0 {
		return seen, err
	}
	if count, first := t.NonFinite(); count > 0 {
		seen.First = t.Index(first)
	}
	return seen, nil
}

// addCounts puts the devices' counts together, by mesh position: a part that several devices
// hold counts once.
func (s *Session) addCounts(seen *nonfinite.Counts, m *mesh.Mesh, value string, counts []int64) error {
	most := map[string]int64{} // by part
	shape := s.shapes[value]
	for pos, n := range counts {
		if n == 0 {
			continue
		}
		_, _, key, err := array.Bounds(m, shape.spec, shape.full, pos)
		if err != nil {
			return err
		}
		most[key] = max(most[key], n)
		seen.Devices = append(seen.Devices, m.Devices()[pos].ID)
	}
	slices.Sort(seen.Devices)
	for _, n := range most {
		seen.Count += int(n)
	}
	return nil
}

// finiteCheckOf returns the compiled check of a value, whose shape without padding is crop.
func (s *Session) finiteCheckOf(ctx context.Context, value string, m *mesh.Mesh, typ program.Type, crop []int) (*finiteCheck, error) {
	shape := s.shapes[value]
	key := fmt.Sprintf("%p %v %v %v %v", m, typ.DType, shape.full, shape.spec, crop)
	s.finiteMu.Lock() // stages of a pipeline hand over at the same time
	defer s.finiteMu.Unlock()
	if c := s.finite[key]; c != nil {
		return c, nil
	}
	p, spec, err := finiteProgram(m, typ.DType, shape, crop)
	if err != nil {
		return nil, err
	}
	exe, err := s.eng.Compile(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", p.Name, err)
	}
	c := &finiteCheck{exe, m, spec}
	if s.finite == nil {
		s.finite = map[string]*finiteCheck{}
	}
	s.finite[key] = c
	return c, nil
}

// finiteProgram makes the check of a value of that type and layout. Its result has an element for
// each device of the mesh.
func finiteProgram(m *mesh.Mesh, d dtype.DType, of shardedShape, crop []int) (*program.Program, sharding.Spec, error) {
	var axes []string
	for _, a := range m.Axes() {
		axes = append(axes, a.Name)
	}
	spec := sharding.NewSpec(axes)
	p, err := spmd.Build("count_nonfinite", m, func(b *spmd.Builder) {
		x := b.Reduced(b.Input("x", d, of.full, of.spec), "a sum is looked at, and not its addends")
		for dim := range crop {
			x = b.ZeroFrom(x, dim, crop[dim])
		}
		v := b.Local(x)
		finite := b.LCompare("LT", b.LUnary(program.OpAbs, v), b.LConst(d, math.Inf(1)))
		bad := b.LSelect(finite, b.LConst(dtype.I32, 0), b.LConst(dtype.I32, 1))
		dims := make([]int, len(v.Shape))
		for i := range dims {
			dims[i] = i
		}
		n := b.LReshape(b.LReduce(program.Sum, bad, dims...), 1)
		b.Output("counts", b.Global(n, []int{m.NumDevices()}, spec), "")
	})
	return p, spec, err
}

// closeFiniteChecks frees the programs of the checks.
func (s *Session) closeFiniteChecks() {
	for _, c := range s.finite {
		c.exe.Close()
	}
	s.finite = nil
}
