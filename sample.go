package weft

import (
	"context"

	"weft/denoise"
	"weft/models"
	"weft/tensor"
)

// SampleOptions of Sample.
type SampleOptions struct {
	Options
	Width, Height int
	// What follows is the release's own (models.SettingsOf) where it is zero.
	Frames           int
	FPS              float64 // frames a second, for models whose positions are seconds
	Steps            int
	Sampler          string // one of sampler.Names
	Shift            float64
	IntegerTimesteps bool
	// Guidance mixes the velocities with and without the text: uncond + Guidance
	// (cond - uncond). It is one scale, or one for each of two experts, first the one
	// that runs first. It needs a negative text; 1 is one pass without.
	Guidance []float64
	// Boundary is the share of the noise levels above which the first of two experts runs.
	Boundary float64
	// CFG is how the passes with and without the text run: models.CFGBatch, also as "",
	// makes them one batch, which dp=2 runs in parallel; models.CFGSequential runs one
	// after the other; models.CFGNone is the pass with the text alone.
	CFG string
	// Asked names settings that are asked for though they are zero, which is then refused.
	Asked []string
	Seed  uint64
	// Conditions are what the model reads besides latents, time and text (for Wan
	// i2v y and clip_fea), the same in every step and for both texts; what a
	// models.TextConditioned reads of one text is of Negative under "negative_" and its name.
	Conditions map[string]*tensor.Tensor
	// Kept are frames whose latents are given, for a model that keeps frames (Wan2.2
	// TI2V); nil for none.
	Kept *denoise.Kept
	// Noise are the latents to start from, in place of the seed's.
	Noise *tensor.Tensor
	// OnStep is called after each step.
	OnStep func(SampleStep)
}

// SampleStep reports one step.
type SampleStep = denoise.Step

// Sampled is the result of Sample.
type Sampled struct {
	Latents *tensor.Tensor // (batch, channels, frames, height, width), f32
	Steps   []SampleStep
	Report  Report
	// Settings are all that were taken, and from where.
	Settings map[string]models.Setting
}

// Sample denoises latents. text (batch, rows, dim), or (rows, dim), is the
// prompt's embedding, negative the one to be guided away from, nil for none.
func (m *Model) Sample(ctx context.Context, text, negative *tensor.Tensor, o SampleOptions) (*Sampled, error) {
	d, err := m.Denoise(text, negative, o)
	if err != nil {
		return nil, err
	}
	return d.sample(ctx, o.OnStep)
}

// Denoise prepares what Sample does, for a caller that takes the steps itself. Everything
// that is asked for is checked here, before any weight is read.
func (m *Model) Denoise(text, negative *tensor.Tensor, o SampleOptions) (*Denoising, error) {
	d := newLoopDevices(o.Options, false)
	e := denoise.Expert{Model: m.Model, Devices: d.of(m), Second: m.IsSecondExpert()}
	return newDenoising(d, []denoise.Expert{e}, m.Settings, text, negative, o)
}

// Denoising is a denoising loop with the devices that it runs on. Close frees them.
type Denoising struct {
	*denoise.Loop
	devices *loopDevices
}

func newDenoising(d *loopDevices, experts []denoise.Expert, settings models.Settings, text, negative *tensor.Tensor, o SampleOptions) (*Denoising, error) {
	l, err := denoise.New(experts, settings, text, negative, o.loopOptions())
	if err != nil {
		return nil, err
	}
	return &Denoising{Loop: l, devices: d}, nil
}

// loopOptions are the options of the loop, without those of the devices.
func (o SampleOptions) loopOptions() denoise.Options {
	return denoise.Options{
		Width: o.Width, Height: o.Height, Frames: o.Frames, FPS: o.FPS, TextLen: o.TextLen,
		Steps: o.Steps, Sampler: o.Sampler, Shift: o.Shift, IntegerTimesteps: o.IntegerTimesteps,
		Guidance: o.Guidance, Boundary: o.Boundary, CFG: o.CFG, Asked: o.Asked,
		Seed: o.Seed, Noise: o.Noise, Conditions: o.Conditions, Kept: o.Kept,
		AllowNonFinite: o.AllowNonFinite, OutputBytes: o.OutputBytes,
	}
}

// sample takes all steps and closes the loop.
func (d *Denoising) sample(ctx context.Context, onStep func(SampleStep)) (*Sampled, error) {
	defer d.Close()
	err := d.Run(ctx, func(s SampleStep) error {
		if onStep != nil {
			onStep(s)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	latents, err := d.VideoLatents()
	return &Sampled{Latents: latents, Steps: d.Steps(), Report: d.Report(), Settings: d.Settings()}, err
}

// Report returns the costs so far: the times of the steps taken, the weights read and the
// programs compiled for all experts, and the rest of the expert in use.
func (d *Denoising) Report() Report {
	r := d.devices.report()
	r.Notes = append(append(d.Notes(), r.Notes...), d.NonFiniteNotes()...)
	for i, s := range d.Steps() {
		if i == 0 {
			r.FirstSeconds, r.Seconds = s.Seconds, s.Seconds
		}
		r.Seconds = min(r.Seconds, s.Seconds)
	}
	return r
}

// Close frees the devices.
func (d *Denoising) Close() {
	d.Loop.Close()
	d.devices.close()
}
