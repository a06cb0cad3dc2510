package conditions

import (
	"cmp"
	"context"

	"weft/models"
	"weft/picture"
	"weft/tensor"
)

// Request is what is asked of the phase.
type Request struct {
	Layout Layout
	// Image is the video's first frame, Last its last one; nil for none.
	Image, Last *picture.Image
	// Fit says how both fill the frame; "" stands for picture.FitRelease.
	Fit picture.Fit
	// Width, Height and Frames are the video's.
	Width, Height, Frames int
	// Batch is how many videos begin with the image; 0 stands for 1.
	Batch int
	// VisionPreparation is how the image becomes the vision encoder's input, where the
	// release's folder says so (ReadImageProcessor); nil stands for the layout's.
	VisionPreparation *picture.VisionPreparation
	// Sample draws the image's latents from the autoencoder's posterior: of their normalised mean
	// and of the logarithm of their variance, (1, channels, 1, height, width) each. nil takes the
	// mean.
	Sample func(ctx context.Context, mean, logvar *tensor.Tensor) (*tensor.Tensor, error)
}

// The flags that images are given with, as messages call them.
const (
	imageFlag = "--image"
	lastFlag  = "--last-image"
)

func (r Request) batch() int { return cmp.Or(r.Batch, 1) }

// use is what the generator reads of images.
func (p Parts) use() models.ImageUse { return useOf(p.Generator) }

func useOf(m models.Model) models.ImageUse {
	if g := m.Features().Generator; g != nil {
		return g.Image
	}
	return models.ImageUse{}
}
