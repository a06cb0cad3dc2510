// Package hunyuan is the diffusion transformers of HunyuanVideo and
// HunyuanVideo-1.5: layers with a stream for the video and one for the text, in the
// former then layers in which both share their weights, all with one attention
// over both. README.md says what is special about them and which splits are legal.
package hunyuan

import (
	"encoding/json"

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
	// Glyphs is HunyuanVideo-1.5: it reads byT5's rows for the letters in the text, and
	// of an image latents and rows, but no pooled text, and has no layers of the second kind.
	Glyphs bool `json:"glyph_byT5_v2,omitempty"`
	// GlyphDim and GlyphHidden are the widths of byT5's rows and of the middle of what
	// embeds them. Released configs have neither: both are as in defaults15.
	GlyphDim    int `json:"byt5_dim,omitempty"`
	GlyphHidden int `json:"byt5_hidden,omitempty"`
	VisionDim   int `json:"vision_states_dim,omitempty"` // width of the image's rows
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
	Act        string  `json:"mlp_act_type"`
	QKNorm     bool    `json:"qk_norm"`
	QKVBias    bool    `json:"qkv_bias"`
	Projection string  `json:"text_projection"`
	Mask       bool    `json:"use_attention_mask"`
	Condition  *string `json:"i2v_condition_type"`
	Glyphs     bool    `json:"glyph_byT5_v2"`
}

var usual = fixed{"gelu_tanh", true, true, "single_refiner", true, nil, false}

