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
	// Video is a video in place of the first image, for a generator that goes on from one; nil for
	// none. Its last frames, or its first ones (models.ReplacedFrames), are encoded:
	// those of VideoLatents latent frames, 0 for the release's number.
	Video        Video
	VideoLatents int
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
	imageFlag        = "--image"
	lastFlag         = "--last-image"
	videoFlag        = "--video"
	videoLatentsFlag = "--video-latents"
)

// Video is the frames of a video, all of one size.
type Video interface {
	Length() int
	Frame(i int) (*picture.Image, error)
}

func (r Request) batch() int { return cmp.Or(r.Batch, 1) }

// given says whether frames are given that a video begins with.
func (r Request) given() bool { return r.Image != nil || r.Video != nil }

// use is what the generator reads of images.
func (p Parts) use() models.ImageUse { return useOf(p.Generator) }

func useOf(m models.Model) models.ImageUse {
	if g := m.Features().Generator; g != nil {
		return g.Image
	}
	return models.ImageUse{}
}
