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

// ordered is the plan, with the plans inside it opened, as it is applied.
func (p Plan) ordered() []Strategy {
	var out []Strategy
	for _, s := range p {
		if inner, ok := s.(Plan); ok {
			out = append(out, inner.ordered()...)
			continue
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Strategy) int { return class(a) - class(b) })
	return out
}

func class(s Strategy) int {
	switch s.(type) {
	case FSDP:
		return 1
	case DataParallel:
		return 2
	}
	return 0
}

// claim is the axes of one strategy of the plan.
type claim struct {
	name string
	axes []string
}

// claims resolves the axes of the strategies and reports those that two may not
// share. One axis may serve two tensor-parallel strategies, which speak of
// different tensors, and data parallelism beside FSDP, which split batch and
// parameters. All violations are joined.
func claims(m *mesh.Mesh, strategies []Strategy) ([]claim, error) {
	var list fault.List
	var out []claim
	for _, s := range strategies {
		c, err := claimOf(m, s)
		list.Add(err)
		if err == nil && c.name != "" {
			out = append(out, c)
		}
	}
	for _, axis := range m.Names() {
		var names []string
		for _, c := range out {
			if slices.Contains(c.axes, axis) {
				names = append(names, c.name)
			}
		}
		if !canShare(names) {
			list.Add(fault.New(sharding.ErrDuplicateAxis, Conflict{Axis: axis, Strategies: names},
				"axis %s is claimed by %s; an axis serves one of tp, fsdp and dp, or fsdp and dp together; give each an axis of its own", axis, strings.Join(names, " and ")))
		}
	}
	return out, list.Err()
}

func claimOf(m *mesh.Mesh, s Strategy) (claim, error) {
	switch s := s.(type) {
	case TensorParallel:
		axes, err := s.axes(m)
		return claim{tensorName, axes}, err
	case FSDP:
		axes, err := s.axes(m)
		_, lerr := s.minSize()
		return claim{fsdpName, axes}, fault.Join(err, lerr)
	case DataParallel:
		axes, err := s.axes(m)
		return claim{dataName, axes}, err
	}
	return claim{}, nil
}

func canShare(names []string) bool {
	count := map[string]int{}
	for _, n := range names {
		count[n]++
	}
	if count[tensorName] > 0 {
		return len(names) == count[tensorName]
	}
	return count[fsdpName] < 2 && count[dataName] < 2
}

// Refine is Strategy's: each strategy refines the spec of the one before. Errors
// are those of the strategies, and sharding.ErrDuplicateAxis for an axis that two
// strategies claim.
func (p Plan) Refine(m *mesh.Mesh, t Tensor, s sharding.Spec) (sharding.Spec, []Note, error) {
	strategies := p.ordered()
	if _, err := claims(m, strategies); err != nil {
		return s, nil, err
	}
	return refine(m, strategies, t, s)
}

func refine(m *mesh.Mesh, strategies []Strategy, t Tensor, s sharding.Spec) (sharding.Spec, []Note, error) {
	if err := t.check(); err != nil {
		return s, nil, err
	}
	s, err := t.legal(m, s)
	if err != nil {
		return s, nil, err
	}
	var notes []Note
	for _, strategy := range strategies {
		next, more, err := strategy.Refine(m, t, s)
		if err != nil {
			return s, nil, err
		}
		if s, err = t.legal(m, next); err != nil {
			return s, nil, err
		}
		notes = append(notes, more...)
	}
	return s, notes, nil
}
