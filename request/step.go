package request

import (
	"cmp"
	"slices"

	"weft/fault"
	"weft/models"
)

// WithRelease fills in what is left out and has one answer for a model: the batch and the
// compute type, and from the release's settings the length of the text and the kind of
// guidance.
func (r Request) WithRelease(m models.Model) Request {
	r.Batch = cmp.Or(r.Batch, 1)
	r.DType = r.ComputeType()
	r.Settings = r.modelSettings(m)
	switch gen := m.Features().Generator; {
	case gen == nil || !gen.PadsText:
		r.Settings = r.Settings.Without("text_len")
	case r.TextLen == 0:
		r.TextLen = r.Settings.Count("text_len") // as sampling pads it
	case r.TextLen != r.Settings.Count("text_len"):
		r.Settings = r.Settings.Over(models.Said{From: models.FromFlag, Values: map[string]any{"text_len": r.TextLen}})
	}
	if _, known := r.Settings.Get("cfg"); known {
		return r
	}
	passes, _ := r.Settings.Get("passes")
	said := models.Said{From: models.FromFlag, Values: map[string]any{"cfg": r.CFG, "passes": 2}}
	if r.CFG == "" {
		if r.CFG = models.CFGBatch; passes.Value == 1 {
			r.CFG = models.CFGNone
		}
		said = models.Said{From: passes.From, Values: map[string]any{"cfg": r.CFG, "passes": passes.Value}}
	} else if r.CFG == models.CFGNone {
		said.Values["passes"] = 1
	}
	r.Settings = r.Settings.Over(said)
	return r
}

// modelSettings gives the request's settings, or where it has none, the model's, with those of its
// adapters.
func (r Request) modelSettings(m models.Model) models.Settings {
	s := r.Settings
	if s.Release.Name == "" {
		_, s, _ = models.SettingsOf(m, models.ReleaseQuery{}) // without a folder or a name nothing can be wrong
	}
	return r.SettingsWithLoRA(s)
}

// OfVideo gives the step that a model builds for a video of these sizes, without a target,
// and the number of passes that a denoising step makes. The axes of FSDP are left out, because
// a search decides of each split which it has. Errors, all that apply joined: those of Check, models.ErrSize.
func (r Request) OfVideo(m models.Model) (step models.Request, passes int, err error) {
	r = r.WithRelease(m)
	gen := m.Features().Generator
	if gen == nil {
		return step, 0, fault.New(ErrOptions, nil, "%s makes no videos: there is no step to plan", m.Name())
	}
	latent, err := models.VideoLatents(gen, max(1, min(r.Batch, maxBatch)), r.Width, r.Height, r.Frames)
	if err := fault.Join(r.Check(), err); err != nil {
		return step, 0, err
	}
	if n := models.Positions(r.Batch, latent); n > models.MaxPositions {
		return step, 0, fault.New(models.ErrSize, nil, "%dx%d pixels, %d frames, batch %d make %d latent positions: more than the %d that are planned; smaller sizes or fewer frames",
			r.Width, r.Height, r.Frames, r.Batch, n, models.MaxPositions)
	}
	tokenTimes := r.TokenTimes || gen.Image.KeepsFirst && gen.Image.Needed
	step = r.describe(models.Request{Batch: r.Batch, Latent: latent, Text: r.TextLen, TokenTimes: tokenTimes})
	if tokenTimes {
		step.Times = 2
	}
	switch r.CFG {
	case models.CFGSequential:
		return step, 2, nil
	case models.CFGBatch:
		step.Batch *= 2
	}
	return step, 1, nil
}

// OfInputs gives the step of inputs, whose shapes the model has read. TextLen pads their
// text. Error: models.ErrInputs where sizes are named and are not those of the latents.
func (r Request) OfInputs(m models.Model, shapes models.Request) (models.Request, error) {
	if gen := m.Features().Generator; gen != nil && r.Width != 0 && r.Height != 0 && r.Frames != 0 {
		latent, err := models.VideoLatents(gen, 1, r.Width, r.Height, r.Frames)
		if err != nil {
			return shapes, err
		}
		if gen.Control != nil && len(shapes.Latent) == len(latent) {
			latent[1] = max(latent[1], shapes.Latent[1]) // those of reference images stand before the video's
		}
		if !slices.Equal(latent, shapes.Latent) {
			return shapes, fault.New(models.ErrInputs, nil, "the inputs have latents %v: %dx%d pixels and %d frames have %v", shapes.Latent, r.Width, r.Height, r.Frames, latent)
		}
	}
	if r.TextLen > 0 {
		shapes.Text = max(shapes.Text, r.TextLen)
	}
	if r.FSDP != nil {
		shapes.FSDP = r.FSDP
	}
	return r.describe(shapes), nil
}

// describe enters how a step is computed.
func (r Request) describe(step models.Request) models.Request {
	step.DType, step.Layers, step.SplitResidual, step.Strict = r.ComputeType(), r.Layers, r.SplitResidual, r.Strict
	return step
}
