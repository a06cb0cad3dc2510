package cosmos25

import (
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// pixelsPerLatent is how many pixels high and wide a position of the latents is.
const pixelsPerLatent = 8

// imageUse says that the model goes on from an image, or from the last frames of a video: one
// latent frame or two. A model whose patches have several frames was not made for given ones.
func (c Config) imageUse() models.ImageUse {
	if c.PatchTemporal != 1 {
		return models.ImageUse{}
	}
	return models.ImageUse{
		KeepsFirst: true, StepWidth: pixelsPerLatent * c.PatchSpatial, StepHeight: pixelsPerLatent * c.PatchSpatial,
		Replaced: &models.ReplacedFrames{Level: 1e-4, Latents: 2, MostLatents: 2, Source: "diffusers Cosmos2_5_PredictBasePipeline"},
	}
}

// FeedFrameTimes is FeedStep with a timestep for each latent frame, of a request with TokenTimes.
func (m *Model) FeedFrameTimes(g *graph.Graph, r models.Request, x *tensor.Tensor, times []float64) (map[string]*tensor.Tensor, error) {
	if len(times) != r.Latent[1] {
		return nil, fault.New(models.ErrInputs, nil, "%d timesteps: want one for each of %d frames", len(times), r.Latent[1])
	}
	x, err := x.As(dtype.F32)
	if err != nil {
		return nil, err
	}
	var ts []float32
	for _, t := range times {
		ts = append(ts, float32(t))
	}
	return map[string]*tensor.Tensor{"x": x, "time": m.timeTable(slices.Repeat(ts, r.Batch), g.Input("time").Shape...)}, nil
}

// FeedGivenFrames makes the masks of a video of which some latent frames are given: ones there in
// the first channel. The second one is zeros, as in feedGeneratorText.
func (m *Model) FeedGivenFrames(g *graph.Graph, r models.Request, frames []int) (map[string]*tensor.Tensor, error) {
	out := tensor.New(dtype.F32, g.Input("masks").Shape...)
	area := r.Latent[2] * r.Latent[3]
	for b := range r.Batch {
		for _, f := range frames {
			for i := range area {
				step.Put(out, (masks*b*r.Latent[1]+f)*area+i, 1)
			}
		}
	}
	return map[string]*tensor.Tensor{"masks": out}, nil
}
