package sharding

import (
	"math"
	"slices"

	"weft/fault"
	"weft/mesh"
)

// Padding describes a tensor whose dims are padded at their end to sizes that divide. It
// is for callers who ask for padding: nothing in weft pads on its own. Sizes are in
// elements.
type Padding struct {
	Mesh   *mesh.Mesh
	Spec   Spec
	Shape  []int   // as it was
	Padded []int   // each size rounded up to a multiple of its parts
	Local  []int   // what each device holds, padding included
	Valid  [][]int // Valid[dim][part]: how much of that part is not padding
}

// Pad describes shape padded for s on m. Errors are those of Spec.Check, less
// ErrUneven.
func Pad(m *mesh.Mesh, s Spec, shape []int) (*Padding, error) {
	var list fault.List
	for _, err := range fault.Violations(s.Check(m, shape)) {
		if !isUneven(err) {
			list.Add(err)
		}
	}
	p := &Padding{Mesh: m, Spec: s, Shape: slices.Clone(shape)}
	for i, size := range shape {
		parts := m.Size(s.dimOrNone(i)...)
		if size > math.MaxInt-parts {
			list.Add(fault.New(ErrShape, Shape{Shape: slices.Clone(shape)}, "dim %d of size %d is too large to pad to a multiple of %d", i, size, parts))
			continue
		}
		padded := RoundUp(max(0, size), parts)
		p.Padded = append(p.Padded, padded)
		p.Local = append(p.Local, padded/parts)
		p.Valid = append(p.Valid, validSizes(size, padded/parts, parts))
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// RoundUp is the least multiple of parts that is not below n; n and parts are
// not negative, and parts 0 counts as 1.
func RoundUp(n, parts int) int {
	if parts <= 1 {
		return n
	}
	if r := n % parts; r != 0 {
		return n + parts - r
	}
	return n
}

func validSizes(size, local, parts int) []int {
	out := make([]int, parts)
	for i := range out {
		out[i] = min(max(0, size-i*local), local)
	}
	return out
}

// ValidAt gives, for each dim of the piece at mesh position pos, how many elements are not
// padding. pos must be a position of the mesh.
func (p *Padding) ValidAt(pos int) []int {
	out := make([]int, len(p.Shape))
	for i := range out {
		out[i] = p.Valid[i][p.Mesh.Index(pos, p.Spec.dim(i)...)]
	}
	return out
}

// Empty lists the mesh positions that hold nothing but padding. A tensor that
// has no elements leaves none empty in this sense: there is nothing to hold.
func (p *Padding) Empty() []int {
	empty := []int{}
	if slices.Contains(p.Shape, 0) {
		return empty
	}
	for pos := range p.Mesh.NumDevices() {
		if slices.Contains(p.ValidAt(pos), 0) {
			empty = append(empty, pos)
		}
	}
	return empty
}

// Waste is how many elements of the padded tensor are padding.
func (p *Padding) Waste() int {
	padded, whole := 1, 1
	for i := range p.Shape {
		padded, whole = padded*p.Padded[i], whole*p.Shape[i]
	}
	return padded - whole
}
