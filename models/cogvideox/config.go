// Package cogvideox is the diffusion transformer of CogVideoX 2B, 5B, 5B-I2V and
// CogVideoX-1.5 5B and 5B-I2V: one self-attention over text and video together.
// README.md says what is special about them and which splits are legal.
package cogvideox

import (
	"encoding/json"

	"weft/fault"
	"weft/models"
	"weft/models/step"
)

// Config is a CogVideoX transformer, in the words of its config.json.
type Config struct {
	Heads   int `json:"num_attention_heads"`
	HeadDim int `json:"attention_head_dim"`
	// InChannels are those of the latents and, for image-to-video, of the image's
	// latents behind them.
	InChannels   int `json:"in_channels"`
	OutChannels  int `json:"out_channels"`
	TimeEmbedDim int `json:"time_embed_dim"`
	// OfsEmbedDim is the width of the offset's embedding (1.5 image-to-video), 0 where there is none.
	OfsEmbedDim  int `json:"ofs_embed_dim,omitempty"`
	TextEmbedDim int `json:"text_embed_dim"`
	Layers       int `json:"num_layers"`
	// The latents that positions are made for; sample_frames counts the video's frames.
	SampleWidth  int `json:"sample_width"`
	SampleHeight int `json:"sample_height"`
	SampleFrames int `json:"sample_frames"`
	PatchSize    int `json:"patch_size"`
	// PatchT is how many latent frames a patch has: 0 for CogVideoX 1.0, whose
	// patches lie in one frame, 2 for 1.5.
	PatchT       int     `json:"patch_size_t,omitempty"`
	Compression  int     `json:"temporal_compression_ratio"`
	TextLen      int     `json:"max_text_seq_length"`
	Eps          float64 `json:"norm_eps"`
	SpatialScale float64 `json:"spatial_interpolation_scale"`
	TimeScale    float64 `json:"temporal_interpolation_scale"`
	Rotary       bool    `json:"use_rotary_positional_embeddings"`
	Learned      bool    `json:"use_learned_positional_embeddings"`
	// PatchBias is that of 1.0's convolution. 1.5's linear projection has a bias whatever it says.
	PatchBias bool `json:"patch_bias"`
}

// Dim is the width of the streams.
func (c Config) Dim() int { return c.Heads * c.HeadDim }

// patch is how many latent frames, rows and columns a token has.
func (c Config) patch() [3]int { return [3]int{max(1, c.PatchT), c.PatchSize, c.PatchSize} }

// conditionDim is how many channels the image's latents have, 0 for text-to-video.
func (c Config) conditionDim() int { return c.InChannels - c.OutChannels }

// sampleGrid is how many tokens the sizes of the config make.
func (c Config) sampleGrid() step.Grid {
	return step.Grid{Frames: (c.SampleFrames-1)/c.Compression + 1, Rows: c.SampleHeight / c.PatchSize, Cols: c.SampleWidth / c.PatchSize}
}

// defaults are those of diffusers' CogVideoXTransformer3DModel.
var defaults = Config{Heads: 30, HeadDim: 64, InChannels: 16, OutChannels: 16, TimeEmbedDim: 512, TextEmbedDim: 4096, Layers: 30,
	SampleWidth: 90, SampleHeight: 60, SampleFrames: 49, PatchSize: 2, Compression: 4, TextLen: 226, Eps: 1e-5,
	SpatialScale: 1.875, TimeScale: 1, PatchBias: true}

// fixed are the keys of config.json that the programs take one value of.
type fixed struct {
	Activation     string  `json:"activation_fn"`
	TimeActivation string  `json:"timestep_activation_fn"`
	Flip           bool    `json:"flip_sin_to_cos"`
	Shift          float64 `json:"freq_shift"`
	Affine         bool    `json:"norm_elementwise_affine"`
	AttentionBias  bool    `json:"attention_bias"`
}

