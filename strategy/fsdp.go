package strategy

import (
	"fmt"

	"weft/fault"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/sharding"
)

// DefaultMinSize is FSDP's minimum size when none is given: 2^18 elements, 1 MiB
// of float32, as the common JAX recipes have it.
const DefaultMinSize = 1 << 18

// FSDP shards the storage of parameters. One dim is split over all its axes
// together, so that one all-gather brings the parameter back:
//
//  1. A parameter of fewer elements than MinSize is left as it is.
//  2. Candidates are the dims that nothing splits yet and whose size divides by
//     the product of the axes.
//  3. The largest is taken, of equals the first: the shards of a leading dim are
//     contiguous in memory. (torch FSDP2 takes dim 0 by default; JAX recipes that
//     sort sizes in reverse take the last of equals.)
//  4. Without a candidate the axes become the minor axes of a split dim, the
//     one of which most is left on a device, if it still divides.
//  5. Otherwise the parameter stays whole over the axes.
//
// In cases 1 and 5 a note gives the reason. Activations are left as they are.
type FSDP struct {
	Axes    []string // split over together, first major; nil: fsdp
	MinSize int      // elements of the whole tensor; 0: DefaultMinSize, unless All
	// All shards every parameter that divides, however small: a minimum of 0 elements.
	// MinSize is then 0.
	All bool
}

func (f FSDP) meshAxes(m *mesh.Mesh) ([]string, error) {
	names := f.Axes
	if len(names) == 0 {
		names = Axes(AtRest)
	}
	return axesOn(m, fsdpName, names)
}

func (f FSDP) minSize() (int, error) {
	switch {
	case f.MinSize < 0:
		return 0, fault.New(ErrMinSize, MinSize{f.MinSize}, "a minimum of %d elements does not exist; the least is 0, which shards everything that divides", f.MinSize)
	case f.All && f.MinSize > 0:
		return 0, fault.New(ErrMinSize, MinSize{f.MinSize}, "a minimum of %d elements beside one of 0, which shards everything that divides; give one of them", f.MinSize)
	case f.All:
		return 0, nil
	case f.MinSize == 0:
		return DefaultMinSize, nil
	}
	return f.MinSize, nil
}

// Refine is Strategy's. Errors: mesh.ErrUnknownAxis, ErrMinSize, and
// sharding.ErrDuplicateAxis for an axis that the spec uses already.
func (f FSDP) Refine(m *mesh.Mesh, t Tensor, s sharding.Spec) (sharding.Spec, []Note, error) {
	return Plan{f}.Refine(m, t, s)
}

func (f FSDP) refineSpec(m *mesh.Mesh, t Tensor, s sharding.Spec, axes []string) (sharding.Spec, []Note, error) {
	axes = wideAxes(m, axes)
	least, err := f.minSize()
	switch {
	case err != nil || len(axes) == 0:
		return s, nil, err
	case t.isActivation():
		return s, newNote(fsdpName, t, axes, Activation, "it has a batch dim and is no parameter; left as it is over "+joinWords(axes)), nil
	}
	for _, axis := range axes {
		if s.Uses(axis) {
			return s, nil, reusedAxisError(fsdpName, t, s, axis, -1)
		}
	}
	if len(t.Shape) == 0 {
		return s, newNote(fsdpName, t, axes, Small, "a scalar is not split; whole over "+joinWords(axes)), nil
	}
	if n := t.countElements(); n < least {
		return s, newNote(fsdpName, t, axes, Small, fmt.Sprintf("%d elements are fewer than the minimum of %d; whole over %s", n, least, joinWords(axes))), nil
	}
	parts := m.Size(axes...)
	dim := f.chooseDim(m, t, s, parts)
	if dim < 0 {
		return s, newNote(fsdpName, t, axes, Indivisible, fmt.Sprintf("no dim of %s divides into %d parts over %s%s; whole over %s%s",
			numbers.ShapeText(t.Shape), parts, joinWords(axes), besideSpec(s), joinWords(axes), fittingParts(m, t, s, parts))), nil
	}
	return s.WithDim(dim, append(s.Dim(dim), axes...)...), nil, nil
}

// chooseDim gives the dim that is split into parts more by rules 2 to 4 of FSDP, or -1.
func (f FSDP) chooseDim(m *mesh.Mesh, t Tensor, s sharding.Spec, parts int) int {
	free, stacked := -1, -1
	for i, size := range t.Shape {
		if on := s.Dim(i); len(on) > 0 {
			left := size / m.Size(on...)
			if left%parts == 0 && (stacked < 0 || left > t.Shape[stacked]/m.Size(s.Dim(stacked)...)) {
				stacked = i
			}
			continue
		}
		if size%parts == 0 && (free < 0 || size > t.Shape[free]) {
			free = i
		}
	}
	if free >= 0 {
		return free
	}
	return stacked
}

// besideSpec names, for a note, the spec whose axes split dims already.
func besideSpec(s sharding.Spec) string {
	if s.IsWhole() {
		return ""
	}
	return fmt.Sprintf(" beside %s", s)
}

// fittingParts names, for a note, the largest number of parts below the one asked for into
// which a dim divides.
func fittingParts(m *mesh.Mesh, t Tensor, s sharding.Spec, parts int) string {
	best := 0
	for i, size := range t.Shape {
		left := size
		if on := s.Dim(i); len(on) > 0 {
			left /= m.Size(on...)
		}
		for n := min(parts-1, left); n > max(1, best); n-- {
			if left%n == 0 {
				best = n
			}
		}
	}
	if best == 0 {
		return ""
	}
	return fmt.Sprintf("; %d parts would fit", best)
}
