package models

import "weft/fault"

// CheckLatent checks a latent video (channels, frames, height, width) against the
// channels a model reads and its patches.
func CheckLatent(latent []int, channels int, patch [3]int) error {
	if len(latent) != 4 {
		return fault.New(ErrInputs, nil, "latents of shape %v: want (channels, frames, height, width)", latent)
	}
	var l fault.List
	if latent[0] != channels {
		l.Add(fault.New(ErrInputs, nil, "latents of %d channels: the model reads %d", latent[0], channels))
	}
	for i, what := range []string{"frames", "height", "width"} {
		l.Add(CheckPatch("latent "+what, latent[i+1], patch[i]))
	}
	return l.Err()
}

// LatentShape is (channels, frames, height, width) of the latents of a video
// whose VAE makes one latent of px by px pixels and, behind the first frame, of
// every so many frames. The latents must fill the patches.
func LatentShape(width, height, frames, channels, px, every int, patch [3]int) ([]int, error) {
	var l fault.List
	for _, d := range []struct {
		what string
		n, s int
	}{{"height", height, px * patch[1]}, {"width", width, px * patch[2]}} {
		if d.n < 1 || d.n%d.s != 0 || d.n > 1<<16 {
			l.Add(fault.New(ErrSize, nil, "%s %d: want a multiple of %d (%d pixels a latent, patches of %d); nearest: %s", d.what, d.n, d.s, px, d.s/px, Nearest(d.n, d.s, 0)))
		}
	}
	if frames < 1 || (frames-1)%every != 0 || frames > 1<<16 {
		l.Add(fault.New(ErrSize, nil, "frames %d: want 1+%dk (the first frame stands alone, then %[2]d frames a latent); nearest: %s", frames, every, Nearest(frames, every, 1)))
	} else if n := 1 + (frames-1)/every; n%patch[0] != 0 {
		l.Add(fault.New(ErrSize, nil, "frames %d make %d latent frames, which do not fill patches of %d", frames, n, patch[0]))
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return []int{channels, 1 + (frames-1)/every, height / px, width / px}, nil
}
