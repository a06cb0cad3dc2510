package wan

import "weft/models"

// ImageUse says what the model reads of an image. Wan2.1's i2v reads latents and CLIP's
// features, A14B's latents alone. TI2V keeps the image as its first latent frame, and makes
// videos of text alone as well. A last image has no place in an image branch that was trained
// with the features of one image.
func (m *Model) ImageUse() models.ImageUse {
	px := m.latentPixels()
	u := models.ImageUse{StepHeight: px * m.c.PatchSize[1], StepWidth: px * m.c.PatchSize[2]}
	switch {
	case m.KeepsFrames():
		u.KeepsFirst = true
	case m.c.ModelType == i2v:
		u.MaskChannels, u.LatentChannels = m.c.ConditionDim()-m.c.OutDim, m.c.OutDim
		u.FeatureWidth = m.c.ImageDim
		u.Needed, u.TakesLast = true, m.c.ImageDim == 0
		if m.c.ImageDim > 0 {
			u.Vision = "wan2.1-clip-vit-h14"
		}
	}
	return u
}

// latentPixels is how many pixels high and wide a position of the latents is.
func (m *Model) latentPixels() int {
	if m.c.ModelType == ti2v {
		return 16
	}
	return 8
}

var _ models.ImageReader = (*Model)(nil)
