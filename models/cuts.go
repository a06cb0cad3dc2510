package models

import (
	"slices"

	"weft/fault"
)

// Cuts says what of a generator's latents and of their frames is no part of the video.
type Cuts struct {
	// Surplus is how many of the first latent frames of a video of so many frames only fill up
	// patches: they are denoised like the others, and the others are decoded. It is nil for none.
	Surplus func(frames int) int
	// Frames is how many of the first frames that the autoencoder makes are left out.
	Frames int
}

// DecodedLatents is the shape of those latents (channels, frames, height, width) of a video of
// so many frames that are decoded: without the surplus.
func (g *Generator) DecodedLatents(latent []int, frames int) []int {
	if g.Cuts == nil || g.Cuts.Surplus == nil || len(latent) != 4 {
		return latent
	}
	out := slices.Clone(latent)
	out[1] -= g.Cuts.Surplus(frames)
	return out
}

// ShownFrames is how many frames of a video there are of so many that the autoencoder makes.
func (g *Generator) ShownFrames(decoded int) int {
	if g.Cuts == nil {
		return decoded
	}
	return decoded - g.Cuts.Frames
}

// maxSurplus bounds the search for the latent frames that fill up patches: no patch has more.
const maxSurplus = 8

// FramesOf is how many frames the video of latents (channels, frames, height, width) has, and
// how many of its first latent frames are surplus. decode is VideoShape of its autoencoder.
// Error: ErrSize for latents that the generator makes of no number of frames, and those of decode.
func (g *Generator) FramesOf(latent []int, decode func(latent []int) ([]int, error)) (frames, surplus int, err error) {
	if g.Cuts == nil {
		shape, err := decode(latent)
		if err != nil {
			return 0, 0, err
		}
		return shape[1], 0, nil
	}
	for surplus := range min(maxSurplus, latent[1]) {
		decoded := slices.Clone(latent)
		decoded[1] -= surplus
		shape, err := decode(decoded)
		if err != nil {
			return 0, 0, err
		}
		frames := g.ShownFrames(shape[1])
		own, err := g.LatentShape(shape[3], shape[2], frames)
		if err == nil && slices.Equal(own, latent) && slices.Equal(g.DecodedLatents(own, frames), decoded) {
			return frames, surplus, nil
		}
	}
	return 0, 0, fault.New(ErrSize, nil, "latents of %d frames: %s makes them of no number of frames that its autoencoder decodes", latent[1], g.Name())
}
