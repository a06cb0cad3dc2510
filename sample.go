package weft

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"weft/denoise"
	"weft/fault"
	"weft/models"
	"weft/plan"
	"weft/tensor"
)

// SampleOptions of Sample. What the request does not say is the release's own
// (models.SettingsOf); its size must be named.
type SampleOptions struct {
	Options
	// Conditions are what the model reads besides latents, time and text (for Wan
	// i2v y and clip_fea), the same in every step and for both texts; what a
	// models.Conditions has of one text is of Negative under "negative_" and its name.
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

// MarshalJSON writes what weft sample prints: the report, the steps and the settings.
// Latents are no part of it.
func (s *Sampled) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Report
		Steps    []SampleStep              `json:"steps"`
		Settings map[string]models.Setting `json:"settings"`
	}{s.Report, s.Steps, s.Settings})
}

// Sample denoises latents. text (batch, rows, dim), or (rows, dim), is the
// prompt's embedding, negative the one to be guided away from, nil for none. Beside the error
// ErrNonFinite of a step it gives what the steps before have made: the last good latents.
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
	settings := o.SettingsWithLoRA(m.Settings)
	o, err := o.onBestMesh(m, settings)
	if err != nil {
		return nil, err
	}
	d := newLoopDevices(o.Options, false)
	e := denoise.Expert{Model: m.Model, Devices: d.of(m), Second: m.IsSecondExpert()}
	return newDenoising(d, []denoise.Expert{e}, settings, text, negative, o)
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
	return denoise.Options{Request: o.Request, Noise: o.Noise, Conditions: o.Conditions, Kept: o.Kept, AllowNonFinite: o.AllowNonFinite, OutputBytes: o.OutputBytes}
}

// onBestMesh gives options in which a mesh of auto, for hardware that is named, is the best
// split for the video that is sampled.
func (o SampleOptions) onBestMesh(m *Model, settings models.Settings) (SampleOptions, error) {
	r := o.Request
	r.Frames = cmp.Or(r.Frames, settings.ForSize(fmt.Sprintf("%dx%d", r.Width, r.Height)).Count("frames"))
	best, err := plan.Best(context.Background(), m.Model, plan.Options{Request: r}) // planning takes a moment
	o.Mesh, o.FSDP, o.On = best.Mesh, best.FSDP, best.On
	return o, err
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
	if err != nil && !errors.Is(err, ErrNonFinite) {
		return nil, err
	}
	latents, e := d.VideoLatents()
	return &Sampled{Latents: latents, Steps: d.Steps(), Report: d.Report(), Settings: d.Settings()}, fault.Join(err, e)
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
