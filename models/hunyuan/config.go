// Package hunyuan holds the diffusion transformers of HunyuanVideo and HunyuanVideo-1.5.
// Their layers keep a residual stream for the video and one for the text, and attend over
// both at once. In a double layer each stream has weights of its own. HunyuanVideo has
// single layers after them, in which both streams share their weights. README.md says what
// is special about the models and which splits are legal.
package hunyuan

import (
	"encoding/json"

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
	// RopeDims are the numbers of channels of a head that are rotated by a token's
	// frame, row and column.
	RopeDims  [3]int  `json:"rope_dim_list"`
	RopeTheta float64 `json:"rope_theta"`
	TextDim   int     `json:"text_states_dim"`
	PooledDim int     `json:"text_states_dim_2"`
	// Guidance says that the model takes the scale of guidance as an input.
	Guidance bool `json:"guidance_embed"`
	// Glyphs marks HunyuanVideo-1.5. It reads rows of byT5 for the letters quoted in the
	// text, and the latents and feature rows of an image, but no pooled text. It has double
	// layers only.
	Glyphs bool `json:"glyph_byT5_v2,omitempty"`
	// GlyphDim is the width of byT5's rows, GlyphHidden the hidden width of the MLP that
	// embeds them. Released configs state neither; defaults15 has the values.
	GlyphDim    int `json:"byt5_dim,omitempty"`
	GlyphHidden int `json:"byt5_hidden,omitempty"`
	VisionDim   int `json:"vision_states_dim,omitempty"` // width of the image's feature rows
}

// HeadDim is the width of one head.
func (c Config) HeadDim() int { return c.Dim / c.Heads }

// FFNDim is the hidden width of a block's FFN.
func (c Config) FFNDim() int { return int(float64(c.Dim) * c.MLPRatio) }

// refiners is the number of layers that refine the text; every release has two.
const refiners = 2

var defaults = Config{Dim: 3072, Heads: 24, In: 16, Out: 16, MLPRatio: 4, Double: 20, Single: 40, Patch: [3]int{1, 2, 2},
	RopeDims: [3]int{16, 56, 56}, RopeTheta: 256, TextDim: 4096, PooledDim: 768}

const (
	officialClass  = "HYVideoDiffusionTransformer"
	diffusersClass = "HunyuanVideoTransformer3DModel"
)

// classes maps the class that config.json names to its reader: each publisher has a class
// for each of the two versions.
var classes = map[string]func(*models.ConfigReader) Config{officialClass: fromOfficial, diffusersClass: fromDiffusers, officialClass15: fromOfficial15, diffusersClass15: fromDiffusers15}

// parseConfig reads the config.json of either version by either publisher. It refuses
// settings that the programs do not implement.
func parseConfig(r *models.ConfigReader) Config {
	read := classes[r.String("_class_name", "")]
	switch {
	case read != nil:
	case r.Has("num_attention_heads"):
		read = fromDiffusers
	case r.Bool("glyph_byT5_v2", false):
		read = fromOfficial15
	default:
		read = fromOfficial
	}
	c := read(r)
	r.Agree("in_channels", c.In, "out_channels", c.Out, "the model reads latents and gives their velocity")
	sum := 0
	for _, d := range c.RopeDims {
		sum += d
		if d%2 != 0 && r.Sound("rope_dim_list", "rope_axes_dim") {
			r.Refuse("rope dims %v: channels turn in pairs", c.RopeDims)
			break
		}
	}
	if r.Sound("rope_dim_list", "rope_axes_dim", "hidden_size x heads_num", "num_attention_heads x attention_head_dim") && sum != c.HeadDim() {
		r.Refuse("rope dims %v add up to %d: want the %d channels of a head", c.RopeDims, sum, c.HeadDim())
	}
	r.Scale("mlp_width_ratio x mlp_ratio x hidden_size", models.WidthBound, c.Dim, c.MLPRatio)
	return c
}

// everyRelease names who has the one value of a key that the programs implement; messages
// about other values use it.
const everyRelease = "every release"

// fromOfficial reads the release's config of HunyuanVideo.
func fromOfficial(r *models.ConfigReader) Config {
	c := readOfficial(r, defaults)
	r.Fixed("glyph_byT5_v2", false, "a model other than HunyuanVideo-1.5, whose _class_name is "+officialClass15+",")
	r.Fixed("i2v_condition_type", nil, "a text-to-video model")
	c.Single = r.Int("mm_single_blocks_depth", defaults.Single, models.LayerBound)
	c.PooledDim = r.Int("text_states_dim_2", defaults.PooledDim, models.WidthBound)
	c.Guidance = r.Bool("guidance_embed", false)
	return c
}

