// Package hunyuan is the diffusion transformer of HunyuanVideo: layers with a
// stream for the video and one for the text, then layers in which both share
// their weights, all with one attention over both. README.md says what is special
// about it and which splits are legal.
package hunyuan

import (
	"encoding/json"
	"maps"
	"slices"

	"weft/fault"
	"weft/models"
)

// Config is a HunyuanVideo transformer, in the words of the release.
type Config struct {
	Dim      int     `json:"hidden_size"`
	Heads    int     `json:"heads_num"`
	In       int     `json:"in_channels"`
	Out      int     `json:"out_channels"`
	MLPRatio float64 `json:"mlp_width_ratio"`
	Double   int     `json:"mm_double_blocks_depth"`
	Single   int     `json:"mm_single_blocks_depth"`
	Patch    [3]int  `json:"patch_size"`
	// RopeDims are the channels of a head that turn with a token's frame, row and column.
	RopeDims  [3]int  `json:"rope_dim_list"`
	RopeTheta float64 `json:"rope_theta"`
	TextDim   int     `json:"text_states_dim"`
	PooledDim int     `json:"text_states_dim_2"`
	// Guidance models take the scale of guidance as an input.
	Guidance bool `json:"guidance_embed"`
}

// HeadDim is the width of one head.
func (c Config) HeadDim() int { return c.Dim / c.Heads }

// FFNDim is the width of the middle of a block's FFN.
func (c Config) FFNDim() int { return int(float64(c.Dim) * c.MLPRatio) }

// refiners is how many layers refine the text, in every release.
const refiners = 2

var defaults = Config{Dim: 3072, Heads: 24, In: 16, Out: 16, MLPRatio: 4, Double: 20, Single: 40, Patch: [3]int{1, 2, 2},
	RopeDims: [3]int{16, 56, 56}, RopeTheta: 256, TextDim: 4096, PooledDim: 768}

// fixed are the release's keys that the programs take one value of.
type fixed struct {
	Class      string  `json:"_class_name"`
	Act        string  `json:"mlp_act_type"`
	QKNorm     bool    `json:"qk_norm"`
	QKVBias    bool    `json:"qkv_bias"`
	Projection string  `json:"text_projection"`
	Mask       bool    `json:"use_attention_mask"`
	Condition  *string `json:"i2v_condition_type"`
	Glyphs     bool    `json:"glyph_byT5_v2"`
}

// diffusers is config.json as diffusers writes it for the same model.
type diffusers struct {
	Class     string  `json:"_class_name"`
	Heads     int     `json:"num_attention_heads"`
	HeadDim   int     `json:"attention_head_dim"`
	In        int     `json:"in_channels"`
	Out       int     `json:"out_channels"`
	MLPRatio  float64 `json:"mlp_ratio"`
	Double    int     `json:"num_layers"`
	Single    int     `json:"num_single_layers"`
	Refiners  int     `json:"num_refiner_layers"`
	Patch     int     `json:"patch_size"`
	PatchT    int     `json:"patch_size_t"`
	RopeDims  [3]int  `json:"rope_axes_dim"`
	RopeTheta float64 `json:"rope_theta"`
	TextDim   int     `json:"text_embed_dim"`
	PooledDim int     `json:"pooled_projection_dim"`
	Guidance  bool    `json:"guidance_embeds"`
	QKNorm    string  `json:"qk_norm"`
	Condition *string `json:"image_condition_type"`
}

const (
	officialClass  = "HYVideoDiffusionTransformer"
	diffusersClass = "HunyuanVideoTransformer3DModel"
)

