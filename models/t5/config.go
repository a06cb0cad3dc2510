package t5

import (
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

// configWords are those of transformers, for T5 and UMT5, and of Wan.
var configWords = []models.Words[Config]{
	{
		Of: "transformers", Recognize: func(r *models.ConfigReader) bool { return r.Has("d_model") },
		Defaults: Config{SharedPos: true, Names: "transformers", Buckets: 32, MaxDistance: 128, Eps: 1e-6},
		Keys: func(c *Config) []models.Key {
			return []models.Key{
				models.Metadata("classifier_dropout", "decoder_start_token_id", "dense_act_fn", "dropout_rate", "is_gated_act", "num_decoder_layers",
					"output_past", "scalable_attention", "scale_decoder_outputs", "n_positions", "model_max_length"),
				models.Int("num_heads", &c.Heads, models.HeadBound),
				models.Int("num_layers", &c.Layers, models.LayerBound),
				models.Int("vocab_size", &c.Vocab, models.VocabBound),
				models.Int("d_model", &c.Dim, models.WidthBound),
				models.Int("d_ff", &c.DimFFN, models.WidthBound),
				models.Int("relative_attention_num_buckets", &c.Buckets, bucketBound),
				models.Int("relative_attention_max_distance", &c.MaxDistance, models.RowBound),
				models.Float("layer_norm_epsilon", &c.Eps, models.SmallSpan),
			}
		},
		Derive: deriveFromTransformers,
	},
	{
		Of: "Wan", Defaults: Config{Names: "wan", Buckets: 32, MaxDistance: 128, Eps: 1e-6},
		Keys: func(c *Config) []models.Key {
			return []models.Key{
				models.Int("num_heads", &c.Heads, models.HeadBound),
				models.Int("num_layers", &c.Layers, models.LayerBound),
				models.Int("vocab", &c.Vocab, models.VocabBound).Also("vocab_size"), // the peer's name for it
				models.Int("dim", &c.Dim, models.WidthBound),
				models.Int("dim_attn", &c.DimAttn, models.WidthBound),
				models.Int("dim_ffn", &c.DimFFN, models.WidthBound),
				models.Int("num_buckets", &c.Buckets, bucketBound),
				models.Int("max_distance", &c.MaxDistance, models.RowBound),
				models.Bool("shared_pos", &c.SharedPos),
				models.Float("eps", &c.Eps, models.SmallSpan),
				models.String("names", &c.Names),
			}
		},
	},
}

// bucketBound limits the number of buckets that distances between tokens are sorted into.
var bucketBound = models.Bound{Least: 1, Most: 1 << 12, Why: "it is how many kinds of distances there are"}

// deriveFromTransformers refuses settings that the programs do not implement.
func deriveFromTransformers(c *Config, r *models.ConfigReader) {
	c.DimAttn = r.Multiply("num_heads x d_kv", models.WidthBound, c.Heads, r.Int("d_kv", 64, models.WidthBound))
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

// deriveAndCheck reports numbers that do not fit each other.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	if _, known := published[c.Names]; !known {
		r.Refuse("names %q: want one of %v", c.Names, slices.Sorted(maps.Keys(published)))
	}
	r.Divide("dim_attn", c.DimAttn, "num_heads", c.Heads, false)
	if r.Sound("num_buckets", "max_distance", "relative_attention_num_buckets", "relative_attention_max_distance") && (c.Buckets%4 != 0 || c.MaxDistance <= c.Buckets/4) {
		r.Refuse("num_buckets %d with max_distance %d: a quarter of the buckets is for exact distances either way, a quarter for those up to max_distance", c.Buckets, c.MaxDistance)
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

var presets = map[string]Config{
	"umt5-xxl":        {256384, 4096, 4096, 10240, 64, 24, 32, 128, false, 1e-6, "wan"},
	"t5-v1.1-xxl":     {32128, 4096, 4096, 10240, 64, 24, 32, 128, true, 1e-6, "transformers"},
	"hunyuan1.5-byt5": {384, 1472, 384, 3584, 6, 12, 32, 128, true, 1e-6, "byt5"},
}

// samePreset compares encoders under any publisher's tensor names.
func samePreset(preset, c Config) bool {
	preset.Names = c.Names
	return preset == c
}

// kindName names the kind of encoder that is no preset.
func kindName(c Config) string {
	if c.SharedPos {
		return "t5"
	}
	return "umt5"
}
