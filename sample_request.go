package weft

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"weft/models"
	"weft/plan"
)

// withRequest gives options of which each field, and the field of the request that means
// the same, have one value: the option's own where it says something. A mesh of auto for
// hardware that is named becomes the best split.
func (o SampleOptions) withRequest(ctx context.Context, m *Model, settings models.Settings) (SampleOptions, error) {
	r := &o.Request
	agree(&o.Width, &r.Width)
	agree(&o.Height, &r.Height)
	agree(&o.Frames, &r.Frames)
	agree(&o.FPS, &r.FPS)
	agree(&o.Steps, &r.Steps)
	agree(&o.Sampler, &r.Sampler)
	agree(&o.Shift, &r.Shift)
	agree(&o.IntegerTimesteps, &r.IntegerTimesteps)
	agree(&o.Boundary, &r.Boundary)
	agree(&o.CFG, &r.CFG)
	agree(&o.Seed, &r.Seed)
	if o.Guidance == nil {
		o.Guidance = r.Guidance
	}
	for _, name := range r.Asked {
		if !slices.Contains(o.Asked, name) {
			o.Asked = append(o.Asked, name)
		}
	}
	asked := *r
	asked.Frames = cmp.Or(o.Frames, settings.ForSize(o.sizeText()).Count("frames"))
	best, err := plan.Best(ctx, m.Model, plan.Options{Request: asked})
	r.Mesh, r.FSDP = best.Mesh, best.FSDP
	return o, err
}

// agree gives two names of one value the same value: the first's where it says something.
func agree[T comparable](own, asked *T) {
	*own = cmp.Or(*own, *asked)
	*asked = *own
}

// MarshalJSON writes what weft sample prints: the report, the steps and the settings.
// Latents are no part of it.
func (s *Sampled) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Report
		Steps    []SampleStep              `json:"steps"`
		Settings map[string]models.Setting `json:"settings"`
	}{s.Report, s.Steps, s.Settings})
}
