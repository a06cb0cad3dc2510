package weft

import (
	"fmt"
	"maps"
	"slices"

	"weft/fault"
	"weft/tensor"
)

// ErrNonFinite: an input or an output of a run has a NaN or an infinity. Its fields are
// NonFinite. With Options.AllowNonFinite it is a note in the report instead.
var ErrNonFinite = fault.NewKind("non-finite")

// NonFinite says where a tensor has values that are NaN or infinite.
type NonFinite struct {
	Of       string `json:"of"` // input, condition, output or latents
	Tensor   string `json:"tensor"`
	Count    int    `json:"count"`
	Elements int    `json:"elements"`
	First    []int  `json:"first"` // index of the first in the tensor
	Step     *int   `json:"step,omitempty"`
}

// nonFinite checks the tensors of a run, and collects notes on those that were let
// pass.
type nonFinite struct {
	allow bool
	notes []string
}

// checkFinite refuses tensors that have a NaN or an infinity, or notes them if they are
// allowed. of says what the tensors are, as NonFinite.Of does. step is the step of a
// denoising loop, and nil outside of one.
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
