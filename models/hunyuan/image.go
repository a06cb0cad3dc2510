package hunyuan

import (
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/spmd"
	"weft/tensor"
)

// How HunyuanVideo-I2V reads an image.
const (
	// latentConcat embeds the image's latents and a channel that marks the first frame beside
	// the video's.
	latentConcat = "latent_concat"
	// tokenReplace puts the image's latents in the place of the first frame's. The tokens of this
	// frame are modulated as those of timestep 0 without guidance.
	tokenReplace = "token_replace"
)

// noiseShare is the share of noise in HunyuanVideo-I2V's latents at the start. The rest is the
// image's latents, the same in every frame.
const noiseShare = 0.999

// imageRows is how many rows of an image HunyuanVideo-1.5 reads in a release.
const imageRows = 729

// pixels is how many pixels a latent is wide and high.
func (c Config) pixels() int {
	if c.Glyphs {
		return 16
	}
	return 8
}

// imageUse is what the model reads of the image that a video begins with.
func (c Config) imageUse() models.ImageUse {
	u := models.ImageUse{Needed: true, StepWidth: c.pixels() * c.Patch[2], StepHeight: c.pixels() * c.Patch[1]}
	switch {
	case c.Glyphs && c.Task == taskImage:
		u.LatentChannels, u.MaskChannels, u.Alone, u.MaskBehind = c.In, 1, true, true
		u.FeatureWidth, u.Vision, u.FeatureName, u.SizeBase = c.VisionDim, "siglip-so400m-384", "vision", c.SizeBase
	case c.ImageCondition == latentConcat:
		u.LatentChannels, u.MaskChannels, u.Alone, u.MaskBehind, u.NoiseShare = c.In, 1, true, true, noiseShare
	case c.ImageCondition == tokenReplace:
		u.KeepsFirst, u.NoiseShare = true, noiseShare
	default:
		return models.ImageUse{}
	}
	return u
}

// The words of a release's name that say what its videos are made of.
const (
	taskText  = "t2v"
	taskImage = "i2v"
)

// asRelease takes from a release of HunyuanVideo-1.5 whether it makes videos of an image, unless
// the configuration says it: all of its releases have the same tensors.
func asRelease(c Config, s models.Settings) (Config, error) {
	if c.Glyphs && c.Task == "" && s.Known {
		for _, task := range []string{taskText, taskImage} {
			if strings.Contains(s.Release.Name, "-"+task) {
				c.Task = task
			}
		}
	}
	return c, nil
}

// cuts are the frames of the first latent frame, the image's own copy, that a video with the
// image's latents beside its own is shown without.
func (c Config) cuts() *models.Cuts {
	if c.ImageCondition != latentConcat {
		return nil
	}
	return &models.Cuts{Frames: framesPerLatent}
}

// framesPerLatent is how many frames a latent frame stands for; the first one is a single frame.
const framesPerLatent = 4

// replacesTokens says whether a request's first frame is an image's.
func (m *Model) replacesTokens(r models.Request) bool {
	return m.c.ImageCondition == tokenReplace && r.TokenTimes
}

// timesOfTokens are the rows of the time path's values where an image's tokens are replaced: that of
// the step's timestep and that of timestep 0.
const timesOfTokens = 2

// declareGivenFrames declares the inputs of given frames: which of the two timesteps each
// token has, and the sinusoids of timestep 0.
func (s *build) declareGivenFrames() {
	l, b := s.layout, s.r.Batch
	s.Input(graph.Input{Name: "time_of", DType: dtype.F32, Shape: []int{b, l.Padded, timesOfTokens}, Spec: l.Stream, Step: true})
	s.Input(graph.Input{Name: "time_given", DType: dtype.F32, Shape: []int{b, timeWidth}, Spec: l.Batch, Step: true})
	s.Value("vec_given", step.Value{DType: dtype.F32, Shape: []int{b, s.c.Dim}, Spec: l.Batch})
}

// buildGivenVec embeds what modulates the tokens of given frames: timestep 0 and the pooled text,
// without guidance.
func (s *build) buildGivenVec(p *programBuilder, pooled spmd.Tensor) {
	p.Output("vec_given", p.Add(p.embedSines("time_in", p.Value("time_given")), pooled), "")
}

// videoModulations returns the modulations of the video's tokens: those of mod, or where frames are
// given, for each token that of its own timestep.
func (p *programBuilder) videoModulations(mod func(k, i int) spmd.Tensor, name string) func(i int) spmd.Tensor {
	if !p.s.replaced {
		return func(i int) spmd.Tensor { return mod(0, i) }
	}
	given := p.Modulations(p.Value("vec_given"), p.s.c.Dim, p.s.layout.Batch, name)
	return func(i int) spmd.Tensor { return p.OfTokens(p.Concat(1, mod(0, i), given(0, i))) }
}

// feedGivenFrames makes the inputs that declareGivenFrames declares; given says which frames are.
func (m *Model) feedGivenFrames(g *graph.Graph, r models.Request, given func(frame int) bool, to map[string]*tensor.Tensor) {
	of := tensor.New(dtype.F32, g.Input("time_of").Shape...)
	grid := step.GridOf(r.Latent, m.c.Patch)
	each := grid.Rows * grid.Cols
	for b := range r.Batch {
		for token := range grid.Tokens() {
			row := 0
			if given(token / each) {
				row = 1
			}
			step.Put(of, (b*of.Shape[1]+token)*timesOfTokens+row, 1)
		}
	}
	to["time_of"] = of
	to["time_given"] = step.TimeTable(make([]float32, r.Batch), r.Batch, timeWidth)
}

// feedTimes makes the inputs of the time path from timesteps (B,). Where an image's tokens are
// replaced, they are those of the first frame.
func (m *Model) feedTimes(g *graph.Graph, r models.Request, ts []float32, to map[string]*tensor.Tensor) {
	step.FeedTimes(g, models.Request{Batch: r.Batch}, ts, to)
	if m.replacesTokens(r) {
		m.feedGivenFrames(g, r, func(frame int) bool { return frame == 0 }, to)
	}
}

// FeedFrameTimes makes the inputs that change from step to step, with a timestep for each latent
// frame: 0 for those that are given, and one other.
func (m *Model) FeedFrameTimes(g *graph.Graph, r models.Request, x *tensor.Tensor, times []float64) (map[string]*tensor.Tensor, error) {
	t := 0.0
	for _, of := range times {
		if t = max(t, of); of != 0 && of != t {
			return nil, fault.New(models.ErrInputs, nil, "timesteps %v: want 0 for given frames and one other", times)
		}
	}
	if len(times) != r.Latent[1] {
		return nil, fault.New(models.ErrInputs, nil, "%d timesteps: want one for each of %d frames", len(times), r.Latent[1])
	}
	in, err := m.FeedStep(r, x, t)
	if err != nil {
		return nil, err
	}
	m.feedGivenFrames(g, r, func(frame int) bool { return times[frame] == 0 }, in)
	return in, nil
}
