package t5

import (
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// Request reads batch and length off ids (B, L), and notes whether a mask (B, L) is given.
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	return models.TextRequest(m.name, inputs, m.c.Vocab, true)
}

// Runs lists the encoding of ids with the mask, if one is given, the one without it as
// "_nomask", and the one of ids_long as "_long".
func (m *Model) Runs(inputs map[string]*tensor.Tensor) []models.Variant {
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
