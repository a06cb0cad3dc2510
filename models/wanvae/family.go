// Package wanvae holds the causal video autoencoders of Wan2.1 and Wan2.2: the parameters of
// both halves, and the programs of the decoder, which turns latents into video one latent
// frame at a time. README.md says what is special about it and which splits are legal.
package wanvae

import (
	"weft/models"
	"weft/models/vae"
)

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
	c        Config
	pictures vae.Autoencoder
	params   vae.Params
}

// declareModel says what a configuration has and does. Releases contain no other tensors.
func declareModel(name string, c Config) models.Declaration {
	m := newModel(name, c)
	return models.Declaration{
		Params: m.Params, Official: m.params.OfficialName, Rules: m.Rules, Check: m.pictures.Check,

		Inputs:  m.pictures.Inputs(),
		Request: m.pictures.Request, Example: m.pictures.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			CheckSplit: m.pictures.CheckSplit,
			Variants:   m.pictures.Runs,
			Decoder:    &models.Decoder{VideoShape: m.pictures.VideoShape},
			Tiled:      &models.Tiled{Tile: m.Tile, Finish: m.FinishTiled, Release: models.ReleasedTiles},
			Frames:     &models.FrameReader{Request: m.pictures.FrameRequest, FeedStatic: m.FeedStatic},
		},
	}
}
