package pipeline

import (
	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/pipeline/conditions"
	"weft/sampler"
	"weft/tensor"
)

// startLatents are the latents to start from: those that are given, nil for the seed's, or for a
// release that mixes an image's latents into every frame of them, what comes of both.
func (s *settled) startLatents(f features, onlyCheck bool) (*tensor.Tensor, error) {
	share := s.p.imageUse().NoiseShare
	if share == 0 || onlyCheck {
		return s.noise, nil
	}
	shape := append([]int{1}, s.latent...)
	var x []float32
	if s.noise == nil {
		x = sampler.Noise(s.o.Seed, shape...)
	} else if fs, err := s.noise.Float32s(); err != nil {
		return nil, err
	} else {
		x = append(x, fs...)
	}
	image := imageLatents(f, s.p.imageUse())
	if image == nil {
		return nil, fault.New(models.ErrInputs, nil, "%s begins with an image's latents, which are not there", s.p.Name())
	}
	own, err := image.Float32s()
	if err != nil {
		return nil, err
	}
	frame := s.latent[2] * s.latent[3]
	noise, rest := float32(share), 1-float32(share)
	for i := range x {
		channel, at := i/(s.latent[1]*frame), i%frame
		x[i] = x[i]*noise + own[channel*frame+at]*rest
	}
	return tensor.FromFloat32s(dtype.F32, x, shape...)
}

// imageLatents are the latents (1, channels, 1, height, width) of the image among the features.
func imageLatents(f features, use models.ImageUse) *tensor.Tensor {
	if kept := f[conditions.NameOfKept]; kept != nil {
		return kept
	}
	y := f[conditions.NameOfY]
	if y == nil {
		return nil
	}
	from := use.MaskChannels
	if use.MaskBehind {
		from = 0
	}
	return y.Slice(1, from, from+use.LatentChannels).Slice(2, 0, 1)
}
