package decoder

import (
	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/sharding"
	"weft/tensor"
)

// defaultText returns the number of tokens of a text where the request does not state
// it. Cosmos pads to 512 and LTX-2.5 to 1024. HunyuanVideo's texts are 256 tokens
// behind the 95 of its template, and HunyuanVideo-1.5's are 1000 behind 108.
func (m *Model) defaultText() int {
	switch {
	case m.c.ModelType == gemma:
		return 1024
	case m.c.SkipLayers == 0:
		return 512
	case m.c.ModelType == llama:
		return 95 + 256
	}
	return 108 + 1000
}

// CheckSplit reports every reason why a mesh cannot hold the model, whatever the request.
func (m *Model) CheckSplit(on *mesh.Mesh) error {
	var l fault.List
	tp, sp := models.HeadParts(on)
	l.Add(models.CheckAxes(on, m.name))
	if err := sharding.CheckHeads(m.c.Heads, tp, sp); err != nil {
		l.Add(err)
	} else {
		for _, first := range m.c.firstOfEachType(0, m.c.Layers) {
			kv, _ := m.c.keyHeads(m.c.isGlobal(first))
			_, _, err := sharding.KVHeads(m.c.Heads, kv, tp*sp)
			l.Add(err)
		}
	}
	l.Add(models.CheckFFN(on, "intermediate_size", m.c.FFNDim))
	return models.CheckNoRing(on, m.name, l.Err())
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	l.Add(models.CheckRequest(on, r, m.layersToRun(r)))
	l.Add(models.CheckText(on, r, m.defaultText()))
	// No program implements a sliding window. Up to the window's length a text does not
	// need one, because every token attends to all before it.
	if n := r.TextLayout(on, m.defaultText()).Tokens; m.c.Window > 0 && n > m.c.Window {
		l.Add(fault.New(models.ErrInputs, struct {
			Tokens int `json:"tokens"`
			Window int `json:"window"`
		}{n, m.c.Window}, "%d tokens: sliding_window is %d and longer texts are not run; the most is %d tokens", n, m.c.Window, m.c.Window))
	}
	return l.Err()
}

// Request reads batch and length off ids (B, L), or for a decoder whose text has rows of images off
// rows (B, L, hidden_size), and whether a mask is given.
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	if inputs["rows"] != nil && m.c.Images != "" {
		return models.TextRowsRequest(inputs, m.c.Dim)
	}
	return models.TextRequest(m.name, inputs, m.c.Vocab, true)
}

// Example makes ids, and for Gemma a mask. There are no latents.
func (m *Model) Example(batch int, _ []int, seed uint64) (map[string]*tensor.Tensor, error) {
	in := step.ExampleText(batch, step.ExampleRows, m.c.Vocab, seed)
	if m.c.ModelType != gemma {
		delete(in, "mask")
	}
	return in, nil
}

// Feed makes the graph's inputs from the inputs that Request checks, and adds the
// rotary tables.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out, err := feedTokens(g, r, inputs)
	if err != nil {
		return nil, err
	}
	for _, first := range m.c.firstOfEachType(0, m.layersToRun(r)) {
		global := m.c.isGlobal(first)
		cos, sin := "rope_cos"+typeSuffix(global), "rope_sin"+typeSuffix(global)
		shape := g.Input(cos).Shape
		out[cos], out[sin] = step.RotaryHalves(m.c.rotaryAngles(r.Text, global), shape[0], shape[1])
	}
	return out, nil
}

// feedTokens makes the graph's inputs of the tokens: ids, or rows, padded, and the mask.
func feedTokens(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if !r.TextRows {
		return step.FeedIDs(g, inputs)
	}
	out, err := step.FeedMask(g, inputs)
	if err != nil {
		return nil, err
	}
	out["rows"], err = step.PadRows(inputs["rows"], g.Input("rows").Shape[1], dtype.F32)
	return out, err
}
