package cogvideox

import (
	"weft/models"
	"weft/models/step"
)

// Config is a CogVideoX transformer, in the words of its config.json.
type Config struct {
	Heads   int `json:"num_attention_heads"`
	HeadDim int `json:"attention_head_dim"`
	// InChannels counts the channels of the latents and, for image-to-video, of the
	// image's latents behind them.
	InChannels   int `json:"in_channels"`
	OutChannels  int `json:"out_channels"`
	TimeEmbedDim int `json:"time_embed_dim"`
	// OfsEmbedDim is the width of the offset's embedding (1.5 image-to-video), 0 where there is none.
	OfsEmbedDim  int `json:"ofs_embed_dim,omitempty"`
	TextEmbedDim int `json:"text_embed_dim"`
	Layers       int `json:"num_layers"`
	// The sizes that positions are made for: width and height in latents, but frames
	// in frames of the video.
	SampleWidth  int `json:"sample_width"`
	SampleHeight int `json:"sample_height"`
	SampleFrames int `json:"sample_frames"`
	PatchSize    int `json:"patch_size"`
	// PatchT is the number of latent frames of a patch: 2 for 1.5, and 0 for
	// CogVideoX 1.0, whose patches lie within one frame.
	PatchT       int     `json:"patch_size_t,omitempty"`
	Compression  int     `json:"temporal_compression_ratio"`
	TextLen      int     `json:"max_text_seq_length"`
	Eps          float64 `json:"norm_eps"`
	SpatialScale float64 `json:"spatial_interpolation_scale"`
	TimeScale    float64 `json:"temporal_interpolation_scale"`
	Rotary       bool    `json:"use_rotary_positional_embeddings"`
	Learned      bool    `json:"use_learned_positional_embeddings"`
	// PatchBias says whether 1.0's patch convolution has a bias. 1.5's linear
	// projection always has one.
	PatchBias bool `json:"patch_bias"`
}

// Dim returns the width of the two residual streams.
func (c Config) Dim() int { return c.Heads * c.HeadDim }

// patchShape returns how many latent frames, rows and columns make one token.
func (c Config) patchShape() [3]int { return [3]int{max(1, c.PatchT), c.PatchSize, c.PatchSize} }

// conditionDim returns the number of channels of the image's latents, 0 for
// text-to-video.
func (c Config) conditionDim() int { return c.InChannels - c.OutChannels }

// sampleGrid returns the grid of tokens for the sizes that the config states.
func (c Config) sampleGrid() step.Grid {
	return step.Grid{Frames: (c.SampleFrames-1)/c.Compression + 1, Rows: c.SampleHeight / c.PatchSize, Cols: c.SampleWidth / c.PatchSize}
}

// defaultConfig has the defaults of diffusers' CogVideoXTransformer3DModel.
var defaultConfig = Config{Heads: 30, HeadDim: 64, InChannels: 16, OutChannels: 16, TimeEmbedDim: 512, TextEmbedDim: 4096, Layers: 30,
	SampleWidth: 90, SampleHeight: 60, SampleFrames: 49, PatchSize: 2, Compression: 4, TextLen: 226, Eps: 1e-5,
	SpatialScale: 1.875, TimeScale: 1, PatchBias: true}

// configWords are those of config.json, which is diffusers'.
var configWords = []models.Words[Config]{{
	Of:       "diffusers",
	Defaults: defaultConfig,
	Keys: func(c *Config) []models.Key {
		return append(models.FixedKeys("every release", "activation_fn", "gelu-approximate", "timestep_activation_fn", "silu", "flip_sin_to_cos", true,
			"freq_shift", 0, "norm_elementwise_affine", true, "attention_bias", true),
			models.Fixed("_class_name", class, "the family"),
			models.Fixed("temporal_compression_ratio", defaultConfig.Compression, "the VAE of every release"),
			models.Int("num_attention_heads", &c.Heads, models.HeadBound),
			models.Int("attention_head_dim", &c.HeadDim, models.WidthBound),
			models.Int("in_channels", &c.InChannels, models.ChannelBound),
			models.Int("out_channels", &c.OutChannels, models.ChannelBound),
			models.Int("time_embed_dim", &c.TimeEmbedDim, models.WidthBound),
			models.OptionalInt("ofs_embed_dim", &c.OfsEmbedDim, models.WidthBound),
			models.Int("text_embed_dim", &c.TextEmbedDim, models.WidthBound),
			models.Int("num_layers", &c.Layers, models.LayerBound),
			models.Int("sample_width", &c.SampleWidth, models.SizeBound),
			models.Int("sample_height", &c.SampleHeight, models.SizeBound),
			models.Int("sample_frames", &c.SampleFrames, models.SizeBound),
			models.Int("patch_size", &c.PatchSize, models.PatchBound),
			models.OptionalInt("patch_size_t", &c.PatchT, models.PatchBound),
			models.Int("max_text_seq_length", &c.TextLen, models.RowBound),
			models.Float("norm_eps", &c.Eps, models.SmallSpan),
			models.Float("spatial_interpolation_scale", &c.SpatialScale, models.Positive),
			models.Float("temporal_interpolation_scale", &c.TimeScale, models.Positive),
			models.Bool("use_rotary_positional_embeddings", &c.Rotary),
			models.Bool("use_learned_positional_embeddings", &c.Learned),
			models.Bool("patch_bias", &c.PatchBias))
	},
	Derive: deriveAndCheck,
}}

