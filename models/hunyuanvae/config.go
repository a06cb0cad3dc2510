package hunyuanvae

import (
	"slices"

	"weft/models"
	"weft/models/vae"
)

// Config is a HunyuanVideo autoencoder, in the words of its config.json.
type Config struct {
	// Widths has the number of channels of each stage of the encoder. The decoder has them in
	// the reverse order.
	Widths    []int   `json:"block_out_channels"`
	Latents   int     `json:"latent_channels"` // channels of the latents
	ResBlocks int     `json:"layers_per_block"`
	Groups    int     `json:"norm_num_groups"`
	Scale     float64 `json:"scaling_factor"` // latents are multiplied by it before a transformer reads them
	Attends   bool    `json:"mid_block_add_attention"`
	// TileFrames is the number of frames of a tile along time, without the one before it. The
	// publisher's config.json states it; diffusers' class has it in its code.
	TileFrames int `json:"sample_tsize"`
}

// The stages: all but the last halve rows and columns in the encoder, and the two before the last
// halve the number of frames as well. The decoder doubles in the reverse order, rows and columns
// in its first stages and frames in those after its first.
const (
	stages          = 4
	scale           = 1 << (stages - 1) // pixels that a latent position is wide and high
	framesPerLatent = 4
)

// halvesFrames says whether stage i of the encoder halves the number of frames, and stage i of
// the decoder doubles it.
func halvesFrames(i int) bool { return i >= 1 && i < stages-1 }

// Blocks is the number of residual blocks that a frame passes in the decoder: two in the middle,
// and those of every stage.
func (c Config) Blocks() int { return 2 + stages*(c.ResBlocks+1) }

// decoderWidth is the number of channels that stage i of the decoder makes.
func (c Config) decoderWidth(i int) int { return c.Widths[stages-1-i] }

// Tiles along time overlap by a quarter.
const tileShare = 4

// The tiles along time of diffusers' class, and of the publisher's code.
const (
	diffusersTileFrames = 16
	publisherTileFrames = 64
)

// defaultConfig has the defaults of diffusers' AutoencoderKLHunyuanVideo, which are the release's.
var defaultConfig = Config{Widths: []int{128, 256, 512, 512}, Latents: 16, ResBlocks: 2, Groups: 32, Scale: 0.476986, Attends: true, TileFrames: diffusersTileFrames}

var released = map[string]Config{"hunyuan-vae": defaultConfig}

// The classes of the two publishers.
const (
	class          = "AutoencoderKLHunyuanVideo"
	publishedClass = "AutoencoderKLCausal3D"
)

// configWords are those of HunyuanVideo's own code and of diffusers.
var configWords = []models.Words[Config]{
	{
		Of:        "HunyuanVideo",
		Recognize: func(r *models.ConfigReader) bool { return r.Class() == publishedClass },
		Defaults:  publishedDefaults(),
		Keys: func(c *Config) []models.Key {
			return append(commonKeys(c), models.Metadata("sample_size", "force_upcast"),
				models.Fixed("time_compression_ratio", framesPerLatent, "every release"))
		},
		Derive: func(c *Config, r *models.ConfigReader) {
			deriveAndCheck(c, r, "DownEncoderBlockCausal3D", "UpDecoderBlockCausal3D")
		},
	},
	{
		Of:       "diffusers",
		Defaults: defaultConfig,
		Keys: func(c *Config) []models.Key {
			return append(commonKeys(c), models.Fixed("temporal_compression_ratio", framesPerLatent, "every release"))
		},
		Derive: func(c *Config, r *models.ConfigReader) {
			deriveAndCheck(c, r, "HunyuanVideoDownBlock3D", "HunyuanVideoUpBlock3D")
		},
	},
}

func publishedDefaults() Config {
	c := defaultConfig
	c.TileFrames = publisherTileFrames
	return c
}

func commonKeys(c *Config) []models.Key {
	return append(models.FixedKeys("every release", "act_fn", "silu", "in_channels", vae.PictureChannels, "out_channels", vae.PictureChannels,
		"spatial_compression_ratio", scale),
		models.IntList("block_out_channels", &c.Widths, models.WidthBound),
		models.Int("latent_channels", &c.Latents, models.ChannelBound),
		models.Int("layers_per_block", &c.ResBlocks, models.Bound{Least: 1, Most: 64, Why: "every stage has that many residual blocks"}),
		models.Int("norm_num_groups", &c.Groups, models.Bound{Least: 1, Most: 1 << 12, Why: "channels are normalised in so many groups"}),
		models.Float("scaling_factor", &c.Scale, models.Positive),
		models.Bool("mid_block_add_attention", &c.Attends),
		models.Int("sample_tsize", &c.TileFrames, models.Bound{Least: framesPerLatent * tileShare, Most: 1 << 12, Why: "a tile along time has so many frames, and a quarter of it is of whole latents"}))
}

// deriveAndCheck refuses settings that the programs do not implement.
func deriveAndCheck(c *Config, r *models.ConfigReader, down, up string) {
	vae.CheckBlockTypes(r, "down_block_types", down, len(c.Widths))
	vae.CheckBlockTypes(r, "up_block_types", up, len(c.Widths))
	if len(c.Widths) != stages && r.Sound("block_out_channels") {
		r.Refuse("%d block_out_channels: want %d", len(c.Widths), stages)
	}
	vae.CheckStages(r, c.Widths, 1, c.Groups)
	r.MultipleOf("sample_tsize", c.TileFrames, framesPerLatent*tileShare, "a quarter of a tile is of whole latents")
}

// detectConfig says whether a config.json describes a HunyuanVideo autoencoder, of either
// publisher.
func detectConfig(c map[string]any) bool {
	named, _ := c["_class_name"].(string)
	_, widths := c["block_out_channels"]
	_, attends := c["mid_block_add_attention"]
	return slices.Contains([]string{class, publishedClass}, named) || named == "" && widths && attends
}
