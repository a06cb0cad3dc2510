// Package cogvae holds the causal video autoencoder of CogVideoX (2B, 5B and 1.5): the parameters
// of both halves, and the programs that decode latents to video and encode video to latents, a
// few frames at a time. README.md says what is special about it and which splits are legal.
package cogvae

import (
	"weft/models"
	"weft/models/vae"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "cogvideo-vae",

		Detect: detectConfig, Config: configWords, Presets: released,

		Declare: declareModel,
	})
}

// Model is a configuration of the family.
type Model struct {
	c        Config
	pictures vae.Autoencoder
	params   vae.Params
}

// declareModel says what a configuration has and does.
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
			Decoder:    &models.Decoder{VideoShape: m.pictures.VideoShape, Statistics: &models.LatentStatistics{Scale: c.encodeFactor()}},
			Tiled:      &models.Tiled{Tile: m.pictures.Tile, Finish: vae.BoundLogvar, Release: m.releasedTiles()},
			Frames:     &models.FrameReader{Request: m.pictures.FrameRequest, FeedStatic: m.FeedStatic},
		},
	}
}
