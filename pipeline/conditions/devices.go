package conditions

import (
	"context"

	"weft/models"
	"weft/tensor"
)

// Devices are where one model of the phase runs. Its weights are on them while a call lasts.
type Devices interface {
	// CheckSplit reports every reason why the devices cannot run a request. It reads no weight.
	CheckSplit(models.Request) error
	// Forward computes a model's outputs.
	Forward(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error)
	// Stream computes a model's outputs of one input of a shape (batch, channels, frames,
	// height, width). It asks for each frame (batch, channels, 1, height, width) once, in order,
	// and hands each part of an output over as soon as it is computed, in order of frames.
	Stream(ctx context.Context, input string, shape []int, frames FrameSource, visit Visit) error
}

// FrameSource gives a frame of an input.
type FrameSource func(ctx context.Context, frame int) (*tensor.Tensor, error)

// Visit is given a part of an output: its name, its frame, and the part itself.
type Visit func(output string, frame int, part *tensor.Tensor) error

// Part is a model of the phase, and the devices that it is put on.
type Part struct {
	Model   models.Model
	Devices Devices
}

// Parts are the models of the phase.
type Parts struct {
	// Generator is the transformer that reads what the phase makes. It does not run here. Of
	// two experts it is either, because both read the same.
	Generator models.Model
	// Autoencoder encodes the video of the given images.
	Autoencoder *Part
	// Vision encodes the image itself; nil where the generator reads no features of it.
	Vision *Part
}

// The names that autoencoders and vision encoders have for what they read and make.
const (
	videoInput    = "video"         // of an autoencoder, pixels from -1 to 1
	latentsOutput = "encode"        // of an autoencoder, the posterior's mode, normalised
	logvarOutput  = "encode_logvar" // of an autoencoder, of the posterior
	pixelsInput   = "x"             // of a vision encoder
	rowsOutput    = "out"           // of a vision encoder
)
