// Package wan is the diffusion transformer of Wan2.1 (text-to-video, and
// image-to-video with a CLIP branch) and Wan2.2 (TI2V with a timestep for every
// token, and either expert of A14B). README.md says what is special about them
// and which splits are legal.
package wan

import (
	"encoding/json"
	"slices"
	"strings"

	"weft/fault"
	"weft/models"
)

// Config is a Wan transformer, in the words of the official config.json.
type Config struct {
	ModelType string `json:"model_type"`
	Dim       int    `json:"dim"`
	FFNDim    int    `json:"ffn_dim"`
	Heads     int    `json:"num_heads"`
	Layers    int    `json:"num_layers"`
	FreqDim   int    `json:"freq_dim"`
	TextDim   int    `json:"text_dim"`
	// TextLen is how many rows the text context is padded to with zeros. 0, for
	// diffusers' configurations, which do not have it, takes contexts as they are given.
	TextLen   int     `json:"text_len"`
	InDim     int     `json:"in_dim"` // channels of x and, for i2v, of y behind them
	OutDim    int     `json:"out_dim"`
	PatchSize [3]int  `json:"patch_size"`
	Eps       float64 `json:"eps"`
	// ImageDim is the width of the CLIP features that the image branch reads; 0
	// where there is no such branch.
	ImageDim int `json:"image_dim,omitempty"`
}

// The family's model types.
const (
	t2v  = "t2v"
	i2v  = "i2v"
	ti2v = "ti2v"
)

// clipDim is the width of CLIP ViT-H/14's features, clipRows how many there are
// of an image: official configurations have neither.
const (
	clipDim  = 1280
	clipRows = 257
)

// LatentDim is how many channels x has: what is left of in_dim beside y's.
func (c Config) LatentDim() int {
	if c.ModelType == i2v {
		return c.OutDim
	}
	return c.InDim
}

// ConditionDim is how many channels y has, 0 where the model reads no y.
func (c Config) ConditionDim() int { return c.InDim - c.LatentDim() }

// HeadDim is the width of one head.
func (c Config) HeadDim() int { return c.Dim / c.Heads }

// diffusersConfig is what diffusers writes for the same model.
type diffusersConfig struct {
	Heads      int     `json:"num_attention_heads"`
	HeadDim    int     `json:"attention_head_dim"`
	InChannels int     `json:"in_channels"`
	Out        int     `json:"out_channels"`
	TextDim    int     `json:"text_dim"`
	FreqDim    int     `json:"freq_dim"`
	FFNDim     int     `json:"ffn_dim"`
	Layers     int     `json:"num_layers"`
	Patch      []int   `json:"patch_size"`
	Eps        float64 `json:"eps"`
	QKNorm     *string `json:"qk_norm"`
	CrossNorm  *bool   `json:"cross_attn_norm"`
	ImageDim   *int    `json:"image_dim"`
	AddedKV    *int    `json:"added_kv_proj_dim"`
	TextLen    int     `json:"text_len"`
	PosEmbed   *int    `json:"pos_embed_seq_len"`
}

type officialConfig struct {
	Config
	Patch     []int `json:"patch_size"`
	QKNorm    *bool `json:"qk_norm"`
	CrossNorm *bool `json:"cross_attn_norm"`
	Window    []int `json:"window_size"`
}

