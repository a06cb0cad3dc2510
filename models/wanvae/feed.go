package wanvae

import (
	"weft/graph"
	"weft/models"
	"weft/models/vae"
	"weft/tensor"
)

// Feed makes the graph's inputs from z or video: its frames, and the statistics of the
// latents.
func (m *Model) Feed(g *graph.Graph, _ models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out, err := m.FeedStatic(g)
	if err != nil {
		return nil, err
	}
	return out, m.pictures.FeedFrames(g, inputs, out)
}

// FeedStatic makes the graph's inputs that are no frames: the statistics of the latents.
func (m *Model) FeedStatic(*graph.Graph) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	for name, values := range map[string][]float64{"latents_mean": m.c.Mean, "latents_std": m.c.Std} {
		var err error
		if out[name], err = vae.Floats(values...); err != nil {
			return nil, err
		}
	}
	return out, nil
}
