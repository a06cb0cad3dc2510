// Package cosmos25 is the diffusion transformer of Cosmos-Predict2.5, 2B and 14B.
// README.md says what is special about it and which splits are legal.
package cosmos25

import (
	"weft/internal/bystander"
	"weft/models"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "cosmos2.5",

		Detect: detectConfig, Config: configWords, Derive: deriveAndCheck, Presets: presets,

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
	return models.Declaration{
		Params: m.Params, Official: diffusersNames.Official,
		// Released checkpoints carry tables of positions, although they can be computed.
		Ignore: []bystander.Kind{bystander.ComputedPosition},
		Rules:  m.Rules, Check: m.Check,

		Inputs:  []string{"x", "t", "t_frames", "context", "condition_mask", "padding_mask"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			CheckSplit: m.CheckSplit,
			Variants:   m.Runs,
			Generator: &models.Generator{
				LatentShape: m.LatentShape, FeedStep: m.FeedStep, FeedText: m.feedGeneratorText,
				Companions:     models.Companions{Text: "reason1-7b", Decoder: "wan2.1-vae"},
				ReleasedPreset: "cosmos2.5-2b", // both releases are run alike
				ReadsSigma:     true, GuidesFromText: true,
				Texts: texts, Image: c.imageUse(), FeedFrameTimes: m.FeedFrameTimes, FeedGivenFrames: m.FeedGivenFrames,
			},
		},
	}
}

// texts is how both releases read a prompt: Reason1's chat template around it, and all 512 rows
// attended to, those of padding as well.
var texts = []models.TextEncoding{{
	Prefix: "<|im_start|>system\nYou are a helpful assistant who will provide prompts to an image generator.<|im_end|>\n<|im_start|>user\n",
	Suffix: "<|im_end|>\n", NoSpecial: true, Pad: "<|endoftext|>",
	Output: "out", SampleStd: true, Feature: models.ContextFeature,
}}
