package decoder

import (
	"cmp"
	"slices"

	"weft/models"
)

// Config is a decoder, in the words of transformers' config.json.
type Config struct {
	ModelType string  `json:"model_type"` // "qwen2", "llama" or "gemma4_unified_text"
	Vocab     int     `json:"vocab_size"`
	Dim       int     `json:"hidden_size"`
	FFNDim    int     `json:"intermediate_size"`
	Layers    int     `json:"num_hidden_layers"`
	Heads     int     `json:"num_attention_heads"`
	KVHeads   int     `json:"num_key_value_heads"`
	HeadDim   int     `json:"head_dim"`
	Eps       float64 `json:"rms_norm_eps"`
	Theta     float64 `json:"rope_theta"`
	// SkipLayers is the number of layers at the end that are not run: the result is
	// the raw hidden state in front of them. 0 means that the result is the hidden
	// states of every layer side by side, the last one behind the final norm, each
	// normalised over its width.
	SkipLayers int `json:"hidden_state_skip_layer"`
	// Images is the configuration of LLaVA's image tower, whose rows stand in the text; "" for a
	// decoder of text alone.
	Images string `json:"image_tower,omitempty"`
	Gemma
}

// The kinds of decoders. Only Qwen's queries, keys and values have biases.
const (
	qwen  = "qwen2"
	llama = "llama"
	gemma = "gemma4_unified_text"
)

// kinds maps the model_type of a config.json to the kind of decoder. Some of these
// models also have a vision tower, but their text goes through the same layers.
var kinds = map[string]string{"qwen2": qwen, "qwen2_vl": qwen, "qwen2_vl_text": qwen, "qwen2_5_vl": qwen, "qwen2_5_vl_text": qwen, "": qwen, "llama": llama, "llava": llama,
	gemma: gemma, "gemma4_unified": gemma}

// configWords are those of transformers' config.json, or of the text_config within it where the
// model has other towers too.
var configWords = []models.Words[Config]{
	{
		Of: "transformers, of several towers", Recognize: func(r *models.ConfigReader) bool { return r.Has("text_config") },
		Within: func(r *models.ConfigReader) *models.ConfigReader {
			r.Metadata("vision_config", "multimodal_projector_bias", "image_seq_length", "image_token_id", "video_token_id",
				"vision_start_token_id", "vision_end_token_id", "vision_token_id",
				"tie_word_embeddings", "image_token_index", "projector_hidden_act", "vision_feature_layer", "vision_feature_select_strategy",
				"audio_config", "audio_token_id", "boi_token_id", "eoi_token_id", "boa_token_id", "eoa_token_id", "vocab_size", "hidden_size")
			return r.ObjectOr("text_config")
		},
		Defaults: defaults, Keys: configKeys, Derive: deriveAndCheck,
	},
	{Of: "transformers", Defaults: defaults, Keys: configKeys, Derive: deriveAndCheck},
}

var defaults = Config{Eps: 1e-6, Theta: 10000}

func configKeys(c *Config) []models.Key {
	return []models.Key{
		models.Metadata("max_position_embeddings", "max_window_layers", "pretraining_tp", "tie_word_embeddings", "attention_window", "layer_types",
			"vision_start_token_id", "vision_end_token_id", "vision_token_id", "image_token_id", "video_token_id", "vision_config", "final_logit_softcapping",
			"hidden_size_per_layer_input", "vocab_size_per_layer_input", "sliding_window"),
		models.String("model_type", &c.ModelType),
		models.String("image_tower", &c.Images),
		models.Int("vocab_size", &c.Vocab, models.VocabBound),
		models.Int("hidden_size", &c.Dim, models.WidthBound),
		models.Int("intermediate_size", &c.FFNDim, models.WidthBound),
		models.Int("num_hidden_layers", &c.Layers, models.LayerBound),
		models.Int("num_attention_heads", &c.Heads, models.HeadBound),
		models.OptionalInt("num_key_value_heads", &c.KVHeads, models.HeadBound),
		models.OptionalInt("head_dim", &c.HeadDim, models.WidthBound),
		models.Float("rms_norm_eps", &c.Eps, models.SmallSpan),
		models.Float("rope_theta", &c.Theta, models.ThetaSpan),
		models.Fixed("use_sliding_window", false, "a decoder in which every token sees all before it"),
	}
}