// readOfficial reads the keys that the releases of both versions share.
func readOfficial(r *models.ConfigReader, d Config) Config {
	c := d
	r.Fixed("mlp_act_type", "gelu_tanh", everyRelease)
	r.Fixed("qk_norm", true, everyRelease)
	r.Fixed("qk_norm_type", "rms", everyRelease)
	r.Fixed("qkv_bias", true, everyRelease)
	r.Fixed("text_projection", "single_refiner", everyRelease)
	r.Fixed("use_attention_mask", true, everyRelease)
	r.Metadata("attn_mode", "attn_param") // how its own code computes attention
	c.Dim, c.Heads = r.Int("hidden_size", d.Dim, models.WidthBound), r.Int("heads_num", d.Heads, models.HeadBound)
	c.In, c.Out = r.Int("in_channels", d.In, models.ChannelBound), r.Int("out_channels", d.Out, models.ChannelBound)
	c.MLPRatio, c.Double = r.Float("mlp_width_ratio", d.MLPRatio, models.RatioSpan), r.Int("mm_double_blocks_depth", d.Double, models.LayerBound)
	c.Patch, c.RopeDims = r.Three("patch_size", d.Patch, models.PatchBound), r.Three("rope_dim_list", d.RopeDims, models.WidthBound)
	c.RopeTheta, c.TextDim = r.Float("rope_theta", d.RopeTheta, models.ThetaSpan), r.Int("text_states_dim", d.TextDim, models.WidthBound)
	r.Divide("hidden_size", c.Dim, "heads_num", c.Heads, false)
	return c
}

// fromDiffusers reads diffusers' config of HunyuanVideo.
func fromDiffusers(r *models.ConfigReader) Config {
	c := readDiffusers(r, defaults, 2)
	r.Fixed("image_condition_type", nil, "a text-to-video model")
	c.In, c.Single = r.Int("in_channels", defaults.In, models.ChannelBound), r.Int("num_single_layers", defaults.Single, models.LayerBound)
	c.PooledDim, c.Guidance = r.Int("pooled_projection_dim", defaults.PooledDim, models.WidthBound), r.Bool("guidance_embeds", true)
	return c
}

// readDiffusers reads the keys that diffusers' configs of both versions share. patch is the
// default of patch_size: the latent rows and columns of a token.
func readDiffusers(r *models.ConfigReader, d Config, patch int) Config {
	c := d
	c.Heads = r.Int("num_attention_heads", d.Heads, models.HeadBound)
	c.Dim = r.Multiply("num_attention_heads x attention_head_dim", models.WidthBound, c.Heads, r.Int("attention_head_dim", 128, models.WidthBound))
	c.Out, c.MLPRatio = r.Int("out_channels", d.Out, models.ChannelBound), r.Float("mlp_ratio", d.MLPRatio, models.RatioSpan)
	c.Double = r.Int("num_layers", d.Double, models.LayerBound)
	patch = r.Int("patch_size", patch, models.PatchBound)
	c.Patch = [3]int{r.Int("patch_size_t", 1, models.PatchBound), patch, patch}
	c.RopeDims, c.RopeTheta = r.Three("rope_axes_dim", d.RopeDims, models.WidthBound), r.Float("rope_theta", d.RopeTheta, models.ThetaSpan)
	c.TextDim = r.Int("text_embed_dim", d.TextDim, models.WidthBound)
	r.Fixed("num_refiner_layers", refiners, everyRelease)
	r.Fixed("qk_norm", "rms_norm", everyRelease)
	return c
}

// detectConfig says whether a config.json describes a model of this family.
func detectConfig(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	_, double := c["mm_double_blocks_depth"]
	return classes[class] != nil || class == "" && double
}

// makePreset encodes a changed copy of c as a preset.
func makePreset(c Config, change func(*Config)) json.RawMessage {
	change(&c)
	return models.Preset(c)
}

var presets = map[string]json.RawMessage{
	"hunyuanvideo":            makePreset(defaults, func(*Config) {}),
	"hunyuanvideo-cfgdistill": makePreset(defaults, func(c *Config) { c.Guidance = true }),
	"hunyuan1.5":              makePreset(defaults15, func(*Config) {}),
}

// nameOf is the name of the preset with the configuration c, or else of the release of its
// kind.
func nameOf(c Config) string {
	if name := models.PresetName(presets, parseConfig, func(p Config) bool { return p == c }); name != "" {
		return name
	}
	switch {
	case c.Glyphs:
		return "hunyuan1.5"
	case c.Guidance:
		return "hunyuanvideo-cfgdistill"
	}
	return "hunyuanvideo"
}

func init() {
	models.Register(models.Family{
		Name:    "hunyuan",
		Presets: presets,
		Detect:  detectConfig,
		New: func(_ string, r *models.ConfigReader) models.Model {
			c := parseConfig(r)
			m := &Model{name: nameOf(c), c: c}
			for _, key := range []string{"ideal_resolution", "ideal_task"} {
				if hint := r.String(key, ""); hint != "" {
					m.hints = append(m.hints, hint)
				}
			}
			return m
		},
	})
}
