package models

import (
	"fmt"
	"slices"

	"weft/fault"
	"weft/internal/numbers"
)

// maxSize bounds pixels and frames. A larger number is mistyped, and counts of
// positions would overflow.
const maxSize = 1 << 16

// SizeRefused are the fields of ErrSize for a video's width, height or frames.
type SizeRefused struct {
	What    string `json:"what"`
	Size    int    `json:"size"`
	Nearest []int  `json:"nearest"`
}

// Choice returns the dim, and the nearest sizes to the refused one.
func (f SizeRefused) Choice() (string, []int) { return f.What, f.Nearest }

// WithLegal returns the fields with other sizes.
func (f SizeRefused) WithLegal(legal []int) fault.Choices {
	f.Nearest = legal
	return f
}

// Advice names the sizes.
func (f SizeRefused) Advice() string {
	switch len(f.Nearest) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("nearest: %d", f.Nearest[0])
	}
	return fmt.Sprintf("nearest: %d or %d", f.Nearest[0], f.Nearest[1])
}

// nearestSizes returns the sizes of the form first + k*step on both sides of n, up to
// maxSize.
func nearestSizes(n, step, first int) []int {
	low := first
	if n > first {
		low += (min(n, maxSize) - first) / step * step
	}
	if n < first || low+step > maxSize {
		return []int{low}
	}
	return []int{low, low + step}
}

// MaxPositions bounds the latent positions of a step, because counts of bytes and
// operations overflow beyond it. It is 200 times those of 720p at 81 frames.
const MaxPositions = 1 << 26

// Positions counts the positions of batch latent videos (channels, frames, height, width).
func Positions(batch int, latent []int) int {
	return batch * numbers.Product(latent[1:])
}

// VideoLatents returns a model's LatentShape for a batch of videos. Where the model
// refuses several sizes, the error suggests only those that it accepts together.
func VideoLatents(g *Generator, batch, width, height, frames int) ([]int, error) {
	latent, err := g.LatentShape(width, height, frames)
	if err == nil {
		return latent, nil
	}
	sizes := map[string][]int{"width": {width}, "height": {height}, "frames": {frames}}
	for _, v := range fault.Violations(err) {
		if _, c := choicesOf(v); c != nil {
			what, legal := c.Choice()
			sizes[what] = legal
		}
	}
	works := map[string]map[int]bool{"width": {}, "height": {}, "frames": {}}
	for _, w := range sizes["width"] {
		for _, h := range sizes["height"] {
			for _, f := range sizes["frames"] {
				if latent, err := g.LatentShape(w, h, f); err == nil && Positions(batch, latent) <= MaxPositions {
					works["width"][w], works["height"][h], works["frames"][f] = true, true, true
				}
			}
		}
	}
	list := slices.Clone(fault.Violations(err))
	for i, v := range list {
		if _, c := choicesOf(v); c != nil {
			what, _ := c.Choice()
			list[i] = AdviseNumber(v, func(n int) bool { return works[what][n] })
		}
	}
	return nil, fault.Join(list...)
}

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

// LatentShape returns (channels, frames, height, width) of a video's latents. The VAE
// makes one latent of px by px pixels; in time, it makes one of the first frame and
// then one of each every frames. The latents must fill the patches.
func LatentShape(width, height, frames, channels, px, every int, patch [3]int) ([]int, error) {
	var l fault.List
	for _, d := range []struct {
		what string
		n, s int
	}{{"height", height, px * patch[1]}, {"width", width, px * patch[2]}} {
		if d.n < 1 || d.n%d.s != 0 || d.n > maxSize {
			l.Add(fault.NewChoice(ErrSize, SizeRefused{d.what, d.n, nearestSizes(d.n, d.s, d.s)}, "%s %d: want a multiple of %d (%d pixels a latent, patches of %d), at most %d", d.what, d.n, d.s, px, d.s/px, maxSize))
		}
	}
	first, step := 1+(patch[0]-1)*every, patch[0]*every
	if frames < 1 || (frames-first)%step != 0 || frames > maxSize {
		rule := fmt.Sprintf("%d+%dk (the first frame stands alone, then %d frames a latent", first, step, every)
		if patch[0] > 1 {
			rule += fmt.Sprintf(", and patches of %d latent frames", patch[0])
		}
		l.Add(fault.NewChoice(ErrSize, SizeRefused{"frames", frames, nearestSizes(frames, step, first)}, "frames %d: want %s), at most %d", frames, rule, maxSize))
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return []int{channels, 1 + (frames-1)/every, height / px, width / px}, nil
}

// largestStep bounds the search for steps of sizes. No autoencoder and patches together make more
// of one token.
const largestStep = 1024

// SizeSteps finds by trial, from a video that the generator makes, by how much its width, its
// height and its number of frames grow to the next ones that it makes. A step is 0 where there is
// none.
func (g *Generator) SizeSteps(width, height, frames int) (widthStep, heightStep, frameStep int) {
	step := func(grown func(n int) (width, height, frames int)) int {
		for n := 1; n <= largestStep; n++ {
			if _, err := g.LatentShape(grown(n)); err == nil {
				return n
			}
		}
		return 0
	}
	widthStep = step(func(n int) (int, int, int) { return width + n, height, frames })
	heightStep = step(func(n int) (int, int, int) { return width, height + n, frames })
	frameStep = step(func(n int) (int, int, int) { return width, height, frames + n })
	return widthStep, heightStep, frameStep
}
