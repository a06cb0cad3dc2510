package cosmos3

import (
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// pixelsPerLatent is how many pixels high and wide a position of the latents is.
const pixelsPerLatent = 16

// imageUse says that the model goes on from an image, or from the first frames of a video.
func (c Config) imageUse() models.ImageUse {
	return models.ImageUse{
		KeepsFirst: true, StepWidth: pixelsPerLatent * c.Patch, StepHeight: pixelsPerLatent * c.Patch,
		Replaced: &models.ReplacedFrames{Latents: 2, MostLatents: 2, OfFirst: true, Begins: true, Fills: true, Source: "diffusers Cosmos3OmniPipeline"},
	}
}

// FeedFrameTimes is FeedStep for a video of which some frames are given. The model tells a given
// frame by having no timestep at all (FeedGivenFrames); the others have the largest of times.
func (m *Model) FeedFrameTimes(_ *graph.Graph, r models.Request, x *tensor.Tensor, times []float64) (map[string]*tensor.Tensor, error) {
	return m.FeedStep(r, x, slices.Max(times))
}

// FeedGivenFrames makes the numbers by which a frame's timestep counts: 0 for the frames that are
// given.
func (m *Model) FeedGivenFrames(g *graph.Graph, r models.Request, frames []int) (map[string]*tensor.Tensor, error) {
	noisy := tensor.New(dtype.F32, g.Input("noisy").Shape...)
	for b := range r.Batch {
		for f := range r.Latent[1] {
			if !slices.Contains(frames, f) {
				step.Put(noisy, b*r.Latent[1]+f, 1)
			}
		}
	}
	return map[string]*tensor.Tensor{"noisy": noisy}, nil
}