// deriveAndCheck reads what only one kind of decoder has, and refuses values that the programs do
// not implement.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	// Files of several towers may state two keys outside of text_config.
	outer := r.Outer()
	c.ModelType = cmp.Or(c.ModelType, outer.String("model_type", ""))
	kind, known := kinds[c.ModelType]
	if !known {
		r.Unsupported("model_type %q: Qwen2, Qwen2.5-VL, Llama, LLaVA and Gemma 4 decoders are run", c.ModelType)
	}
	c.ModelType, c.KVHeads = kind, cmp.Or(c.KVHeads, c.Heads)
	if kind == gemma {
		c.readGemma(r)
	} else {
		r.Fixed("hidden_act", "silu", "every release")
		c.readRope(r)
	}
	usual := 0 // layers that are skipped
	if kind == llama {
		r.Read(models.FixedKeys("Llama", "attention_bias", false, "mlp_bias", false)...)
		usual = min(2, c.Layers-1) // HunyuanVideo skips two
	}
	if outer != r && outer.String("model_type", "") == "llava" {
		c.readTower(outer)
	}
	c.checkHeads(r)
	if r.Gives("hidden_state_skip_layer") {
		outer = r
	}
	c.SkipLayers = outer.Int("hidden_state_skip_layer", usual, models.Bound{Least: 0, Most: c.Layers - 1, Why: "fewer than num_hidden_layers are skipped"})
	if kind == gemma {
		c.checkGemma(r)
	}
}

// checkHeads derives the width of a head where the file does not state it, and reports
// heads that cannot be split.
func (c *Config) checkHeads(r *models.ConfigReader) {
	if c.HeadDim == 0 {
		r.Divide("hidden_size", c.Dim, "num_attention_heads", c.Heads, true)
		c.HeadDim = max(2, c.Dim/c.Heads)
	}
	r.MultipleOf("head_dim", c.HeadDim, 2, "a head's halves rotate")
	r.Multiply("num_attention_heads x head_dim", models.WidthBound, c.Heads, c.HeadDim)
	if c.Heads%c.KVHeads != 0 && r.Sound("num_attention_heads", "num_key_value_heads") {
		r.Refuse("num_attention_heads %d with num_key_value_heads %d: as many queries share each key", c.Heads, c.KVHeads)
	}
}

// readRope reads the settings of rotary positions of every decoder but Gemma, and
// refuses scaled ones.
func (c *Config) readRope(r *models.ConfigReader) {
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		p := r.Object(key)
		if p == nil {
			continue
		}
		p.Metadata("mrope_section", "mrope_interleaved")
		c.Theta = p.Float("rope_theta", c.Theta, models.ThetaSpan)
		// mrope gives a token three positions, which are equal for text.
		for _, kind := range []string{p.String("rope_type", ""), p.String("type", "")} {
			if !slices.Contains([]string{"", "default", "mrope"}, kind) {
				r.Unsupported("%s: rope type %q: only plain rotary positions are run", key, kind)
			}
		}
	}
}

// detectConfig says whether a config.json describes a decoder.
func detectConfig(c map[string]any) bool {
	kind, _ := c["model_type"].(string)
	_, known := kinds[kind]
	if kind != "" {
		return known
	}
	for _, k := range []string{"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "rms_norm_eps"} {
		if c[k] == nil {
			return false
		}
	}
	return c["_class_name"] == nil
}

var presets = map[string]Config{
	"reason1-7b":           {qwen, 152064, 3584, 18944, 28, 28, 4, 128, 1e-6, 1e6, 0, "", Gemma{}},
	"hunyuan1.5-qwen-text": {qwen, 152064, 3584, 18944, 28, 28, 4, 128, 1e-6, 1e6, 2, "", Gemma{}},
	"hunyuan-llama3-8b":    {llama, 128320, 4096, 14336, 32, 32, 8, 128, 1e-5, 5e5, 2, "", Gemma{}},
	// Its image tower is the preset llava-clip-l-336.
	"hunyuan-llava-llama3-8b": {llama, 128320, 4096, 14336, 32, 32, 8, 128, 1e-5, 5e5, 2, imageTower{1024, 4096, 16, 23, 336, 14, 4096, 1e-5, "quick_gelu"}.config(), Gemma{}},
	"ltx2.5-gemma4-12b":       {gemma, 262144, 3840, 15360, 48, 16, 8, 256, 1e-6, 1e4, 0, "", Gemma{usualLayerTypes(48), 1024, 512, 1, 1e6, 0.25}},
}
