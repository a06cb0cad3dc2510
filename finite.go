package weft

import (
	"maps"
	"slices"

	"weft/fault"
	"weft/tensor"
)

// ErrNonFinite: NaN or infinity where a number is wanted, in what a run is given or
// in what it makes. The fields are NonFinite. Options.AllowNonFinite lets it pass.
var ErrNonFinite = fault.NewKind("non-finite")

// NonFinite says where values are that are no finite numbers.
type NonFinite struct {
	Of       string `json:"of"` // input, output or latents
	Tensor   string `json:"tensor"`
	Count    int    `json:"count"`
	Elements int    `json:"elements"`
	First    []int  `json:"first"` // index of the first in the tensor
	Step     *int   `json:"step,omitempty"`
}

// checkFinite refuses tensors that have a NaN or an infinity, each by its name. of
// is what they are: input, output.
func checkFinite(of string, tensors map[string]*tensor.Tensor) error {
	var l fault.List
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		l.Add(finite(of, name, tensors[name]))
	}
	return l.Err()
}

func finite(of, name string, t *tensor.Tensor) error {
	if t == nil {
		return nil
	}
	count, first := t.NonFinite()
	if count == 0 {
		return nil
	}
	f := NonFinite{Of: of, Tensor: name, Count: count, Elements: t.Elements(), First: t.Index(first)}
	return fault.New(ErrNonFinite, f, "%s %q %v: %d of %d values are NaN or infinite, the first at %v; --allow-nonfinite takes them as they are",
		of, name, t, count, f.Elements, f.First)
}
