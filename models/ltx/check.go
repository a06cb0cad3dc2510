package ltx

import (
	"strings"

	"weft/fault"
	"weft/mesh"
	"weft/models"
)

// textLen is the number of rows to which the text encoder of LTX-Video's own pipeline pads a
// prompt. A request may have any number.
const textLen = 256

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(models.CheckAxes(on, m.name))
	l.Add(models.CheckHeads(on, m.c.Heads))
	l.Add(models.CheckRequest(on, r, m.c.Layers))
	l.Add(models.CheckLatent(r.Latent, m.c.InChannels, [3]int{1, 1, 1}))
	if r.Text < 0 || r.Image != 0 {
		l.Add(fault.New(models.ErrInputs, nil, "text of %d rows and %d rows of image features: %s reads text alone, 1 row or more", r.Text, r.Image, m.name))
	}
	if err := l.Err(); err != nil {
		return err
	}
	lay := m.layOutRequest(on, r)
	return models.CheckPadding(on, r, "tokens", lay.Tokens, lay.Padded)
}

// resolveVariant refuses checkpoints of variants that only their tensors reveal: their config reads
// like that of a model that this package runs.
func resolveVariant(name string, c Config, names []string) (Config, error) {
	for _, n := range names {
		variant := ""
		switch {
		case !c.Gated && strings.Contains(n, ".to_gate_logits."), !c.CrossAdaLN && strings.HasPrefix(n, "prompt_adaln_single."):
			variant = "LTX-2.5"
		case !c.Second && strings.HasPrefix(n, "audio_"):
			variant = "LTX-2 (audio and video)"
		case c.Second && strings.HasPrefix(n, "caption_projection."):
			variant = "LTX-2 with a caption projection"
		}
		if variant != "" {
			return c, fault.New(models.ErrVariant, struct {
				Variant string `json:"variant"`
				Tensor  string `json:"tensor"`
			}{variant, n}, "the checkpoint is %s (tensor %s): its config says %s", variant, n, name)
		}
	}
	return c, nil
}