// parse reads either publisher's config.json and refuses what the programs do not do.
func parse(raw []byte) (Config, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return Config{}, fault.New(models.ErrConfig, nil, "not a JSON object: %v", err)
	}
	var c Config
	var l fault.List
	unsupported := func(format string, args ...any) {
		l.Add(fault.New(models.ErrVariant, nil, format, args...))
	}
	var class string
	_ = json.Unmarshal(keys["_class_name"], &class)
	if class != "" && class != "WanModel" && class != "WanTransformer3DModel" {
		unsupported("_class_name %q: this version runs WanModel and WanTransformer3DModel", class)
	}
	var patch []int
	if _, diffusers := keys["num_attention_heads"]; diffusers {
		d := diffusersConfig{FreqDim: 256, TextDim: 4096, Eps: 1e-6, Patch: []int{1, 2, 2}}
		if err := json.Unmarshal(raw, &d); err != nil {
			return Config{}, fault.New(models.ErrConfig, nil, "%v", err)
		}
		c = Config{ModelType: t2v, Dim: d.Heads * d.HeadDim, FFNDim: d.FFNDim, Heads: d.Heads, Layers: d.Layers,
			FreqDim: d.FreqDim, TextDim: d.TextDim, TextLen: d.TextLen, InDim: d.InChannels, OutDim: d.Out, Eps: d.Eps}
		patch = d.Patch
		switch {
		case d.ImageDim != nil || d.AddedKV != nil:
			c.ModelType, c.ImageDim = i2v, clipDim
			if d.ImageDim != nil {
				c.ImageDim = *d.ImageDim
			}
		case c.InDim > c.OutDim:
			c.ModelType = i2v
		case c.OutDim == ti2vChannels:
			c.ModelType = ti2v
		}
		if d.AddedKV != nil && *d.AddedKV != c.Dim {
			unsupported("added_kv_proj_dim %d: the image branch reads the model's own width %d", *d.AddedKV, c.Dim)
		}
		if d.PosEmbed != nil {
			unsupported("pos_embed_seq_len %d: first-last-frame models are not run", *d.PosEmbed)
		}
		if d.QKNorm != nil && *d.QKNorm != "rms_norm_across_heads" {
			unsupported("qk_norm %q: Wan normalises across heads (rms_norm_across_heads)", *d.QKNorm)
		}
		if d.CrossNorm != nil && !*d.CrossNorm {
			unsupported("cross_attn_norm false: only true is supported")
		}
	} else {
		o := officialConfig{Config: Config{ModelType: t2v, FreqDim: 256, TextDim: 4096, TextLen: 512, InDim: 16, OutDim: 16, Eps: 1e-6}, Patch: []int{1, 2, 2}}
		if err := json.Unmarshal(raw, &o); err != nil {
			return Config{}, fault.New(models.ErrConfig, nil, "%v", err)
		}
		c = o.Config
		patch = o.Patch
		if o.QKNorm != nil && !*o.QKNorm {
			unsupported("qk_norm false: only true is supported")
		}
		if o.CrossNorm != nil && !*o.CrossNorm {
			unsupported("cross_attn_norm false: only true is supported")
		}
		if len(o.Window) > 0 && !slices.Equal(o.Window, []int{-1, -1}) {
			unsupported("window_size %v: only whole attention [-1 -1] is supported", o.Window)
		}
	}
	if len(patch) != 3 {
		l.Add(fault.New(models.ErrConfig, nil, "patch_size %v: want three numbers", patch))
	} else {
		c.PatchSize = [3]int{patch[0], patch[1], patch[2]}
	}
	switch c.ModelType {
	case t2v, ti2v:
		if c.ImageDim != 0 {
			unsupported("model_type %q with image_dim %d: only i2v has an image branch", c.ModelType, c.ImageDim)
		}
	case i2v:
		if c.InDim <= c.OutDim {
			l.Add(fault.New(models.ErrConfig, nil, "model_type i2v with in_dim %d and out_dim %d: x has out_dim channels and y, behind it, the rest", c.InDim, c.OutDim))
		}
		if c.ImageDim < 0 || c.ImageDim > 1<<24 {
			l.Add(fault.New(models.ErrConfig, nil, "image_dim is %d: want a positive number", c.ImageDim))
		}
	default:
		unsupported("model_type %q: this version runs t2v, i2v and ti2v", c.ModelType)
	}
	l.Add(models.CheckSizes(models.Sized{Name: "dim", N: c.Dim}, models.Sized{Name: "ffn_dim", N: c.FFNDim}, models.Sized{Name: "num_heads", N: c.Heads},
		models.Sized{Name: "num_layers", N: c.Layers}, models.Sized{Name: "freq_dim", N: c.FreqDim}, models.Sized{Name: "text_dim", N: c.TextDim},
		models.Sized{Name: "in_dim", N: c.InDim}, models.Sized{Name: "out_dim", N: c.OutDim}, models.Sized{Name: "patch_size[0]", N: c.PatchSize[0]},
		models.Sized{Name: "patch_size[1]", N: c.PatchSize[1]}, models.Sized{Name: "patch_size[2]", N: c.PatchSize[2]}))
	if c.TextLen < 0 || c.TextLen > 1<<20 {
		l.Add(fault.New(models.ErrConfig, nil, "text_len is %d: want 1 or more", c.TextLen))
	}
	l.Add(models.CheckEps("eps", c.Eps))
	if err := l.Err(); err != nil {
		return c, err
	}
	if c.Dim%c.Heads != 0 || c.HeadDim()%2 != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "dim %d over num_heads %d: heads must have an even whole width", c.Dim, c.Heads))
	}
	if c.FreqDim%2 != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "freq_dim %d: sines and cosines come in pairs", c.FreqDim))
	}
	return c, l.Err()
}

