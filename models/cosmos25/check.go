package cosmos25

import (
	"strings"

	"weft/fault"
	"weft/mesh"
	"weft/models"
)

// CheckSplit reports every reason why a mesh cannot hold the model, whatever the request.
func (m *Model) CheckSplit(on *mesh.Mesh) error {
	return models.CheckTransformer(on, m.name, m.c.Heads, "mlp width", m.c.FFN())
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	l.Add(models.CheckRequest(on, r, m.c.Layers))
	l.Add(m.checkLatent(r.Latent))
	if r.Text < 0 || r.Text > TextLen {
		l.Add(fault.New(models.ErrInputs, nil, "context of %d rows: the model reads at most %d", r.Text, TextLen))
	}
	if r.Image != 0 {
		l.Add(fault.New(models.ErrInputs, nil, "%d rows of image features: %s reads none", r.Image, m.name))
	}
	if r.TokenTimes && m.c.PatchTemporal != 1 {
		l.Add(fault.New(models.ErrInputs, nil, "a timestep for every frame: patches of %d frames have one each", m.c.PatchTemporal))
	}
	if err := l.Err(); err != nil {
		return err
	}
	lay := m.layOutRequest(on, r)
	return models.CheckPadding(on, r, "tokens", lay.Tokens, lay.Padded)
}

// checkLatent checks latents (channels, frames, height, width) against the model's
// channels and patches.
func (m *Model) checkLatent(latent []int) error {
	return models.CheckLatent(latent, m.c.InChannels, m.c.Patch())
}

// resolveVariant refuses variants of the family by their tensors, because released
// checkpoints have no config.json that would tell them apart.
func resolveVariant(_ string, c Config, names []string) (Config, error) {
	for _, v := range []struct{ part, variant string }{
		{"control", "Cosmos-Transfer2.5 (control)"}, {"before_proj.", "Cosmos-Transfer2.5 (control)"},
		{"extra_pos_embedder.", "Cosmos-Predict1 (learned positions)"}, {"learnable_pos_embed.", "Cosmos-Predict1 (learned positions)"},
		{"action_embedder", "action-conditioned"}, {"view_embeddings", "multi-view"}, {"img_context_proj.", "image-context"},
	} {
		found := []string{}
		for _, n := range names {
			if strings.Contains(n, v.part) {
				found = append(found, n)
			}
		}
		if len(found) > 0 {
			return c, fault.New(models.ErrVariant, struct {
				Variant string   `json:"variant"`
				Tensors []string `json:"tensors"`
			}{v.variant, found}, "the checkpoint is the %s variant of Cosmos (%d tensors such as %s): Cosmos-Predict2.5 base models are run",
				v.variant, len(found), found[0])
		}
	}
	return c, nil
}
