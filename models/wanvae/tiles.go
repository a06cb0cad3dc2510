package wanvae

import (
	"weft/models"
	"weft/models/vae"
)

// Tile cuts a request into tiles as diffusers' AutoencoderKLWan does. A decoder's tiles are counted
// in latents and blended in patches of pixels; an encoder's are counted in patches of pixels, so
// that Wan2.2's are twice as large as the sizes say.
func (m *Model) Tile(r models.Request, t models.Tiles) (rows, cols models.TiledDim, ok bool, err error) {
	if ok, err = m.pictures.NeedsTiles(r.Latent, t); err != nil || !ok {
		return rows, cols, false, err
	}
	cut := m.tileLatents
	if r.Encode {
		cut = m.tilePixels
	}
	return cut(r.Latent[2], t.Height, t.StrideHeight), cut(r.Latent[3], t.Width, t.StrideWidth), true, nil
}

// tileLatents cuts n latents along a dim into tiles of size pixels that lie stride pixels apart.
func (m *Model) tileLatents(n, size, stride int) models.TiledDim {
	scale, patch := m.c.Scale(), m.c.Patch
	return models.TiledDim{Spans: vae.Spans(n, size/scale, stride/scale, 1), Keep: stride, Blend: size/patch - stride/patch, Group: patch, Size: scale * n}
}

// tilePixels cuts the pixels of n latents along a dim into tiles of size patches that lie stride
// patches apart.
func (m *Model) tilePixels(n, size, stride int) models.TiledDim {
	patch := m.c.Patch
	perLatent := m.c.Scale() / patch // patches
	return models.TiledDim{Spans: vae.Spans(n*perLatent, size, stride, patch), Keep: stride / perLatent, Blend: size/perLatent - stride/perLatent, Group: 1, Size: n}
}

// FinishTiled bounds pixels and logarithms of variances, which the programs of tiles leave as
// they are.
func (*Model) FinishTiled(output string, values []float32) {
	if output == "out" || output == "decode" {
		vae.Bound(values, -1, 1)
	}
	vae.BoundLogvar(output, values)
}
