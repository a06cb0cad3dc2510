package cogvideox

import "weft/models"

// Companions names T5 v1.1 and CogVideoX's autoencoder.
func (m *Model) Companions() models.Companions {
	return models.Companions{Text: "t5-v1.1-xxl", Decoder: "cogvideox-vae"}
}

var _ models.Accompanied = (*Model)(nil)
