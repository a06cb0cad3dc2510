// Package nonfinite refuses tensors that have a NaN or an infinity, or notes them where
// they are allowed.
package nonfinite

import (
	"fmt"
	"maps"
	"slices"

	"weft/fault"
	"weft/tensor"
)

// Err: an input or an output of a run has a NaN or an infinity. Its fields are Found.
var Err = fault.NewKind("non-finite")

// Found says where a tensor has values that are NaN or infinite.
type Found struct {
	Of       string `json:"of"` // input, condition, output or latents
	Tensor   string `json:"tensor"`
	Count    int    `json:"count"`
	Elements int    `json:"elements"`
	First    []int  `json:"first"` // index of the first in the tensor
	Step     *int   `json:"step,omitempty"`
}

// Checker checks the tensors of a run.
type Checker struct {
	Allow bool     // NaN and infinities pass, and are noted
	Notes []string // on the tensors that were let pass
}

// CheckTensors refuses tensors that have a NaN or an infinity, or notes them if they are
// allowed. A nil tensor is passed over. of says what the tensors are, as Found.Of does.
// step is the step of a denoising loop, and nil outside of one.
func (c *Checker) CheckTensors(of string, step *int, tensors map[string]*tensor.Tensor) error {
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
		f := Found{Of: of, Tensor: name, Count: count, Elements: t.Elements(), First: t.Index(first), Step: step}
		found := fmt.Sprintf("%s %q %v: %d of %d values are NaN or infinite, the first at %v", of, name, t, count, f.Elements, f.First)
		switch {
		case !c.Allow:
			l.Add(fault.New(Err, f, "%s; --allow-nonfinite takes them as they are", found))
		case step != nil && len(c.Notes) > 0: // the first step tells enough
		case !slices.Contains(c.Notes, found):
			c.Notes = append(c.Notes, found)
		}
	}
	return l.Err()
}
