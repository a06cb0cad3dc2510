package decoder

import (
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/sharding"
	"weft/tensor"
)

// Axes are the mesh axes the programs use.
var Axes = []string{"pp", "dp", "fsdp", "tp", "sp"}

// defaultText is how many tokens an encoding has where the request does not say:
// Cosmos pads to 512; HunyuanVideo takes 256 behind the 95 of its template,
// HunyuanVideo-1.5 1000 behind 108.
func (m *Model) defaultText() int {
	switch {
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
	tp, sp := on.Size("tp"), on.Size("sp")
	l.Add(models.CheckAxes(on, m.name, Axes))
	if err := sharding.CheckHeads(m.c.Heads, tp, sp); err != nil {
		l.Add(err)
	} else {
		_, _, err := sharding.KVHeads(m.c.Heads, m.c.KVHeads, tp*sp)
		l.Add(err)
	}
	if m.c.FFNDim%tp != 0 {
		l.Add(models.NotDivisible(models.ErrFFN, "intermediate_size", m.c.FFNDim, "tp", tp))
	}
	return l.Err()
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	l.Add(models.CheckRequest(on, r, m.run(r)))
	l.Add(models.CheckText(on, r, m.defaultText()))
	return l.Err()
}

// Request reads batch and length off ids (B, L).
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	return models.TextRequest(m, inputs, m.c.Vocab, false)
}

// Example makes ids. There are no latents.
func (m *Model) Example(batch int, _ []int, seed uint64) (map[string]*tensor.Tensor, error) {
	in := step.ExampleText(batch, step.ExampleRows, m.c.Vocab, seed)
	delete(in, "mask")
	return in, nil
}

// Feed makes the graph's inputs from those Request reads, and the rotary tables.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out, err := step.FeedIDs(g, inputs)
	if err != nil {
		return nil, err
	}
	out["rope_cos"], out["rope_sin"] = step.RotaryHalves(m.c.angles(r.Text), g.Input("rope_cos").Shape[0], m.c.HeadDim)
	return out, nil
}

var _ models.PeerWhole = (*Model)(nil)
