package strategy

import (
	"slices"
	"strings"

	"weft/fault"
	"weft/mesh"
	"weft/sharding"
)

// Strategy refines the spec that a tensor has so far. It returns the refined
// spec, canonical on the mesh, and a note for everything of its own that it left
// undone. It never moves an axis that the spec already has, and returns an error
// where the result would not be legal.
type Strategy interface {
	Refine(m *mesh.Mesh, t Tensor, s sharding.Spec) (sharding.Spec, []Note, error)
}

// Reason is why a strategy left a tensor as it was.
type Reason string

// The reasons of notes.
const (
	Small       Reason = "small"       // fewer elements than FSDP's minimum
	Indivisible Reason = "indivisible" // no dim divides over FSDP's axes
	Activation  Reason = "activation"  // FSDP shards parameters only
	Parameter   Reason = "parameter"   // DataParallel shards tensors with a batch dim only
	Taken       Reason = "taken"       // an earlier strategy has the dim or the axis
	KeptWhole   Reason = "kept-whole"  // a rule says so, or it is the bias of a row-parallel layer
	NoRule      Reason = "no-rule"     // no rule speaks of the tensor
	UnusedAxis  Reason = "unused-axis" // no strategy of the plan uses an axis of the mesh
)

// Note is something that was not applied, and why.
type Note struct {
	Tensor   string   `json:"tensor,omitempty"`
	Strategy string   `json:"strategy,omitempty"` // tp, fsdp or dp
	Axes     []string `json:"axes"`
	Reason   Reason   `json:"reason"`
	Text     string   `json:"text"` // one line for people
}

// String is the line for people.
func (n Note) String() string { return n.Text }

func newNote(strategy string, t Tensor, axes []string, reason Reason, text string) []Note {
	return []Note{{t.Name, strategy, slices.Clip(axes), reason, strategy + ": " + t.messagePrefix() + text}}
}

// The names of the strategies in notes and errors.
const (
	dataName   = mesh.DP
	fsdpName   = mesh.FSDP
	tensorName = mesh.TP
	stageName  = mesh.PP
)

// axisOn finds an axis on a mesh under either spelling of its name. The axis of
// the pipeline is refused: it numbers stages, and a tensor lives on one of them.
func axisOn(m *mesh.Mesh, strategy, name string) (string, error) {
	found := name
	if !m.Has(name) {
		names := m.Names()
		i := slices.IndexFunc(names, func(n string) bool { return mesh.Canonical(n) == mesh.Canonical(name) })
		if i < 0 {
			return "", unknownAxisError(m, strategy, name)
		}
		found = names[i]
	}
	if mesh.Canonical(found) == stageName {
		return "", fault.New(sharding.ErrDuplicateAxis, Conflict{Axis: found, Strategies: []string{strategy, stageName}},
			"axis %s is claimed by %s and by the pipeline; it numbers stages, and a tensor lives on one stage; choose another axis for %s", found, strategy, strategy)
	}
	return found, nil
}

func unknownAxisError(m *mesh.Mesh, strategy, name string) error {
	known := m.Names()
	hint := "the mesh has no axes"
	if len(known) > 0 {
		hint = "known axes: " + strings.Join(known, " ")
	}
	return fault.New(mesh.ErrUnknownAxis, mesh.UnknownAxis{Axis: name, Known: known},
		"%s splits over axis %s, which is not in mesh %s; %s", strategy, name, m, hint)
}

// axesOn finds several axes on a mesh. A name that is given twice is an error.
func axesOn(m *mesh.Mesh, strategy string, names []string) ([]string, error) {
	var list fault.List
	axes := make([]string, 0, len(names))
	for _, name := range names {
		axis, err := axisOn(m, strategy, name)
		list.Add(err)
		if err != nil {
			continue
		}
		if slices.Contains(axes, axis) {
			list.Add(fault.New(sharding.ErrDuplicateAxis, Conflict{Axis: axis, Strategies: []string{strategy}},
				"%s names axis %s twice; an axis splits a tensor once", strategy, axis))
			continue
		}
		axes = append(axes, axis)
	}
	return axes, list.Err()
}

// wideAxes gives the axes of more than one device; the others split nothing.
func wideAxes(m *mesh.Mesh, axes []string) []string {
	narrow := func(a string) bool { return m.Size(a) == 1 }
	if !slices.ContainsFunc(axes, narrow) {
		return axes
	}
	return slices.DeleteFunc(slices.Clone(axes), narrow)
}

// reusedAxisError says that the spec uses an axis already which a strategy needs, for dim
// where that is not negative.
func reusedAxisError(strategy string, t Tensor, s sharding.Spec, axis string, dim int) error {
	dims := []int{}
	where := "partial"
	if at := s.DimOf(axis); at >= 0 {
		dims, where = append(dims, at), t.dimText(at)
	}
	if dim >= 0 {
		dims = append(dims, dim)
	}
	slices.Sort(dims)
	want := ""
	if dim >= 0 {
		want = " for " + t.dimText(dim)
	}
	return fault.New(sharding.ErrDuplicateAxis, Conflict{t.Name, axis, []string{strategy}, dims},
		"%s%s needs axis %s%s, and spec %s has it already: %s; an axis occurs once in a spec", t.messagePrefix(), strategy, axis, want, s, where)
}
