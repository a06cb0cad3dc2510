package strategy

import (
	"fmt"
	"math"
	"slices"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
)

// Placement says how a plan lays out one tensor.
type Placement struct {
	Name       string        `json:"name"`
	Shape      []int         `json:"shape"`
	Spec       sharding.Spec `json:"spec"`
	LocalShape []int         `json:"local_shape"`
	LocalBytes int64         `json:"local_bytes"` // on each device
	Notes      []Note        `json:"notes"`       // what was not applied, and why
}

// Report says how a plan lays out every tensor.
type Report struct {
	Mesh       string      `json:"mesh"`
	Tensors    []Placement `json:"tensors"`
	TotalBytes int64       `json:"total_bytes"`
	LocalBytes int64       `json:"local_bytes"` // on each device
	Notes      []Note      `json:"notes"`       // of the plan as a whole
}

// Explain refines the spec of every tensor and says what was not applied and why.
// Errors of all tensors are joined.
func (p Plan) Explain(m *mesh.Mesh, tensors []Tensor) (*Report, error) {
	claimed, err := p.claimAxes(m)
	if err != nil {
		return nil, err
	}
	r := &Report{Mesh: m.String(), Tensors: make([]Placement, 0, len(tensors)), Notes: []Note{}}
	if !slices.ContainsFunc(claimed, func(c claim) bool { return c.name == "" }) {
		r.Notes = noteUnusedAxes(m, claimed) // a strategy of another package may use any axis
	}
	var list fault.List
	for _, t := range tensors {
		s, notes, err := refineByAll(m, claimed, t, sharding.Spec{})
		list.Add(err)
		if err != nil {
			continue
		}
		local, err := s.Local(m, t.Shape)
		list.Add(err)
		bytes := pieceBytes(t, local)
		r.Tensors = append(r.Tensors, Placement{t.Name, t.Shape, s, local, bytes, append([]Note{}, notes...)})
		r.LocalBytes = addBytes(r.LocalBytes, bytes)
		r.TotalBytes = addBytes(r.TotalBytes, pieceBytes(t, t.Shape))
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// pieceBytes counts the bytes of a piece of t of some shape, at most math.MaxInt64.
func pieceBytes(t Tensor, shape []int) int64 {
	n := Tensor{Shape: shape}.countElements()
	if t.Elem > 0 && n > math.MaxInt64/t.Elem {
		return math.MaxInt64
	}
	return int64(n) * int64(t.Elem)
}

// addBytes adds two sizes and gives math.MaxInt64 where the sum is larger.
func addBytes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// noteUnusedAxes makes a note for each axis that no strategy claims, because every device
// along it computes the same and no gradient is summed over it. The pipeline's axis needs
// none: it numbers stages.
func noteUnusedAxes(m *mesh.Mesh, claimed []claim) []Note {
	notes := []Note{}
	for _, a := range m.Axes() {
		used := a.Size == 1 || mesh.Canonical(a.Name) == stageName
		for _, c := range claimed {
			for _, axis := range c.axes {
				used = used || axis == a.Name
			}
		}
		if !used {
			notes = append(notes, newNote("plan", Tensor{}, []string{a.Name}, UnusedAxis, fmt.Sprintf(
				"no strategy uses axis %s of size %d; everything is the same along it, and no gradient is summed over it", a.Name, a.Size))...)
		}
	}
	return notes
}