func parse(raw []byte) (Config, error) {
	const class = "CogVideoXTransformer3DModel"
	c := defaults
	want := fixed{"gelu-approximate", "silu", true, 0, true, true}
	f := want
	named := struct {
		Class string `json:"_class_name"`
	}{class}
	for _, to := range []any{&c, &f, &named} {
		if err := json.Unmarshal(raw, to); err != nil {
			return c, fault.New(models.ErrConfig, nil, "%v", err)
		}
	}
	var l fault.List
	unsupported := func(format string, args ...any) { l.Add(fault.New(models.ErrVariant, nil, format, args...)) }
	if named.Class != class {
		unsupported("_class_name %q: this version runs %s", named.Class, class)
	}
	for _, k := range []struct {
		key       string
		got, want any
	}{{"activation_fn", f.Activation, want.Activation}, {"timestep_activation_fn", f.TimeActivation, want.TimeActivation},
		{"flip_sin_to_cos", f.Flip, want.Flip}, {"freq_shift", f.Shift, want.Shift},
		{"norm_elementwise_affine", f.Affine, want.Affine}, {"attention_bias", f.AttentionBias, want.AttentionBias}} {
		if k.got != k.want {
			unsupported("%s %v: every release has %v, which is all that is run", k.key, k.got, k.want)
		}
	}
	if c.Compression != 4 {
		unsupported("temporal_compression_ratio %d: the VAE of every release makes one latent frame of 4", c.Compression)
	}
	if c.Learned && !c.Rotary {
		unsupported("learned positions without rotary ones: no release has them")
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"num_attention_heads", c.Heads}, {"attention_head_dim", c.HeadDim}, {"in_channels", c.InChannels}, {"out_channels", c.OutChannels},
		{"time_embed_dim", c.TimeEmbedDim}, {"text_embed_dim", c.TextEmbedDim}, {"num_layers", c.Layers}, {"sample_width", c.SampleWidth},
		{"sample_height", c.SampleHeight}, {"sample_frames", c.SampleFrames}, {"patch_size", c.PatchSize},
		{"max_text_seq_length", c.TextLen}} {
		if n.n < 1 || n.n > 1<<20 {
			l.Add(fault.New(models.ErrConfig, nil, "%s is %d: want a positive number", n.name, n.n))
		}
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"patch_size_t", c.PatchT}, {"ofs_embed_dim", c.OfsEmbedDim}} {
		if n.n < 0 || n.n > 1<<20 {
			l.Add(fault.New(models.ErrConfig, nil, "%s is %d: want a positive number or null", n.name, n.n))
		}
	}
	for _, x := range []struct {
		name string
		v    float64
		most float64
	}{{"norm_eps", c.Eps, 1}, {"spatial_interpolation_scale", c.SpatialScale, 1e6}, {"temporal_interpolation_scale", c.TimeScale, 1e6}} {
		if !(x.v > 0 && x.v < x.most) {
			l.Add(fault.New(models.ErrConfig, nil, "%s is %g: want a positive number below %g", x.name, x.v, x.most))
		}
	}
	if err := l.Err(); err != nil {
		return c, err
	}
	if c.OfsEmbedDim > 0 && c.OfsEmbedDim != c.TimeEmbedDim {
		l.Add(fault.New(models.ErrConfig, nil, "ofs_embed_dim %d and time_embed_dim %d: their embeddings are added, so they must be equal", c.OfsEmbedDim, c.TimeEmbedDim))
	}
	if c.OfsEmbedDim%2 != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "ofs_embed_dim %d: sines and cosines come in pairs", c.OfsEmbedDim))
	}
	if c.InChannels < c.OutChannels {
		l.Add(fault.New(models.ErrConfig, nil, "in_channels %d and out_channels %d: latents have out_channels channels, the image's latents behind them the rest", c.InChannels, c.OutChannels))
	}
	// Positions share a head's channels, or without rotary ones the stream's, as
	// 1/4, 3/8 and 3/8, each of an even number.
	if d := c.HeadDim; c.Rotary && d%16 != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "attention_head_dim %d: rotary positions need a multiple of 16; nearest: %s", d, models.Nearest(d, 16, 0)))
	}
	if d := c.Dim(); d%16 != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "width %d of %d heads of %d: want a multiple of 16", d, c.Heads, c.HeadDim))
	}
	return c, l.Err()
}

func detect(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	_, scale := c["spatial_interpolation_scale"]
	_, learned := c["use_learned_positional_embeddings"]
	return class == "CogVideoXTransformer3DModel" || class == "" && scale && learned
}

func preset(change func(c *Config)) json.RawMessage {
	c := defaults
	change(&c)
	return models.Preset(c)
}

func fiveB(c *Config) { c.Heads, c.Layers, c.Rotary = 48, 42, true }

func onePointFive(c *Config) {
	fiveB(c)
	c.PatchT, c.PatchBias = 2, false
	c.SampleWidth, c.SampleHeight, c.SampleFrames = 170, 96, 81
}

var presets = map[string]json.RawMessage{
	"cogvideox-2b":         preset(func(*Config) {}),
	"cogvideox-5b":         preset(fiveB),
	"cogvideox-5b-i2v":     preset(func(c *Config) { fiveB(c); c.InChannels, c.Learned = 32, true }),
	"cogvideox-1.5-5b":     preset(onePointFive),
	"cogvideox-1.5-5b-i2v": preset(func(c *Config) { onePointFive(c); c.InChannels, c.OfsEmbedDim = 32, 512 }),
}

// nameOf is the preset that c is, or the kind of model. The size that 1.5's
// positions were made for differs between its releases and makes no other model.
func nameOf(c Config) string {
	name := models.PresetName(presets, parse, func(p Config) bool {
		if !p.Learned {
			p.SampleWidth, p.SampleHeight, p.SampleFrames = c.SampleWidth, c.SampleHeight, c.SampleFrames
		}
		return p == c
	})
	if name != "" {
		return name
	}
	name = "cogvideox"
	if c.PatchT > 0 {
		name += "-1.5"
	}
	if c.conditionDim() > 0 {
		name += "-i2v"
	}
	return name
}

func init() {
	models.Register(models.Family{
		Name:    "cogvideox",
		Presets: presets,
		Detect:  detect,
		New: func(_ string, raw []byte) (models.Model, error) {
			c, err := parse(raw)
			if err != nil {
				return nil, err
			}
			return &Model{name: nameOf(c), c: c}, nil
		},
	})
}
