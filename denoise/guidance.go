package denoise

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/sampler"
	"weft/tensor"
)

// chooseGuidance decides from the settings how many passes each step has, and the scale
// of guidance for each expert. It notes where this differs from how the release is run.
func (l *Loop) chooseGuidance(hasNegative bool) error {
	scales, asked := l.settings.Numbers("guidance"), len(l.o.Guidance) > 0
	errs := fault.List{}
	errs.Add(l.checkScales(scales, asked))
	if name := l.family.GuidanceInput; name != "" && !(asked && l.o.Conditions[name] != nil) {
		errs.Add(l.takeGuidanceInput(scales, hasNegative))
		return errs.Err()
	}
	scales = l.scalesByExpert(scales, asked)
	alone := !slices.ContainsFunc(scales, func(g float64) bool { return g != 1 })
	if asked && !alone {
		errs.Add(l.checkGuidable(scales, hasNegative))
	}
	if err := errs.Err(); err != nil {
		return err
	}
	g, _ := l.settings.Get("guidance")
	why := ""
	switch {
	case l.o.CFG == models.CFGNone:
		why = "cfg none"
	case alone:
		why = fmt.Sprintf("guidance 1 (%s)", g.From)
	case !hasNegative:
		why = "no negative text"
		l.notes = append(l.notes, fmt.Sprintf("no negative text: each step is one pass, without guidance; %s is run with guidance %s (%s)", l.family.Name(), g.Text(), g.From))
	}
	if why == "" {
		l.guidance = scales
		l.settings = l.settings.Over(models.Said{From: g.From, Values: map[string]any{"passes": 2}})
		if l.o.CFG == "" {
			l.settings = l.settings.Over(models.Said{From: "default", Values: map[string]any{"cfg": models.CFGBatch}})
		}
		return nil
	}
	if hasNegative {
		l.notes = append(l.notes, why+": each step is one pass, and the negative text is not used")
	}
	l.settings = l.settings.Over(models.Said{From: why, Values: map[string]any{"passes": 1, "cfg": models.CFGNone}})
	return nil
}

// takeGuidanceInput makes the scale of guidance a condition of a model that reads it, unless it is
// given as one. Where both are, the scale is that of a second pass, with a negative text.
func (l *Loop) takeGuidanceInput(scales []float64, hasNegative bool) error {
	name := l.family.GuidanceInput
	why := fmt.Sprintf("%s reads the scale of guidance", l.family.Name())
	given := l.o.Conditions[name] != nil
	switch {
	case l.o.CFG == models.CFGBatch || l.o.CFG == models.CFGSequential:
		return fault.New(models.ErrInputs, nil, "cfg %q: %s, and each step is one pass: leave it out", l.o.CFG, why)
	case given:
		l.settings = l.settings.Without("guidance")
	default:
		l.guidanceInput = 1000 * scales[0]
	}
	if hasNegative {
		l.notes = append(l.notes, why+": each step is one pass, and the negative text is not used")
	}
	l.settings = l.settings.Over(models.Said{From: why, Values: map[string]any{"passes": 1, "cfg": models.CFGNone}})
	return nil
}

// addGuidanceInput adds the scale of guidance to the conditions: (batch), f32.
func (l *Loop) addGuidanceInput() error {
	name := l.family.GuidanceInput
	if name == "" || l.o.Conditions[name] != nil {
		return nil
	}
	scale, err := tensor.FromFloat32s(dtype.F32, slices.Repeat([]float32{float32(l.guidanceInput)}, l.batch), l.batch)
	l.o.Conditions = maps.Clone(l.o.Conditions)
	if l.o.Conditions == nil {
		l.o.Conditions = map[string]*tensor.Tensor{}
	}
	l.o.Conditions[name] = scale
	return err
}

// checkScales checks the scales by themselves, and how the passes are to run.
func (l *Loop) checkScales(scales []float64, asked bool) error {
	errs := fault.List{}
	for _, g := range scales {
		if math.IsNaN(g) || math.IsInf(g, 0) {
			errs.Add(fault.New(models.ErrInputs, nil, "guidance %v: want finite numbers", scales))
		}
	}
	switch l.o.CFG {
	case "", models.CFGBatch, models.CFGSequential, models.CFGNone:
	default:
		errs.Add(fault.New(models.ErrInputs, nil, "cfg %q: want %s, %s or %s", l.o.CFG, models.CFGBatch, models.CFGSequential, models.CFGNone))
	}
	n := len(l.experts)
	if len(scales) > 2 || asked && len(scales) == 2 && n == 1 {
		want, have := "one scale", "one model"
		if n == 2 {
			want, have = "one scale or two", "a pair of models"
		}
		errs.Add(fault.New(models.ErrInputs, nil, "guidance %v: want %s, since there is %s", scales, want, have))
	}
	return errs.Err()
}

// checkGuidable checks that scales of guidance that are asked for have a second pass to
// guide away from.
func (l *Loop) checkGuidable(scales []float64, hasNegative bool) error {
	if l.o.CFG == models.CFGNone {
		return fault.New(models.ErrInputs, nil, "guidance %v with cfg none: one pass has nothing to be guided away from; leave one of them out", scales)
	}
	if !hasNegative {
		return fault.New(models.ErrInputs, nil, "guidance %v needs a negative prompt's embedding to guide away from", scales)
	}
	return nil
}

// scalesByExpert returns a scale for each expert. A release's two are cut to that of the
// expert that runs alone, which is noted, and one scale is that of both experts.
func (l *Loop) scalesByExpert(scales []float64, asked bool) []float64 {
	switch n := len(l.experts); {
	case len(scales) == 2 && n == 1 && !asked:
		at := 0
		if l.experts[0].Second {
			at = 1
		}
		scales = scales[at : at+1]
		l.notes = append(l.notes, fmt.Sprintf("one of two experts is run alone, with its guidance of %g", scales[0]))
	case len(scales) == 1 && n == 2:
		scales = []float64{scales[0], scales[0]}
	}
	return scales
}

// guide returns the velocity of a step: the only one, or both combined by the scale of
// the expert in use.
func (l *Loop) guide() ([]float32, error) {
	v := l.velocity[0]
	if len(l.velocity) == 2 {
		scale := l.guidance[l.at]
		if l.family.GuidesFromText {
			scale++ // sampler.Guide counts from the negative text's velocity
		}
		if err := sampler.Guide(l.velocity[0], l.velocity[1], float32(scale), v); err != nil {
			return nil, err
		}
	}
	return v, nil
}
