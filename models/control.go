package models

// ControlUse says what a generator reads of a control video: a video whose parts are kept or
// made anew, as a mask says, and images that the new video refers to.
//
// The condition Context is (batch, 2 LatentChannels + MaskRows MaskCols, frames, height,
// width): the latents of what is kept, those of what is made anew, and of each position of the
// latents the mask's MaskRows x MaskCols pixels. References are latent frames before those of
// the video, which are denoised with it and left out in the end.
type ControlUse struct {
	Context string // the name of the condition
	// Scale is the name of the optional condition (batch, Scales): by how much each of the
	// generator's control blocks counts.
	Scale  string
	Scales int

	LatentChannels     int
	MaskRows, MaskCols int
	// FramesPerLatent is how many frames of the video a latent frame stands for, except the first.
	FramesPerLatent int
	// StepWidth and StepHeight are the pixels of which a video's width and height are multiples.
	StepWidth, StepHeight int
}
