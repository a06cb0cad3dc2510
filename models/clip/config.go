// Package clip is the two towers of CLIP that video models use: the image tower
// of ViT-H/14, whose features Wan2.1's image-to-video model reads, and the text
// tower of ViT-L/14, whose pooled output HunyuanVideo reads. README.md says what is
// special about them and which splits are legal.
package clip

import (
	"encoding/json"
	"slices"

	"weft/models"
)

// Config is a tower.
type Config struct {
	Tower  string  `json:"tower"` // "vision" or "text"
	Dim    int     `json:"dim"`
	FFNDim int     `json:"ffn_dim"`
	Heads  int     `json:"num_heads"`
	Layers int     `json:"num_layers"` // only those that are run
	Eps    float64 `json:"eps"`
	Act    string  `json:"hidden_act"` // "gelu" or "quick_gelu"
	// Names are those of the official checkpoint: "wan" or "transformers".
	Names string `json:"names"`

	// Of an image, in pixels.
	ImageSize int `json:"image_size,omitempty"`
	PatchSize int `json:"patch_size,omitempty"`

	Vocab  int `json:"vocab_size,omitempty"`
	Places int `json:"max_position_embeddings,omitempty"` // tokens of a text, at most
}

// The towers.
const (
	vision = "vision"
	text   = "text"
)

// HeadDim returns the width of one head.
func (c Config) HeadDim() int { return c.Dim / c.Heads }

// Tokens returns the number of an image's tokens: its patches, and the class token in
// front of them.
func (c Config) Tokens() int { return c.Grid()*c.Grid() + 1 }

// Grid returns the number of patches along each side of an image.
func (c Config) Grid() int { return c.ImageSize / c.PatchSize }

// parseConfig reads a config.json in the words of any publisher, and refuses values
// that the programs do not implement.
func parseConfig(r *models.ConfigReader) Config {
	var c Config
	switch {
	case r.Has("tower"):
		c = parseOwn(r)
	case r.Has("hidden_size") || r.Has("text_config"):
		c = parseTransformers(r)
	default:
		c = parseOfficial(r)
	}
	if !slices.Contains([]string{"gelu", "quick_gelu"}, c.Act) {
		r.Unsupported("hidden_act %q: gelu and quick_gelu are run", c.Act)
	}
	r.Divide("dim", c.Dim, "num_heads", c.Heads, false)
	if c.Tower == vision {
		r.MultipleOf("image_size", c.ImageSize, c.PatchSize, "it is cut into patches of patch_size")
	}
	return c
}

// parseOwn reads the configuration of a preset, which is a Config.
func parseOwn(r *models.ConfigReader) Config {
	c := Config{Tower: r.String("tower", ""), Names: r.String("names", "")}
	if (c.Tower != vision && c.Tower != text) || (c.Names != "wan" && c.Names != "transformers") || (c.Tower == text && c.Names == "wan") {
		r.Refuse("tower %q with names %q: want vision with wan or transformers, or text with transformers", c.Tower, c.Names)
	}
	c.Dim, c.FFNDim = r.Int("dim", 0, models.WidthBound), r.Int("ffn_dim", 0, models.WidthBound)
	c.Heads, c.Layers = r.Int("num_heads", 0, models.HeadBound), r.Int("num_layers", 0, models.LayerBound)
	c.Eps, c.Act = r.Float("eps", 1e-5, models.SmallSpan), r.String("hidden_act", "gelu")
	c.readInputSizes(r, Config{})
	return c
}

// readInputSizes reads the sizes of a tower's input: vocabulary and positions of a
// text, or the pixels of an image and its patches. d has the defaults.
func (c *Config) readInputSizes(r *models.ConfigReader, d Config) {
	if c.Tower == text {
		c.Vocab, c.Places = r.Int("vocab_size", d.Vocab, models.VocabBound), r.Int("max_position_embeddings", d.Places, models.RowBound)
		return
	}
	c.ImageSize, c.PatchSize = r.Int("image_size", d.ImageSize, models.SizeBound), r.Int("patch_size", d.PatchSize, models.Bound{Least: 1, Most: 1 << 10, Why: "it is a square of pixels"})
}

