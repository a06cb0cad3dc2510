package cosmos25

import "weft/models"

// Companions names Reason1 and Wan2.1's autoencoder.
func (m *Model) Companions() models.Companions {
	return models.Companions{Text: "reason1-7b", Decoder: "wan2.1-vae"}
}

var _ models.Accompanied = (*Model)(nil)
