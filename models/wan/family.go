// Package wan is the diffusion transformer of Wan2.1 (text-to-video,
// image-to-video and first-and-last-frame-to-video with a CLIP branch, and VACE with
// a control video) and Wan2.2 (TI2V with a timestep for every token, and either
// expert of A14B). README.md says what is special about them
// and which splits are legal.
package wan

import (
	"weft/internal/bystander"
	"weft/models"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "wan",

		Detect: detectConfig, Config: configWords, Derive: deriveAndCheck,
		Presets: presets, SamePreset: samePreset, KindName: kindName,

		Declare: declareModel, Resolve: resolveVariant,
	})
}

// Model is a configuration of the family.
type Model struct {
	name string
	c    Config
}

// declareModel says what a configuration has and does.
func declareModel(name string, c Config) models.Declaration {
	m := &Model{name, c}
	d := models.Declaration{
		Params: m.Params, Official: diffusersNames.Official, Rules: m.Rules, Check: m.Check,
		Ignore: []bystander.Kind{bystander.RepackName},

		Inputs:  []string{"x", "t", "t_tokens", "context", "y", "clip_fea", nameOfControl, nameOfScale},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			CheckSplit: m.CheckSplit,
			Variants:   m.Runs,
			Generator: &models.Generator{
				LatentShape: m.LatentShape, FeedStep: m.FeedStep, FeedText: m.FeedText,
				// diffusers' configurations leave the length of texts open. It matters, because
				// the model attends to the zeros that pad a text.
				PadsText:   c.TextLen == 0,
				Conditions: &models.Conditions{Names: m.Conditions(), Optional: m.optionalConditions(), Check: m.CheckConditions, Feed: m.FeedConditions},
				Image:      c.imageUse(),
				Control:    c.controlUse(),
				Companions: c.companions(), ReleasedPreset: c.releasedPreset(),
				Texts: texts,
			},
		},
	}
	if c.keepsFrames() {
		d.Generator.FeedFrameTimes = m.FeedFrameTimes
	}
	return d
}

// companions names UMT5 and the autoencoder that makes the model's latents.
func (c Config) companions() models.Companions {
	if c.ModelType == ti2v {
		return models.Companions{Text: "umt5-xxl", Decoder: "wan2.2-vae"}
	}
	return models.Companions{Text: "umt5-xxl", Decoder: "wan2.1-vae"}
}

// texts is how all releases read a prompt: the rows behind its end become zeros, and the model
// attends to them.
var texts = []models.TextEncoding{{
	Clean: models.CleanWan, End: "</s>", Pad: "<pad>", Masked: true, Output: "out_zeroed_pads", Feature: models.ContextFeature,
}}

// releasedPreset names the preset of the same kind, for a configuration that is no preset.
func (c Config) releasedPreset() string {
	switch {
	case c.ModelType == ti2v:
		return "wan2.2-ti2v-5b"
	case c.ModelType == i2v && c.ImageDim == 0:
		return "wan2.2-i2v-a14b"
	case c.ModelType == i2v:
		return "wan2.1-i2v-14b"
	case c.ModelType == flf2v:
		return "wan2.1-flf2v-14b"
	case c.ModelType == vace:
		return "wan2.1-vace-14b"
	}
	return "wan2.1-t2v-14b"
}
