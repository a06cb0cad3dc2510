package vae

import "weft/models"

// NeedsTiles says whether pictures of latents (channels, frames, height, width) are larger than
// a tile. Error: ErrSize for sizes of tiles that the model cannot have.
func (a Autoencoder) NeedsTiles(latent []int, t models.Tiles) (bool, error) {
	if err := t.Check(a.Scale); err != nil {
		return false, err
	}
	if err := a.CheckLatent(latent); err != nil {
		return false, err
	}
	return a.Scale*latent[2] > t.Height || a.Scale*latent[3] > t.Width, nil
}

// Tile cuts a request into tiles whose sizes are counted in pixels, and blended one row at a time.
func (a Autoencoder) Tile(r models.Request, t models.Tiles) (rows, cols models.TiledDim, ok bool, err error) {
	if ok, err = a.NeedsTiles(r.Latent, t); err != nil || !ok {
		return rows, cols, false, err
	}
	cut := func(n, size, stride int) models.TiledDim {
		if r.Encode {
			return models.TiledDim{Spans: Spans(n*a.Scale, size, stride, 1), Keep: stride / a.Scale, Blend: (size - stride) / a.Scale, Group: 1, Size: n}
		}
		return models.TiledDim{Spans: Spans(n, size/a.Scale, stride/a.Scale, 1), Keep: stride, Blend: size - stride, Group: 1, Size: a.Scale * n}
	}
	return cut(r.Latent[2], t.Height, t.StrideHeight), cut(r.Latent[3], t.Width, t.StrideWidth), true, nil
}

// Spans cuts n elements into ranges of size, each beginning stride after the one before, and
// gives them in units.
func Spans(n, size, stride, unit int) [][2]int {
	var out [][2]int
	for at := 0; at < n; at += stride {
		out = append(out, [2]int{at * unit, min(at+size, n) * unit})
	}
	return out
}

// BoundLogvar bounds the logarithms of variances of a whole that was put together from tiles,
// whose programs leave them as they are. It leaves other outputs alone.
func BoundLogvar(output string, values []float32) {
	if output == "encode_logvar" {
		Bound(values, LeastLogvar, MostLogvar)
	}
}

// Bound replaces what lies beyond lo or hi by the bound.
func Bound(values []float32, lo, hi float32) {
	for i, v := range values {
		values[i] = min(max(v, lo), hi)
	}
}