// detect says whether a config.json is a Wan transformer of either publisher.
func detect(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	if strings.HasPrefix(class, "Wan") && !strings.HasPrefix(class, "WanVAE") {
		return true
	}
	_, dim := c["dim"]
	_, ffn := c["ffn_dim"]
	_, freq := c["freq_dim"]
	return class == "" && dim && ffn && freq
}

// ti2vChannels is how many channels Wan2.2's own VAE has; diffusers'
// configurations tell TI2V apart by nothing else.
const ti2vChannels = 48

func preset(kind string, dim, ffn, heads, layers, in, out, image int) json.RawMessage {
	c := Config{ModelType: kind, Dim: dim, FFNDim: ffn, Heads: heads, Layers: layers, FreqDim: 256, TextDim: 4096, TextLen: 512,
		InDim: in, OutDim: out, PatchSize: [3]int{1, 2, 2}, Eps: 1e-6, ImageDim: image}
	return models.Preset(c)
}

// presets by name. A14B's experts are the same model as Wan2.1's, without its image branch.
var presets = map[string]json.RawMessage{
	"wan2.1-t2v-1.3b": preset(t2v, 1536, 8960, 12, 30, 16, 16, 0),
	"wan2.1-t2v-14b":  preset(t2v, 5120, 13824, 40, 40, 16, 16, 0),
	"wan2.1-i2v-14b":  preset(i2v, 5120, 13824, 40, 40, 36, 16, clipDim),
	"wan2.2-ti2v-5b":  preset(ti2v, 3072, 14336, 24, 30, 48, 48, 0),
	"wan2.2-t2v-a14b": preset(t2v, 5120, 13824, 40, 40, 16, 16, 0),
	"wan2.2-i2v-a14b": preset(i2v, 5120, 13824, 40, 40, 36, 16, 0),
}

// nameOf is the preset that c is, the first by name of equal ones, or the kind
// of model. How long the text is makes no other model: diffusers does not say.
func nameOf(c Config) string {
	name := models.PresetName(presets, parse, func(p Config) bool {
		p.TextLen = c.TextLen
		return p == c
	})
	if name != "" {
		return name
	}
	if c.ModelType == ti2v || (c.ModelType == i2v && c.ImageDim == 0) {
		return "wan2.2-" + c.ModelType
	}
	return "wan2.1-" + c.ModelType
}

func init() {
	models.Register(models.Family{
		Name:    "wan",
		Presets: presets,
		Detect:  detect,
		New: func(name string, raw []byte) (models.Model, error) {
			c, err := parse(raw)
			if err != nil {
				return nil, err
			}
			if own, known := presets[name]; !known || string(own) != string(raw) {
				name = nameOf(c)
			}
			return &Model{name: name, c: c}, nil
		},
	})
}
