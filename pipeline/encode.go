package pipeline

import (
	"context"

	"weft/fault"
	"weft/models"
)

// Encode runs the phases before denoising and writes the features to Options.FeaturesOut, under
// the names that weft sample reads: context and negative, and what the loop reads of an image.
func (p *Pipeline) Encode(ctx context.Context, d Devices, o Options) (*Result, error) {
	s := &settled{p: p, o: o, settings: map[string]models.Setting{}}
	var errs fault.List
	errs.Add(s.openImages())
	errs.Add(s.openControls())
	s.settleSize()
	errs.Add(s.checkOutputs())
	if s.images.first != nil || s.images.last != nil || s.images.video != nil || s.p.statesVideo() {
		errs.Add(s.settleLatents())
		errs.Add(s.settleImages(d))
	} else if s.o.asksControl() {
		errs.Add(s.settleLatents())
		errs.Add(s.settleControls(d))
	}
	errs.Add(s.settlePrompts())
	if !p.hasImageInText() {
		errs.Add(s.settleNegative())
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	if err := s.placeText(d); err != nil {
		return nil, err
	}
	g := &generation{settled: s, d: d, state: noState, result: s.newResult(), video: 1, videos: 1}
	g.together = []*generation{g}
	for _, ph := range phaseRunners {
		if ph.name == "denoise" {
			break
		}
		if err := g.runPhase(ctx, ph.name, ph.run); err != nil {
			return nil, err
		}
	}
	g.finishResult()
	return g.result, nil
}
