package sharding

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/glob"
	"weft/internal/numbers"
	"weft/mesh"
)

// Rule gives a spec to the parameters whose name matches.
type Rule struct {
	// Match is a pattern: * stands for any run of characters, dots included, and
	// every other character for itself. "blocks.*.attn.q.weight".
	Match string `json:"match"`
	// Spec of the parameters that match. The zero value replicates them.
	Spec Spec `json:"spec"`
	// Layout of a dim that may not be cut just anywhere; the zero value is none.
	Layout Layout `json:"layout,omitzero"`
	// WholeIfUneven keeps a parameter that matches whole, in place of an error, on a mesh
	// over which its dims do not divide, and says so in a note. It is for a width that
	// neither the heads nor anything else in the model makes divide, and for heads of a
	// layout that can be neither divided nor copied.
	WholeIfUneven bool `json:"whole_if_uneven,omitempty"`
}

// Rules give specs to parameters by name: the first rule that matches decides.
type Rules []Rule

// Param is a parameter, by its name in the checkpoint.
type Param struct {
	Name  string `json:"path"`
	Shape []int  `json:"shape"`
}

// Assigned is a parameter with the spec that a rule gave it.
type Assigned struct {
	Param
	Spec   Spec   `json:"spec"`            // canonical: axes of size 1 left out, as many dims as the parameter
	Rule   string `json:"rule"`            // Match of the rule
	Layout Layout `json:"layout,omitzero"` // that of the rule
	// Note says why the parameter is whole where the rule would split it; mostly empty.
	Note string `json:"note,omitempty"`
}

// Assignment lists every parameter with its spec, in the order given.
type Assignment []Assigned

// Apply gives every parameter the spec of the first rule that matches it. Nothing
// is replicated unless a rule says so. Errors, all that apply joined: ErrNoRule
// with every parameter that no rule speaks of, ErrDuplicateParam, those of
// Spec.Check and of Layout.Ranges, each with the name of its parameter.
func (r Rules) Apply(m *mesh.Mesh, params []Param) (Assignment, error) {
	var list fault.List
	var orphans []string
	seen := make(map[string]bool, len(params))
	out := make(Assignment, 0, len(params))
	for _, p := range params {
		if seen[p.Name] {
			list.Add(fault.New(ErrDuplicateParam, DuplicateParam{p.Name}, "parameter %s is listed twice", p.Name))
		}
		seen[p.Name] = true
		i := slices.IndexFunc(r, func(rule Rule) bool { return glob.Match(rule.Match, p.Name) })
		if i < 0 {
			orphans = append(orphans, p.Name)
			continue
		}
		a, err := r[i].assignSpec(m, p)
		list.Add(err)
		out = append(out, a)
	}
	if len(orphans) > 0 {
		list.Add(fault.New(ErrNoRule, NoRule{orphans},
			"no rule speaks of %d of %d parameters: %s; add a rule for each, one that replicates if that is meant", len(orphans), len(params), strings.Join(orphans, " ")))
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

func (rule Rule) assignSpec(m *mesh.Mesh, p Param) (Assigned, error) {
	a := Assigned{Param: Param{p.Name, slices.Clone(p.Shape)}, Spec: rule.Spec.Canonical(m, len(p.Shape)), Rule: rule.Match, Layout: rule.Layout}
	loose := -1
	if !rule.Layout.IsZero() {
		loose = rule.Layout.Dim
	}
	if err := rule.Spec.checkForTensor(m, p.Shape, p.Name, loose); err != nil {
		if !rule.WholeIfUneven || !errors.Is(err, ErrUneven) {
			return a, err
		}
		a.Spec, a.Note = Whole(len(p.Shape)), fmt.Sprintf("whole on every device: %v", err)
	}
	if loose < 0 {
		return a, nil
	}
	if rule.Layout.Dim < 0 || rule.Layout.Dim >= len(p.Shape) {
		return a, fault.New(ErrFusedLayout, FusedLayout{p.Name, rule.Layout.Dim, 0, slices.Clone(rule.Layout.Parts)},
			"%s: the layout speaks of dim %d, the parameter %s has %d", p.Name, rule.Layout.Dim, numbers.ShapeText(p.Shape), len(p.Shape))
	}
	_, err := rule.Layout.rangesForTensor(p.Name, p.Shape[rule.Layout.Dim], a.countParts(m, rule.Layout.Dim), 0)
	if rule.WholeIfUneven && errors.Is(err, ErrKVHeads) {
		a.Spec, a.Note, err = Whole(len(p.Shape)), fmt.Sprintf("whole on every device: %v", err), nil
	}
	return a, err
}

// countParts counts the parts that a dim is split into.
func (a Assigned) countParts(m *mesh.Mesh, dim int) int { return m.Size(a.Spec.dimOrNone(dim)...) }

// Local is the shape of the piece that each device holds. It is the whole shape
// divided, save where a layout makes devices hold copies. Errors are those of Apply.
func (a Assigned) Local(m *mesh.Mesh) ([]int, error) {
	ranges, err := a.Ranges(m, 0)
	if err != nil {
		return nil, err
	}
	local := make([]int, len(ranges))
	for i, stretches := range ranges {
		for _, r := range stretches {
			local[i] += r.Len()
		}
	}
	return local, nil
}

// Ranges tells, for each dim, the stretches of the parameter that the device at
// mesh position pos holds, one after another: one stretch, or one for each part
// of a fused dim. Errors are those of Apply, and ErrPosition.
func (a Assigned) Ranges(m *mesh.Mesh, pos int) ([][]Range, error) {
	loose := -1
	if !a.Layout.IsZero() {
		loose = a.Layout.Dim
	}
	if err := fault.Join(a.Spec.checkForTensor(m, a.Shape, a.Name, loose), checkPosition(pos, m.NumDevices())); err != nil {
		return nil, err
	}
	out := make([][]Range, len(a.Shape))
	for i, size := range a.Shape {
		layout := Layout{Dim: i}
		if i == loose {
			layout = a.Layout
		}
		ranges, err := layout.rangesForTensor(a.Name, size, a.countParts(m, i), m.Index(pos, a.Spec.dim(i)...))
		if err != nil {
			return nil, err
		}
		out[i] = ranges
	}
	return out, nil
}
