package weft

import (
	"context"

	"weft/graph"
	"weft/mesh"
	"weft/plan"
)

// Held describes how the devices of a mesh hold a model's weights.
type Held struct {
	Graph *graph.Graph // of a small example, with every layer
	// Bytes is what each device keeps of the weights, by mesh position.
	Bytes []int64
}

// Hold returns how the devices of a mesh hold the weights when the model runs with
// these options. It takes every mesh axis that Start takes, and reads no weight. It
// fails with the error of Start if the split is not legal.
func (m *Model) Hold(o Options) (*Held, error) {
	best, err := plan.Best(context.Background(), m.Model, plan.Options{Request: o.Request}) // planning takes a moment
	if err != nil {
		return nil, err
	}
	o.Request = best
	o.Width, o.Height, o.Frames = 0, 0, 0 // a small example has the same weights
	on, err := o.LocalMesh()
	if err != nil {
		return nil, err
	}
	inputs, err := m.Example(1, nil, 1)
	if err != nil {
		return nil, err
	}
	req, err := m.Request(inputs)
	if err != nil {
		return nil, err
	}
	req.Batch = max(1, on.Size(mesh.DP)) // any batch that dp divides: it changes no weight
	on, req, _, err = m.applyOptions(req, o)
	if err != nil {
		return nil, err
	}
	g, err := m.Graph(on, req)
	if err != nil {
		return nil, err
	}
	bytes, err := g.WeightBytes()
	return &Held{g, bytes}, err
}
