package cosmos3

import (
	"weft/models"
)

// Config is a Cosmos3 transformer, in the words of its config.json, which is
// also diffusers'.
type Config struct {
	Vocab        int     `json:"vocab_size"`
	Width        int     `json:"hidden_size"`
	FFN          int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	KVHeads      int     `json:"num_key_value_heads"`
	HeadDim      int     `json:"head_dim"`
	Eps          float64 `json:"rms_norm_eps"`
	Act          string  `json:"hidden_act"`             // silu (gated) or relu2
	QKNormText   bool    `json:"qk_norm_for_text"`       // norms of the text's q and k
	KNormForGen  bool    `json:"use_und_k_norm_for_gen"` // without QKNormText: a norm of the text's k as the video reads it
	Channels     int     `json:"latent_channel"`
	Patch        int     `json:"latent_patch_size"`
	RopeTheta    float64 `json:"rope_theta"`
	RopeAxes     [3]int  `json:"rope_axes_dim"` // channel pairs of frame, row and column
	TimeScale    float64 `json:"timestep_scale"`
	BaseFPS      float64 `json:"base_fps"`
	FramesBehind int     `json:"unified_3d_mrope_temporal_modality_margin"` // where the video's frames begin behind the text
}

// The activations of the hidden layers.
const (
	silu  = "silu"
	relu2 = "relu2"
)

// timeDim is the number of sinusoids that encode a timestep.
const timeDim = 256

// textLen is the number of ids of a text where a request does not state it. The
// released pipelines pad to this length.
const textLen = 3072

// normsKeysForGen says whether the text's keys pass through an additional norm before
// the video reads them.
func (c Config) normsKeysForGen() bool { return c.KNormForGen && !c.QKNormText }

// patchShape returns how many latent frames, rows and columns make one token.
func (c Config) patchShape() [3]int { return [3]int{1, c.Patch, c.Patch} }

// defaults are the values of keys that a config.json leaves out.
var defaults = Config{Eps: 1e-6, Act: silu, QKNormText: true, Channels: 48, Patch: 2, RopeTheta: 5e6, RopeAxes: [3]int{24, 20, 20},
	TimeScale: 0.001, BaseFPS: 24, FramesBehind: 15000}

// configWords are those of config.json, which all publishers share.
var configWords = []models.Words[Config]{{
	Of: "NVIDIA", Defaults: defaults,
	Keys: func(c *Config) []models.Key {
		return []models.Key{
			models.Fixed("attention_bias", false, "Cosmos3"),
			models.Int("vocab_size", &c.Vocab, models.VocabBound),
			models.Int("hidden_size", &c.Width, models.WidthBound),
			models.Int("intermediate_size", &c.FFN, models.WidthBound),
			models.Int("num_hidden_layers", &c.Layers, models.LayerBound),
			models.Int("num_attention_heads", &c.Heads, models.HeadBound),
			models.Int("num_key_value_heads", &c.KVHeads, models.HeadBound),
			models.Int("head_dim", &c.HeadDim, models.WidthBound),
			models.Float("rms_norm_eps", &c.Eps, models.SmallSpan),
			models.String("hidden_act", &c.Act),
			models.Bool("qk_norm_for_text", &c.QKNormText),
			models.Bool("use_und_k_norm_for_gen", &c.KNormForGen),
			models.Int("latent_channel", &c.Channels, models.ChannelBound),
			models.Int("latent_patch_size", &c.Patch, models.PatchBound),
			models.Float("rope_theta", &c.RopeTheta, models.ThetaSpan),
			models.Ints("rope_axes_dim", c.RopeAxes[:], models.WidthBound),
			models.Float("timestep_scale", &c.TimeScale, models.Positive),
			models.Float("base_fps", &c.BaseFPS, models.Span{Above: 0, Most: 1e4, Why: "it is how many frames are a second"}),
			models.Int("unified_3d_mrope_temporal_modality_margin", &c.FramesBehind, models.Bound{Least: 0, Most: 1 << 23, Why: "it is a number of positions, which float32 must tell apart"}),
		}
	},
	Derive: deriveAndCheck,
}}

// deriveAndCheck refuses values that the programs do not implement.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	if c.Act != silu && c.Act != relu2 {
		r.Unsupported("hidden_act %q: silu (gated) and relu2 are run", c.Act)
	}
	r.Multiply("num_attention_heads x head_dim", models.WidthBound, c.Heads, c.HeadDim)
	if c.Heads%c.KVHeads != 0 && r.Sound("num_attention_heads", "num_key_value_heads") {
		r.Refuse("num_attention_heads %d over num_key_value_heads %d: each serves equally many", c.Heads, c.KVHeads)
	}
	if r.Sound("rope_axes_dim", "head_dim") {
		c.checkRopeAxes(r)
	}
	patches := r.Multiply("latent_channel and latent_patch_size twice", models.WidthBound, c.Channels, c.Patch, c.Patch)
	if n := r.OptionalInt("patch_latent_dim", models.WidthBound); n != 0 && r.Sound("latent_channel", "latent_patch_size") {
		r.Agree("patch_latent_dim", n, "what latent_channel in patches of latent_patch_size makes", patches, "it is the width of a patch")
	}
}

// checkRopeAxes reports rope_axes_dim that do not fill a head.
func (c *Config) checkRopeAxes(r *models.ConfigReader) {
	if sum := c.RopeAxes[0] + c.RopeAxes[1] + c.RopeAxes[2]; c.HeadDim%2 != 0 || sum != c.HeadDim/2 {
		r.Refuse("rope_axes_dim %v: want %d channel pairs in all, half of head_dim %d", c.RopeAxes, c.HeadDim/2, c.HeadDim)
	} else if n := 3 * max(c.RopeAxes[1], c.RopeAxes[2]); n > c.HeadDim/2 {
		r.Refuse("rope_axes_dim %v: rows and columns take every third of the first %d channel pairs, of which there are %d", c.RopeAxes, n, c.HeadDim/2)
	}
}

// detectConfig says whether a config.json describes a Cosmos3 transformer.
func detectConfig(c map[string]any) bool {
	if class, _ := c["_class_name"].(string); class != "" {
		return class == "Cosmos3OmniTransformer"
	}
	_, patch := c["latent_patch_size"]
	_, axes := c["rope_axes_dim"]
	return patch && axes
}

// makePreset makes the configuration of a release, whose changes to the values that releases
// share change makes.
func makePreset(change func(c *Config)) Config {
	c := defaults
	c.KVHeads, c.HeadDim = 8, 128
	change(&c)
	return c
}

var presets = map[string]Config{
	"cosmos3-nano": makePreset(func(c *Config) {
		c.Vocab, c.Width, c.FFN, c.Layers, c.Heads = 151936, 4096, 12288, 36, 32
	}),
	"cosmos3-edge": makePreset(func(c *Config) {
		c.Vocab, c.Width, c.FFN, c.Layers, c.Heads = 131072, 2048, 9216, 28, 16
		c.Eps, c.Act, c.QKNormText, c.KNormForGen, c.RopeTheta = 1e-5, relu2, false, true, 1e8
	}),
}
