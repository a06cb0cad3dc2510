package hunyuan

import (
	"cmp"
	"slices"

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
	// ImageCondition is how HunyuanVideo reads the image that a video begins with: latentConcat,
	// tokenReplace, or "" for a model of text alone.
	ImageCondition string `json:"i2v_condition_type,omitempty"`
	// Glyphs marks HunyuanVideo-1.5. It reads rows of byT5 for the letters quoted in the
	// text, and the latents and feature rows of an image, but no pooled text. It has double
	// layers only.
	Glyphs bool `json:"glyph_byT5_v2,omitempty"`
	// GlyphDim is the width of byT5's rows, GlyphHidden the hidden width of the MLP that
	// embeds them. Released configs state neither; defaults15 has the values.
	GlyphDim    int `json:"byt5_dim,omitempty"`
	GlyphHidden int `json:"byt5_hidden,omitempty"`
	VisionDim   int `json:"vision_states_dim,omitempty"` // width of the image's feature rows

	// Resolution and Task are words of the release's name that HunyuanVideo-1.5's official
	// file states. The tensors do not tell its releases apart: all have the same shapes.
	Resolution string `json:"-"`
	Task       string `json:"-"`
	// SizeBase is the side of the square with the area of a release's videos, 0 where nothing says it.
	SizeBase int `json:"-"`
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

// configWords are those of either version by either publisher. Each publisher has a class for each
// version; without a class, keys tell them apart.
var configWords = []models.Words[Config]{
	{
		Of: "diffusers, of HunyuanVideo", Recognize: isClass(diffusersClass, "num_attention_heads"), Defaults: diffusersDefaults(defaults, 2),
		Keys: func(c *Config) []models.Key {
			return append(diffusersKeys(c),
				models.String("image_condition_type", &c.ImageCondition),
				models.Int("in_channels", &c.In, models.ChannelBound),
				models.Int("num_single_layers", &c.Single, models.LayerBound),
				models.Int("pooled_projection_dim", &c.PooledDim, models.WidthBound),
				models.Bool("guidance_embeds", &c.Guidance))
		},
		Derive: deriveImageChannels,
	},
	{
		Of: "diffusers, of HunyuanVideo-1.5", Recognize: isClass(diffusersClass15, ""), Defaults: diffusersDefaults(defaults15, 1),
		Keys: func(c *Config) []models.Key {
			return append(diffusersKeys(c),
				models.Fixed("use_meanflow", false, "HunyuanVideo-1.5"),
				models.String("task_type", &c.Task),
				models.Int("text_embed_2_dim", &c.GlyphDim, models.WidthBound),
				models.Int("byt5_hidden", &c.GlyphHidden, models.WidthBound),
				models.Int("image_embed_dim", &c.VisionDim, models.WidthBound))
		},
		Derive: deriveFromDiffusers15,
	},
	{
		Of: "Tencent, of HunyuanVideo-1.5", Recognize: isClass(officialClass15, "glyph_byT5_v2"), Defaults: defaults15,
		Keys: func(c *Config) []models.Key {
			return slices.Concat(officialKeys(c), models.FixedKeys("HunyuanVideo-1.5", "glyph_byT5_v2", true, "mm_single_blocks_depth", 0,
				"guidance_embed", false, "concat_condition", true, "is_reshape_temporal_channels", false, "vision_projection", "linear",
				"use_cond_type_embedding", true, "use_meanflow", false, "text_pool_type", nil),
				[]models.Key{
					models.Metadata("text_states_dim_2"), // width of the pooled text, which HunyuanVideo alone reads
					models.Int("byt5_dim", &c.GlyphDim, models.WidthBound),
					models.Int("byt5_hidden", &c.GlyphHidden, models.WidthBound),
					models.Int("vision_states_dim", &c.VisionDim, models.WidthBound),
				})
		},
		Derive: checkOfficial,
	},
	{
		Of: "Tencent, of HunyuanVideo", Defaults: defaults,
		Keys: func(c *Config) []models.Key {
			return append(officialKeys(c),
				models.Fixed("glyph_byT5_v2", false, "a model other than HunyuanVideo-1.5, whose _class_name is "+officialClass15+","),
				models.String("i2v_condition_type", &c.ImageCondition),
				models.Int("mm_single_blocks_depth", &c.Single, models.LayerBound),
				models.Int("text_states_dim_2", &c.PooledDim, models.WidthBound),
				models.Bool("guidance_embed", &c.Guidance))
		},
		Derive: checkOfficial,
	},
}

// isClass says of a configuration whether it has a class, or has none that is known and the
// key key.
func isClass(class, key string) func(r *models.ConfigReader) bool {
	return func(r *models.ConfigReader) bool {
		named := r.Class()
		if slices.Contains(classes, named) || key == "" {
			return named == class
		}
		if key == "glyph_byT5_v2" {
			return r.Bool(key, false)
		}
		return r.Has(key)
	}
}

var classes = []string{officialClass, diffusersClass, officialClass15, diffusersClass15}

const everyRelease = "every release"

// officialKeys are those that the releases of both versions share.
func officialKeys(c *Config) []models.Key {
	return append(models.FixedKeys(everyRelease, "mlp_act_type", "gelu_tanh", "qk_norm", true, "qk_norm_type", "rms", "qkv_bias", true,
		"text_projection", "single_refiner", "use_attention_mask", true),
		models.Metadata("attn_mode", "attn_param"), // how its own code computes attention
		models.Int("hidden_size", &c.Dim, models.WidthBound),
		models.Int("heads_num", &c.Heads, models.HeadBound),
		models.Int("in_channels", &c.In, models.ChannelBound),
		models.Int("out_channels", &c.Out, models.ChannelBound),
		models.Float("mlp_width_ratio", &c.MLPRatio, models.RatioSpan),
		models.Int("mm_double_blocks_depth", &c.Double, models.LayerBound),
		models.Ints("patch_size", c.Patch[:], models.PatchBound),
		models.Ints("rope_dim_list", c.RopeDims[:], models.WidthBound),
		models.Float("rope_theta", &c.RopeTheta, models.ThetaSpan),
		models.Int("text_states_dim", &c.TextDim, models.WidthBound))
}

func checkOfficial(c *Config, r *models.ConfigReader) {
	r.Divide("hidden_size", c.Dim, "heads_num", c.Heads, false)
}

// diffusersDefaults are diffusers' defaults for a version. patch is that of patch_size: the
// latent rows and columns of a token.
func diffusersDefaults(c Config, patch int) Config {
	c.Patch, c.Guidance = [3]int{1, patch, patch}, !c.Glyphs
	return c
}

// diffusersKeys are those that diffusers' configs of both versions share.
func diffusersKeys(c *Config) []models.Key {
	return []models.Key{
		models.Int("num_attention_heads", &c.Heads, models.HeadBound),
		models.Int("out_channels", &c.Out, models.ChannelBound),
		models.Float("mlp_ratio", &c.MLPRatio, models.RatioSpan),
		models.Int("num_layers", &c.Double, models.LayerBound),
		models.Int("patch_size_t", &c.Patch[0], models.PatchBound),
		models.Int("patch_size", &c.Patch[1], models.PatchBound),
		models.Ints("rope_axes_dim", c.RopeDims[:], models.WidthBound),
		models.Float("rope_theta", &c.RopeTheta, models.ThetaSpan),
		models.Int("text_embed_dim", &c.TextDim, models.WidthBound),
		models.Fixed("num_refiner_layers", refiners, everyRelease),
		models.Fixed("qk_norm", "rms_norm", everyRelease),
	}
}

func deriveFromDiffusers(c *Config, r *models.ConfigReader) {
	c.Dim = r.Multiply("num_attention_heads x attention_head_dim", models.WidthBound, c.Heads, r.Int("attention_head_dim", 128, models.WidthBound))
	c.Patch[2] = c.Patch[1]
}

// deriveFromDiffusers15 takes the latents' channels from in_channels, which counts all that are embedded.
func deriveFromDiffusers15(c *Config, r *models.ConfigReader) {
	deriveFromDiffusers(c, r)
	c.SizeBase = r.OptionalInt("target_size", models.SizeBound)
	c.Resolution = resolutions[c.SizeBase]
	c.takeLatentChannels(r, r.Int("in_channels", defaults15.embeddedChannels(), models.ChannelBound))
}

// deriveImageChannels does so for HunyuanVideo, where an image's latents are embedded with the
// video's.
func deriveImageChannels(c *Config, r *models.ConfigReader) {
	deriveFromDiffusers(c, r)
	if c.ImageCondition == latentConcat {
		c.takeLatentChannels(r, c.In)
	}
}

// takeLatentChannels finds how many channels latents have of in that are embedded.
func (c *Config) takeLatentChannels(r *models.ConfigReader, in int) {
	if c.In = (in - 1) / 2; c.embeddedChannels() != in {
		r.Unsupported("in_channels %d: want an odd number, the latents', the image's and one more; nearest: %d or %d", in, in-1, in+1)
	}
}

// deriveAndCheck reports numbers that do not fit each other.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	r.String("_class_name", "") // a text, if anything
	c.Resolution, c.Task = cmp.Or(c.Resolution, r.String("ideal_resolution", "")), cmp.Or(c.Task, r.String("ideal_task", ""))
	if !slices.Contains([]string{"", latentConcat, tokenReplace}, c.ImageCondition) {
		r.Unsupported("an image condition %q: %s and %s are run", c.ImageCondition, latentConcat, tokenReplace)
	}
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
	refuseSkyReels(c, r)
}

