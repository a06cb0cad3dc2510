// Package wanvae holds the causal video autoencoders of Wan2.1 and Wan2.2: the parameters of
// both halves, and the programs of the decoder, which turns latents into video one latent
// frame at a time. README.md says what is special about it and which splits are legal.
package wanvae

import "weft/models"

func init() {
	models.Register(models.Family[Config]{
		Name: "wan-vae",

		Detect: detectConfig, Config: configWords, Presets: released,
		FromShapes: configOfShapes,

		Declare: declareModel,
	})
}

// Model is a configuration of the family.
type Model struct {
	name     string
	c        Config
	params   []models.Param
	official map[string]string // by diffusers' name
}

// declareModel says what a configuration has and does. Releases contain no other tensors.
func declareModel(name string, c Config) models.Declaration {
	m := newModel(name, c)
	return models.Declaration{
		Params: m.Params, Official: m.Official, Rules: m.Rules, Check: m.Check,

		Inputs:  []string{"z", "video"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			CheckSplit: m.CheckSplit,
			Variants:   m.Runs,
			Decoder:    &models.Decoder{VideoShape: m.VideoShape},
			Tiled:      &models.Tiled{Tile: m.Tile, Finish: m.FinishTiled},
			Frames:     &models.FrameReader{Request: m.FrameRequest, FeedStatic: m.FeedStatic},
		},
	}
}
