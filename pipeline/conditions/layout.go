package conditions

import (
	"weft/models"
	"weft/picture"
)

// Layout is how a release's folder is arranged. It tells whose code prepares images.
type Layout string

// The layouts.
const (
	Official  Layout = "official"
	Diffusers Layout = "diffusers"
)

// preparation is how images, or the frames of a video, become frames of the video. A release whose
// given frames replace the loop's own is prepared for as diffusers does, whatever its layout.
func (l Layout) preparation(use models.ImageUse, video bool) picture.Preparation {
	switch {
	case video:
		return picture.DiffusersVideo
	case use.Replaced != nil && use.Replaced.Fills:
		return picture.DiffusersCosmos3Image
	case use.Replaced != nil:
		return picture.DiffusersCosmosImage
	case l == Diffusers:
		return picture.DiffusersWan
	case use.KeepsFirst:
		return picture.OfficialTI2V
	}
	return picture.OfficialWan
}

// visionPreparation is how an image becomes the input of a vision encoder.
func (l Layout) visionPreparation(pixels int) picture.VisionPreparation {
	if l == Diffusers {
		return picture.DiffusersCLIP(pixels)
	}
	return picture.OfficialCLIP(pixels)
}

// VideoSize is the size of the video that begins with an image, where nobody asks for one.
// width and height are the release's own. A release's own code takes them as an area, and gives
// the video the image's aspect, in that code's own arithmetic: of an image of 832x480 and that
// area it makes 832x464. diffusers takes them as they are, but for a release that chooses among
// sizes of its own by the image's aspect (picture.BucketSize).
func (l Layout) VideoSize(p Parts, image *picture.Image, width, height int) (int, int) {
	use := p.use()
	if use.SizeBase > 0 && image != nil {
		return picture.BucketSize(image.Width, image.Height, use.SizeBase, use.StepWidth)
	}
	switch {
	case l != Official || image == nil || !use.ReadsImages() || use.Replaced != nil:
		return width, height
	case use.KeepsFirst:
		return picture.OfficialTI2VSize(image.Width, image.Height, width*height, use.StepWidth, use.StepHeight)
	}
	return picture.OfficialWanSize(image.Width, image.Height, width*height, use.StepWidth, use.StepHeight)
}
