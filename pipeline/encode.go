package pipeline

import (
	"context"

	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// Encode runs the text phase alone and writes the features to Options.FeaturesOut, under the
// names that weft sample reads: context and, where there is a negative prompt, negative.
func (p *Pipeline) Encode(ctx context.Context, d Devices, o Options) (*Result, error) {
	s := &settled{p: p, o: o, settings: map[string]models.Setting{}}
	s.settleSize()
	var errs fault.List
	errs.Add(s.checkOutputs())
	errs.Add(s.settlePrompts())
	errs.Add(s.settleNegative())
	if err := errs.Err(); err != nil {
		return nil, err
	}
	if err := s.placeText(d); err != nil {
		return nil, err
	}
	g := &generation{settled: s, d: d, state: noState, result: s.newResult(), video: 1, videos: 1}
	g.together = []*generation{g}
	if err := g.runPhase(ctx, "text", (*generation).encodeText); err != nil {
		return nil, err
	}
	g.finishResult()
	return g.result, nil
}

// ids are the token ids of texts, (texts, rows), and their mask, for tests and for whoever
// looks at what the encoder was given.
func (s *settled) ids() map[string]*tensor.Tensor { return textInputs(s.texts(), s.rows) }
