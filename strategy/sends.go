package strategy

import (
	"slices"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
)

// Traffic has the device pairs and bytes with which stages send one microbatch on, in one
// direction.
type Traffic struct {
	Pairs [][2]int `json:"pairs"` // device ids, source and target, one pair for each line of the pipeline's axis
	Bytes int64    `json:"bytes"` // that each source sends for each microbatch
}

// Sends gives the device pairs and bytes of a pipeline in both directions. The
// tensor is the activation of one microbatch between two stages; its spec on m does
// not use the pipeline's axis. With more than one chunk a stage the last stage
// sends to the first too. Each pair of neighbours carries Bytes once for each
// microbatch, and once more for each further chunk. Errors: mesh.ErrUnknownAxis,
// sharding.ErrDuplicateAxis, and those of sharding.Spec.Check.
func Sends(m *mesh.Mesh, axis string, t Tensor, s sharding.Spec, chunks int) (forward, backward Traffic, err error) {
	found := axis
	if !m.Has(axis) {
		i := slices.IndexFunc(m.Names(), func(n string) bool { return mesh.Canonical(n) == mesh.Canonical(axis) })
		if i < 0 {
			return forward, backward, unknownAxisError(m, stageName, axis)
		}
		found = m.Names()[i]
	}
	if s.Uses(found) {
		return forward, backward, fault.New(sharding.ErrDuplicateAxis, Conflict{Tensor: t.Name, Axis: found, Strategies: []string{stageName}},
			"%saxis %s numbers stages, and spec %s uses it; a tensor lives on one stage", t.messagePrefix(), found, s)
	}
	s, err = t.legalSpec(m, s)
	if err == nil {
		err = t.checkDims()
	}
	if err != nil {
		return forward, backward, err
	}
	local, err := s.Local(m, t.Shape)
	if err != nil {
		return forward, backward, err
	}
	bytes := pieceBytes(t, local)
	pairs := func(shift int) Traffic {
		out := Traffic{[][2]int{}, bytes}
		if m.Size(found) > 1 {
			for _, p := range m.Pairs(found, shift, chunks > 1) {
				out.Pairs = append(out.Pairs, [2]int{m.Device(p[0]).ID, m.Device(p[1]).ID})
			}
		}
		return out
	}
	return pairs(+1), pairs(-1), nil
}
