package wanvae

import (
	"math/rand/v2"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/tensor"
)

// Request reads batch and latent shape off z (B, z_dim, T, H, W), which are normalised
// latents.
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	z := inputs["z"]
	switch {
	case z == nil:
		return models.Request{}, fault.New(models.ErrInputs, nil, "input \"z\" is missing: %s reads the latents z", m.name)
	case len(z.Shape) != 5:
		return models.Request{}, fault.New(models.ErrInputs, nil, "input \"z\" of shape %v: want (batch, channels, frames, height, width)", z.Shape)
	case !z.DType.IsFloat():
		return models.Request{}, fault.New(models.ErrInputs, nil, "input \"z\" is %v: want a floating-point type", z.DType)
	}
	r := models.Request{Batch: z.Shape[0], Latent: slices.Clone(z.Shape[1:])}
	return r, m.checkLatent(r.Latent)
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

// Feed makes the graph's inputs from z: z itself and the statistics of the latents.
func (m *Model) Feed(_ *graph.Graph, _ models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	z, err := inputs["z"].As(dtype.F32)
	if err != nil {
		return nil, err
	}
	out := map[string]*tensor.Tensor{"z": z}
	for name, values := range map[string][]float64{"latents_mean": m.c.Mean, "latents_std": m.c.Std} {
		fs := make([]float32, len(values))
		for i, v := range values {
			fs[i] = float32(v)
		}
		if out[name], err = tensor.FromFloat32s(dtype.F32, fs, len(fs)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
