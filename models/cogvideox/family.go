// Package cogvideox is the diffusion transformer of CogVideoX 2B, 5B, 5B-I2V and
// CogVideoX-1.5 5B and 5B-I2V: one self-attention over text and video together.
// README.md says what is special about them and which splits are legal.
package cogvideox

import "weft/models"

func init() {
	models.Register(models.Family[Config]{
		Name: "cogvideox",

		Detect: detectConfig, Config: configWords,
		Presets: presets, SamePreset: samePreset, KindName: kindName,

		Declare: declareModel, Resolve: resolveVariant,
	})
}

// Model is a configuration of the family.
type Model struct {
	name string
	c    Config
}

// declareModel says what a configuration has and does. All publishers use diffusers' names.
func declareModel(name string, c Config) models.Declaration {
	m := &Model{name, c}
	return models.Declaration{
		Params: m.Params, Rules: m.Rules, Check: m.Check,

		Inputs:  []string{"x", "t", "text", "y", "ofs"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{Generator: &models.Generator{
			LatentShape: m.LatentShape, FeedStep: m.FeedStep, FeedText: m.FeedText, Velocity: m.Velocity,
			Conditions:     &models.Conditions{Names: m.Conditions(), Check: m.CheckConditions, Feed: m.FeedConditions},
			Image:          c.imageUse(),
			OnlySize:       c.onlySize(),
			Cuts:           c.cuts(),
			Companions:     models.Companions{Text: "t5-v1.1-xxl", Decoder: "cogvideox-vae"},
			ReleasedPreset: c.releasedPreset(),
			LatentOrder:    models.FramesFirst, Texts: c.texts(),
		}},
	}
}

// texts is how the releases read a prompt. Rows of padding are attended to, by the encoder and by
// the model.
func (c Config) texts() []models.TextEncoding {
	return []models.TextEncoding{{End: "</s>", Pad: "<pad>", Output: "out", Feature: models.ContextFeature}}
}

// releasedPreset names the release with the same positions and inputs.
func (c Config) releasedPreset() string {
	name := "cogvideox-2b"
	switch {
	case c.PatchT > 0:
		name = "cogvideox-1.5-5b"
	case c.Rotary:
		name = "cogvideox-5b"
	}
	if c.conditionDim() > 0 && name != "cogvideox-2b" {
		name += "-i2v"
	}
	return name
}
