package wan

import (
	"strings"

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

// resolveVariant finds the image branch by its tensors, because the official
// configurations of Wan2.1, which has it, and of A14B, which does not, are the
// same. It also refuses variants of the family that only their tensors reveal.
func resolveVariant(_ string, c Config, names []string) (Config, error) {
	with := func(prefix string) []string {
		found := []string{}
		for _, n := range names {
			if strings.HasPrefix(n, prefix) {
				found = append(found, n)
			}
		}
		return found
	}
	variants := []struct{ prefix, variant string }{
		{"vace_", "VACE"}, {"img_emb.emb_pos", "first-last-frame"}, {"ref_conv.", "Fun-Control (reference image)"},
		{"control_adapter.", "Fun-Camera-Control"}, {"casual_audio_encoder.", "S2V (speech to video)"}, {"motion_encoder.", "Animate"},
	}
	if c.ModelType != i2v {
		variants = append(variants, struct{ prefix, variant string }{"img_emb.", "image-to-video"})
	}
	for _, v := range variants {
		if found := with(v.prefix); len(found) > 0 {
			return c, fault.New(models.ErrVariant, struct {
				Variant string   `json:"variant"`
				Tensors []string `json:"tensors"`
			}{v.variant, found}, "the checkpoint is the %s variant of Wan (%d tensors such as %s): its config.json says %s",
				v.variant, len(found), found[0], c.ModelType)
		}
	}
	if c.ImageDim > 0 || len(with("img_emb.")) == 0 {
		return c, nil
	}
	c.ImageDim = clipDim
	return c, nil
}
