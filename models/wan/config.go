// Package wan is Wan2.1's text-to-video diffusion transformer.
package wan

import (
	"encoding/json"
	"fmt"
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
	InDim     int     `json:"in_dim"`
	OutDim    int     `json:"out_dim"`
	PatchSize [3]int  `json:"patch_size"`
	Eps       float64 `json:"eps"`
}

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
	var patch []int
	if _, diffusers := keys["num_attention_heads"]; diffusers {
		d := diffusersConfig{FreqDim: 256, TextDim: 4096, Eps: 1e-6, Patch: []int{1, 2, 2}}
		if err := json.Unmarshal(raw, &d); err != nil {
			return Config{}, fault.New(models.ErrConfig, nil, "%v", err)
		}
		c = Config{ModelType: "t2v", Dim: d.Heads * d.HeadDim, FFNDim: d.FFNDim, Heads: d.Heads, Layers: d.Layers,
			FreqDim: d.FreqDim, TextDim: d.TextDim, TextLen: d.TextLen, InDim: d.InChannels, OutDim: d.Out, Eps: d.Eps}
		patch = d.Patch
		if d.ImageDim != nil || d.AddedKV != nil {
			c.ModelType = "i2v"
		}
		if d.QKNorm != nil && *d.QKNorm != "rms_norm_across_heads" {
			unsupported("qk_norm %q: Wan normalises across heads (rms_norm_across_heads)", *d.QKNorm)
		}
		if d.CrossNorm != nil && !*d.CrossNorm {
			unsupported("cross_attn_norm false: only true is supported")
		}
	} else {
		o := officialConfig{Config: Config{ModelType: "t2v", FreqDim: 256, TextDim: 4096, TextLen: 512, InDim: 16, OutDim: 16, Eps: 1e-6}, Patch: []int{1, 2, 2}}
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
	if c.ModelType != "t2v" {
		unsupported("model_type %q: this version runs t2v", c.ModelType)
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"dim", c.Dim}, {"ffn_dim", c.FFNDim}, {"num_heads", c.Heads}, {"num_layers", c.Layers}, {"freq_dim", c.FreqDim},
		{"text_dim", c.TextDim}, {"in_dim", c.InDim}, {"out_dim", c.OutDim}, {"patch_size[0]", c.PatchSize[0]},
		{"patch_size[1]", c.PatchSize[1]}, {"patch_size[2]", c.PatchSize[2]}} {
		if f.n < 1 || f.n > 1<<24 {
			l.Add(fault.New(models.ErrConfig, nil, "%s is %d: want a positive number", f.name, f.n))
		}
	}
	if c.TextLen < 0 || c.TextLen > 1<<20 {
		l.Add(fault.New(models.ErrConfig, nil, "text_len is %d: want 1 or more", c.TextLen))
	}
	if !(c.Eps > 0 && c.Eps < 1) {
		l.Add(fault.New(models.ErrConfig, nil, "eps is %g: want a small positive number", c.Eps))
	}
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
	if strings.HasPrefix(class, "Wan") {
		return true
	}
	_, dim := c["dim"]
	_, ffn := c["ffn_dim"]
	_, freq := c["freq_dim"]
	return class == "" && dim && ffn && freq
}

func preset(dim, ffn, heads, layers int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"model_type":"t2v","dim":%d,"ffn_dim":%d,"num_heads":%d,"num_layers":%d,"freq_dim":256,"text_dim":4096,"text_len":512,"in_dim":16,"out_dim":16,"patch_size":[1,2,2],"eps":1e-06}`,
		dim, ffn, heads, layers))
}

func init() {
	models.Register(models.Family{
		Name: "wan2.1",
		Presets: map[string]json.RawMessage{
			"wan2.1-t2v-1.3b": preset(1536, 8960, 12, 30),
			"wan2.1-t2v-14b":  preset(5120, 13824, 40, 40),
		},
		Detect: detect,
		New: func(name string, raw []byte) (models.Model, error) {
			c, err := parse(raw)
			if err != nil {
				return nil, err
			}
			if name == "" {
				name = "wan2.1-" + c.ModelType
			}
			return &Model{name: name, c: c}, nil
		},
	})
}
