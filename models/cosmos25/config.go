package cosmos25

import (
	"weft/models"
)

// Config is a Cosmos-Predict2.5 transformer, in the words of NVIDIA's own
// MinimalV1LVGDiT. Released checkpoints have no config.json.
type Config struct {
	Width         int     `json:"model_channels"`
	Heads         int     `json:"num_heads"`
	Layers        int     `json:"num_blocks"`
	MLPRatio      float64 `json:"mlp_ratio"`
	InChannels    int     `json:"in_channels"` // of the latents; two masks come behind
	OutChannels   int     `json:"out_channels"`
	PatchSpatial  int     `json:"patch_spatial"`
	PatchTemporal int     `json:"patch_temporal"`
	LoRADim       int     `json:"adaln_lora_dim"`
	TextDim       int     `json:"crossattn_proj_in_channels"` // of the text encoder's layers, end to end
	ContextDim    int     `json:"crossattn_emb_channels"`     // of a text row after its projection
	TimeScale     float64 `json:"timestep_scale"`
	// RoPE ratios stretch the base of an axis' frequencies: 10000 r^(n/(n-2)) for n channels.
	RopeT float64 `json:"rope_t_extrapolation_ratio"`
	RopeH float64 `json:"rope_h_extrapolation_ratio"`
	RopeW float64 `json:"rope_w_extrapolation_ratio"`
}

// TextLen is how many rows the text context is padded to with zeros.
const TextLen = 512

// eps is the epsilon of every norm. In diffusers the norms of q and k have the
// default 1e-5 of its attention, with which the model was not trained.
const eps = 1e-6

// masks is the number of channels behind the latents' channels: one says which
// frames are given, the other which pixels are real.
const masks = 2

// HeadDim returns the width of one head.
func (c Config) HeadDim() int { return c.Width / c.Heads }

// FFN returns the width of the hidden layer.
func (c Config) FFN() int { return int(float64(c.Width) * c.MLPRatio) }

// Patch returns how many latent frames, rows and columns make one token.
func (c Config) Patch() [3]int { return [3]int{c.PatchTemporal, c.PatchSpatial, c.PatchSpatial} }

// rotaryChannels returns how many of a head's d channels rotate by the frame, the row
// and the column: d - 4(d/6), 2(d/6) and 2(d/6).
func (c Config) rotaryChannels() [3]int {
	n := c.HeadDim() / 6 * 2
	return [3]int{c.HeadDim() - 2*n, n, n}
}

// defaults are the values of NVIDIA's code for keys that a config.json leaves out.
var defaults = Config{MLPRatio: 4, InChannels: 16, OutChannels: 16, PatchSpatial: 2, PatchTemporal: 1, LoRADim: 256,
	TextDim: 100352, ContextDim: 1024, TimeScale: 0.001, RopeT: 1, RopeH: 3, RopeW: 3}

// configWords are those of NVIDIA's config.json and of diffusers'.
var configWords = []models.Words[Config]{
	{
		Of:        "diffusers",
		Recognize: func(r *models.ConfigReader) bool { return r.Has("num_attention_heads") },
		Defaults: Config{MLPRatio: 4, Heads: 32, Layers: 28, InChannels: 17, OutChannels: 16, LoRADim: 256,
			TextDim: 1024, ContextDim: 1024, TimeScale: 0.001, RopeT: 1, RopeH: 3, RopeW: 3},
		Keys: func(c *Config) []models.Key {
			return append(sharedKeys(c),
				models.Metadata("max_size", "img_context_dim_out", "img_context_num_tokens"),
				models.Int("num_attention_heads", &c.Heads, models.HeadBound),
				models.Int("num_layers", &c.Layers, models.LayerBound),
				models.Int("in_channels", &c.InChannels, models.Bound{Least: 2, Most: models.ChannelBound.Most, Why: "a mask of given frames comes behind the latents' channels"}),
				models.Int("crossattn_proj_in_channels", &c.TextDim, models.WidthBound),
				models.Int("encoder_hidden_states_channels", &c.ContextDim, models.WidthBound))
		},
		Derive: deriveFromDiffusers,
	},
	{
		Of: "NVIDIA", Defaults: defaults,
		Keys: func(c *Config) []models.Key {
			return append(sharedKeys(c),
				models.Int("model_channels", &c.Width, models.WidthBound),
				models.Int("num_heads", &c.Heads, models.HeadBound),
				models.Int("num_blocks", &c.Layers, models.LayerBound),
				models.Int("in_channels", &c.InChannels, models.ChannelBound),
				models.Int("patch_spatial", &c.PatchSpatial, models.PatchBound),
				models.Int("patch_temporal", &c.PatchTemporal, models.PatchBound),
				models.Int("crossattn_proj_in_channels", &c.TextDim, models.WidthBound),
				models.Int("crossattn_emb_channels", &c.ContextDim, models.WidthBound),
				models.Float("timestep_scale", &c.TimeScale, models.Positive),
				models.Float("rope_t_extrapolation_ratio", &c.RopeT, models.Positive),
				models.Float("rope_h_extrapolation_ratio", &c.RopeH, models.Positive),
				models.Float("rope_w_extrapolation_ratio", &c.RopeW, models.Positive))
		},
	},
}

