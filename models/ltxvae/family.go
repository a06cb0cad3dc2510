// Package ltxvae holds the autoencoders of LTX-Video (0.9.0, 0.9.1 with its timestep and injected
// noise, and 0.9.5, which all later releases have) and of LTX-2. README.md says what is special
// about them and which splits are legal.
package ltxvae

import (
	"slices"

	"weft/internal/bystander"
	"weft/models"
	"weft/models/vae"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "ltx-vae",

		Detect: detectConfig, Config: configWords, Presets: released,

		Declare: declareModel,
	})
}

// Model is a configuration of the family.
type Model struct {
	c        Config
	pictures vae.Autoencoder
	params   paramTable
}

func newModel(name string, c Config) *Model {
	space, time := c.encoderScale()
	return &Model{c: c, params: newParams(c), pictures: vae.Autoencoder{Model: name, Channels: c.Latent, ChannelsKey: "latent_channels",
		Scale: space, FramesPerLatent: time, Latents: []string{vae.RawLatents}}}
}

// Params lists the parameters of encoder and decoder. It takes no notice of the number of
// layers, since none can be left out.
func (m *Model) Params(int) []models.Param { return slices.Clone(m.params.List) }

// declareModel says what a configuration has and does.
func declareModel(name string, c Config) models.Declaration {
	m := newModel(name, c)
	return models.Declaration{
		Params: m.Params, Official: m.Official, Ignore: []bystander.Kind{otherStatistics, timestepFactor},
		Rules: m.Rules, Check: m.pictures.Check,

		Inputs:  m.Inputs(),
		Request: m.pictures.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			CheckSplit: m.pictures.CheckSplit,
			Translate:  m.Translate,
			Variants:   m.Runs,
			Decoder:    m.decoder(),
			Tiled:      &models.Tiled{Tile: m.Tile, Finish: vae.BoundLogvar, Release: releasedTiles},
			Frames:     &models.FrameReader{Request: m.FrameRequest, FeedStatic: m.FeedStatic},
		},
	}
}

// decoder says what decoding reads. The statistics are among the weights.
func (m *Model) decoder() *models.Decoder {
	d := &models.Decoder{VideoShape: m.pictures.VideoShape, Statistics: &models.LatentStatistics{Mean: "latents_mean", Std: "latents_std", Scale: m.c.Scale}}
	if m.c.Timestep {
		d.Timestep = &models.DecodingTimestep{Timestep: 0.05, Scale: 0.025, Raw: vae.RawLatents, Source: "LTX-Video configs/, decode_timestep and decode_noise_scale"}
	}
	return d
}
