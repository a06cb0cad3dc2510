package sharding

import (
	"fmt"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/numbers"
	"weft/mesh"
)

// Check reports every way in which s is not legal for a tensor of shape on m,
// joined: mesh.ErrUnknownAxis, ErrDuplicateAxis, ErrRank, ErrUneven, and ErrShape
// for a negative size. nil means that Local and Ranges succeed.
func (s Spec) Check(m *mesh.Mesh, shape []int) error { return s.checkForTensor(m, shape, "", -1) }

// checkForTensor is Check with the tensor's name in the messages. It does not check that
// dim loose divides, which its layout decides; -1 for none.
func (s Spec) checkForTensor(m *mesh.Mesh, shape []int, tensor string, loose int) error {
	var list fault.List
	s.checkAxes(&list, m, tensor)
	if len(s.dims) > len(shape) {
		list.Add(fault.New(ErrRank, Rank{tensor, len(s.dims), len(shape)},
			"%sspec %s has %d dims, the tensor %s has %d; a spec has at most as many", tensorPrefix(tensor), s, len(s.dims), numbers.ShapeText(shape), len(shape)))
	}
	for i, size := range shape {
		if size < 0 {
			list.Add(fault.New(ErrShape, Shape{tensor, slices.Clone(shape)},
				"%sdim %d of shape %s has a negative size; the least is 0", tensorPrefix(tensor), i, numbers.ShapeText(shape)))
			continue
		}
		if parts := m.Size(s.dimOrNone(i)...); i != loose && size%parts != 0 {
			list.Add(unevenError(tensor, i, size, parts, s.dims[i]))
		}
	}
	return list.Err()
}

// dimOrNone gives the axes of dim i as arguments for Mesh.Size. A whole dim gives an axis
// without a name, of size 1, because Mesh.Size without arguments counts every device.
func (s Spec) dimOrNone(i int) []string {
	if d := s.dim(i); len(d) > 0 {
		return d
	}
	return noAxis
}

var noAxis = []string{""}

// checkAxes adds an error for each axis that the mesh does not have (S1) and for each that
// the spec names twice (S2).
func (s Spec) checkAxes(list *fault.List, m *mesh.Mesh, tensor string) {
	if s.axesLegal(m) {
		return
	}
	var seen []string
	for _, axis := range s.allAxes() {
		if slices.Contains(seen, axis) {
			continue
		}
		seen = append(seen, axis)
		if !m.Has(axis) && !mesh.IsOptional(axis) {
			list.Add(unknownAxisError(m, axis, tensor))
		}
		if dims, partial := s.countUses(axis); len(dims)+partial > 1 {
			list.Add(fault.New(ErrDuplicateAxis, DuplicateAxis{tensor, axis, dims, partial > 0},
				"%sspec %s names axis %s %d times; an axis occurs once, over all dims and partial axes", tensorPrefix(tensor), s, axis, len(dims)+partial))
		}
	}
}

// axesLegal reports whether S1 and S2 hold, without the reasons. It is fast, because
// building a program checks thousands of specs and nearly all are legal.
func (s Spec) axesLegal(m *mesh.Mesh) bool {
	var room [8]string
	seen := room[:0]
	all := func(axes []string) bool {
		for _, a := range axes {
			if slices.Contains(seen, a) || !m.Has(a) && !mesh.IsOptional(a) {
				return false
			}
			seen = append(seen, a)
		}
		return true
	}
	for _, d := range s.dims {
		if !all(d) {
			return false
		}
	}
	return all(s.partial)
}

func unknownAxisError(m *mesh.Mesh, axis, tensor string) error {
	err := m.Unknown(axis)
	if tensor == "" {
		return err
	}
	fields, _ := fault.Fields[mesh.UnknownAxis](err)
	return fault.New(mesh.ErrUnknownAxis, fields, "%s%v", tensorPrefix(tensor), err)
}

// allAxes lists every axis named, with repeats: of the dims in order, then the partial ones.
func (s Spec) allAxes() []string {
	return append(slices.Concat(s.dims...), s.partial...)
}

// countUses lists the dims that name an axis, once for each time, and counts how often the
// axis is partial.
func (s Spec) countUses(axis string) (dims []int, partial int) {
	dims = []int{}
	for i, d := range s.dims {
		for _, a := range d {
			if a == axis {
				dims = append(dims, i)
			}
		}
	}
	for _, a := range s.partial {
		if a == axis {
			partial++
		}
	}
	return dims, partial
}

func unevenError(tensor string, dim, size, parts int, axes []string) error {
	over := ""
	if len(axes) > 0 {
		over = " over " + strings.Join(axes, "+")
	}
	nearest := numbers.NearestMultiples(size, parts)
	hint := fmt.Sprintf("nearest size %d", nearest[0])
	if len(nearest) == 2 {
		hint = fmt.Sprintf("nearest sizes %d and %d", nearest[0], nearest[1])
	}
	return fault.New(ErrUneven, Uneven{tensor, dim, size, parts, slices.Clone(axes), nearest},
		"%sdim %d of size %d does not divide into %d parts%s; %s", tensorPrefix(tensor), dim, size, parts, over, hint)
}

// tensorPrefix begins a message with the name of a tensor, where it has one.
func tensorPrefix(tensor string) string {
	if tensor == "" {
		return ""
	}
	return tensor + ": "
}
