package weft

import (
	"fmt"
	"maps"
	"slices"

	"weft/fault"
	"weft/tensor"
)

// ErrNonFinite: NaN or infinity where a number is wanted, in what a run is given or
// in what it makes. The fields are NonFinite. With Options.AllowNonFinite it is a
// note of the report.
var ErrNonFinite = fault.NewKind("non-finite")

// NonFinite says where values are that are no finite numbers.
type NonFinite struct {
	Of       string `json:"of"` // input, condition, output or latents
	Tensor   string `json:"tensor"`
	Count    int    `json:"count"`
	Elements int    `json:"elements"`
	First    []int  `json:"first"` // index of the first in the tensor
	Step     *int   `json:"step,omitempty"`
}

// nonFinite are the notes on what a run let pass.
type nonFinite struct {
	allow bool
	notes []string
}

// checkFinite refuses tensors that have a NaN or an infinity, each by its name, or notes
// them where they are allowed. of is what they are, as NonFinite has it; step is of
// a loop, nil outside of one.
func (n *nonFinite) checkFinite(of string, step *int, tensors map[string]*tensor.Tensor) error {
	var l fault.List
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		t := tensors[name]
		if t == nil {
			continue
		}
		count, first := t.NonFinite()
		if count == 0 {
			continue
		}
		f := NonFinite{Of: of, Tensor: name, Count: count, Elements: t.Elements(), First: t.Index(first), Step: step}
		found := fmt.Sprintf("%s %q %v: %d of %d values are NaN or infinite, the first at %v", of, name, t, count, f.Elements, f.First)
		switch {
		case !n.allow:
			l.Add(fault.New(ErrNonFinite, f, "%s; --allow-nonfinite takes them as they are", found))
		case step != nil && len(n.notes) > 0: // the first step tells enough
		case !slices.Contains(n.notes, found):
			n.notes = append(n.notes, found)
		}
	}
	return l.Err()
}
