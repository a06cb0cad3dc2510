// Package t5 holds T5 encoders that video models use as text encoders: UMT5-XXL (Wan), T5
// v1.1 XXL (CogVideoX, LTX-Video) and ByT5 small (HunyuanVideo-1.5). README.md says what is
// special about them and which splits are legal.
package t5

import (
	"encoding/json"
	"maps"
	"slices"

	"weft/models"
)

// Config is an encoder, in the words of Wan's T5Encoder.
type Config struct {
	Vocab       int `json:"vocab"`
	Dim         int `json:"dim"`
	DimAttn     int `json:"dim_attn"` // heads times their width
	DimFFN      int `json:"dim_ffn"`
	Heads       int `json:"num_heads"`
	Layers      int `json:"num_layers"`
	Buckets     int `json:"num_buckets"`
	MaxDistance int `json:"max_distance"` // distances from this one on share the last bucket
	// SharedPos says that all layers share the first layer's table of biases by
	// distance. Otherwise each layer has its own.
	SharedPos bool    `json:"shared_pos"`
	Eps       float64 `json:"eps"`
	// Names says whose tensor names the official checkpoint has: "wan",
	// "transformers" or "byt5".
	Names string `json:"names"`
}

// HeadDim is the width of one head.
func (c Config) HeadDim() int { return c.DimAttn / c.Heads }

// parseConfig reads either publisher's config.json. It refuses settings that the programs do
// not implement.
func parseConfig(r *models.ConfigReader) Config {
	c := Config{SharedPos: true, Names: "transformers", Heads: r.Int("num_heads", 0, models.HeadBound), Layers: r.Int("num_layers", 0, models.LayerBound)}
	if r.Has("d_model") {
		c.readTransformers(r)
	} else {
		vocab := "vocab"
		if !r.Gives(vocab) && r.Has("vocab_size") {
			vocab = "vocab_size" // the peer's name for it
		}
		c.Vocab, c.Dim = r.Int(vocab, 0, models.VocabBound), r.Int("dim", 0, models.WidthBound)
		c.DimAttn, c.DimFFN = r.Int("dim_attn", 0, models.WidthBound), r.Int("dim_ffn", 0, models.WidthBound)
		c.Buckets, c.MaxDistance = r.Int("num_buckets", 32, bucketBound), r.Int("max_distance", 128, models.RowBound)
		c.SharedPos, c.Eps, c.Names = r.Bool("shared_pos", false), r.Float("eps", 1e-6, models.SmallSpan), r.String("names", "wan")
	}
	if _, known := published[c.Names]; !known {
		r.Refuse("names %q: want one of %v", c.Names, slices.Sorted(maps.Keys(published)))
	}
	r.Divide("dim_attn", c.DimAttn, "num_heads", c.Heads, false)
	if r.Sound("num_buckets", "max_distance", "relative_attention_num_buckets", "relative_attention_max_distance") && (c.Buckets%4 != 0 || c.MaxDistance <= c.Buckets/4) {
		r.Refuse("num_buckets %d with max_distance %d: a quarter of the buckets is for exact distances either way, a quarter for those up to max_distance", c.Buckets, c.MaxDistance)
	}
	return c
}

// bucketBound limits the number of buckets that distances between tokens are sorted into.
var bucketBound = models.Bound{Least: 1, Most: 1 << 12, Why: "it is how many kinds of distances there are"}

// readTransformers reads the config.json that transformers writes for T5 and UMT5.
func (c *Config) readTransformers(r *models.ConfigReader) {
	r.Metadata("classifier_dropout", "decoder_start_token_id", "dense_act_fn", "dropout_rate", "is_gated_act", "num_decoder_layers",
		"output_past", "scalable_attention", "scale_decoder_outputs", "n_positions", "model_max_length")
	c.Vocab, c.Dim, c.DimFFN = r.Int("vocab_size", 0, models.VocabBound), r.Int("d_model", 0, models.WidthBound), r.Int("d_ff", 0, models.WidthBound)
	c.DimAttn = r.Multiply("num_heads x d_kv", models.WidthBound, c.Heads, r.Int("d_kv", 64, models.WidthBound))
	c.Buckets, c.MaxDistance = r.Int("relative_attention_num_buckets", 32, bucketBound), r.Int("relative_attention_max_distance", 128, models.RowBound)
	c.Eps = r.Float("layer_norm_epsilon", 1e-6, models.SmallSpan)
	switch kind := r.String("model_type", "t5"); kind {
	case "t5", "mt5":
	case "umt5":
		c.SharedPos, c.Names = false, "wan"
	default:
		r.Unsupported("model_type %q: t5, mt5 and umt5 encoders are run", kind)
	}
	if ffn := r.String("feed_forward_proj", "relu"); ffn != "gated-gelu" {
		r.Unsupported("feed_forward_proj %q: only gated-gelu is run, which T5 v1.1 and UMT5 have", ffn)
	}
}

// detectConfig says whether a config.json describes a T5 encoder.
func detectConfig(c map[string]any) bool {
	has := func(keys ...string) bool {
		for _, k := range keys {
			if c[k] == nil {
				return false
			}
		}
		return true
	}
	return has("d_model", "d_kv", "d_ff") || has("dim_attn", "dim_ffn")
}

var presets = map[string]json.RawMessage{
	"umt5-xxl":        models.Preset(Config{256384, 4096, 4096, 10240, 64, 24, 32, 128, false, 1e-6, "wan"}),
	"t5-v1.1-xxl":     models.Preset(Config{32128, 4096, 4096, 10240, 64, 24, 32, 128, true, 1e-6, "transformers"}),
	"hunyuan1.5-byt5": models.Preset(Config{384, 1472, 384, 3584, 6, 12, 32, 128, true, 1e-6, "byt5"}),
}

// nameOf is the name of the preset with the configuration c, under any publisher's tensor
// names, or else of the kind of encoder.
func nameOf(c Config) string {
	name := models.PresetName(presets, parseConfig, func(p Config) bool {
		p.Names = c.Names
		return p == c
	})
	if name != "" {
		return name
	}
	if c.SharedPos {
		return "t5"
	}
	return "umt5"
}

func init() {
	models.Register(models.Family{
		Name:    "t5",
		Presets: presets,
		Detect:  detectConfig,
		New:     func(_ string, r *models.ConfigReader) models.Model { return newModel(parseConfig(r)) },
	})
}