func parse(raw []byte) (Config, error) {
	var l fault.List
	unsupported := func(format string, args ...any) { l.Add(fault.New(models.ErrVariant, nil, format, args...)) }
	c := defaults
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return c, fault.New(models.ErrConfig, nil, "not a JSON object: %v", err)
	}
	if _, ok := keys["num_attention_heads"]; ok {
		d := diffusers{diffusersClass, c.Heads, 128, c.In, c.Out, c.MLPRatio, c.Double, c.Single, refiners, 2, 1, c.RopeDims, c.RopeTheta, c.TextDim, c.PooledDim, true, "rms_norm", nil}
		if err := json.Unmarshal(raw, &d); err != nil {
			return c, fault.New(models.ErrConfig, nil, "%v", err)
		}
		c = Config{d.Heads * d.HeadDim, d.Heads, d.In, d.Out, d.MLPRatio, d.Double, d.Single, [3]int{d.PatchT, d.Patch, d.Patch},
			d.RopeDims, d.RopeTheta, d.TextDim, d.PooledDim, d.Guidance}
		if d.Class != diffusersClass {
			unsupported("_class_name %q: this version runs %s", d.Class, diffusersClass)
		}
		if d.Refiners != refiners {
			unsupported("num_refiner_layers %d: every release has %d", d.Refiners, refiners)
		}
		if d.QKNorm != "rms_norm" {
			unsupported("qk_norm %q: every release has rms_norm", d.QKNorm)
		}
		if d.Condition != nil {
			unsupported("image_condition_type %q: image-to-video is not run", *d.Condition)
		}
	} else {
		f := fixed{officialClass, "gelu_tanh", true, true, "single_refiner", true, nil, false}
		for _, to := range []any{&c, &f} {
			if err := json.Unmarshal(raw, to); err != nil {
				return c, fault.New(models.ErrConfig, nil, "%v", err)
			}
		}
		if f.Class != officialClass || f.Glyphs {
			unsupported("_class_name %q, glyph_byT5_v2 %v: this version runs HunyuanVideo's %s, not 1.5's", f.Class, f.Glyphs, officialClass)
		}
		for _, k := range []struct {
			key       string
			got, want any
		}{{"mlp_act_type", f.Act, "gelu_tanh"}, {"qk_norm", f.QKNorm, true}, {"qkv_bias", f.QKVBias, true},
			{"text_projection", f.Projection, "single_refiner"}, {"use_attention_mask", f.Mask, true}} {
			if k.got != k.want {
				unsupported("%s %v: every release has %v, which is all that is run", k.key, k.got, k.want)
			}
		}
		if f.Condition != nil {
			unsupported("i2v_condition_type %q: image-to-video is not run", *f.Condition)
		}
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"hidden_size", c.Dim}, {"heads_num", c.Heads}, {"in_channels", c.In}, {"out_channels", c.Out}, {"mm_double_blocks_depth", c.Double},
		{"mm_single_blocks_depth", c.Single}, {"patch_size[0]", c.Patch[0]}, {"patch_size[1]", c.Patch[1]}, {"patch_size[2]", c.Patch[2]},
		{"text_states_dim", c.TextDim}, {"text_states_dim_2", c.PooledDim}} {
		if n.n < 1 || n.n > 1<<20 {
			l.Add(fault.New(models.ErrConfig, nil, "%s is %d: want a positive number", n.name, n.n))
		}
	}
	if !(c.MLPRatio > 0 && c.MLPRatio < 1000) || !(c.RopeTheta > 0 && c.RopeTheta < 1e12) {
		l.Add(fault.New(models.ErrConfig, nil, "mlp_width_ratio %g, rope_theta %g: want positive numbers", c.MLPRatio, c.RopeTheta))
	}
	if err := l.Err(); err != nil {
		return c, err
	}
	if c.Dim%c.Heads != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "hidden_size %d over heads_num %d: heads must have a whole width", c.Dim, c.Heads))
	}
	sum := 0
	for _, d := range c.RopeDims {
		sum += d
		if d < 2 || d%2 != 0 {
			l.Add(fault.New(models.ErrConfig, nil, "rope_dim_list %v: channels turn in pairs", c.RopeDims))
		}
	}
	if sum != c.HeadDim() {
		l.Add(fault.New(models.ErrConfig, nil, "rope_dim_list %v adds up to %d: want the %d channels of a head", c.RopeDims, sum, c.HeadDim()))
	}
	return c, l.Err()
}

func detect(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	_, double := c["mm_double_blocks_depth"]
	return class == officialClass || class == diffusersClass || class == "" && double
}

func preset(change func(*Config)) json.RawMessage {
	c := defaults
	change(&c)
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return raw
}

var presets = map[string]json.RawMessage{
	"hunyuanvideo":            preset(func(*Config) {}),
	"hunyuanvideo-cfgdistill": preset(func(c *Config) { c.Guidance = true }),
}

func nameOf(c Config) string {
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		if p, err := parse(presets[name]); err == nil && p == c {
			return name
		}
	}
	return "hunyuanvideo"
}

func init() {
	models.Register(models.Family{
		Name:    "hunyuan",
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
