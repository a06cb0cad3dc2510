package t5

import (
	"weft/dtype"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// Request reads batch and length off ids (B, L), or off rows (B, L, dim) of the token table,
// and notes whether a mask (B, L) is given.
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	if rows := inputs["rows"]; rows != nil {
		return models.TextRowsRequest(inputs, m.c.Dim)
	}
	return models.TextRequest(m.name, inputs, m.c.Vocab, true)
}

// Feed makes the graph's inputs from those Request reads.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if !r.TextRows {
		return step.FeedText(g, r, inputs)
	}
	out, err := step.FeedMask(g, inputs)
	if err != nil {
		return nil, err
	}
	out["rows"], err = step.PadRows(inputs["rows"], g.Input("rows").Shape[1], dtype.F32)
	return out, err
}

// Runs lists the encoding of ids with the mask, if one is given, the one without it as
// "_nomask", and the one of ids_long as "_long".
func (m *Model) Runs(inputs map[string]*tensor.Tensor) []models.Variant {
	if inputs["rows"] != nil {
		return []models.Variant{{Inputs: inputs}}
	}
	runs := models.TextRuns(inputs)
	if long := inputs["ids_long"]; long != nil {
		runs = append(runs, models.Variant{Suffix: "_long", Inputs: map[string]*tensor.Tensor{"ids": long}})
	}
	return runs
}

// Example makes ids and a mask. The first text fills all rows, each further one two rows
// fewer. There are no latents.
func (m *Model) Example(batch int, _ []int, seed uint64) (map[string]*tensor.Tensor, error) {
	return step.ExampleText(batch, step.ExampleRows, m.c.Vocab, seed), nil
}
