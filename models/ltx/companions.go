package ltx

import "weft/models"

// Companions are T5 v1.1 and LTX-Video's autoencoder or, for LTX-2.5, Gemma and its own
// autoencoder.
func (m *Model) Companions() models.Companions {
	if m.c.Second {
		return models.Companions{Text: "ltx2.5-gemma4-12b", Decoder: "ltx2.5-vae-conv"}
	}
	return models.Companions{Text: "t5-v1.1-xxl", Decoder: "ltx-video-vae"}
}

var _ models.Accompanied = (*Model)(nil)
