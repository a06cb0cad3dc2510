package strategy

import (
	"fmt"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/glob"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/sharding"
)

// Rule says which dim of the tensors of a name tensor parallelism splits.
type Rule struct {
	// Match is a pattern: * stands for any run of characters, dots included, and
	// every other character for itself. "*.attn.q.*".
	Match string `json:"match"`
	// Dim to split, by name: "out" is column-parallel, "in" row-parallel, "heads"
	// for a tensor viewed by heads. Empty keeps the tensor whole.
	Dim string `json:"dim"`
	// Heads are how many pieces of Dim may not be cut, as the heads of a
	// projection; 0 for none.
	Heads int `json:"heads,omitempty"`
}

// TensorParallel splits the dim that the first rule decides on which matches a
// tensor's name and whose dim the tensor has (Megatron-LM's column- and
// row-parallel layers, where dims are named and their order does not matter).
// The bias of a row-parallel layer has no dim "in" and stays whole: it is added
// once, after the sum.
type TensorParallel struct {
	Axis  string // empty: tp
	Rules []Rule // nil: DefaultRules()
	// SequenceParallel says that the stream between layers is split over the axis
	// too, so that gradients of parameters that are whole over it are summed over it.
	SequenceParallel bool
}

func (p TensorParallel) meshAxes(m *mesh.Mesh) ([]string, error) {
	name := p.Axis
	if name == "" {
		name = mesh.TP
	}
	axis, err := axisOn(m, tensorName, name)
	return []string{axis}, err
}

// Refine is Strategy's. Errors: mesh.ErrUnknownAxis; ErrNoDim for a rule whose dim
// the tensor does not have; sharding.ErrDuplicateAxis for two dims of the rule's
// name; sharding.ErrUneven; sharding.ErrHeadsNotDivisible and sharding.ErrKVHeads
// for heads that would be cut.
func (p TensorParallel) Refine(m *mesh.Mesh, t Tensor, s sharding.Spec) (sharding.Spec, []Note, error) {
	return Plan{p}.Refine(m, t, s)
}

func (p TensorParallel) refineSpec(m *mesh.Mesh, t Tensor, s sharding.Spec, axes []string) (sharding.Spec, []Note, error) {
	axis, n := axes[0], m.Size(axes[0])
	rule, why, err := p.findRule(t)
	if err != nil || rule == nil {
		return s, noteOf(why, t, axes), err
	}
	dim, count := t.findDim(rule.Dim)
	if count > 1 {
		at := t.dimsNamed(rule.Dim)
		return s, nil, fault.New(sharding.ErrDuplicateAxis, Conflict{t.Name, axis, []string{tensorName}, at},
			"%sdims %s are both named %s, and axis %s splits one dim; give them different names", t.messagePrefix(), joinNumbers(at), rule.Dim, axis)
	}
	on := s.Dim(dim)
	switch {
	case n == 1 || slices.Contains(on, axis):
		return s, nil, nil
	case s.Uses(axis):
		return s, newNote(tensorName, t, axes, Taken, fmt.Sprintf("axis %s is in spec %s already, so rule %s does not split %s", axis, s, rule.Match, t.dimText(dim))), nil
	case len(on) > 0:
		return s, newNote(tensorName, t, axes, Taken, fmt.Sprintf("%s is split over %s already, so rule %s does not split it over %s", t.dimText(dim), joinWords(on), rule.Match, axis)), nil
	}
	if err := rule.checkDivides(t, axis, n, dim); err != nil {
		return s, nil, err
	}
	return s.WithDim(dim, axis), nil, nil
}

// checkDivides reports heads, or else elements, that do not divide over n devices.
func (r Rule) checkDivides(t Tensor, axis string, n, dim int) error {
	switch {
	case r.Heads > 0 && r.Heads%n != 0 && n%r.Heads == 0:
		return fault.New(sharding.ErrKVHeads, sharding.KVHeadsMismatch{Tensor: t.Name, KVHeads: r.Heads, Parts: n, Legal: numbers.Divisors(r.Heads, numbers.MaxListed)},
			"%s%d heads of %s do not divide over %s=%d, and a head is never cut; keep it whole by a rule without a dim, or split over an axis of %d and copy over another of %d",
			t.messagePrefix(), r.Heads, t.dimText(dim), axis, n, r.Heads, n/r.Heads)
	case r.Heads > 0 && r.Heads%n != 0:
		legal := numbers.Divisors(r.Heads, numbers.MaxListed)
		return fault.New(sharding.ErrHeadsNotDivisible, sharding.HeadsNotDivisible{Heads: r.Heads, TP: n, SP: 1, Legal: legal},
			"%s%d heads not divisible by %d, the size of axis %s; sizes that work: %s", t.messagePrefix(), r.Heads, n, axis, joinNumbers(legal))
	case t.Shape[dim]%n != 0:
		return t.unevenError(dim, n, []string{axis})
	}
	return nil
}

// whole says why no rule splits a tensor.
type whole struct {
	reason Reason
	text   string
}

func noteOf(w whole, t Tensor, axes []string) []Note {
	if w.reason == "" {
		return nil
	}
	return newNote(tensorName, t, axes, w.reason, w.text+"; whole over "+joinWords(axes))
}

// findRule finds the rule that decides on t, or says why none splits it.
func (p TensorParallel) findRule(t Tensor) (*Rule, whole, error) {
	rules := p.Rules
	if rules == nil {
		rules = defaultRules
	}
	var without *Rule // the first that matches and whose dim t does not have
	for i := range rules {
		r := &rules[i]
		switch {
		case !glob.Match(r.Match, t.Name):
		case r.Dim == "":
			return nil, whole{KeptWhole, "rule " + r.Match + " keeps it whole"}, nil
		default:
			if _, count := t.findDim(r.Dim); count > 0 {
				return r, whole{}, nil
			}
			if without == nil {
				without = r
			}
		}
	}
	switch {
	case without == nil:
		return nil, whole{NoRule, "no rule matches its name"}, nil
	case plainDim(without.Dim) == "in" && len(t.Shape) == 1:
		return nil, whole{KeptWhole, "it has no dim in, as the bias of a row-parallel layer, which is added once after the sum (rule " + without.Match + ")"}, nil
	}
	return nil, whole{}, fault.New(ErrNoDim, NoDim{t.Name, without.Match, without.Dim, slices.Clone(t.Dims)},
		"%srule %s splits dim %s, and the tensor's dims are (%s); name one of them in the rule", t.messagePrefix(), without.Match, without.Dim, strings.Join(t.Dims, ","))
}
