// Package decoder is the decoder-only language models whose hidden states video
// models read as text: Reason1 (Qwen2.5, Cosmos-Predict2.5), Qwen2.5-VL
// (HunyuanVideo-1.5), Llama 3 (HunyuanVideo) and Gemma 4 (LTX-2.5). README.md says
// what is special about them and which splits are legal.
package decoder

import (
	"cmp"
	"encoding/json"
	"reflect"
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

// parseConfig reads a config.json, or the text_config within it where the model has
// other towers too, and refuses values that the programs do not implement.
func parseConfig(r *models.ConfigReader) Config {
	outer := r.String("model_type", "")
	skip := r
	if t := r.Object("text_config"); t != nil {
		r.Metadata("vision_config", "image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id", "vision_token_id",
			"tie_word_embeddings", "image_token_index", "projector_hidden_act", "vision_feature_layer", "vision_feature_select_strategy",
			"audio_config", "audio_token_id", "boi_token_id", "eoi_token_id", "boa_token_id", "eoa_token_id", "vocab_size", "hidden_size")
		r = t
	}
	r.Metadata("max_position_embeddings", "max_window_layers", "pretraining_tp", "tie_word_embeddings", "attention_window", "layer_types",
		"vision_start_token_id", "vision_end_token_id", "vision_token_id", "image_token_id", "video_token_id", "vision_config", "final_logit_softcapping",
		"hidden_size_per_layer_input", "vocab_size_per_layer_input", "sliding_window")
	c := Config{ModelType: r.String("model_type", outer)}
	kind, known := kinds[c.ModelType]
	if !known {
		r.Unsupported("model_type %q: Qwen2, Qwen2.5-VL, Llama, LLaVA and Gemma 4 decoders are run", c.ModelType)
	}
	c.ModelType = kind
	c.Vocab, c.Dim, c.FFNDim = r.Int("vocab_size", 0, models.VocabBound), r.Int("hidden_size", 0, models.WidthBound), r.Int("intermediate_size", 0, models.WidthBound)
	c.Layers, c.Heads = r.Int("num_hidden_layers", 0, models.LayerBound), r.Int("num_attention_heads", 0, models.HeadBound)
	c.KVHeads, c.HeadDim = cmp.Or(r.OptionalInt("num_key_value_heads", models.HeadBound), c.Heads), r.OptionalInt("head_dim", models.WidthBound)
	c.Eps, c.Theta = r.Float("rms_norm_eps", 1e-6, models.SmallSpan), r.Float("rope_theta", 10000, models.ThetaSpan)
	r.Fixed("use_sliding_window", false, "a decoder in which every token sees all before it")
	if kind == gemma {
		c.readGemma(r)
	} else {
		r.Fixed("hidden_act", "silu", "every release")
		c.readRope(r)
	}
	if kind == llama {
		r.Fixed("attention_bias", false, "Llama")
		r.Fixed("mlp_bias", false, "Llama")
	}
	if c.HeadDim == 0 {
		r.Divide("hidden_size", c.Dim, "num_attention_heads", c.Heads, true)
		c.HeadDim = max(2, c.Dim/c.Heads)
	}
	r.MultipleOf("head_dim", c.HeadDim, 2, "a head's halves rotate")
	r.Multiply("num_attention_heads x head_dim", models.WidthBound, c.Heads, c.HeadDim)
	if c.Heads%c.KVHeads != 0 && r.Sound("num_attention_heads", "num_key_value_heads") {
		r.Refuse("num_attention_heads %d with num_key_value_heads %d: as many queries share each key", c.Heads, c.KVHeads)
	}
	if r.Gives("hidden_state_skip_layer") {
		skip = r
	}
	usual := 0
	if kind == llama {
		usual = min(2, c.Layers-1) // HunyuanVideo skips two
	}
	c.SkipLayers = skip.Int("hidden_state_skip_layer", usual, models.Bound{Least: 0, Most: c.Layers - 1, Why: "fewer than num_hidden_layers are skipped"})
	if kind == gemma {
		c.checkGemma(r)
	}
	return c
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

var presets = map[string]json.RawMessage{
	"reason1-7b":           models.Preset(Config{qwen, 152064, 3584, 18944, 28, 28, 4, 128, 1e-6, 1e6, 0, Gemma{}}),
	"hunyuan1.5-qwen-text": models.Preset(Config{qwen, 152064, 3584, 18944, 28, 28, 4, 128, 1e-6, 1e6, 2, Gemma{}}),
	"hunyuan-llama3-8b":    models.Preset(Config{llama, 128320, 4096, 14336, 32, 32, 8, 128, 1e-5, 5e5, 2, Gemma{}}),
	"ltx2.5-gemma4-12b":    models.Preset(Config{gemma, 262144, 3840, 15360, 48, 16, 8, 256, 1e-6, 1e4, 0, Gemma{nil, 1024, 512, 1, 1e6, 0.25}}),
}

// nameOf returns the name of the preset that equals c, and otherwise the kind of
// decoder.
func nameOf(c Config) string {
	if name := models.PresetName(presets, parseConfig, func(p Config) bool { return reflect.DeepEqual(p, c) }); name != "" {
		return name
	}
	return c.ModelType
}

func init() {
	models.Register(models.Family{
		Name:    "decoder",
		Presets: presets,
		Detect:  detectConfig,
		New: func(_ string, r *models.ConfigReader) models.Model {
			c := parseConfig(r)
			return &Model{name: nameOf(c), c: c}
		},
	})
}
