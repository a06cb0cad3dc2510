package cogvae

import (
	"math"

	"weft/models"
	"weft/models/vae"
)

// Config is a CogVideoX autoencoder, in the words of its config.json.
type Config struct {
	// Widths has the number of channels of each stage of the encoder. The decoder has them in
	// the reverse order.
	Widths []int `json:"block_out_channels"`
	// Latents is the number of channels of the latents.
	Latents   int     `json:"latent_channels"`
	ResBlocks int     `json:"layers_per_block"`
	Groups    int     `json:"norm_num_groups"`
	Eps       float64 `json:"norm_eps"`
	// Height and Width are the sizes of pictures that the autoencoder is released for. Its tiles
	// are half as large.
	Height int `json:"sample_height"`
	Width  int `json:"sample_width"`
	// Scale is what latents are multiplied by before a transformer reads them.
	Scale float64 `json:"scaling_factor"`
	// InvertsScale says that the latents of an image, which the transformer of 1.5 reads beside
	// those of the video, are divided by Scale.
	InvertsScale bool `json:"invert_scale_latents,omitempty"`
}

// timeStages is the number of stages that halve the number of frames in the encoder, its first
// ones, and double it in the decoder.
const timeStages = 2

// framesPerLatent is the number of frames that a latent frame stands for.
const framesPerLatent = 1 << timeStages

// scale is the number of pixels that a latent position is wide and high.
func (c Config) scale() int { return 1 << (len(c.Widths) - 1) }

// Blocks is the number of residual blocks that a frame passes in the decoder: two in the middle,
// and those of every stage.
func (c Config) Blocks() int { return middleBlocks + len(c.Widths)*(c.ResBlocks+1) }

// decoderWidth is the number of channels that stage i of the decoder makes.
func (c Config) decoderWidth(i int) int { return c.Widths[len(c.Widths)-1-i] }

// defaultConfig has the defaults of diffusers' AutoencoderKLCogVideoX, which are the 2B release's.
// 5B and 1.5 have another factor of the latents, 0.7, in their config.json.
var defaultConfig = Config{Widths: []int{128, 256, 256, 512}, Latents: 16, ResBlocks: 3, Groups: 32, Eps: 1e-6, Height: 480, Width: 720, Scale: 1.15258426}

var released = map[string]Config{"cogvideox-vae": defaultConfig}

const class = "AutoencoderKLCogVideoX"

// configWords are those of config.json, which is diffusers'.
var configWords = []models.Words[Config]{{
	Of:       "diffusers",
	Defaults: defaultConfig,
	Keys: func(c *Config) []models.Key {
		return append(models.FixedKeys("every release", "act_fn", "silu", "in_channels", vae.PictureChannels, "out_channels", vae.PictureChannels,
			"use_quant_conv", false, "use_post_quant_conv", false, "shift_factor", nil, "latents_mean", nil, "latents_std", nil,
			"temporal_compression_ratio", framesPerLatent),
			models.Metadata("force_upcast"),
			models.IntList("block_out_channels", &c.Widths, models.WidthBound),
			models.Int("latent_channels", &c.Latents, models.ChannelBound),
			models.Int("layers_per_block", &c.ResBlocks, models.Bound{Least: 1, Most: 64, Why: "every stage has that many residual blocks"}),
			models.Int("norm_num_groups", &c.Groups, models.Bound{Least: 1, Most: 1 << 12, Why: "channels are normalised in so many groups"}),
			models.Float("norm_eps", &c.Eps, models.SmallSpan),
			models.Int("sample_height", &c.Height, models.SizeBound),
			models.Int("sample_width", &c.Width, models.SizeBound),
			models.Float("scaling_factor", &c.Scale, models.Positive),
			models.Bool("invert_scale_latents", &c.InvertsScale))
	},
	Derive: deriveAndCheck,
}}

// deriveAndCheck refuses settings that the programs do not implement.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	vae.CheckBlockTypes(r, "down_block_types", "CogVideoXDownBlock3D", len(c.Widths))
	vae.CheckBlockTypes(r, "up_block_types", "CogVideoXUpBlock3D", len(c.Widths))
	vae.CheckStages(r, c.Widths, timeStages+1, c.Groups)
}

// detectConfig says whether a config.json describes a CogVideoX autoencoder.
func detectConfig(c map[string]any) bool {
	named, _ := c["_class_name"].(string)
	_, widths := c["block_out_channels"]
	_, height := c["sample_height"]
	return named == class || named == "" && widths && height
}

// releasedTiles are the sizes of tiles that the release has: half of the pictures that it is made
// for, overlapping by a sixth of a tile's height and a fifth of its width.
func (m *Model) releasedTiles() models.Tiles {
	scale := m.c.scale()
	// The release counts both in latents, and cuts off what is no whole one.
	height, width := m.c.Height/2/scale, m.c.Width/2/scale
	apart := func(size int, overlap float64) int { return int(math.Floor(float64(size) * (1 - overlap))) }
	return models.Tiles{Height: scale * height, Width: scale * width, StrideHeight: scale * apart(height, 1.0/6), StrideWidth: scale * apart(width, 1.0/5)}
}
