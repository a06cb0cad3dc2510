package wan

import "weft/models"

// imageUse says what the model reads of an image. Wan2.1's i2v reads latents and CLIP's
// features, A14B's latents alone. TI2V keeps the image as its first latent frame, and makes
// videos of text alone as well. A last image has no place in an image branch that was trained
// with the features of one image; the model of two frames reads both, and needs both.
func (c Config) imageUse() models.ImageUse {
	px := c.latentPixels()
	u := models.ImageUse{StepHeight: px * c.PatchSize[1], StepWidth: px * c.PatchSize[2]}
	switch {
	case c.keepsFrames():
		u.KeepsFirst = true
	case c.ModelType == vace && c.controlUse() == nil: // its control video has other channels than are made here
		u.Unprepared = true
	case c.readsY():
		u.MaskChannels, u.LatentChannels = c.ConditionDim()-c.OutDim, c.OutDim
		u.FeatureWidth = c.ImageDim
		u.Needed, u.NeedsLast = true, c.ModelType == flf2v
		u.TakesLast = u.NeedsLast || c.ImageDim == 0
		if c.ImageDim > 0 {
			u.Vision = "wan2.1-clip-vit-h14"
		}
	}
	return u
}

// latentPixels is how many pixels high and wide a position of the latents is.
func (c Config) latentPixels() int {
	if c.ModelType == ti2v {
		return 16
	}
	return 8
}

// keepsFrames says whether the model is TI2V with tokens of one frame each: an image is the
// video's first frame, whose tokens have timestep 0.
func (c Config) keepsFrames() bool { return c.ModelType == ti2v && c.PatchSize[0] == 1 }

// controlUse says what VACE reads of a control video; nil for other models.
func (c Config) controlUse() *models.ControlUse {
	px := c.latentPixels()
	if c.ModelType != vace || c.ControlDim != 2*c.InDim+px*px {
		return nil
	}
	return &models.ControlUse{Context: nameOfControl, Scale: nameOfScale, Scales: len(c.ControlLayers),
		LatentChannels: c.InDim, MaskRows: px, MaskCols: px, FramesPerLatent: 4, StepHeight: px * c.PatchSize[1], StepWidth: px * c.PatchSize[2]}
}
