package conditions

import (
	"maps"

	"weft/denoise"
	"weft/tensor"
)

// Features are what the denoising loop reads of the images.
type Features struct {
	// Conditions are denoise.Options' own: "y" (batch, mask and latent channels, frames, height,
	// width), in the order of the generator's latents, "clip_fea" (batch, rows, width) and "ofs"
	// (batch), as far as the generator reads them.
	Conditions map[string]*tensor.Tensor
	// Kept is denoise.Options' own; nil for a generator that keeps no frame.
	Kept *denoise.Kept
	// Notes say what of the images is distorted, cut off or added.
	Notes []string
}

// The names of the features, in files as well. NameOfKept are the latents that Kept has.
const (
	NameOfY        = "y"
	NameOfFeatures = "clip_fea"
	NameOfKept     = "kept"
	NameOfOffset   = "ofs"
)

// Tensors are the features by their names, for a file.
func (f *Features) Tensors() map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for name, t := range f.Conditions {
		out[name] = t
	}
	if f.Kept != nil {
		out[NameOfKept] = f.Kept.Latents
	}
	return out
}

// keepFirst are latents that a video begins with.
func keepFirst(latents *tensor.Tensor) *denoise.Kept {
	k := &denoise.Kept{Latents: latents}
	for i := range latents.Shape[min(2, len(latents.Shape)-1)] {
		k.Frames = append(k.Frames, i)
	}
	return k
}

// FromTensors are the features of tensors by their names: the latents "kept" (batch, channels,
// frames, height, width) are those of the first latent frames, and all others are conditions.
func FromTensors(ts map[string]*tensor.Tensor) *Features {
	f := &Features{Conditions: maps.Clone(ts)}
	if kept := ts[NameOfKept]; kept != nil {
		delete(f.Conditions, NameOfKept)
		f.Kept = keepFirst(kept)
	}
	return f
}
