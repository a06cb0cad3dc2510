package clip

import (
	"slices"

	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// CheckSplit reports every reason why a mesh cannot hold the model, whatever the request.
func (m *Model) CheckSplit(on *mesh.Mesh) error {
	var l fault.List
	err := models.CheckTransformer(on, m.name, m.c.Heads, "ffn_dim", m.c.FFNDim)
	if m.c.Tower == text {
		err = models.CheckNoRing(on, m.name, err)
	}
	l.Add(err)
	if m.c.Projector > 0 {
		l.Add(models.CheckFFN(on, "projector_dim", m.c.Projector))
	}
	return l.Err()
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	l.Add(models.CheckRequest(on, r, m.c.Layers))
	lay := m.layOutRequest(on, r)
	l.Add(models.CheckPadding(on, r, "tokens", lay.Tokens, lay.Padded))
	if m.c.Tower == text && (r.Text < 0 || r.Text > m.c.Places) {
		l.Add(fault.New(models.ErrInputs, nil, "%d tokens: the model has places for 1 to %d", r.Text, m.c.Places))
	}
	return l.Err()
}

// Request reads the batch off x (B, 3, H, W), an image of the model's own size
// normalised as CLIP does, or batch and length off ids (B, L).
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	if m.c.Tower == text {
		r, err := models.TextRequest(m.name, inputs, m.c.Vocab, false)
		if err == nil && r.Text > m.c.Places {
			err = fault.New(models.ErrInputs, nil, "ids of %d tokens: the model has places for %d", r.Text, m.c.Places)
		}
		return r, err
	}
	x, err := models.Need(m.name, inputs, "x", 4, []string{"x"})
	if err != nil {
		return models.Request{}, err
	}
	if want := []int{x.Shape[0], 3, m.c.ImageSize, m.c.ImageSize}; !slices.Equal(x.Shape, want) {
		return models.Request{}, fault.New(models.ErrInputs, nil, "x is %v: want %v (batch, colours, height, width), resized to image_size", x.Shape, want)
	}
	return models.Request{Batch: x.Shape[0]}, nil
}

// Example makes an image, or ids.
func (m *Model) Example(batch int, _ []int, seed uint64) (map[string]*tensor.Tensor, error) {
	if m.c.Tower == vision {
		return map[string]*tensor.Tensor{"x": step.Normals(seed)(batch, 3, m.c.ImageSize, m.c.ImageSize)}, nil
	}
	in := step.ExampleText(batch, min(step.ExampleRows, m.c.Places), m.c.Vocab, seed)
	delete(in, "mask")
	return in, nil
}

// Feed makes the graph's inputs from the inputs that Request checks.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if m.c.Tower == vision {
		x, err := inputs["x"].As(g.Input("x").DType)
		return map[string]*tensor.Tensor{"x": x}, err
	}
	out, err := step.FeedIDs(g, inputs)
	if err != nil {
		return nil, err
	}
	// The tokenizer ends a text with the largest id of its vocabulary and pads behind
	// it, so the first of the largest ids is the end.
	ids, err := inputs["ids"].Int64s()
	if err != nil {
		return nil, err
	}
	in := g.Input("end")
	out["end"] = tensor.New(in.DType, in.Shape...)
	for b := range r.Batch {
		row := ids[b*r.Text : (b+1)*r.Text]
		step.Put(out["end"], b*in.Shape[1]+slices.Index(row, slices.Max(row)), 1)
	}
	return out, nil
}
