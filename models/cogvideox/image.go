package cogvideox

import "weft/models"

// releasedOffset is the number that every release of 1.5 image-to-video reads as "ofs".
const releasedOffset = 2

// imageUse is what the model reads of the image that a video begins with: its latents alone, with
// zeros for all other frames, drawn from the posterior.
func (c Config) imageUse() models.ImageUse {
	if c.conditionDim() == 0 {
		return models.ImageUse{}
	}
	u := models.ImageUse{LatentChannels: c.conditionDim(), Alone: true, Sampled: true, Needed: true, StepWidth: pixels * c.PatchSize, StepHeight: pixels * c.PatchSize}
	if c.OfsEmbedDim > 0 {
		u.Offset = releasedOffset
	}
	return u
}

// onlySize is the size that learned positions are made for.
func (c Config) onlySize() (size [3]int) {
	if c.Learned {
		size = [3]int{c.SampleWidth * pixels, c.SampleHeight * pixels, c.SampleFrames}
	}
	return size
}

// cuts are the latent frames that fill up patches of several.
func (c Config) cuts() *models.Cuts {
	if c.PatchT < 2 {
		return nil
	}
	return &models.Cuts{Surplus: func(frames int) int {
		own := (frames-1)/c.Compression + 1
		return (c.PatchT - own%c.PatchT) % c.PatchT
	}}
}
