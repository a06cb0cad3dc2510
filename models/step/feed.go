package step

import (
	"maps"
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/models"
	"weft/tensor"
)

// Feeder makes the inputs of a generator's graph.
type Feeder struct {
	Times, Text string // the names of the inputs with the timesteps and the text
	FeedText    func(g *graph.Graph, r models.Request, text *tensor.Tensor) (map[string]*tensor.Tensor, error)
	// FeedTimes adds the inputs of the time path. It is FeedTimes, unless the model has its own function.
	FeedTimes func(g *graph.Graph, r models.Request, ts []float32, to map[string]*tensor.Tensor)
	// FeedConditions is nil for a model without conditions.
	FeedConditions func(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error)
}

// Feed makes x and the inputs of text, time path and conditions.
func (f Feeder) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	ts, err := inputs[f.Times].Float32s()
	if err != nil {
		return nil, err
	}
	out, err := f.FeedText(g, r, inputs[f.Text])
	if err != nil {
		return nil, err
	}
	if out["x"], err = inputs["x"].As(dtype.F32); err != nil {
		return nil, err
	}
	f.FeedTimes(g, r, ts, out)
	if f.FeedConditions != nil {
		conditions, err := f.FeedConditions(g, r, inputs)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, conditions)
	}
	return out, nil
}

// ScaleTimesteps multiplies timesteps by a factor, to convert them to the range that a model was
// trained on.
func ScaleTimesteps(ts []float32, by float64) []float32 {
	out := make([]float32, len(ts))
	for i, t := range ts {
		out[i] = t * float32(by)
	}
	return out
}

// FeedStep makes x and the sinusoidal embedding of one timestep, the same for the whole
// batch.
func FeedStep(r models.Request, x *tensor.Tensor, t float64, table func(ts []float32) *tensor.Tensor) (map[string]*tensor.Tensor, error) {
	x, err := x.As(dtype.F32)
	if err != nil {
		return nil, err
	}
	return map[string]*tensor.Tensor{"x": x, "time": table(slices.Repeat([]float32{float32(t)}, r.Batch))}, nil
}

// ExampleTime is the timestep of video b of an example's batch: they are spread over 0..1000.
func ExampleTime(b, batch int) float64 { return 1000 * float64(b+1) / float64(batch+1) }

// ExampleTimes are the timesteps (batch) of an example.
func ExampleTimes(batch int) *tensor.Tensor {
	t := tensor.New(dtype.F32, batch)
	for b := range batch {
		Put(t, b, ExampleTime(b, batch))
	}
	return t
}
