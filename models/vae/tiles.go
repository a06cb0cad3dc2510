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
