package wan

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

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
	// ImageRows is how many rows of CLIP features, those of the first and of the last image,
	// have a learned position; 0 for a model that reads one image, whose rows have none.
	ImageRows int `json:"pos_embed_seq_len,omitempty"`
	// ControlLayers are the layers of a VACE model whose result one of its control blocks adds
	// to, in order and from 0 on; empty for other models. ControlDim is the number of
	// channels of the control video's latents and mask.
	ControlLayers []int `json:"vace_layers,omitempty"`
	ControlDim    int   `json:"vace_in_dim,omitempty"`
}

// The family's model types.
const (
	t2v   = "t2v"
	i2v   = "i2v"
	ti2v  = "ti2v"
	flf2v = "flf2v" // of a first and a last frame
	vace  = "vace"  // of a control video, a mask and reference images
)

// maskDim is the number of y's channels that say which frames are given: one for
// each of the 4 video frames that one latent frame covers.
const maskDim = 4

// clipDim is the width of CLIP ViT-H/14's features, and clipRows is the number of
// feature rows of one image. Official configurations state neither.
const (
	clipDim  = 1280
	clipRows = 257
)

// readsY says whether the model reads the channels of given frames behind those of x.
func (c Config) readsY() bool { return c.ModelType == i2v || c.ModelType == flf2v }

// LatentDim returns the number of x's channels: those of in_dim that are not y's.
func (c Config) LatentDim() int {
	if c.readsY() {
		return c.OutDim
	}
	return c.InDim
}

// ConditionDim returns the number of y's channels, 0 where the model reads no y.
func (c Config) ConditionDim() int { return c.InDim - c.LatentDim() }

// HeadDim returns the width of one head.
func (c Config) HeadDim() int { return c.Dim / c.Heads }

// ti2vChannels is the number of latent channels of Wan2.2's own VAE. Nothing else
// in diffusers' configurations distinguishes TI2V.
const ti2vChannels = 48

// The classes of VACE models, in the official words, in those of VideoX-Fun, which copies them, and
// in diffusers'.
const (
	officialControlClass  = "VaceWanModel"
	funControlClass       = "VaceWanTransformer3DModel"
	diffusersControlClass = "WanVACETransformer3DModel"
)

func isOfficialControl(class string) bool {
	return class == officialControlClass || class == funControlClass
}

// detectConfig says whether a config.json describes a Wan transformer, in the
// official form or in diffusers'.
func detectConfig(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	if strings.HasPrefix(class, "Wan") && !strings.HasPrefix(class, "WanVAE") || isOfficialControl(class) || isVariantClass(class) {
		return true
	}
	_, dim := c["dim"]
	_, ffn := c["ffn_dim"]
	_, freq := c["freq_dim"]
	return class == "" && dim && ffn && freq
}

