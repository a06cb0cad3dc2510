// Package nonfinite refuses tensors that have a NaN or an infinity, or notes them where
// they are allowed.
package nonfinite

import (
	"fmt"
	"maps"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/tensor"
)

// Err: an input or an output of a run has a NaN or an infinity. Its fields are Found.
var Err = fault.NewKind("non-finite")

// Found says where a tensor has values that are NaN or infinite.
type Found struct {
	Of       string `json:"of"` // input, condition, output, velocity or latents
	Tensor   string `json:"tensor"`
	DType    string `json:"dtype"`
	Count    int    `json:"count"`
	Elements int    `json:"elements"`
	First    []int  `json:"first"` // index of the first in the tensor; empty where only devices have seen it
	Step     *int   `json:"step,omitempty"`
	Frame    *int   `json:"frame,omitempty"` // of an output that comes frame by frame: that of its first value
	// Devices are those whose part of the tensor has such values, where devices looked at it.
	Devices []int `json:"devices,omitempty"`
	// Compute is the type in which the model computed, where that is known.
	Compute string `json:"compute_dtype,omitempty"`
	// Arises names the first value on the way to the tensor that is not finite, where that was
	// looked for.
	Arises string `json:"arises,omitempty"`
}

// Counts says what the devices saw of a tensor.
type Counts struct {
	Tensor string // its name
	DType  dtype.DType
	Shape  []int
	// Count is how many values of the tensor are NaN or infinite. A part that several devices
	// hold counts once, by the one that holds the most of them.
	Count int
	// First is the index of the first in the tensor; nil where the copy that came to the host
	// has none.
	First []int
	// Devices are those whose part has such values, by id.
	Devices []int
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
		l.Add(c.checkTensor(Found{Of: of, Tensor: name, Step: step}, tensors[name]))
	}
	return l.Err()
}

// CheckFrame is CheckTensors of a part of an output that comes frame by frame.
func (c *Checker) CheckFrame(of, name string, frame int, t *tensor.Tensor) error {
	return c.checkTensor(Found{Of: of, Tensor: name, Frame: &frame}, t)
}

func (c *Checker) checkTensor(f Found, t *tensor.Tensor) error {
	if t == nil {
		return nil
	}
	count, first := t.NonFinite()
	if count == 0 {
		return nil
	}
	f.DType, f.Count, f.Elements, f.First = t.DType.String(), count, t.Elements(), t.Index(first)
	return c.refuse(f, t.Shape)
}

// CheckCounts refuses a tensor of which devices say that it has a NaN or an infinity, or notes
// it where that is allowed. Of f it takes what the tensor is, the step, and what else is known.
func (c *Checker) CheckCounts(f Found, seen Counts) error {
	if seen.Count == 0 {
		return nil
	}
	f.Tensor, f.DType, f.Count, f.First, f.Devices, f.Elements = seen.Tensor, seen.DType.String(), seen.Count, seen.First, seen.Devices, 1
	for _, n := range seen.Shape {
		f.Elements *= n
	}
	return c.refuse(f, seen.Shape)
}

// refuse is the error of what was found, or nil where it is allowed and noted.
func (c *Checker) refuse(f Found, shape []int) error {
	found := f.describe(shape)
	switch {
	case !c.Allow:
		return fault.New(Err, f, "%s; --allow-nonfinite takes them as they are", found)
	case f.Step != nil && len(c.Notes) > 0: // the first step tells enough
	case !slices.Contains(c.Notes, found):
		c.Notes = append(c.Notes, found)
	}
	return nil
}

// describe says for people what was found.
func (f Found) describe(shape []int) string {
	text := fmt.Sprintf("%s %q %s%v", f.Of, f.Tensor, f.DType, shape)
	if f.Frame != nil {
		text += fmt.Sprintf(" of frame %d", *f.Frame)
	}
	if f.Compute != "" {
		text += ", computed in " + f.Compute
	}
	text += fmt.Sprintf(": %d of %d values are NaN or infinite", f.Count, f.Elements)
	switch {
	case len(f.First) > 0:
		text += fmt.Sprintf(", the first at %v", f.First)
	case len(f.Devices) > 0:
		text += fmt.Sprintf(", on devices %v alone", f.Devices)
	}
	if f.Arises != "" {
		text += fmt.Sprintf("; the first value on the way that is so is %s", f.Arises)
	}
	return text
}
