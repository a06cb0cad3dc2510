package weft

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/phases"
	"weft/tensor"
)

// VerifiedPhase compares the run of one model in a phase of a video with one device.
type VerifiedPhase struct {
	Name    string         `json:"name"` // text, image, denoise or decode
	Model   string         `json:"model"`
	Results []VerifyResult `json:"results"`
	Kernels []KernelResult `json:"kernels"`
}

// VerifyPhases is Verify for each phase of a video that the model has a part in: an autoencoder
// decodes latents and encodes an image's video, other models have one part. Autoencoders compute
// in f32, as they do for a video. Errors: those of Verify, each with its phase.
func (m *Model) VerifyPhases(ctx context.Context, o VerifyOptions) (*Verified, error) {
	return verifyPhases(ctx, []*Model{m}, o)
}

// Verify compares each phase of the release's videos with one device, as Model.VerifyPhases does.
// The sizes of the options are those of the video.
func (p *Pipeline) Verify(ctx context.Context, o VerifyOptions) (*Verified, error) {
	var all []*Model
	for _, match := range p.Models() {
		all = append(all, &Model{match})
	}
	return verifyPhases(ctx, all, o)
}

// verifyPhases verifies the parts of models, in the order of the phases.
func verifyPhases(ctx context.Context, all []*Model, o VerifyOptions) (*Verified, error) {
	latent, err := latentOfVideos(all, o)
	if err != nil {
		return nil, err
	}
	var first, step *Verified
	var list []VerifiedPhase
	for _, phase := range phases.Names() {
		for _, m := range all {
			if !slices.Contains(m.phases(), phase) || phase == phases.Image && !readImages(all) {
				continue
			}
			got, err := m.verifyPhase(ctx, phase, latent, o)
			if err != nil {
				return nil, inPhase(phase, m, err)
			}
			list = append(list, VerifiedPhase{Name: phase, Model: got.Model, Results: got.Results, Kernels: got.Kernels})
			if first == nil {
				first = got
			}
			if phase == phases.Denoise && step == nil {
				step = got
			}
		}
	}
	out := cmp.Or(step, first)
	out.Phases = list
	return out, nil
}

// readImages reports whether the model that denoises reads images. Without one among the models
// an image is any model's own.
func readImages(all []*Model) bool {
	i := slices.IndexFunc(all, func(m *Model) bool { return m.Features().Generator != nil })
	return i < 0 || all[i].Features().Generator.Image.ReadsImages()
}

// inPhase says in which phase each violation is.
func inPhase(phase string, m *Model, err error) error {
	var l fault.List
	for _, v := range fault.Violations(err) {
		l.Add(fmt.Errorf("phase %s, %s: %w", phase, m.Name(), v))
	}
	return l.Err()
}

// latentOfVideos gives the latents that the options name, or those of their sizes by the model
// that denoises; nil leaves them to each model.
func latentOfVideos(all []*Model, o VerifyOptions) ([]int, error) {
	i := slices.IndexFunc(all, func(m *Model) bool { return m.Features().Generator != nil })
	if i < 0 {
		return all[0].latentToVerify(o)
	}
	return all[i].latentToVerify(o)
}

// phases lists the phases that the model has a part in.
func (m *Model) phases() []string {
	f := m.Features()
	switch {
	case f.Generator != nil:
		return []string{phases.Denoise}
	case f.Vision != nil:
		return []string{phases.Image}
	case f.Decoder != nil && f.Frames != nil:
		return []string{phases.Image, phases.Decode}
	case f.Decoder != nil:
		return []string{phases.Decode}
	}
	return []string{phases.Text}
}

// verifyPhase verifies the model's part in a phase. What is asked of the denoiser's step is not
// asked of others.
func (m *Model) verifyPhase(ctx context.Context, phase string, latent []int, o VerifyOptions) (*Verified, error) {
	if phase == phases.Denoise {
		return m.Verify(ctx, o)
	}
	o.Width, o.Height, o.Frames, o.Latent = 0, 0, 0, nil
	o.FSDP, o.Micro, o.SplitResidual, o.TokenTimes = nil, 0, false, false
	if m.Features().Decoder == nil {
		if phase == phases.Image {
			o.TextLen = 0
		}
		return m.Verify(ctx, o)
	}
	o.TextLen, o.Layers, o.DType, o.Latent = 0, 0, phases.AutoencoderType, latent
	if phase == phases.Decode {
		return m.Verify(ctx, o)
	}
	o.Batch = cmp.Or(o.Batch, 2)
	video, err := m.exampleVideo(o.Batch, latent)
	if err != nil {
		return nil, err
	}
	return m.verifyInputs(ctx, map[string]*tensor.Tensor{"video": video}, o)
}

// exampleVideo makes videos (batch, 3, frames, height, width) of random pixels from -1 to 1,
// which an autoencoder encodes to latents of a shape, or to those of its example.
func (m *Model) exampleVideo(batch int, latent []int) (*tensor.Tensor, error) {
	if latent == nil {
		in, err := m.Example(batch, nil, 1)
		if err != nil {
			return nil, err
		}
		z := in["z"]
		if z == nil {
			return nil, fault.New(models.ErrInputs, nil, "%s has no example of latents", m.Name())
		}
		latent = z.Shape[1:]
	}
	shape, err := m.Features().Decoder.VideoShape(latent)
	if err != nil {
		return nil, err
	}
	shape = append([]int{batch}, shape...)
	g := rand.New(rand.NewPCG(1, 0))
	pixels := make([]float32, tensor.Elements(shape))
	for i := range pixels {
		pixels[i] = 2*g.Float32() - 1
	}
	return tensor.FromFloat32s(dtype.F32, pixels, shape...)
}
