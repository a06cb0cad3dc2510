package denoise

import (
	"context"

	"weft/graph"
	"weft/models"
	"weft/nonfinite"
	"weft/tensor"
)

// Devices are where a model can be put. A loop knows no mesh, engine or file; it sets
// what it decides in a request (batch, latents, text, conditions, rate of frames), and
// the devices add theirs (compute type, layers, splits).
type Devices interface {
	// CheckSplit reports every reason why the devices cannot run a request. It reads no
	// weight.
	CheckSplit(models.Request) error
	// Start compiles the programs of a request and loads the model's weights.
	Start(context.Context, models.Request) (Run, error)
}

// Run is a model whose weights are on devices.
type Run interface {
	// Request is that of one microbatch, as the graph was built for it.
	Request() models.Request
	// Microbatches is how many of these make the batch of the request that was started:
	// 1 without a pipeline.
	Microbatches() int
	Graph() *graph.Graph
	// Feed puts inputs of the graph on the devices, for one lane. Inputs that were fed
	// before and are not given again stay.
	Feed(ctx context.Context, lane string, inputs map[string]*tensor.Tensor) error
	// Step runs one step of each lane, and returns the graph's outputs by lane. Before that it
	// calls finite with what the devices see of NaN and infinities in each output; its error
	// ends the step.
	Step(ctx context.Context, lanes []string, finite func(lane string, seen nonfinite.Counts) error) ([]map[string]*tensor.Tensor, error)
	// Trace runs one step of one lane and calls visit with the values along the way, in order.
	// Its error ends the step.
	Trace(ctx context.Context, lane string, visit func(name string, t *tensor.Tensor) error) error
	// Close frees the devices.
	Close()
}
