package wanvae

import "weft/models"

// Tile cuts a request into tiles as diffusers' AutoencoderKLWan does. A decoder's tiles are counted
// in latents and blended in patches of pixels; an encoder's are counted in patches of pixels, so
// that Wan2.2's are twice as large as the sizes say.
func (m *Model) Tile(r models.Request, t models.Tiles) (rows, cols models.TiledDim, ok bool, err error) {
	if err := t.Check(m.c.Scale()); err != nil {
		return rows, cols, false, err
	}
	if err := m.checkLatent(r.Latent); err != nil {
		return rows, cols, false, err
	}
	scale := m.c.Scale()
	if scale*r.Latent[2] <= t.Height && scale*r.Latent[3] <= t.Width {
		return rows, cols, false, nil
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
	return models.TiledDim{Spans: spans(n, size/scale, stride/scale, 1), Keep: stride, Blend: size/patch - stride/patch, Group: patch, Size: scale * n}
}

// tilePixels cuts the pixels of n latents along a dim into tiles of size patches that lie stride
// patches apart.
func (m *Model) tilePixels(n, size, stride int) models.TiledDim {
	patch := m.c.Patch
	perLatent := m.c.Scale() / patch // patches
	return models.TiledDim{Spans: spans(n*perLatent, size, stride, patch), Keep: stride / perLatent, Blend: size/perLatent - stride/perLatent, Group: 1, Size: n}
}

// spans cuts n elements into ranges of size, each beginning stride after the one before, and
// gives them in units.
func spans(n, size, stride, unit int) [][2]int {
	var out [][2]int
	for at := 0; at < n; at += stride {
		out = append(out, [2]int{at * unit, min(at+size, n) * unit})
	}
	return out
}

// FinishTiled bounds pixels and logarithms of variances, which the programs of tiles leave as
// they are.
func (*Model) FinishTiled(output string, values []float32) {
	lo, hi := float32(-1), float32(1)
	switch output {
	case "encode", "encode_mean":
		return
	case "encode_logvar":
		lo, hi = leastLogvar, mostLogvar
	}
	for i, v := range values {
		values[i] = min(max(v, lo), hi)
	}
}
