// Package ltx holds the diffusion transformers of LTX-Video (2B and 13B), the video half of
// the one of LTX-2.5, and LTX-2.5's connector, which prepares its text. README.md says what
// is special about them and which splits are legal.
package ltx

import (
	"encoding/json"
	"slices"

	"weft/models"
)

// Config is a transformer of the family, in the words of the official releases. They are
// single files whose metadata holds it under the key "transformer".
type Config struct {
	Heads       int `json:"num_attention_heads"`
	HeadDim     int `json:"attention_head_dim"`
	InChannels  int `json:"in_channels"`
	OutChannels int `json:"out_channels"`
	Layers      int `json:"num_layers"`
	CrossDim    int `json:"cross_attention_dim"` // width of the text in cross-attention: that of the stream
	// CaptionChannels is the width of the text's embedding. It is 0 for LTX-2.5, whose
	// connector gives the text the width CrossDim already.
	CaptionChannels int        `json:"caption_channels,omitempty"`
	Theta           float64    `json:"positional_embedding_theta"`
	MaxPos          [3]float64 `json:"positional_embedding_max_pos"` // seconds, pixels, pixels
	TimeScale       float64    `json:"timestep_scale_multiplier"`
	Eps             float64    `json:"norm_eps"`
	// Causal says that the first latent frame stands for one frame, not for eight.
	Causal bool `json:"causal_temporal_positioning"`

	// The remaining fields are LTX-2.5's. Second says that the two halves of a head
	// rotate together, by the position of the middle of each patch.
	Second bool `json:"use_middle_indices_grid,omitempty"`
	// Precision in which the rotary frequencies are computed: "float64", or else float32.
	Precision  string `json:"frequencies_precision,omitempty"`
	FFBias     bool   `json:"ff_bias"`
	CrossAdaLN bool   `json:"cross_attention_adaln,omitempty"`
	Gated      bool   `json:"apply_gated_attention,omitempty"`
	Keyframes  bool   `json:"use_keyframes_abs_pos_embedding,omitempty"`
}

// Dim is the width of the residual stream.
func (c Config) Dim() int { return c.Heads * c.HeadDim }

// modulationCount is the number of vectors (shifts, scales and gates) that modulate a layer.
func (c Config) modulationCount() int {
	if c.CrossAdaLN {
		return 9
	}
	return 6
}

// qkEps is the epsilon of the norms of queries and keys.
func (c Config) qkEps() float64 {
	if c.Second {
		return c.Eps
	}
	return 1e-5
}

// timeDim is the width of the timestep's sinusoidal embedding.
const timeDim = 256

// defaults are the values of keys that configurations may leave out.
var defaults = Config{InChannels: 128, OutChannels: 128, Theta: 10000, MaxPos: [3]float64{20, 2048, 2048}, TimeScale: 1000, Eps: 1e-6, FFBias: true}

// transformerSection is the part of a configuration that describes the transformer. The
// configuration of an official single file has other models' parts beside it.
func transformerSection(r *models.ConfigReader) *models.ConfigReader {
	t := r.Object("transformer")
	if t == nil {
		return r
	}
	r.Metadata("vae", "scheduler", "audio_vae", "vocoder", "allowed_inference_steps", "text_encoder", "model_version")
	return t
}

