package cosmos3

import "weft/models"

// Companions names Wan2.2's autoencoder. There is no text encoder, because the
// transformer reads the text itself.
func (m *Model) Companions() models.Companions {
	return models.Companions{Decoder: "wan2.2-vae"}
}

var _ models.Accompanied = (*Model)(nil)
