// Package cosmos3 is the two-stream transformer of Cosmos3, Nano and Edge, as a
// generator of video: text ids and latents in, velocity out. README.md says what
// is special about it and which splits are legal.
package cosmos3

import (
	"weft/internal/bystander"
	"weft/models"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "cosmos3",

		Detect: detectConfig, Config: configWords, Presets: presets,

		Declare: declareModel,
	})
}

// Model is a configuration of the family.
type Model struct {
	name string
	c    Config
}

// declareModel says what a configuration has and does. All publishers use the same names.
func declareModel(name string, c Config) models.Declaration {
	m := &Model{name, c}
	return models.Declaration{
		Params: m.Params,
		// What checkpoints carry for other uses: to predict the next token, actions and sound.
		Ignore: []bystander.Kind{bystander.NextToken, bystander.TextNorm, bystander.Actions, bystander.Sound},
		Rules:  m.Rules, Check: m.Check,

		Inputs:  []string{"x", "t", "ids", "mask", "noisy_mask", firstGiven, "und_position_ids", "gen_position_ids"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			CheckSplit: m.CheckSplit,
			Variants:   m.Runs,
			Generator: &models.Generator{
				LatentShape: m.LatentShape, FeedStep: m.FeedStep, FeedText: m.FeedText,
				ReadsTokens: true, Vocabulary: c.Vocab, Texts: c.texts(),
				ReadsRate:      true,
				FeedFrameTimes: m.FeedFrameTimes, FeedGivenFrames: m.FeedGivenFrames,
				Image:          c.imageUse(),
				LeftOut:        "what else it makes, sound and actions, is not made",
				Companions:     models.Companions{Decoder: "wan2.2-vae"},
				ReleasedPreset: c.releasedPreset(),
			},
		},
	}
}

// releasedPreset names Edge for a model with Edge's activation, and otherwise Nano.
func (c Config) releasedPreset() string {
	if c.Act == relu2 {
		return "cosmos3-edge"
	}
	return "cosmos3-nano"
}
