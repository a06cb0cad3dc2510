package strategy

import (
	"slices"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
)

// DataParallel splits the dim named "batch" over all data axes, in mesh order.
// It never touches a parameter; a parameter's gradient is summed over the axes
// (Plan.Gradient).
type DataParallel struct {
	Axes []string // nil: those of dp and fsdp that the mesh has
}

// axes are the data axes as the mesh names them, in mesh order.
func (d DataParallel) axes(m *mesh.Mesh) ([]string, error) {
	names := d.Axes
	if len(names) == 0 {
		for _, n := range m.Names() {
			if c := mesh.Canonical(n); c == "dp" || c == "fsdp" {
				names = append(names, n)
			}
		}
		if len(names) == 0 {
			return nil, missing(m, dataName, "dp")
		}
	}
	axes, err := axesOn(m, dataName, names)
	return inMeshOrder(m, axes), err
}

func inMeshOrder(m *mesh.Mesh, axes []string) []string {
	var out []string
	for _, n := range m.Names() {
		if slices.Contains(axes, n) {
			out = append(out, n)
		}
	}
	return out
}

// Refine is Strategy's. Errors: mesh.ErrUnknownAxis, sharding.ErrUneven for a
// batch that does not divide, sharding.ErrDuplicateAxis for two batch dims or an
// axis that splits another dim already.
func (d DataParallel) Refine(m *mesh.Mesh, t Tensor, s sharding.Spec) (sharding.Spec, []Note, error) {
	axes, err := d.axes(m)
	if err := fault.Join(err, t.check()); err != nil {
		return s, nil, err
	}
	s = s.Canonical(m, len(t.Shape))
	axes = wide(m, axes)
	batch := t.named("batch")
	switch {
	case len(axes) == 0:
		s, err = t.legal(m, s)
		return s, nil, err
	case len(batch) == 0:
		s, err = t.legal(m, s)
		return s, note(dataName, t, axes, Parameter, "no dim is named batch, so it stays as it is; a gradient is summed over %s", join(axes)), err
	case len(batch) > 1:
		return s, nil, fault.New(sharding.ErrDuplicateAxis, Conflict{t.Name, axes[0], []string{dataName}, batch},
			"%sdims %s are both named batch, and axis %s splits one dim; name one of them otherwise", t.label(), numbers(batch), axes[0])
	}
	dim := batch[0]
	on := s.Dim(dim)
	for _, axis := range axes {
		if slices.Contains(on, axis) {
			continue
		}
		if s.Uses(axis) {
			return s, nil, reused(dataName, t, s, axis, dim)
		}
		on = append(on, axis)
	}
	if len(on) == len(axes) { // all of them data axes
		on = axes
	}
	if parts := m.Size(on...); t.Shape[dim]%parts != 0 {
		return s, nil, t.uneven(dim, parts, on)
	}
	s, err = t.legal(m, s.WithDim(dim, on...))
	return s, nil, err
}
