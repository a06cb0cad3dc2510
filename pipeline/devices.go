package pipeline

import (
	"context"

	"weft/denoise"
	"weft/dtype"
	"weft/engine"
	"weft/identify"
	"weft/mesh"
	"weft/models"
	"weft/tensor"
)

// Placement says how one model is put on the devices.
type Placement struct {
	Mesh  []mesh.Axis
	DType dtype.DType
	// Stream says that the layers' weights may be streamed where the request offloads weights.
	Stream bool
	// Tiles are those of an autoencoder; nil computes pictures whole. Spool is the folder that takes
	// the tiles' values until their frames are whole.
	Tiles *models.Tiles
	Spool string
	// Again says that the model will run again on the same request, for another video: devices
	// that have the memory keep its programs and weights.
	Again bool
}

// Cost is what one phase took.
type Cost struct {
	Mesh      string
	DType     string
	BytesRead int64 // of weights, from files
	Resident  int64 // bytes of weights on the device that held the most
	// Compile and Load are the seconds that compiling, and reading weights before the first
	// call, took of the phase.
	Compile, Load float64
	Notes         []string
}

// Devices are where a pipeline's models run, one after another. A model's weights are on them
// from the call that runs it until that call returns, or until the loop of a Denoiser is closed;
// those of a model that will run again may stay.
type Devices interface {
	// Count is how many there are.
	Count() int
	// CheckSplit reports every reason why a model cannot run a request as it is placed. It reads
	// no weight.
	CheckSplit(m *identify.Match, r models.Request, p Placement) error
	// Forward computes a model's outputs for each of several inputs, with weights that are
	// loaded once.
	Forward(ctx context.Context, m *identify.Match, inputs []map[string]*tensor.Tensor, p Placement) ([]map[string]*tensor.Tensor, Cost, error)
	// Stream computes a model's outputs, and hands each part of them over as soon as it is
	// computed, in order: the output's name, the frame, and the part.
	Stream(ctx context.Context, m *identify.Match, inputs map[string]*tensor.Tensor, p Placement, visit func(name string, frame int, t *tensor.Tensor) error) (Cost, error)
	// StreamFrames is Stream of one input of a shape (batch, channels, frames, height, width),
	// whose frames are asked for one by one, in order.
	StreamFrames(ctx context.Context, m *identify.Match, input string, shape []int, frames func(ctx context.Context, frame int) (*tensor.Tensor, error),
		p Placement, visit func(name string, frame int, t *tensor.Tensor) error) (Cost, error)
	// Denoiser returns the devices for the experts of one denoising loop. again says that the
	// loop of another video follows.
	Denoiser(experts []*identify.Match, again bool) Denoiser
	// Engine says what runs the programs. It is empty before the first of them runs.
	Engine() engine.Info
}

// Denoiser are the devices of one denoising loop. Only the expert in use is on them, unless the
// other one runs again for another video and there is memory for both.
type Denoiser interface {
	Expert(i int) denoise.Devices
	Cost() Cost
}

// meshText is the mesh as text, for reports and for comparing.
func (p Placement) meshText() string { return mesh.FormatAxes(mesh.Standard(p.Mesh)) }
