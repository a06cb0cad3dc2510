package wan

import (
	"weft/fault"
	"weft/mesh"
	"weft/models"
)

// CheckSplit reports every reason why a mesh cannot hold the model, whatever the request.
func (m *Model) CheckSplit(on *mesh.Mesh) error {
	return models.CheckTransformer(on, m.name, m.c.Heads, "ffn_dim", m.c.FFNDim)
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	l.Add(models.CheckRequest(on, r, m.c.Layers))
	l.Add(m.checkLatent(r.Latent))
	if r.Text < 0 || (m.c.TextLen > 0 && r.Text > m.c.TextLen) {
		l.Add(fault.New(models.ErrInputs, nil, "context of %d rows: the model reads at most text_len %d", r.Text, m.c.TextLen))
	}
	if r.Image < 0 || (r.Image > 0 && m.c.ImageDim == 0) {
		l.Add(fault.New(models.ErrInputs, nil, "%d rows of image features: %s reads none", r.Image, m.name))
	}
	if m.c.ImageRows > 0 && r.Image > 0 && r.Image != m.c.ImageRows {
		l.Add(m.refuseImageRows(r.Image))
	}
	if m.c.TextLen == 0 && r.Text == 0 {
		l.Add(fault.New(models.ErrInputs, nil, "config.json has no text_len and no context is given: the text's length is unknown"))
	}
	if err := l.Err(); err != nil {
		return err
	}
	lay := m.layOutRequest(on, r)
	l.Add(models.CheckPadding(on, r, "tokens", lay.Tokens, lay.Padded))
	return l.Err()
}

// checkLatent checks latents (channels, frames, height, width) against the model's
// channels and patches.
func (m *Model) checkLatent(latent []int) error {
	return models.CheckLatent(latent, m.c.LatentDim(), m.c.PatchSize)
}

// refuseImageRows says how many rows of features a model of a first and a last frame reads.
func (m *Model) refuseImageRows(rows int) error {
	return fault.New(models.ErrInputs, nil, "%d rows of image features: %s reads %d, those of the first image and behind them as many of the last", rows, m.name, m.c.ImageRows)
}