// sharedKeys are those that both publishers write.
func sharedKeys(c *Config) []models.Key {
	return append(models.FixedKeys("Cosmos-Predict2.5", "concat_padding_mask", true, "use_adaln_lora", true, "extra_per_block_abs_pos_emb", false,
		"rope_enable_fps_modulation", false, "pos_emb_cls", "rope3d", "extra_pos_embed_type", nil),
		models.Fixed("controlnet_block_every_n", nil, "a model other than Cosmos-Transfer2.5"),
		models.Float("mlp_ratio", &c.MLPRatio, models.RatioSpan),
		models.Int("out_channels", &c.OutChannels, models.ChannelBound),
		models.Int("adaln_lora_dim", &c.LoRADim, models.WidthBound))
}

// deriveFromDiffusers turns what diffusers states differently into NVIDIA's words.
func deriveFromDiffusers(c *Config, r *models.ConfigReader) {
	if !r.Gives("extra_pos_embed_type") {
		r.Unsupported("extra_pos_embed_type is not there, which means learnable: that is Cosmos-Predict1; Predict2.5 has null")
	}
	c.Width = r.Multiply("num_attention_heads x attention_head_dim", models.WidthBound, c.Heads, r.Int("attention_head_dim", 128, models.WidthBound))
	c.InChannels-- // it counts the mask of given frames
	patch := r.Three("patch_size", [3]int{1, 2, 2}, models.PatchBound)
	r.Agree("patch_size[1]", patch[1], "patch_size[2]", patch[2], "patches are square")
	c.PatchTemporal, c.PatchSpatial = patch[0], patch[1]
	scale := r.Floats("rope_scale", []float64{2, 1, 1}, 3, models.Positive)
	c.RopeT, c.RopeH, c.RopeW = scale[0], scale[1], scale[2]
	r.Agree("text_embed_dim", r.Int("text_embed_dim", 1024, models.WidthBound), "encoder_hidden_states_channels", c.ContextDim, "layers read what the projection makes")
}

// deriveAndCheck refuses values that the programs do not implement.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	for _, key := range []string{"extra_image_context_dim", "img_context_dim_in"} {
		if n := r.OptionalInt(key, models.Bound{Least: 0, Most: models.WidthBound.Most, Why: "it is a width"}); n > 0 {
			r.Unsupported("%s %d: models that read an image's context are not run", key, n)
		}
	}
	if !r.Bool("use_crossattn_projection", !r.Has("num_attention_heads")) {
		r.Unsupported("use_crossattn_projection false: that is Cosmos-Predict2, whose text is T5's; Predict2.5 projects Reason1's")
	}
	r.Agree("in_channels", c.InChannels, "out_channels", c.OutChannels, "the model reads latents (beside any masks) and gives their velocity")
	r.Divide("model_channels", c.Width, "num_heads", c.Heads, true)
	if c.HeadDim() < 12 && r.Sound("model_channels x num_heads", "num_attention_heads x attention_head_dim") {
		r.Refuse("model_channels %d over num_heads %d: heads must have an even whole width of at least 12, so that each axis has more than two channels", c.Width, c.Heads)
	}
	r.Scale("mlp_ratio x model_channels", models.WidthBound, c.Width, c.MLPRatio)
}

// detectConfig says whether a config.json describes a Cosmos-Predict transformer, in
// NVIDIA's words or in diffusers'.
func detectConfig(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	if class != "" {
		return class == "MinimalV1LVGDiT" || class == "MiniTrainDIT" || class == "CosmosTransformer3DModel"
	}
	_, width := c["model_channels"]
	_, lora := c["adaln_lora_dim"]
	return width && lora
}

// makePreset makes the configuration of a release. The arguments are the sizes in which
// releases differ.
func makePreset(width, heads, layers int) Config {
	c := defaults
	c.Width, c.Heads, c.Layers = width, heads, layers
	return c
}

var presets = map[string]Config{
	"cosmos2.5-2b":  makePreset(2048, 16, 28),
	"cosmos2.5-14b": makePreset(5120, 40, 36),
}
