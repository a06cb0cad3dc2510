// Package t5 is the T5 encoder, as text encoders of video models use it: UMT5-XXL
// (Wan), T5 v1.1 XXL (CogVideoX, LTX-Video) and ByT5 small (HunyuanVideo-1.5).
// README.md says what is special about them and which splits are legal.
package t5

import (
	"encoding/json"
	"maps"
	"slices"

	"weft/fault"
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
	MaxDistance int `json:"max_distance"` // distances from here on share the last bucket
	// SharedPos: every layer adds the first one's bias by distance; else each has its own.
	SharedPos bool    `json:"shared_pos"`
	Eps       float64 `json:"eps"`
	// Names are those of the official checkpoint: "wan", "transformers" or "byt5".
	Names string `json:"names"`
}

// HeadDim is the width of one head.
func (c Config) HeadDim() int { return c.DimAttn / c.Heads }

// official are the keys of Wan's T5Encoder; vocab_size is what the peer calls vocab.
type official struct {
	Config
	VocabSize int `json:"vocab_size"`
}

// hugging is what transformers writes for T5 and UMT5.
type hugging struct {
	ModelType   string  `json:"model_type"`
	Vocab       int     `json:"vocab_size"`
	Dim         int     `json:"d_model"`
	HeadDim     int     `json:"d_kv"`
	DimFFN      int     `json:"d_ff"`
	Heads       int     `json:"num_heads"`
	Layers      int     `json:"num_layers"`
	Buckets     int     `json:"relative_attention_num_buckets"`
	MaxDistance int     `json:"relative_attention_max_distance"`
	Eps         float64 `json:"layer_norm_epsilon"`
	FFN         string  `json:"feed_forward_proj"`
}

// parse reads either publisher's config.json and refuses what the programs do not do.
func parse(raw []byte) (Config, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return Config{}, fault.New(models.ErrConfig, nil, "not a JSON object: %v", err)
	}
	var c Config
	var l fault.List
	if keys["d_model"] != nil {
		h := hugging{ModelType: "t5", HeadDim: 64, Buckets: 32, MaxDistance: 128, Eps: 1e-6, FFN: "relu"}
		if err := json.Unmarshal(raw, &h); err != nil {
			return c, fault.New(models.ErrConfig, nil, "%v", err)
		}
		c = Config{Vocab: h.Vocab, Dim: h.Dim, DimAttn: h.Heads * h.HeadDim, DimFFN: h.DimFFN, Heads: h.Heads, Layers: h.Layers,
			Buckets: h.Buckets, MaxDistance: h.MaxDistance, Eps: h.Eps, SharedPos: true, Names: "transformers"}
		switch h.ModelType {
		case "t5", "mt5":
		case "umt5":
			c.SharedPos, c.Names = false, "wan"
		default:
			l.Add(fault.New(models.ErrVariant, nil, "model_type %q: t5, mt5 and umt5 encoders are run", h.ModelType))
		}
		if h.FFN != "gated-gelu" {
			l.Add(fault.New(models.ErrVariant, nil, "feed_forward_proj %q: only gated-gelu is run, which T5 v1.1 and UMT5 have", h.FFN))
		}
	} else {
		o := official{Config: Config{Buckets: 32, MaxDistance: 128, Eps: 1e-6, Names: "wan"}}
		if err := json.Unmarshal(raw, &o); err != nil {
			return c, fault.New(models.ErrConfig, nil, "%v", err)
		}
		c = o.Config
		if c.Vocab == 0 {
			c.Vocab = o.VocabSize
		}
	}
	if _, known := published[c.Names]; !known {
		l.Add(fault.New(models.ErrConfig, nil, "names %q: want one of %v", c.Names, slices.Sorted(maps.Keys(published))))
	}
	l.Add(models.CheckSizes(models.Sized{Name: "vocab", N: c.Vocab}, models.Sized{Name: "dim", N: c.Dim}, models.Sized{Name: "dim_attn", N: c.DimAttn}, models.Sized{Name: "dim_ffn", N: c.DimFFN},
		models.Sized{Name: "num_heads", N: c.Heads}, models.Sized{Name: "num_layers", N: c.Layers}, models.Sized{Name: "num_buckets", N: c.Buckets}, models.Sized{Name: "max_distance", N: c.MaxDistance}))
	l.Add(models.CheckEps("eps", c.Eps))
	if err := l.Err(); err != nil {
		return c, err
	}
	if c.DimAttn%c.Heads != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "dim_attn %d over num_heads %d: heads have a whole width", c.DimAttn, c.Heads))
	}
	if c.Buckets%4 != 0 || c.MaxDistance <= c.Buckets/4 {
		l.Add(fault.New(models.ErrConfig, nil, "num_buckets %d with max_distance %d: a quarter of the buckets is for exact distances either way, a quarter for those up to max_distance", c.Buckets, c.MaxDistance))
	}
	return c, l.Err()
}

// detect says whether a config.json is of a T5 encoder.
func detect(c map[string]any) bool {
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

// nameOf is the preset that c is, whoever published it, or the kind of encoder.
func nameOf(c Config) string {
	name := models.PresetName(presets, parse, func(p Config) bool {
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
		Detect:  detect,
		New: func(_ string, raw []byte) (models.Model, error) {
			c, err := parse(raw)
			if err != nil {
				return nil, err
			}
			return newModel(c), nil
		},
	})
}