const class = "CogVideoXTransformer3DModel"

// deriveAndCheck refuses values that the programs do not implement.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	if c.Learned && !c.Rotary {
		r.Unsupported("learned positions without rotary ones: no release has them")
	}
	if c.OfsEmbedDim > 0 {
		r.Agree("ofs_embed_dim", c.OfsEmbedDim, "time_embed_dim", c.TimeEmbedDim, "their embeddings are added")
		r.MultipleOf("ofs_embed_dim", c.OfsEmbedDim, 2, "sines and cosines come in pairs")
	}
	if n := c.InChannels; r.Sound("in_channels", "out_channels") && n != c.OutChannels && n != 2*c.OutChannels {
		r.Refuse("in_channels %d and out_channels %d: latents have out_channels channels, and an image's latents behind them as many; want in_channels %d or %d", n, c.OutChannels, c.OutChannels, 2*c.OutChannels)
	}
	// Positions share a head's channels, or without rotary ones the stream's, as
	// 1/4, 3/8 and 3/8, each of an even number.
	if c.Rotary {
		r.MultipleOf("attention_head_dim", c.HeadDim, 16, "rotary positions share it")
	}
	width := r.Multiply("num_attention_heads x attention_head_dim", models.WidthBound, c.Heads, c.HeadDim)
	r.MultipleOf("num_attention_heads x attention_head_dim", width, 16, "positions share it")
	if g := c.sampleGrid(); c.Learned {
		r.Multiply("sample_frames, sample_height and sample_width in patches", models.Bound{Least: 1, Most: 1 << 26, Why: "each has a learned position"}, g.Frames, g.Rows, g.Cols)
	}
}

// detectConfig says whether a config.json describes a CogVideoX transformer.
func detectConfig(c map[string]any) bool {
	named, _ := c["_class_name"].(string)
	_, scale := c["spatial_interpolation_scale"]
	_, learned := c["use_learned_positional_embeddings"]
	return named == class || named == "" && scale && learned
}

// makePreset makes the default configuration with the changes of a release.
func makePreset(change func(c *Config)) Config {
	c := defaultConfig
	change(&c)
	return c
}

// set5BSizes sets what distinguishes the 5B releases from the 2B one.
func set5BSizes(c *Config) { c.Heads, c.Layers, c.Rotary = 48, 42, true }

// set15Sizes sets what distinguishes CogVideoX-1.5 from the 2B release of 1.0.
func set15Sizes(c *Config) {
	set5BSizes(c)
	c.PatchT, c.PatchBias = 2, false
	c.SampleWidth, c.SampleHeight, c.SampleFrames = 170, 96, 81
}

var presets = map[string]Config{
	"cogvideox-2b":         makePreset(func(*Config) {}),
	"cogvideox-5b":         makePreset(set5BSizes),
	"cogvideox-5b-i2v":     makePreset(func(c *Config) { set5BSizes(c); c.InChannels, c.Learned = 32, true }),
	"cogvideox-1.5-5b":     makePreset(set15Sizes),
	"cogvideox-1.5-5b-i2v": makePreset(func(c *Config) { set15Sizes(c); c.InChannels, c.OfsEmbedDim = 32, 512 }),
}

// samePreset ignores the sizes that positions are made for where they are not learned, because
// releases of the same model differ in them.
func samePreset(preset, c Config) bool {
	if !preset.Learned {
		preset.SampleWidth, preset.SampleHeight, preset.SampleFrames = c.SampleWidth, c.SampleHeight, c.SampleFrames
	}
	return preset == c
}

// kindName names the kind of model that is no preset.
func kindName(c Config) string {
	name := "cogvideox"
	if c.PatchT > 0 {
		name += "-1.5"
	}
	if c.conditionDim() > 0 {
		name += "-i2v"
	}
	return name
}
