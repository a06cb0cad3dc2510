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
				return nil, nameCause("phase "+phase+", "+m.Name(), err)
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

// nameCause says before each violation what it is about.
func nameCause(what string, err error) error {
	var l fault.List
	for _, v := range fault.Violations(err) {
		l.Add(fmt.Errorf("%s: %w", what, v))
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
	case m.encodesVideos():
		return []string{phases.Image, phases.Decode}
	case f.Decoder != nil:
		return []string{phases.Decode}
	}
	return []string{phases.Text}
}

// verifyPhase verifies the model's part in a phase, on the inputs that a video gives it. What is
// asked of the denoiser's step is not asked of others.
func (m *Model) verifyPhase(ctx context.Context, phase string, latent []int, o VerifyOptions) (*Verified, error) {
	if phase == phases.Denoise {
		return m.Verify(ctx, o)
	}
	o.Batch = cmp.Or(o.Batch, 2)
	o.Width, o.Height, o.Frames, o.Latent = 0, 0, 0, nil
	o.LoRA, o.FSDP, o.Micro, o.SplitResidual, o.TokenTimes = nil, nil, 0, false, false
	if m.Features().Decoder != nil {
		o.TextLen, o.Layers, o.DType = 0, 0, phases.AutoencoderType
	} else if phase == phases.Image {
		o.TextLen = 0
	}
	inputs, err := m.phaseInputs(ctx, phase, latent, o)
	if err != nil {
		return nil, err
	}
	return m.verifyInputs(ctx, inputs, o)
}

// phaseInputs makes random inputs as a phase beside denoising gives them: latents to decode, a
// video to encode, pixels, or a text. A text encoder gets the rows of its table that the tokens
// look up where it does without the table itself.
func (m *Model) phaseInputs(ctx context.Context, phase string, latent []int, o VerifyOptions) (map[string]*tensor.Tensor, error) {
	decoder := m.Features().Decoder != nil
	if decoder && phase == phases.Image {
		video, err := m.exampleVideo(o.Batch, latent)
		return map[string]*tensor.Tensor{"video": video}, err
	}
	if !decoder {
		latent = nil
	}
	inputs, err := m.Example(o.Batch, latent, 1)
	if err != nil || m.Features().TokenTable == "" {
		return inputs, err
	}
	rows, err := m.lookUpTokens(ctx, inputs["ids"], o.ComputeType())
	if err != nil {
		return nil, err
	}
	delete(inputs, "ids")
	inputs["rows"] = rows
	return inputs, nil
}

// lookUpTokens reads the rows of the token table that ids (batch, tokens) stand for, as (batch,
// tokens, width).
func (m *Model) lookUpTokens(ctx context.Context, ids *tensor.Tensor, as dtype.DType) (*tensor.Tensor, error) {
	numbers, err := ids.Int64s()
	if err != nil {
		return nil, err
	}
	list := make([]int, len(numbers))
	for i, id := range numbers {
		list[i] = int(id)
	}
	rows, _, err := m.ReadTokenRows(ctx, list, as)
	if err != nil {
		return nil, err
	}
	rows.Shape = append(slices.Clone(ids.Shape), rows.Shape[1])
	return rows, nil
}

// encodableShape is (batch, 3, frames, height, width) of the longest videos that are encoded to at
// most as many frames as latents have.
func (m *Model) encodableShape(batch int, latent []int) ([]int, error) {
	for {
		shape, err := m.Features().Decoder.VideoShape(latent)
		if err != nil {
			return nil, err
		}
		shape = append([]int{batch}, shape...)
		if _, err = m.Features().Frames.Request("video", shape); err == nil || latent[1] == 1 {
			return shape, err
		}
		latent[1]--
	}
}

// exampleVideo makes videos (batch, 3, frames, height, width) of random pixels from -1 to 1,
// which an autoencoder encodes to latents of a shape, or to those of its example. Where no video is
// encoded to as many latent frames, because several decode to frames that begin none, it is the
// longest that is.
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
	shape, err := m.encodableShape(batch, slices.Clone(latent))
	if err != nil {
		return nil, err
	}
	g := rand.New(rand.NewPCG(1, 0))
	pixels := make([]float32, tensor.Elements(shape))
	for i := range pixels {
		pixels[i] = 2*g.Float32() - 1
	}
	return tensor.FromFloat32s(dtype.F32, pixels, shape...)
}
