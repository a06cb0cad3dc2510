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

// meshAxes gives the data axes as the mesh names them, in mesh order.
func (d DataParallel) meshAxes(m *mesh.Mesh) ([]string, error) {
	if len(d.Axes) > 0 {
		axes, err := axesOn(m, dataName, d.Axes)
		return m.InOrder(axes), err
	}
	axes := slices.DeleteFunc(m.Names(), func(n string) bool {
		return !slices.Contains(Axes(Batch, AtRest), mesh.Canonical(n))
	})
	if len(axes) == 0 {
		return nil, unknownAxisError(m, dataName, dataName)
	}
	return axes, nil
}

// Refine is Strategy's. Errors: mesh.ErrUnknownAxis, sharding.ErrUneven for a
// batch that does not divide, sharding.ErrDuplicateAxis for two batch dims or an
// axis that splits another dim already.
func (d DataParallel) Refine(m *mesh.Mesh, t Tensor, s sharding.Spec) (sharding.Spec, []Note, error) {
	return Plan{d}.Refine(m, t, s)
}

func (d DataParallel) refineSpec(m *mesh.Mesh, t Tensor, s sharding.Spec, axes []string) (sharding.Spec, []Note, error) {
	axes = wideAxes(m, axes)
	if len(axes) == 0 {
		return s, nil, nil
	}
	dim, count := t.findDim(string(Batch))
	switch count {
	case 0:
		return s, newNote(dataName, t, axes, Parameter, "no dim is named batch, so it stays as it is; a gradient is summed over "+joinWords(axes)), nil
	case 1:
	default:
		batch := t.dimsNamed(string(Batch))
		return s, nil, fault.New(sharding.ErrDuplicateAxis, Conflict{t.Name, axes[0], []string{dataName}, batch},
			"%sdims %s are both named batch, and axis %s splits one dim; name one of them otherwise", t.messagePrefix(), joinNumbers(batch), axes[0])
	}
	on := s.Dim(dim)
	for _, axis := range axes {
		if slices.Contains(on, axis) {
			continue
		}
		if s.Uses(axis) {
			return s, nil, reusedAxisError(dataName, t, s, axis, dim)
		}
		on = append(on, axis)
	}
	if len(on) == len(axes) { // every axis of the dim is a data axis
		on = axes
	}
	if parts := m.Size(on...); t.Shape[dim]%parts != 0 {
		return s, nil, t.unevenError(dim, parts, on)
	}
	return s.WithDim(dim, on...), nil, nil
}
