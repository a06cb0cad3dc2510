package ltx

import "weft/models"

// secondWords are diffusers' for LTX-2's transformer, of which the video half is read.
var secondWords = models.Words[Config]{
	Of:        "diffusers, of LTX-2",
	Recognize: func(r *models.ConfigReader) bool { return r.Class() == secondDiffusers },
	Defaults: Config{Heads: 32, HeadDim: 128, InChannels: 128, OutChannels: 128, Layers: 48, CrossDim: 4096, Theta: 10000, MaxPos: [3]float64{20, 2048, 2048},
		TimeScale: 1000, Eps: 1e-6, FFBias: true, Causal: true, Second: true},
	Keys: func(c *Config) []models.Key {
		return append(models.FixedKeys("LTX-2.5", "rope_type", "split", "use_prompt_embeddings", false, "causal_offset", 1, "qk_norm", "rms_norm_across_heads",
			"activation_fn", "gelu-approximate", "norm_elementwise_affine", false, "attention_bias", true, "attention_out_bias", true,
			"patch_size", 1, "patch_size_t", 1, "use_prompt_adaln_single", true),
			models.Metadata("caption_channels", "vae_scale_factors", "perturbed_attn", "cross_attn_timestep_scale_multiplier"),
			models.Beside("audio_"),
			models.Int("num_attention_heads", &c.Heads, models.HeadBound),
			models.Int("attention_head_dim", &c.HeadDim, models.WidthBound),
			models.Int("in_channels", &c.InChannels, models.ChannelBound),
			models.Int("out_channels", &c.OutChannels, models.ChannelBound),
			models.Int("num_layers", &c.Layers, models.LayerBound),
			models.Int("cross_attention_dim", &c.CrossDim, models.WidthBound),
			models.Float("rope_theta", &c.Theta, models.ThetaSpan),
			models.Float("pos_embed_max_pos", &c.MaxPos[0], models.Positive),
			models.Float("base_height", &c.MaxPos[1], models.Positive),
			models.Float("base_width", &c.MaxPos[2], models.Positive),
			models.Float("timestep_scale_multiplier", &c.TimeScale, models.Positive),
			models.Float("norm_eps", &c.Eps, models.SmallSpan),
			models.Bool("ff_bias", &c.FFBias),
			models.Bool("cross_attn_mod", &c.CrossAdaLN),
			models.Bool("gated_attn", &c.Gated),
			models.Bool("use_keyframes_abs_pos_embedding", &c.Keyframes))
	},
	Derive: func(c *Config, r *models.ConfigReader) {
		c.TimeGiven = true
		if r.Bool("rope_double_precision", true) {
			c.Precision = "float64"
		}
		checkSizes(c, r)
	},
}
