package strategy

import (
	"slices"
	"strings"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
)

// Plan is a list of strategies, and one itself. Those whose dim is fixed come
// first (TensorParallel, and strategies of other packages), then FSDP, which can
// take another dim, then DataParallel, which joins it on the batch dim; among
// their like they come in the order of the list, and the earlier keeps a dim or an
// axis that two want. The empty plan leaves tensors whole.
type Plan []Strategy

// inOrder lists the strategies in the order in which they are applied, with those of plans
// inside the plan among them.
func (p Plan) inOrder() []Strategy {
	out := make([]Strategy, 0, len(p))
	for _, s := range p {
		if inner, ok := s.(Plan); ok {
			out = append(out, inner.inOrder()...)
			continue
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Strategy) int { return orderClass(a) - orderClass(b) })
	return out
}

func orderClass(s Strategy) int {
	switch s.(type) {
	case FSDP:
		return 1
	case DataParallel:
		return 2
	}
	return 0
}

// claim is a strategy of a plan with its axes as the mesh names them; a strategy
// of another package has neither name nor axes.
type claim struct {
	Strategy
	name string
	axes []string
}

// claimAxes lists the strategies in the order in which they are applied, each with its
// axes. It reports axes that the mesh does not have, and axes that two strategies may not
// share. Two tensor-parallel strategies may share one axis, because they split different
// tensors; so may data parallelism and FSDP, because one splits the batch and the other
// the parameters. All violations are joined.
func (p Plan) claimAxes(m *mesh.Mesh) ([]claim, error) {
	var list fault.List
	strategies := p.inOrder()
	out := make([]claim, 0, len(strategies))
	for _, s := range strategies {
		c, err := claimOf(m, s)
		list.Add(err)
		if err == nil {
			out = append(out, c)
		}
	}
	for i, c := range out {
		for _, axis := range c.axes {
			if isClaimed(out[:i], axis) || !isClaimed(out[i+1:], axis) {
				continue // a shared axis is reported at its first claim, and one claim is no conflict
			}
			if names := claimantNames(out, axis); !canShare(names) {
				list.Add(fault.New(sharding.ErrDuplicateAxis, Conflict{Axis: axis, Strategies: names},
					"axis %s is claimed by %s; an axis serves one of tp, fsdp and dp, or fsdp and dp together; give each an axis of its own", axis, strings.Join(names, " and ")))
			}
		}
	}
	return out, list.Err()
}

func isClaimed(claims []claim, axis string) bool {
	for i := range claims {
		if slices.Contains(claims[i].axes, axis) {
			return true
		}
	}
	return false
}

func claimantNames(claims []claim, axis string) []string {
	var names []string
	for _, c := range claims {
		if slices.Contains(c.axes, axis) {
			names = append(names, c.name)
		}
	}
	return names
}

func claimOf(m *mesh.Mesh, s Strategy) (claim, error) {
	switch s := s.(type) {
	case TensorParallel:
		axes, err := s.meshAxes(m)
		return claim{s, tensorName, axes}, err
	case FSDP:
		axes, err := s.meshAxes(m)
		_, lerr := s.minSize()
		return claim{s, fsdpName, axes}, fault.Join(err, lerr)
	case DataParallel:
		axes, err := s.meshAxes(m)
		return claim{s, dataName, axes}, err
	}
	return claim{s, "", nil}, nil
}

func canShare(names []string) bool {
	tp, fsdp, dp := 0, 0, 0
	for _, n := range names {
		switch n {
		case tensorName:
			tp++
		case fsdpName:
			fsdp++
		case dataName:
			dp++
		}
	}
	return tp == len(names) || tp == 0 && fsdp < 2 && dp < 2
}

// Refine is Strategy's: each strategy refines the spec of the one before. Errors
// are those of the strategies, of the spec so far, and sharding.ErrDuplicateAxis
// for an axis that two strategies claim.
func (p Plan) Refine(m *mesh.Mesh, t Tensor, s sharding.Spec) (sharding.Spec, []Note, error) {
	claimed, err := p.claimAxes(m)
	if err != nil {
		return s, nil, err
	}
	return refineByAll(m, claimed, t, s)
}

// refineByAll applies the strategies one after another. The spec between them is always
// canonical and legal: this package's strategies keep it so, and the spec that a strategy
// of another package returns is checked.
func refineByAll(m *mesh.Mesh, claimed []claim, t Tensor, s sharding.Spec) (sharding.Spec, []Note, error) {
	if err := t.checkDims(); err != nil {
		return s, nil, err
	}
	s, err := t.legalSpec(m, s)
	if err != nil {
		return s, nil, err
	}
	notes := make([]Note, 0, len(claimed))
	for _, c := range claimed {
		var next sharding.Spec
		var more []Note
		switch strategy := c.Strategy.(type) {
		case TensorParallel:
			next, more, err = strategy.refineSpec(m, t, s, c.axes)
		case FSDP:
			next, more, err = strategy.refineSpec(m, t, s, c.axes)
		case DataParallel:
			next, more, err = strategy.refineSpec(m, t, s, c.axes)
		default:
			if next, more, err = strategy.Refine(m, t, s); err == nil {
				next, err = t.legalSpec(m, next)
			}
		}
		if err != nil {
			return s, nil, err
		}
		s, notes = next, append(notes, more...)
	}
	return s, notes, nil
}
