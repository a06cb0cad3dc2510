package cogvideox

import (
	"strings"

	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
)

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(models.CheckAxes(on, m.name))
	l.Add(models.CheckHeads(on, m.c.Heads))
	l.Add(models.CheckRequest(on, r, m.c.Layers))
	l.Add(m.checkLatent(r.Latent))
	if r.Text != 0 && r.Text != m.c.TextLen {
		l.Add(fault.New(models.ErrInputs, nil, "text of %d rows: the model attends to max_text_seq_length %d, no more and no fewer, as its text encoder pads", r.Text, m.c.TextLen))
	}
	if r.TokenTimes || r.Image != 0 {
		l.Add(fault.New(models.ErrInputs, nil, "%s reads neither a timestep for each token nor image features", m.name))
	}
	if err := l.Err(); err != nil {
		return err
	}
	lay := m.layOutRequest(on, r)
	return models.CheckPadding(on, r, "video tokens", lay.Tokens, lay.Padded)
}

// checkLatent checks latents (channels, frames, height, width) against the model's
// channels and patches, and against the sizes that its positions reach.
func (m *Model) checkLatent(latent []int) error {
	if err := models.CheckLatent(latent, m.c.OutChannels, m.c.patchShape()); err != nil {
		return err
	}
	var l fault.List
	g := step.GridOf(latent, m.c.patchShape())
	switch most := m.c.sampleGrid(); {
	case m.c.Learned && g != most:
		l.Add(fault.New(models.ErrSize, nil, "latents of %d x %d x %d: this model's learned positions are those of %d x %d x %d alone (%d frames of %dx%d pixels)",
			latent[1], latent[2], latent[3], most.Frames, m.c.SampleHeight, m.c.SampleWidth, m.c.SampleFrames, m.c.SampleWidth*pixels, m.c.SampleHeight*pixels))
	case m.c.Rotary && m.c.PatchT > 0 && (g.Rows > most.Rows || g.Cols > most.Cols):
		l.Add(fault.New(models.ErrSize, nil, "latents of %d x %d: rotary positions reach to %d x %d (sample_height, sample_width)",
			latent[2], latent[3], m.c.SampleHeight, m.c.SampleWidth))
	}
	return l.Err()
}

// resolveVariant refuses variants of the family that only their tensors reveal.
func resolveVariant(name string, c Config, names []string) (Config, error) {
	for _, v := range []struct {
		prefix, variant string
		has             bool
	}{
		{positions, "image-to-video with learned positions", c.Learned},
		{"ofs_embedding.", "1.5 image-to-video (with an offset)", c.OfsEmbedDim > 0},
		{"controlnet_", "ControlNet", false},
		{"perceiver_cross_attention.", "ConsisID", false},
		{"patch_embed.ref_", "Fun-Control (reference image)", false},
	} {
		for _, n := range names {
			if !v.has && strings.HasPrefix(n, v.prefix) {
				return c, fault.New(models.ErrVariant, struct {
					Variant string `json:"variant"`
					Tensor  string `json:"tensor"`
				}{v.variant, n}, "the checkpoint is the %s variant of CogVideoX (tensor %s): its config.json says %s", v.variant, n, name)
			}
		}
	}
	return c, nil
}
