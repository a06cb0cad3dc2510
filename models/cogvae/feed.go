package cogvae

import (
	"weft/graph"
	"weft/models"
	"weft/models/vae"
	"weft/tensor"
)

// Feed makes the graph's inputs from latents or video: its frames, and the factor of the latents,
// which is 1 for latents as the encoder makes them.
func (m *Model) Feed(g *graph.Graph, _ models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out, err := m.FeedStatic(g)
	if err != nil {
		return nil, err
	}
	if err := vae.FeedRawFactor(g, inputs, out); err != nil {
		return nil, err
	}
	return out, m.pictures.FeedFrames(g, inputs, out)
}

// FeedStatic makes the graph's input that is no frame: the factor that latents are multiplied by
// before they are decoded, or once they are encoded.
func (m *Model) FeedStatic(g *graph.Graph) (map[string]*tensor.Tensor, error) {
	return vae.FeedFactor(g, 1/m.c.Scale, m.c.encodeFactor())
}

// encodeFactor is what the latents of an image are multiplied by.
func (c Config) encodeFactor() float64 {
	if c.InvertsScale {
		return 1 / c.Scale
	}
	return c.Scale
}