// detectConfig says whether a config.json describes a model of this family.
func detectConfig(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	_, double := c["mm_double_blocks_depth"]
	return slices.Contains(classes, class) || class == "" && double
}

// makeDistilled makes HunyuanVideo with guidance as an input.
func makeDistilled() Config {
	c := defaults
	c.Guidance = true
	return c
}

// makeImageToVideo makes HunyuanVideo-I2V: that of 16 channels, which reads guidance as an input, or
// that of 33.
func makeImageToVideo(condition string) Config {
	c := defaults
	c.ImageCondition, c.Guidance = condition, condition == tokenReplace
	return c
}

var presets = map[string]Config{"hunyuanvideo": defaults, "hunyuanvideo-cfgdistill": makeDistilled(), "hunyuan1.5": defaults15,
	"hunyuanvideo-i2v": makeImageToVideo(tokenReplace), "hunyuanvideo-i2v-33ch": makeImageToVideo(latentConcat)}

// samePreset does not compare the words of the release's name.
func samePreset(preset, c Config) bool {
	preset.Resolution, preset.Task, preset.SizeBase = c.Resolution, c.Task, c.SizeBase
	return preset == c
}

// kindName is the name of the release with the same inputs.
func kindName(c Config) string {
	switch {
	case c.Glyphs:
		return "hunyuan1.5"
	case c.ImageCondition == latentConcat:
		return "hunyuanvideo-i2v-33ch"
	case c.ImageCondition == tokenReplace:
		return "hunyuanvideo-i2v"
	case c.Guidance:
		return "hunyuanvideo-cfgdistill"
	}
	return "hunyuanvideo"
}
