// Package decoder is the decoder-only language models whose hidden states video
// models read as text: Reason1 (Qwen2.5, Cosmos-Predict2.5), Qwen2.5-VL
// (HunyuanVideo-1.5), Llama 3 (HunyuanVideo) and Gemma 4 (LTX-2.5). README.md says
// what is special about them and which splits are legal.
package decoder

import (
	"encoding/json"
	"reflect"
	"slices"

	"weft/fault"
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
	// SkipLayers is how many layers before the last the result is taken: the raw
	// hidden state there. 0 takes that of every layer, the last behind the norm at
	// the end, each normalised over its width, side by side.
	SkipLayers int `json:"hidden_state_skip_layer"`
	Gemma
}

// The kinds of decoders. Qwen's queries, keys and values have biases.
const (
	qwen  = "qwen2"
	llama = "llama"
	gemma = "gemma4_unified_text"
)

// kinds are the model types of configurations, those that hold a vision tower
// besides among them, whose text goes through the same layers.
var kinds = map[string]string{"qwen2": qwen, "qwen2_vl": qwen, "qwen2_vl_text": qwen, "qwen2_5_vl": qwen, "qwen2_5_vl_text": qwen, "": qwen, "llama": llama, "llava": llama,
	gemma: gemma, "gemma4_unified": gemma}

// file is what a config.json may say besides.
type file struct {
	Config
	SkipLayers *int   `json:"hidden_state_skip_layer"`
	Act        string `json:"hidden_act"`
	gemmaFile
	Sliding    bool  `json:"use_sliding_window"`
	Scaling    *rope `json:"rope_scaling"`
	Parameters *rope `json:"rope_parameters"`
	QKVBias    *bool `json:"attention_bias"`
	MLPBias    bool  `json:"mlp_bias"`
}

type rope struct {
	Type  string  `json:"rope_type"`
	Old   string  `json:"type"`
	Theta float64 `json:"rope_theta"`
	gemmaRope
}

// parse reads a config.json, that of the text in it where there are two towers,
// and refuses what the programs do not do.
func parse(raw []byte) (Config, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return Config{}, fault.New(models.ErrConfig, nil, "not a JSON object: %v", err)
	}
	f := file{Config: Config{Eps: 1e-6, Theta: 10000}, Act: "silu"}
	for _, part := range [][]byte{raw, keys["text_config"]} {
		if part == nil {
			continue
		}
		if err := json.Unmarshal(part, &f); err != nil {
			return f.Config, fault.New(models.ErrConfig, nil, "%v", err)
		}
	}
	c := f.Config
	var l fault.List
	kind, known := kinds[c.ModelType]
	if !known {
		l.Add(fault.New(models.ErrVariant, nil, "model_type %q: Qwen2, Qwen2.5-VL, Llama, LLaVA and Gemma 4 decoders are run", c.ModelType))
	}
	c.ModelType = kind
	if f.Act != "silu" && kind != gemma {
		l.Add(fault.New(models.ErrVariant, nil, "hidden_act %q: only silu is run", f.Act))
	}
	if f.Sliding {
		l.Add(fault.New(models.ErrVariant, nil, "use_sliding_window true: every token sees all before it"))
	}
	if c.ModelType == llama && (f.MLPBias || (f.QKVBias != nil && *f.QKVBias)) {
		l.Add(fault.New(models.ErrVariant, nil, "attention_bias or mlp_bias true: Llama is run without"))
	}
	for _, r := range []*rope{f.Scaling, f.Parameters} {
		if r == nil || c.ModelType == gemma {
			continue
		}
		if r.Theta > 0 {
			c.Theta = r.Theta
		}
		// Of text alone the three positions of mrope are one.
		for _, kind := range []string{r.Type, r.Old} {
			if !slices.Contains([]string{"", "default", "mrope"}, kind) {
				l.Add(fault.New(models.ErrVariant, nil, "rope type %q: only plain rotary positions are run", kind))
			}
		}
	}
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.ModelType == gemma {
		l.Add(c.readGemma(f))
	} else {
		c.Gemma = Gemma{} // Qwen's files name the types of layers too
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Dim / c.Heads
	}
	switch {
	case f.SkipLayers != nil:
		c.SkipLayers = *f.SkipLayers
	case c.ModelType == llama:
		c.SkipLayers = 2 // as HunyuanVideo takes it
	}
	l.Add(models.CheckSizes(models.Sized{Name: "vocab_size", N: c.Vocab}, models.Sized{Name: "hidden_size", N: c.Dim}, models.Sized{Name: "intermediate_size", N: c.FFNDim},
		models.Sized{Name: "num_hidden_layers", N: c.Layers}, models.Sized{Name: "num_attention_heads", N: c.Heads},
		models.Sized{Name: "num_key_value_heads", N: c.KVHeads}, models.Sized{Name: "head_dim", N: c.HeadDim}))
	l.Add(models.CheckEps("rms_norm_eps", c.Eps))
	if !(c.Theta > 0) {
		l.Add(fault.New(models.ErrConfig, nil, "rope_theta is %g: want a positive number", c.Theta))
	}
	if err := l.Err(); err != nil {
		return c, err
	}
	l.Add(c.checkGemma())
	if c.HeadDim%2 != 0 || c.Heads%c.KVHeads != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "%d heads of %d with %d key heads: a head's halves rotate, and as many queries share each key", c.Heads, c.HeadDim, c.KVHeads))
	}
	if c.SkipLayers < 0 || c.SkipLayers >= c.Layers {
		l.Add(fault.New(models.ErrConfig, nil, "hidden_state_skip_layer is %d: want 0 to %d, less than num_hidden_layers", c.SkipLayers, c.Layers-1))
	}
	return c, l.Err()
}

// detect says whether a config.json is of a decoder.
func detect(c map[string]any) bool {
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

// nameOf is the preset that c is, or the kind of decoder.
func nameOf(c Config) string {
	if name := models.PresetName(presets, parse, func(p Config) bool { return reflect.DeepEqual(p, c) }); name != "" {
		return name
	}
	return c.ModelType
}

func init() {
	models.Register(models.Family{
		Name:    "decoder",
		Presets: presets,
		Detect:  detect,
		New: func(_ string, raw []byte) (models.Model, error) {
			c, err := parse(raw)
			if err != nil {
				return nil, err
			}
			return &Model{name: nameOf(c), c: c}, nil
		},
	})
}
