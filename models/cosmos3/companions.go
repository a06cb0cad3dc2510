package cosmos3

import "weft/models"

// Companions are Wan2.2's autoencoder; the text is read by the transformer itself.
func (m *Model) Companions() models.Companions {
	return models.Companions{Decoder: "wan2.2-vae"}
}

var _ models.Accompanied = (*Model)(nil)
