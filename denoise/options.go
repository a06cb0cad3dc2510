package denoise

import (
	"fmt"
	"slices"

	"weft/models"
	"weft/request"
	"weft/tensor"
)

// Options of a loop.
type Options struct {
	// Request has what is asked: of the video its sizes, frames and rate, the rows of its
	// text, and how it is denoised. What it does not say is the release's own
	// (models.SettingsOf); its size must be named. Devices read the rest of it.
	request.Request
	// Conditions are what the model reads besides latents, time and text (for Wan
	// i2v y and clip_fea), the same in every step and for both texts; what a
	// models.Conditions has of one text is of Negative under "negative_" and its name.
	Conditions map[string]*tensor.Tensor
	// Kept are frames whose latents are given, for a model that keeps frames (Wan2.2
	// TI2V); nil for none.
	Kept *Kept
	// Noise are the latents to start from, in place of the seed's.
	Noise *tensor.Tensor
	// Draws are the draws of noise that steps use, in place of the seed's, in the latents' shape
	// and by their names: "noise." and the number that sampler.StepDraw gives, or for given frames that
	// get noise the step's. What is not among
	// them comes from the seed, which a note says where Draws is not nil.
	Draws map[string]*tensor.Tensor
	// OnlyCheck makes a loop that was checked and takes no steps: its latents, which take longest,
	// are not made.
	OnlyCheck bool
	// FirstDraw is the number of the first of them: 1 where a release's pipeline draws the latents
	// in the same sequence.
	FirstDraw int
	// AllowNonFinite lets NaN and infinities pass, in inputs and in latents. Without it
	// they end the loop with nonfinite.Err.
	AllowNonFinite bool
	// OutputBytes, where set, is told how many bytes the latents have, and 0, before any
	// weight is read. Its error ends the loop: there may be no room for them.
	OutputBytes func(outputs, values int64) error
}

// askedSettings returns the settings that the options ask for.
func (o Options) askedSettings() models.Said {
	v := map[string]any{}
	set := func(name string, given bool, value any) {
		if given || slices.Contains(o.Asked, name) {
			v[name] = value
		}
	}
	set("sampler", o.Sampler != "", o.Sampler)
	set("shift", o.Shift != 0, o.Shift)
	set("guidance", len(o.Guidance) > 0, o.Guidance)
	set("steps", o.Steps != 0, o.Steps)
	set("boundary", o.Boundary != 0, o.Boundary)
	set("frames", o.Frames != 0, o.Frames)
	set("fps", o.FPS != 0, o.FPS)
	set("size", true, o.sizeText())
	set("cfg", o.CFG != "", o.CFG)
	set("integer_timesteps", o.IntegerTimesteps, o.IntegerTimesteps)
	set("text_len", o.TextLen > 0, o.TextLen)
	return models.Said{From: models.FromFlag, Values: v}
}

func (o Options) sizeText() string { return fmt.Sprintf("%dx%d", o.Width, o.Height) }