// diffusers is config.json as diffusers writes it for the same model.
type diffusers struct {
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

// reader is one publisher's config.json of one version.
type reader func(raw []byte, l *fault.List) (Config, error)

// classes are the readers by the class that config.json names.
var classes = map[string]reader{officialClass: official, diffusersClass: fromDiffusers, officialClass15: official15, diffusersClass15: fromDiffusers15}

func parse(raw []byte) (Config, error) {
	var kind struct {
		Class  string `json:"_class_name"`
		Heads  *int   `json:"num_attention_heads"`
		Glyphs bool   `json:"glyph_byT5_v2"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return defaults, fault.New(models.ErrConfig, nil, "%v", err)
	}
	read := classes[kind.Class]
	switch {
	case read != nil:
	case kind.Heads != nil:
		read = fromDiffusers
	case kind.Glyphs:
		read = official15
	default:
		read = official
	}
	var l fault.List
	c, err := read(raw, &l)
	if err != nil {
		return c, fault.New(models.ErrConfig, nil, "%v", err)
	}
	if err := l.Err(); err != nil {
		return c, err
	}
	return c, c.check()
}

func unsupported(format string, args ...any) error {
	return fault.New(models.ErrVariant, nil, format, args...)
}

// official reads the release's config of HunyuanVideo.
func official(raw []byte, l *fault.List) (Config, error) {
	c, f := defaults, usual
	if err := f.read(raw, &c, l); err != nil {
		return c, err
	}
	if f.Glyphs {
		l.Add(unsupported("glyph_byT5_v2 true is HunyuanVideo-1.5's, whose _class_name is %s", officialClass15))
	}
	if f.Condition != nil {
		l.Add(unsupported("i2v_condition_type %q: image-to-video is not run", *f.Condition))
	}
	return c, nil
}

// read reads a release's config into c and the keys of which the programs take one value.
func (f *fixed) read(raw []byte, c *Config, l *fault.List) error {
	for _, to := range []any{c, f} {
		if err := json.Unmarshal(raw, to); err != nil {
			return err
		}
	}
	for _, k := range []struct {
		key       string
		got, want any
	}{{"mlp_act_type", f.Act, usual.Act}, {"qk_norm", f.QKNorm, usual.QKNorm}, {"qkv_bias", f.QKVBias, usual.QKVBias},
		{"text_projection", f.Projection, usual.Projection}, {"use_attention_mask", f.Mask, usual.Mask}} {
		if k.got != k.want {
			l.Add(unsupported("%s %v: every release has %v, which is all that is run", k.key, k.got, k.want))
		}
	}
	return nil
}

// fromDiffusers reads diffusers' config of HunyuanVideo.
func fromDiffusers(raw []byte, l *fault.List) (Config, error) {
	c := defaults
	d := diffusers{c.Heads, 128, c.In, c.Out, c.MLPRatio, c.Double, c.Single, refiners, 2, 1, c.RopeDims, c.RopeTheta, c.TextDim, c.PooledDim, true, "rms_norm", nil}
	if err := json.Unmarshal(raw, &d); err != nil {
		return c, err
	}
	d.common(&c, l)
	c.In, c.Single, c.PooledDim, c.Guidance = d.In, d.Single, d.PooledDim, d.Guidance
	if d.Condition != nil {
		l.Add(unsupported("image_condition_type %q: image-to-video is not run", *d.Condition))
	}
	return c, nil
}

// common is what both versions have.
func (d *diffusers) common(c *Config, l *fault.List) {
	c.Dim, c.Heads, c.Out, c.MLPRatio, c.Double = d.Heads*d.HeadDim, d.Heads, d.Out, d.MLPRatio, d.Double
	c.Patch, c.RopeDims, c.RopeTheta, c.TextDim = [3]int{d.PatchT, d.Patch, d.Patch}, d.RopeDims, d.RopeTheta, d.TextDim
	if d.Refiners != refiners {
		l.Add(unsupported("num_refiner_layers %d: every release has %d", d.Refiners, refiners))
	}
	if d.QKNorm != "rms_norm" {
		l.Add(unsupported("qk_norm %q: every release has rms_norm", d.QKNorm))
	}
}

type named struct {
	name string
	n    int
}

// check reports sizes that no model can have.
func (c Config) check() error {
	var l fault.List
	sizes := []named{{"hidden_size", c.Dim}, {"heads_num", c.Heads}, {"in_channels", c.In}, {"out_channels", c.Out}, {"mm_double_blocks_depth", c.Double},
		{"patch_size[0]", c.Patch[0]}, {"patch_size[1]", c.Patch[1]}, {"patch_size[2]", c.Patch[2]}, {"text_states_dim", c.TextDim}}
	if c.Glyphs {
		sizes = append(sizes, named{"byt5_dim", c.GlyphDim}, named{"byt5_hidden", c.GlyphHidden}, named{"vision_states_dim", c.VisionDim})
	} else {
		sizes = append(sizes, named{"mm_single_blocks_depth", c.Single}, named{"text_states_dim_2", c.PooledDim})
	}
	for _, n := range sizes {
		if n.n < 1 || n.n > 1<<20 {
			l.Add(fault.New(models.ErrConfig, nil, "%s is %d: want a positive number", n.name, n.n))
		}
	}
	if !(c.MLPRatio > 0 && c.MLPRatio < 1000) || !(c.RopeTheta > 0 && c.RopeTheta < 1e12) {
		l.Add(fault.New(models.ErrConfig, nil, "mlp_width_ratio %g, rope_theta %g: want positive numbers", c.MLPRatio, c.RopeTheta))
	}
	if err := l.Err(); err != nil {
		return err
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
	return l.Err()
}

func detect(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	_, double := c["mm_double_blocks_depth"]
	return classes[class] != nil || class == "" && double
}

func preset(c Config, change func(*Config)) json.RawMessage {
	change(&c)
	return models.Preset(c)
}

var presets = map[string]json.RawMessage{
	"hunyuanvideo":            preset(defaults, func(*Config) {}),
	"hunyuanvideo-cfgdistill": preset(defaults, func(c *Config) { c.Guidance = true }),
	"hunyuan1.5":              preset(defaults15, func(*Config) {}),
}

func nameOf(c Config) string {
	if name := models.PresetName(presets, parse, func(p Config) bool { return p == c }); name != "" {
		return name
	}
	if c.Glyphs {
		return "hunyuan1.5"
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
