// Package hunyuan15vae holds the causal video autoencoder of HunyuanVideo-1.5: the parameters of
// both halves, and the programs that decode latents to video and encode video to latents, a frame
// at a time. README.md says what is special about it and which splits are legal.
package hunyuan15vae

import (
	"slices"

	"weft/graph"
	"weft/models"
	"weft/models/vae"
	"weft/sharding"
	"weft/tensor"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "hunyuanvideo1.5-vae",

		Detect: detectConfig, Config: configWords, Derive: checkConfig, Presets: released,

		Declare: declareModel,
	})
}

// Model is a configuration of the family.
type Model struct {
	c        Config
	pictures vae.Autoencoder
	params   vae.Params
}

func newModel(name string, c Config) *Model {
	m := &Model{c: c, pictures: vae.Autoencoder{Model: name, Channels: c.Latents, ChannelsKey: "latent_channels", Scale: c.Space,
		FramesPerLatent: c.Time, Latents: []string{vae.RawLatents}}}
	t := &paramTable{&m.params, c}
	t.addEncoder()
	t.addDecoder()
	return m
}

// declareModel says what a configuration has and does.
func declareModel(name string, c Config) models.Declaration {
	m := newModel(name, c)
	side := models.Tiles{Height: c.TileSize, Width: c.TileSize, StrideHeight: c.TileSize - c.TileSize/tileShare, StrideWidth: c.TileSize - c.TileSize/tileShare}
	return models.Declaration{
		Params: m.Params, Official: m.params.OfficialName, Rules: m.Rules, Check: m.pictures.Check,

		Inputs:  m.pictures.Inputs(),
		Request: m.pictures.Request, Example: m.pictures.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			CheckSplit: m.pictures.CheckSplit,
			Variants:   m.pictures.Runs,
			Decoder:    &models.Decoder{VideoShape: m.pictures.VideoShape},
			Tiled:      &models.Tiled{Tile: m.pictures.Tile, Finish: vae.BoundLogvar, Release: side},
			Frames:     &models.FrameReader{Request: m.pictures.FrameRequest, FeedStatic: m.FeedStatic},
		},
	}
}

// Tiles overlap by a quarter.
const tileShare = 4

// Params lists the parameters of encoder and decoder. It takes no notice of the number of
// layers, since none can be left out.
func (m *Model) Params(int) []models.Param { return slices.Clone(m.params.List) }

// Rules replicate every weight.
func (m *Model) Rules() sharding.Rules { return vae.WholeRules("encoder", "decoder") }

// Feed makes the graph's inputs from latents or video: its frames, and the factor of the latents,
// which is 1 for latents as the encoder makes them.
func (m *Model) Feed(g *graph.Graph, _ models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out, err := m.FeedStatic(g)
	if err != nil {
		return nil, err
	}
	if err := vae.FeedRawFactor(g, inputs, out); err != nil {
		return nil, err
	}
	return out, m.pictures.FeedFrames(g, inputs, out)
}

// FeedStatic makes the graph's input that is no frame: the factor that latents are multiplied by
// before they are decoded, or once they are encoded.
func (m *Model) FeedStatic(g *graph.Graph) (map[string]*tensor.Tensor, error) {
	return vae.FeedFactor(g, 1/m.c.Scale, m.c.Scale)
}