// parseConfig reads either publisher's configuration. It refuses settings that the programs
// do not implement.
func parseConfig(r *models.ConfigReader) Config {
	r = transformerSection(r)
	d := defaults
	class, rope := r.String("_class_name", ""), r.String("rope_type", "")
	c := Config{
		Heads: r.Int("num_attention_heads", 0, models.HeadBound), HeadDim: r.Int("attention_head_dim", 0, models.WidthBound),
		InChannels: r.Int("in_channels", d.InChannels, models.ChannelBound), OutChannels: r.Int("out_channels", d.OutChannels, models.ChannelBound),
		Layers: r.Int("num_layers", 0, models.LayerBound), CrossDim: r.Int("cross_attention_dim", 0, models.WidthBound),
		Theta: r.Float("positional_embedding_theta", d.Theta, models.ThetaSpan), MaxPos: [3]float64(r.Floats("positional_embedding_max_pos", d.MaxPos[:], 3, models.Positive)),
		TimeScale: r.Float("timestep_scale_multiplier", d.TimeScale, models.Positive), Eps: r.Float("norm_eps", d.Eps, models.SmallSpan),
		Causal: r.Bool("causal_temporal_positioning", false), Second: r.Bool("use_middle_indices_grid", false),
		Precision: r.String("frequencies_precision", ""), FFBias: r.Bool("ff_bias", true), CrossAdaLN: r.Bool("cross_attention_adaln", false),
		Gated: r.Bool("apply_gated_attention", false), Keyframes: r.Bool("use_keyframes_abs_pos_embedding", false),
	}
	c.Second = c.Second || c.CrossAdaLN || c.Gated || c.Keyframes || rope == "split"
	if c.Second {
		r.Fixed("rope_type", "split", "an LTX-2 transformer")
		r.Metadata("caption_channels")
	} else {
		r.Fixed("rope_type", "interleaved", "LTX-Video")
		c.CaptionChannels = r.Int("caption_channels", 0, models.WidthBound)
	}
	const release = "every release"
	norm := "rms_norm"
	if class == diffusersClass && r.String("qk_norm", "") == "rms_norm_across_heads" {
		norm = "rms_norm_across_heads" // diffusers' name for it
	}
	if c.Precision != "" && c.Precision != "float32" && c.Precision != "float64" {
		r.Unsupported("frequencies_precision %q: want float32 or float64", c.Precision)
	}
	r.Fixed("qk_norm", norm, release)
	r.Fixed("activation_fn", "gelu-approximate", release)
	r.Fixed("standardization_norm", "rms_norm", release)
	r.Fixed("adaptive_norm", "single_scale_shift", release)
	r.Fixed("norm_elementwise_affine", false, release)
	r.Fixed("attention_bias", true, release)
	r.Fixed("attention_out_bias", true, release)
	r.Fixed("patch_size", 1, release)
	r.Fixed("patch_size_t", 1, release)
	r.Fixed("attention_type", "default", release)
	r.Fixed("double_self_attention", false, release)
	r.Fixed("only_cross_attention", false, release)
	r.Fixed("cross_attention_norm", true, release)
	r.Fixed("positional_embedding_type", "rope", release)
	r.Fixed("share_ff", false, release)
	r.Fixed("num_vector_embeds", nil, release)
	r.Metadata("norm_num_groups", "num_embeds_ada_norm", "upcast_attention", "use_linear_projection", "text_encoder_norm_type")
	r.Beside("audio_", "av_", "connector_", "caption_proj", "use_audio_", "use_embeddings_connector")
	r.Agree("in_channels", c.InChannels, "out_channels", c.OutChannels, "the model reads latents and gives their velocity")
	r.MultipleOf("attention_head_dim", c.HeadDim, 2, "rotary positions turn pairs of channels")
	width := r.Multiply("num_attention_heads x attention_head_dim", models.WidthBound, c.Heads, c.HeadDim)
	r.Agree("cross_attention_dim", c.CrossDim, "num_attention_heads x attention_head_dim", width, "the text is as wide as the video")
	if width < 6 && r.Sound("num_attention_heads x attention_head_dim") {
		r.Refuse("num_attention_heads x attention_head_dim is %d: positions along three axes need two channels each, 6 at the least", width)
	}
	return c
}

const (
	officialClass   = "Transformer3DModel"
	secondClass     = "AVTransformer3DModel"
	diffusersClass  = "LTXVideoTransformer3DModel"
	connectorClass  = "Embeddings1DConnector"
	connectorPrefix = "video_embeddings_connector."
)

// detectConfig says whether a configuration describes a transformer of this family.
func detectConfig(c map[string]any) bool {
	if t, ok := c["transformer"].(map[string]any); ok {
		c = t
	}
	class, _ := c["_class_name"].(string)
	_, theta := c["positional_embedding_theta"]
	_, cross := c["cross_attention_dim"]
	return slices.Contains([]string{officialClass, secondClass, diffusersClass}, class) || class == "" && theta && cross
}

// makePreset encodes a changed copy of the 13B configuration as a preset.
func makePreset(change func(c *Config)) json.RawMessage {
	c := defaults
	c.Heads, c.HeadDim, c.Layers, c.CrossDim, c.CaptionChannels = 32, 128, 48, 4096, 4096
	change(&c)
	return models.Preset(c)
}

var presets = map[string]json.RawMessage{
	"ltx-video-2b":  makePreset(func(c *Config) { c.HeadDim, c.Layers, c.CrossDim = 64, 28, 2048 }),
	"ltx-video-13b": makePreset(func(c *Config) { c.Causal = true }),
	"ltx2.5-22b": makePreset(func(c *Config) {
		c.Causal, c.Second, c.CaptionChannels, c.Precision = true, true, 0, "float64"
		c.FFBias, c.CrossAdaLN, c.Gated, c.Keyframes = false, true, true, true
	}),
}

// nameOf is the name of the preset with the configuration c, whether or not its positions
// are causal, or else of the kind of model.
func nameOf(c Config) string {
	name := models.PresetName(presets, parseConfig, func(p Config) bool {
		p.Causal = c.Causal
		return p == c
	})
	if name != "" {
		return name
	}
	if c.Second {
		return "ltx2.5"
	}
	return "ltx-video"
}

func init() {
	models.Register(models.Family{
		Name:    "ltx",
		Presets: presets,
		Detect:  detectConfig,
		New: func(name string, r *models.ConfigReader) models.Model {
			c := parseConfig(r)
			return &Model{name: nameOf(c), c: c, timeGiven: name == "" && (transformerSection(r).Has("causal_temporal_positioning") || transformerSection(r).String("_class_name", "") != diffusersClass)}
		},
	})
}
