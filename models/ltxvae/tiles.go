package ltxvae

import (
	"weft/fault"
	"weft/models"
	"weft/models/vae"
)

// Tile cuts a request into tiles as diffusers' AutoencoderKLLTXVideo does. A decoder that injects
// noise draws other noise for every tile there, which no input has: it is refused. Error: ErrSize,
// ErrVariant.
func (m *Model) Tile(r models.Request, t models.Tiles) (rows, cols models.TiledDim, ok bool, err error) {
	if ok, err = m.pictures.NeedsTiles(r.Latent, t); err != nil || !ok {
		return rows, cols, false, err
	}
	if n := len(m.c.noiseScales()); n > 0 && !r.Encode {
		return rows, cols, false, fault.New(models.ErrVariant, nil, "%s in tiles: its decoder injects noise, of which every tile would draw its own %d planes; split it over more devices, which changes nothing", m.pictures.Model, n)
	}
	cut := m.tileLatents
	if r.Encode {
		cut = m.tilePixels
	}
	return cut(r.Latent[2], t.Height, t.StrideHeight), cut(r.Latent[3], t.Width, t.StrideWidth), true, nil
}

// tileLatents cuts n latents along a dim into tiles of size pixels that lie stride pixels apart.
func (m *Model) tileLatents(n, size, stride int) models.TiledDim {
	scale := m.pictures.Scale
	return models.TiledDim{Spans: vae.Spans(n, size/scale, stride/scale, 1), Keep: stride, Blend: size - stride, Group: 1, Size: scale * n}
}

// tilePixels cuts the pixels of n latents along a dim into tiles of size pixels that lie stride
// pixels apart.
func (m *Model) tilePixels(n, size, stride int) models.TiledDim {
	scale := m.pictures.Scale
	return models.TiledDim{Spans: vae.Spans(n*scale, size, stride, 1), Keep: stride / scale, Blend: size/scale - stride/scale, Group: 1, Size: n}
}
