package denoise

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// ofNegative is the prefix of the conditions that belong to the negative text.
const ofNegative = "negative_"

// conditionsOf returns the conditions for the videos of one text, under the names that
// the model has for them.
func (l *Loop) conditionsOf(negative bool) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for name, x := range l.o.Conditions {
		if !strings.HasPrefix(name, ofNegative) {
			out[name] = x
		}
	}
	for name, x := range l.o.Conditions {
		if own, ok := strings.CutPrefix(name, ofNegative); ok && negative {
			out[own] = x
		}
	}
	return out
}

// checkConditions checks the tensors that the model reads besides latents, time and
// text, each with a batch of videos, and enters them in the request.
func (l *Loop) checkConditions() error {
	names, own, _ := l.family.conditionNames()
	names = slices.Concat(names, own)
	var errs fault.List
	var apart error // what both texts' conditions differ in that must not
	if l.isGuided() {
		apart = l.checkPairedConditions(own)
		errs.Add(apart)
	}
	if l.hasNegative { // whose conditions are not used without guidance, as its text is not
		for _, name := range own {
			names = append(names, ofNegative+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.o.Conditions)) {
		if !slices.Contains(names, name) {
			errs.Add(fault.New(models.ErrInputs, nil, "condition %q is given: %s reads %v besides latents, time and text", name, l.family.Name(), names))
		}
	}
	req, err := l.family.checkConditions(l.req, l.conditionsOf(false))
	errs.Add(err)
	if err == nil && apart == nil && l.isGuided() {
		if _, err := l.family.checkConditions(l.req, l.conditionsOf(true)); err != nil {
			errs.Add(fmt.Errorf("of the negative text: %w", err))
		}
	}
	l.req = req
	return errs.Err()
}

// checkPairedConditions checks the conditions that each text has one of. They must be
// given for both texts or for neither, and in the same shape, because both texts are
// steps of one request.
func (l *Loop) checkPairedConditions(names []string) error {
	var errs fault.List
	for _, name := range names {
		text, negative := l.o.Conditions[name], l.o.Conditions[ofNegative+name]
		switch {
		case (text == nil) != (negative == nil):
			errs.Add(fault.New(models.ErrInputs, nil, "of the conditions %q and %q one is given: %s reads %s of each text", name, ofNegative+name, l.family.Name(), name))
		case text != nil && !slices.Equal(text.Shape, negative.Shape):
			errs.Add(fault.New(models.ErrInputs, nil, "condition %q is %v and %q %v: want one shape", name, text.Shape, ofNegative+name, negative.Shape))
		}
	}
	return errs.Err()
}

// conditionRows returns the conditions of some of the videos of both texts, rows of them
// from lo on.
func (l *Loop) conditionRows(lo, rows int) map[string]*tensor.Tensor {
	own, negative := l.conditionsOf(false), l.conditionsOf(true)
	part := map[string]*tensor.Tensor{}
	for name, all := range own {
		videos := make([]*tensor.Tensor, rows)
		for i := range videos {
			of, at := all, (lo+i)%l.batch
			if l.isGuided() && lo+i < l.batch {
				of = negative[name]
			}
			videos[i] = of.Rows(at, at+1)
		}
		part[name] = tensor.Stack(videos)
	}
	return part
}