// configWords are those of the official config.json and of diffusers'.
var configWords = []models.Words[Config]{
	{
		Of:        "diffusers",
		Recognize: func(r *models.ConfigReader) bool { return r.Has("num_attention_heads") },
		Defaults:  Config{FreqDim: 256, TextDim: 4096, PatchSize: [3]int{1, 2, 2}, Eps: 1e-6},
		Keys: func(c *Config) []models.Key {
			return append(sharedKeys(c),
				models.Metadata("rope_max_seq_len"), // how long diffusers makes its tables
				models.Int("num_attention_heads", &c.Heads, models.HeadBound),
				models.Int("in_channels", &c.InDim, models.ChannelBound),
				models.Int("out_channels", &c.OutDim, models.ChannelBound),
				models.OptionalInt("text_len", &c.TextLen, models.RowBound),
				models.OptionalInt("vace_in_channels", &c.ControlDim, controlBound),
				models.Fixed("qk_norm", "rms_norm_across_heads", everyRelease))
		},
		Derive: deriveFromDiffusers,
	},
	{
		Of:       "Wan",
		Defaults: Config{ModelType: t2v, FreqDim: 256, TextDim: 4096, TextLen: 512, InDim: 16, OutDim: 16, PatchSize: [3]int{1, 2, 2}, Eps: 1e-6},
		Keys: func(c *Config) []models.Key {
			return append(sharedKeys(c),
				models.String("model_type", &c.ModelType),
				models.Int("dim", &c.Dim, models.WidthBound),
				models.Int("num_heads", &c.Heads, models.HeadBound),
				models.Int("in_dim", &c.InDim, models.ChannelBound),
				models.Int("out_dim", &c.OutDim, models.ChannelBound),
				models.OptionalInt("vace_in_dim", &c.ControlDim, controlBound),
				models.Int("text_len", &c.TextLen, models.Bound{Least: 0, Most: models.RowBound.Most, Why: models.RowBound.Why + "; 0 takes texts as they are"}),
				models.Fixed("qk_norm", true, everyRelease))
		},
		Derive: func(c *Config, r *models.ConfigReader) {
			r.Divide("dim", c.Dim, "num_heads", c.Heads, true)
			window := r.Ints("window_size", []int{-1, -1}, 2, models.Bound{Least: -1, Most: models.SizeBound.Most, Why: "-1 is the whole video"})
			if window[0] != -1 || window[1] != -1 {
				r.Unsupported("window_size %v: only whole attention [-1 -1] is supported", window)
			}
			deriveOfficialVariant(c, r)
		},
	},
}

const everyRelease = "every release"

// sharedKeys are those that both publishers write.
func sharedKeys(c *Config) []models.Key {
	return append(variantKeys(),
		models.Int("num_layers", &c.Layers, models.LayerBound),
		models.Int("ffn_dim", &c.FFNDim, models.WidthBound),
		models.Int("freq_dim", &c.FreqDim, models.WidthBound),
		models.Int("text_dim", &c.TextDim, models.WidthBound),
		models.Ints("patch_size", c.PatchSize[:], models.PatchBound),
		models.Float("eps", &c.Eps, models.SmallSpan),
		models.OptionalInt("pos_embed_seq_len", &c.ImageRows, models.Bound{Least: 0, Most: models.RowBound.Most, Why: "it is the rows of features of a first and a last image, 0 for none"}),
		models.OptionalInt("image_dim", &c.ImageDim, models.Bound{Least: 0, Most: models.WidthBound.Most, Why: "it is the width of the image's features, 0 for none"}),
		models.Fixed("cross_attn_norm", true, everyRelease),
	)
}

var controlBound = models.Bound{Least: 0, Most: models.ChannelBound.Most, Why: "it is the channels of a control video, 0 for none"}

// deriveOfficialVariant fills in what official configurations leave to the code: the sizes of
// the features of two images, and the layers that control blocks add to. A VACE model is told by
// its class or its layers: the first that was published calls its model type t2v, and so do
// configurations that others made for it.
func deriveOfficialVariant(c *Config, r *models.ConfigReader) {
	if c.ModelType == flf2v {
		c.ImageDim, c.ImageRows = cmp.Or(c.ImageDim, clipDim), cmp.Or(c.ImageRows, 2*clipRows)
	}
	listed := r.Has("vace_layers")
	if c.ModelType == t2v && (listed || isOfficialControl(r.Class())) {
		c.ModelType = vace
	}
	if listed {
		c.ControlLayers = r.Ints("vace_layers", nil, -1, layerIndexBound)
	}
	if c.ModelType != vace {
		return
	}
	c.ControlDim = cmp.Or(c.ControlDim, c.InDim)
	for i := 0; i < c.Layers && !listed; i += 2 {
		c.ControlLayers = append(c.ControlLayers, i)
	}
}

// layerIndexBound bounds the number of a layer.
var layerIndexBound = models.Bound{Least: 0, Most: models.LayerBound.Most, Why: "it is the number of a layer"}

