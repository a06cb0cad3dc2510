package weft

import (
	"context"
	"errors"

	"weft/denoise"
	"weft/fault"
	"weft/identify"
	"weft/models"
	"weft/tensor"
)

// Experts are two models of one kind that divide the noise levels between them, as in
// Wan2.2's A14B: High denoises from pure noise down to the boundary, Low from there.
// Only the weights of the expert in use are on the devices.
type Experts struct {
	High, Low *Model
	// Settings are how the release that the folder points to is run.
	Settings models.Settings
}

// Sampling can denoise latents: it is a Model or Experts.
type Sampling interface {
	Sample(ctx context.Context, text, negative *tensor.Tensor, o SampleOptions) (*Sampled, error)
	// Denoise prepares the same for a caller that takes the steps itself.
	Denoise(text, negative *tensor.Tensor, o SampleOptions) (*Denoising, error)
	// Files are the files that it is read from.
	Files() []string
	Close() error
}

// OpenSampling opens the model at path, or both where the folder holds two
// experts in high_noise_model and low_noise_model, or transformer and
// transformer_2. Errors are those of Open, each expert's.
//
// release names whose settings are taken, as models.ReleaseQuery has it; "" is the
// one that the folder points to.
func OpenSampling(path, release string) (Sampling, error) {
	high, low, two := identify.FindExperts(path)
	if !two {
		return OpenAs(path, release)
	}
	e := &Experts{}
	var errs [2]error
	e.High, errs[0] = OpenAs(high, release)
	e.Low, errs[1] = OpenAs(low, release)
	if errors.Is(errs[0], models.ErrRelease) {
		errs[1] = nil // the error is the same for both
	}
	err := fault.Join(errs[0], errs[1])
	if err == nil {
		e.Settings, err = identify.CheckExperts(e.High.Match, e.Low.Match, path, release)
	}
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// Files are both experts' files.
func (e *Experts) Files() []string { return append(e.High.Files(), e.Low.Files()...) }

// Close closes both checkpoints.
func (e *Experts) Close() error {
	var err error
	for _, m := range []*Model{e.High, e.Low} {
		if m != nil {
			err = fault.Join(err, m.Close())
		}
	}
	return err
}

// Sample is Model.Sample with the expert of each step's timestep.
func (e *Experts) Sample(ctx context.Context, text, negative *tensor.Tensor, o SampleOptions) (*Sampled, error) {
	d, err := e.Denoise(text, negative, o)
	if err != nil {
		return nil, err
	}
	return d.sample(ctx, o.OnStep)
}

// Denoise is Model.Denoise with the expert of each step's timestep.
func (e *Experts) Denoise(text, negative *tensor.Tensor, o SampleOptions) (*Denoising, error) {
	settings := o.SettingsWithLoRA(e.Settings)
	o, err := o.onBestMesh(e.High, settings)
	if err != nil {
		return nil, err
	}
	d := newLoopDevices(o.Options, true)
	experts := []denoise.Expert{{Name: "high noise", Model: e.High.Model, Devices: d.of(e.High)}, {Name: "low noise", Model: e.Low.Model, Devices: d.of(e.Low)}}
	return newDenoising(d, experts, settings, text, negative, o)
}
