package wanvae

import (
	"math/rand/v2"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/tensor"
)

// Request reads batch and latent shape off z (B, z_dim, T, H, W), normalised latents to
// decode, or else off video (B, 3, T, H, W), pixels from -1 to 1 to encode.
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	name, t := "z", inputs["z"]
	if t == nil {
		name, t = "video", inputs["video"]
	}
	if t == nil {
		return models.Request{}, fault.New(models.ErrInputs, nil, "inputs \"z\" and \"video\" are missing: %s decodes the latents z or encodes a video", m.name)
	}
	if !t.DType.IsFloat() {
		return models.Request{}, fault.New(models.ErrInputs, nil, "input %q is %v: want a floating-point type", name, t.DType)
	}
	return m.FrameRequest(name, t.Shape)
}

// Example makes latents z of unit variance from a seed. A nil latent gives 3 frames of
// 3 x 5.
func (m *Model) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	if latent == nil {
		latent = []int{m.c.ZDim, 3, 3, 5}
	}
	if err := m.checkLatent(latent); err != nil {
		return nil, err
	}
	g := rand.New(rand.NewPCG(seed, 0))
	shape := append([]int{batch}, latent...)
	fs := make([]float32, tensor.Elements(shape))
	for i := range fs {
		fs[i] = float32(g.NormFloat64())
	}
	z, err := tensor.FromFloat32s(dtype.F32, fs, shape...)
	return map[string]*tensor.Tensor{"z": z}, err
}

// Feed makes the graph's inputs from z or video: its frames, and the statistics of the
// latents.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out, err := m.FeedStatic(g)
	if err != nil {
		return nil, err
	}
	whole := inputs["z"]
	if r.Encode {
		whole = inputs["video"]
	}
	for _, in := range g.Inputs {
		if in.Of == "" {
			continue
		}
		if out[in.Name], err = whole.Slice(2, in.Frame, in.Frame+1).As(in.DType); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// FeedStatic makes the graph's inputs that are no frames: the statistics of the latents.
func (m *Model) FeedStatic(*graph.Graph) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	for name, values := range map[string][]float64{"latents_mean": m.c.Mean, "latents_std": m.c.Std} {
		fs := make([]float32, len(values))
		for i, v := range values {
			fs[i] = float32(v)
		}
		var err error
		if out[name], err = tensor.FromFloat32s(dtype.F32, fs, len(fs)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
