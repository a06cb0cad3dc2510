package wanvae

import (
	"fmt"
	"slices"

	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// FrameRequest is Request for one of the inputs by its name and shape.
func (m *Model) FrameRequest(input string, shape []int) (models.Request, error) {
	if len(shape) != 5 {
		return models.Request{}, fault.New(models.ErrInputs, nil, "input %q of shape %v: want (batch, channels, frames, height, width)", input, shape)
	}
	r := models.Request{Batch: shape[0], Latent: slices.Clone(shape[1:])}
	if input == "z" {
		return r, m.checkLatent(r.Latent)
	}
	if input != "video" {
		return r, fault.New(models.ErrInputs, nil, "input %q: %s reads z or video", input, m.name)
	}
	r.Encode = true
	var err error
	r.Latent, err = m.latentShape(r.Latent)
	return r, err
}

// latentShape is (channels, frames, height, width) of the latents that a video (3, frames,
// height, width) is encoded to: the inverse of VideoShape. Error: a video that is not of such
// a size, with the nearest that are.
func (m *Model) latentShape(video []int) ([]int, error) {
	var l fault.List
	if video[0] != pictureChannels {
		l.Add(fault.New(models.ErrInputs, nil, "a video of %d channels: want %d (red, green, blue)", video[0], pictureChannels))
	}
	latent := []int{m.c.ZDim}
	for i, d := range []struct {
		what       string
		unit, rest int // sizes are a multiple of unit, and rest more
	}{{"frames", m.c.FramesPerLatent(), 1}, {"height", m.c.Scale(), 0}, {"width", m.c.Scale(), 0}} {
		n := video[1+i]
		if n < 1 || n > 1<<16*d.unit {
			l.Add(fault.New(models.ErrSize, nil, "video %s %d: want 1 or more, at most 65536 latents", d.what, n))
			continue
		}
		below := (n-d.rest)/d.unit*d.unit + d.rest
		latent = append(latent, (below-d.rest)/d.unit+d.rest)
		if below == n {
			continue
		}
		rule := "a multiple of %d"
		if d.rest > 0 {
			rule = "1 more than a multiple of %d"
		}
		nearest := fmt.Sprint(below + d.unit)
		if below > 0 {
			nearest = fmt.Sprintf("%d or %d", below, below+d.unit)
		}
		l.Add(fault.New(models.ErrSize, nil, "video %s %d: want "+rule+"; nearest: %s", d.what, n, d.unit, nearest))
	}
	return latent, l.Err()
}

// Runs lists the decoding of z and the encoding of video, as far as they are given. The
// outputs of the two have different names.
func (m *Model) Runs(inputs map[string]*tensor.Tensor) []models.Variant {
	var runs []models.Variant
	for _, name := range []string{"z", "video"} {
		if t := inputs[name]; t != nil {
			runs = append(runs, models.Variant{Inputs: map[string]*tensor.Tensor{name: t}})
		}
	}
	if runs == nil {
		runs = []models.Variant{{Inputs: inputs}} // Request says what is missing
	}
	return runs
}