// deriveFromDiffusers derives the width, and the model type, which diffusers leaves out, from
// the numbers of channels.
func deriveFromDiffusers(c *Config, r *models.ConfigReader) {
	headDim := r.Int("attention_head_dim", 0, models.WidthBound)
	c.Dim = r.Multiply("num_attention_heads x attention_head_dim", models.WidthBound, c.Heads, headDim)
	r.MultipleOf("attention_head_dim", headDim, 2, "channels turn in pairs")
	added := r.OptionalInt("added_kv_proj_dim", models.WidthBound)
	if added != 0 {
		r.Agree("added_kv_proj_dim", added, "the model's width", c.Dim, "the image branch reads the model's own width")
	}
	switch {
	case r.Class() == diffusersControlClass:
		c.ModelType = vace
		c.ControlDim = cmp.Or(c.ControlDim, diffusersControlDim)
		c.ControlLayers = r.Ints("vace_layers", diffusersControlLayers, -1, layerIndexBound)
		if added != 0 {
			r.Unsupported("added_kv_proj_dim %d of a %s: its blocks read no image", added, diffusersControlClass)
		}
	case c.ImageDim != 0 || added != 0:
		c.ModelType = i2v
		if c.ImageRows != 0 {
			c.ModelType = flf2v
		}
		c.ImageDim = cmp.Or(c.ImageDim, clipDim)
	case c.InDim == 2*c.OutDim+maskDim:
		c.ModelType = i2v // y is a mask and an image's latents
	case c.OutDim == ti2vChannels:
		c.ModelType = ti2v
	default:
		c.ModelType = t2v
	}
}

// What diffusers' WanVACETransformer3DModel has where its configuration does not say.
const diffusersControlDim = 96

var diffusersControlLayers = []int{0, 5, 10, 15, 20, 25, 30, 35}

// checkControl refuses control layers that are no layers of the model, and those of a model
// that is no VACE. The first control block reads the patches beside the control video.
func checkControl(c *Config, r *models.ConfigReader) {
	if c.ModelType != vace {
		if len(c.ControlLayers) > 0 || c.ControlDim != 0 {
			r.Unsupported("vace_layers %v and vace_in_dim %d of a %s model: only VACE has control blocks", c.ControlLayers, c.ControlDim, c.ModelType)
		}
		return
	}
	sorted := slices.IsSorted(c.ControlLayers) && len(slices.Compact(slices.Clone(c.ControlLayers))) == len(c.ControlLayers)
	switch {
	case !r.Sound("vace_layers", "num_layers"):
	case len(c.ControlLayers) == 0 || c.ControlLayers[0] != 0 || !sorted || c.ControlLayers[len(c.ControlLayers)-1] >= c.Layers:
		r.Refuse("vace_layers %v of %d layers: want numbers of layers in order, from 0 on", c.ControlLayers, c.Layers)
	}
}

// deriveAndCheck refuses values that the programs do not implement.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	class := r.String("_class_name", "")
	if known := []string{"WanModel", "WanTransformer3DModel", officialControlClass, funControlClass, diffusersControlClass}; class != "" && !slices.Contains(known, class) {
		refuseClass(r, class, known)
	}
	in, out := "in_dim", "out_dim"
	if r.Has("num_attention_heads") {
		in, out = "in_channels", "out_channels"
	}
	checkControl(c, r)
	if c.ImageRows != 0 && c.ModelType != flf2v {
		r.Unsupported("pos_embed_seq_len %d of a %s model: only one of a first and a last frame (flf2v) has positions of image features", c.ImageRows, c.ModelType)
	}
	switch c.ModelType {
	case t2v, ti2v, vace:
		if c.ImageDim != 0 {
			r.Unsupported("model_type %q with image_dim %d: only i2v has an image branch", c.ModelType, c.ImageDim)
		}
		if c.InDim > c.OutDim && r.Sound(in, out) {
			r.Unsupported("%s %d and %s %d of a %s model, which reads and gives latents alone: an image-to-video model reads more by a mask of %d channels and an image's latents", in, c.InDim, out, c.OutDim, c.ModelType, maskDim)
		} else {
			r.Agree(in, c.InDim, out, c.OutDim, "the model reads latents and gives their velocity")
		}
	case i2v, flf2v:
		if c.InDim <= c.OutDim && r.Sound(in, out) {
			r.Refuse("model_type %s with %s %d and %s %d: x has %[4]s channels and y, behind it, the rest", c.ModelType, in, c.InDim, out, c.OutDim)
		}
		if n := c.ConditionDim(); (n == 2*c.OutDim || n == 2*c.OutDim+maskDim) && r.Sound(in, out) {
			refuseChannels(r, in, c.InDim)
		}
		if c.ModelType == flf2v && c.ImageRows%2 != 0 {
			r.Refuse("pos_embed_seq_len %d: want an even number, as many rows for each of two images", c.ImageRows)
		}
	default:
		refuseType(r, c.ModelType)
	}
	r.MultipleOf("freq_dim", c.FreqDim, 2, "sines and cosines come in pairs")
}

