package ltx

import (
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

	// TimeGiven says that the file tells how time is counted; diffusers' files do not tell.
	TimeGiven bool `json:"-"`
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

// configWords are those of both publishers, who differ in few for LTX-Video and in many for LTX-2.
var configWords = []models.Words[Config]{secondWords, {
	Of:       "Lightricks and diffusers",
	Within:   transformerSection,
	Defaults: defaults,
	Keys: func(c *Config) []models.Key {
		return append(models.FixedKeys("every release", "activation_fn", "gelu-approximate", "standardization_norm", "rms_norm",
			"adaptive_norm", "single_scale_shift", "norm_elementwise_affine", false, "attention_bias", true, "attention_out_bias", true,
			"patch_size", 1, "patch_size_t", 1, "attention_type", "default", "double_self_attention", false, "only_cross_attention", false,
			"cross_attention_norm", true, "positional_embedding_type", "rope", "share_ff", false, "num_vector_embeds", nil),
			models.Metadata("norm_num_groups", "num_embeds_ada_norm", "upcast_attention", "use_linear_projection", "text_encoder_norm_type"),
			models.Beside("audio_", "av_", "connector_", "caption_proj", "use_audio_", "use_embeddings_connector"),
			models.Int("num_attention_heads", &c.Heads, models.HeadBound),
			models.Int("attention_head_dim", &c.HeadDim, models.WidthBound),
			models.Int("in_channels", &c.InChannels, models.ChannelBound),
			models.Int("out_channels", &c.OutChannels, models.ChannelBound),
			models.Int("num_layers", &c.Layers, models.LayerBound),
			models.Int("cross_attention_dim", &c.CrossDim, models.WidthBound),
			models.Float("positional_embedding_theta", &c.Theta, models.ThetaSpan),
			models.Floats("positional_embedding_max_pos", c.MaxPos[:], models.Positive),
			models.Float("timestep_scale_multiplier", &c.TimeScale, models.Positive),
			models.Float("norm_eps", &c.Eps, models.SmallSpan),
			models.Bool("causal_temporal_positioning", &c.Causal),
			models.Bool("use_middle_indices_grid", &c.Second),
			models.String("frequencies_precision", &c.Precision),
			models.Bool("ff_bias", &c.FFBias),
			models.Bool("cross_attention_adaln", &c.CrossAdaLN),
			models.Bool("apply_gated_attention", &c.Gated),
			models.Bool("use_keyframes_abs_pos_embedding", &c.Keyframes))
	},
	Derive: deriveAndCheck,
}}

// deriveAndCheck tells LTX-2.5 from LTX-Video and refuses settings that the programs do not
// implement.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	class := r.String("_class_name", "")
	c.TimeGiven = r.Has("causal_temporal_positioning") || class != diffusersClass
	c.Second = c.Second || c.CrossAdaLN || c.Gated || c.Keyframes || r.String("rope_type", "") == "split"
	if c.Second {
		r.Fixed("rope_type", "split", "an LTX-2 transformer")
		r.Metadata("caption_channels")
	} else {
		r.Fixed("rope_type", "interleaved", "LTX-Video")
		c.CaptionChannels = r.Int("caption_channels", 0, models.WidthBound)
	}
	norm := "rms_norm"
	if class == diffusersClass && r.String("qk_norm", "") == "rms_norm_across_heads" {
		norm = "rms_norm_across_heads" // diffusers' name for it
	}
	r.Fixed("qk_norm", norm, "every release")
	if !slices.Contains([]string{"", "float32", "float64"}, c.Precision) {
		r.Unsupported("frequencies_precision %q: want float32 or float64", c.Precision)
	}
	checkSizes(c, r)
}

// checkSizes checks that sizes fit each other, whoever wrote them.
func checkSizes(c *Config, r *models.ConfigReader) {
	r.Agree("in_channels", c.InChannels, "out_channels", c.OutChannels, "the model reads latents and gives their velocity")
	r.MultipleOf("attention_head_dim", c.HeadDim, 2, "rotary positions turn pairs of channels")
	width := r.Multiply("num_attention_heads x attention_head_dim", models.WidthBound, c.Heads, c.HeadDim)
	r.Agree("cross_attention_dim", c.CrossDim, "num_attention_heads x attention_head_dim", width, "the text is as wide as the video")
	if width < 6 && r.Sound("num_attention_heads x attention_head_dim") {
		r.Refuse("num_attention_heads x attention_head_dim is %d: positions along three axes need two channels each, 6 at the least", width)
	}
}

const (
	officialClass   = "Transformer3DModel"
	secondClass     = "AVTransformer3DModel"
	diffusersClass  = "LTXVideoTransformer3DModel"
	secondDiffusers = "LTX2VideoTransformer3DModel"
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
	return slices.Contains([]string{officialClass, secondClass, diffusersClass, secondDiffusers}, class) || class == "" && theta && cross
}

// makePreset makes the 13B configuration with the changes of a release.
func makePreset(change func(c *Config)) Config {
	c := defaults
	c.Heads, c.HeadDim, c.Layers, c.CrossDim, c.CaptionChannels = 32, 128, 48, 4096, 4096
	change(&c)
	return c
}

var presets = map[string]Config{
	"ltx-video-2b":  makePreset(func(c *Config) { c.HeadDim, c.Layers, c.CrossDim = 64, 28, 2048 }),
	"ltx-video-13b": makePreset(func(c *Config) { c.Causal = true }),
	"ltx2.5-22b": makePreset(func(c *Config) {
		c.Causal, c.Second, c.CaptionChannels, c.Precision = true, true, 0, "float64"
		c.FFBias, c.CrossAdaLN, c.Gated, c.Keyframes = false, true, true, true
	}),
}

// samePreset compares neither whether positions are causal nor whether the file tells it.
func samePreset(preset, c Config) bool {
	preset.Causal, preset.TimeGiven = c.Causal, c.TimeGiven
	return preset == c
}

// kindName names the kind of model that is no preset.
func kindName(c Config) string {
	if c.Second {
		return "ltx2.5"
	}
	return "ltx-video"
}
