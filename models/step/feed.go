package step

import (
	"maps"
	"slices"

	"weft/dtype"
	"weft/graph"
	"weft/models"
	"weft/tensor"
)

// Feed implements a generator's Feed. It makes x, the inputs of the text, the inputs of the
// time path (feed makes them from the timesteps, which the input named times holds:
// FeedTimes, or a model's own function) and those of the conditions, if the model reads any.
func Feed(m models.Generator, g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor, times, text string,
	feed func(g *graph.Graph, r models.Request, ts []float32, to map[string]*tensor.Tensor)) (map[string]*tensor.Tensor, error) {
	ts, err := inputs[times].Float32s()
	if err != nil {
		return nil, err
	}
	out, err := m.FeedText(g, r, inputs[text])
	if err != nil {
		return nil, err
	}
	if out["x"], err = inputs["x"].As(dtype.F32); err != nil {
		return nil, err
	}
	feed(g, r, ts, out)
	if c, ok := m.(models.Conditioned); ok {
		conditions, err := c.FeedConditions(g, r, inputs)
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