// makePreset makes the configuration of a release. The arguments are its model type and sizes;
// all releases share the other values.
func makePreset(kind string, dim, ffn, heads, layers, in, out, image int) Config {
	return Config{ModelType: kind, Dim: dim, FFNDim: ffn, Heads: heads, Layers: layers, FreqDim: 256, TextDim: 4096, TextLen: 512,
		InDim: in, OutDim: out, PatchSize: [3]int{1, 2, 2}, Eps: 1e-6, ImageDim: image}
}

// withRows adds positions to the features of a first and a last image.
func withRows(c Config, rows int) Config {
	c.ImageRows = rows
	return c
}

// withControl adds a control block to every so many layers. A control video is the latents of
// what stays of it and of what is made anew, 16 channels each, and a mask's 8x8 pixels.
func withControl(c Config, every int) Config {
	for i := 0; i < c.Layers; i += every {
		c.ControlLayers = append(c.ControlLayers, i)
	}
	c.ControlDim = 2*c.OutDim + 8*8
	return c
}

// presets by name. A14B's experts are the same model as Wan2.1's, without its image branch.
var presets = map[string]Config{
	"wan2.1-t2v-1.3b":      makePreset(t2v, 1536, 8960, 12, 30, 16, 16, 0),
	"wan2.1-t2v-14b":       makePreset(t2v, 5120, 13824, 40, 40, 16, 16, 0),
	"wan2.1-i2v-14b":       makePreset(i2v, 5120, 13824, 40, 40, 36, 16, clipDim),
	"wan2.1-flf2v-14b":     withRows(makePreset(flf2v, 5120, 13824, 40, 40, 36, 16, clipDim), 2*clipRows),
	"wan2.1-vace-1.3b":     withControl(makePreset(vace, 1536, 8960, 12, 30, 16, 16, 0), 2),
	"wan2.1-vace-14b":      withControl(makePreset(vace, 5120, 13824, 40, 40, 16, 16, 0), 5),
	"wan2.2-vace-fun-a14b": withControl(makePreset(vace, 5120, 13824, 40, 40, 16, 16, 0), 5),
	"wan2.2-ti2v-5b":       makePreset(ti2v, 3072, 14336, 24, 30, 48, 48, 0),
	"wan2.2-t2v-a14b":      makePreset(t2v, 5120, 13824, 40, 40, 16, 16, 0),
	"wan2.2-i2v-a14b":      makePreset(i2v, 5120, 13824, 40, 40, 36, 16, 0),
}

// samePreset does not compare the text's length, because diffusers' configurations do not state it.
func samePreset(preset, c Config) bool {
	preset.TextLen = c.TextLen
	return reflect.DeepEqual(preset, c)
}

// kindName names the kind of model that is no preset.
func kindName(c Config) string {
	if c.ModelType == ti2v || (c.ModelType == i2v && c.ImageDim == 0) {
		return "wan2.2-" + c.ModelType
	}
	return "wan2.1-" + c.ModelType
}
