package sharding

import (
	"fmt"

	"weft/fault"
	"weft/mesh"
)

// Range is half-open: Lo is in it, Hi is not. Units are elements of a dim.
type Range struct {
	Lo int `json:"lo"`
	Hi int `json:"hi"`
}

// Len is the number of elements.
func (r Range) Len() int { return r.Hi - r.Lo }

// String gives "lo-hi", hi excluded.
func (r Range) String() string { return fmt.Sprintf("%d-%d", r.Lo, r.Hi) }

// Local is the shape of the piece that each device holds of a tensor of shape.
// Errors are those of Check.
func (s Spec) Local(m *mesh.Mesh, shape []int) ([]int, error) {
	if err := s.Check(m, shape); err != nil {
		return nil, err
	}
	return s.localShape(m, shape), nil
}

// localShape is Local without the check, for a spec that is known to be legal.
func (s Spec) localShape(m *mesh.Mesh, shape []int) []int {
	local := make([]int, len(shape))
	for i, size := range shape {
		local[i] = size / m.Size(s.dimOrNone(i)...)
	}
	return local
}

// Ranges tells, for each dim, which part of a tensor of shape the device at
// mesh position pos holds. For a partial spec it holds an addend of that part.
// Errors are those of Check, and ErrPosition.
func (s Spec) Ranges(m *mesh.Mesh, shape []int, pos int) ([]Range, error) {
	if err := fault.Join(s.Check(m, shape), checkPosition(pos, m.NumDevices())); err != nil {
		return nil, err
	}
	ranges := make([]Range, len(shape))
	for i, size := range s.localShape(m, shape) {
		lo := size * m.Index(pos, s.dim(i)...)
		ranges[i] = Range{lo, lo + size}
	}
	return ranges, nil
}

func checkPosition(pos, count int) error {
	if pos >= 0 && pos < count {
		return nil
	}
	return fault.New(ErrPosition, Position{pos, count}, "position %d does not exist; there are %d, from 0 to %d", pos, count, count-1)
}