// parseTransformers reads the config.json that transformers writes for one tower. Of
// one for both towers it reads the text tower's part, which is the one that is run.
func parseTransformers(r *models.ConfigReader) Config {
	metadata := []string{"num_channels", "projection_dim", "logit_scale_init_value", "vision_config", "vision_config_dict", "text_config_dict", "model_type"}
	r.Metadata(metadata...)
	c, d := Config{Tower: text, Names: "transformers"}, Config{}
	if both := r.Object("text_config"); both != nil {
		d = Config{Dim: 512, FFNDim: 2048, Layers: 12, Heads: 8, Vocab: 49408, Places: 77} // what it leaves out
		r.Metadata("initializer_factor")
		r = both
		r.Metadata(metadata...)
	} else if r.String("model_type", "") == "clip_vision_model" {
		c.Tower = vision
	}
	c.Dim, c.FFNDim = r.Int("hidden_size", d.Dim, models.WidthBound), r.Int("intermediate_size", d.FFNDim, models.WidthBound)
	c.Heads, c.Layers = r.Int("num_attention_heads", d.Heads, models.HeadBound), r.Int("num_hidden_layers", d.Layers, models.LayerBound)
	if c.Tower == vision {
		c.Layers = layersButLast(r, "num_hidden_layers", c.Layers)
	}
	eps := "layer_norm_eps"
	if r.Has("eps") {
		eps = "eps" // the peer's name for it
	}
	c.Eps = r.Float(eps, 1e-5, models.SmallSpan)
	r.Metadata("layer_norm_eps")
	c.Act = r.String("hidden_act", "quick_gelu")
	c.readInputSizes(r, d)
	return c
}

// layersButLast returns how many layers of an image tower are run: all but the last,
// because video models read the features in front of it.
func layersButLast(r *models.ConfigReader, key string, layers int) int {
	if layers < 2 && r.Sound(key) {
		r.Refuse("%s %d: the last layer is not run, so at least 2 are needed", key, layers)
	}
	return max(1, layers-1)
}

// parseOfficial reads a configuration of Wan's image tower, in the words of Wan's code
// or of the peer's. vision_layers counts the last layer, which is not run, and
// num_layers does not.
func parseOfficial(r *models.ConfigReader) Config {
	c := Config{Tower: vision, Names: "wan"}
	width, heads, layers, ratio := "dim", "num_heads", "num_layers", "mlp_ratio"
	if r.Has("vision_dim") {
		width, heads, layers, ratio = "vision_dim", "vision_heads", "vision_layers", "vision_mlp_ratio"
	}
	c.Dim, c.Heads, c.Layers = r.Int(width, 0, models.WidthBound), r.Int(heads, 0, models.HeadBound), r.Int(layers, 0, models.LayerBound)
	if layers == "vision_layers" {
		c.Layers = layersButLast(r, layers, c.Layers)
	}
	c.FFNDim = r.Scale(ratio, models.WidthBound, c.Dim, r.Float(ratio, 4, models.RatioSpan))
	eps := "eps"
	if r.Has("norm_eps") {
		eps = "norm_eps"
	}
	c.Eps, c.Act = r.Float(eps, 1e-5, models.SmallSpan), r.String("activation", "gelu")
	c.readInputSizes(r, Config{})
	return c
}

// detectConfig says whether a config.json describes a CLIP tower.
func detectConfig(c map[string]any) bool {
	switch c["model_type"] {
	case "clip", "clip_text_model", "clip_vision_model":
		return true
	}
	_, image := c["image_size"]
	_, patch := c["patch_size"].(json.Number)
	_, dim := c["dim"]
	_, visionDim := c["vision_dim"]
	_, tower := c["tower"]
	return tower || (image && patch && (dim || visionDim))
}

var presets = map[string]json.RawMessage{
	"wan2.1-clip-vit-h14": models.Preset(Config{Tower: vision, Dim: 1280, FFNDim: 5120, Heads: 16, Layers: 31, Eps: 1e-5, Act: "gelu", Names: "wan", ImageSize: 224, PatchSize: 14}),
	"hunyuan-clip-l-text": models.Preset(Config{Tower: text, Dim: 768, FFNDim: 3072, Heads: 12, Layers: 12, Eps: 1e-5, Act: "quick_gelu", Names: "transformers", Vocab: 49408, Places: 77}),
}

// nameOf returns the name of the preset that equals c but for the publisher's names of
// tensors, and otherwise the kind of tower.
func nameOf(c Config) string {
	name := models.PresetName(presets, parseConfig, func(p Config) bool {
		p.Names = c.Names
		return p == c
	})
	if name != "" {
		return name
	}
	return "clip-" + c.Tower
}

func init() {
	models.Register(models.Family{
		Name:    "clip",
		Presets: presets,
		Detect:  detectConfig,
		New: func(_ string, r *models.ConfigReader) models.Model {
			c := parseConfig(r)
			return &Model{name: nameOf(c), c: c, n: namesOf(c)}
		},
	})
}
