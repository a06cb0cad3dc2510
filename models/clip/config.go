// Package clip is the two towers of CLIP that video models use: the image tower
// of ViT-H/14, whose features Wan2.1's image-to-video model reads, and the text
// tower of ViT-L/14, whose pooled output HunyuanVideo reads. README.md says what is
// special about them and which splits are legal.
package clip

import (
	"encoding/json"
	"slices"

	"weft/fault"
	"weft/models"
)

// Config is a tower.
type Config struct {
	Tower  string  `json:"tower"` // "vision" or "text"
	Dim    int     `json:"dim"`
	FFNDim int     `json:"ffn_dim"`
	Heads  int     `json:"num_heads"`
	Layers int     `json:"num_layers"` // that are run
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

// HeadDim is the width of one head.
func (c Config) HeadDim() int { return c.Dim / c.Heads }

// Tokens is how many an image has: its patches, and one in front for all of it.
func (c Config) Tokens() int { return c.Grid()*c.Grid() + 1 }

// Grid is how many patches an image has either way.
func (c Config) Grid() int { return c.ImageSize / c.PatchSize }

// hugging is what transformers writes for either tower, and for both together.
type hugging struct {
	ModelType string          `json:"model_type"`
	Dim       int             `json:"hidden_size"`
	FFNDim    int             `json:"intermediate_size"`
	Layers    int             `json:"num_hidden_layers"`
	Heads     int             `json:"num_attention_heads"`
	ImageSize int             `json:"image_size"`
	PatchSize int             `json:"patch_size"`
	Vocab     int             `json:"vocab_size"`
	Places    int             `json:"max_position_embeddings"`
	Act       string          `json:"hidden_act"`
	LayerEps  float64         `json:"layer_norm_eps"`
	Eps       float64         `json:"eps"` // the peer's name for it
	Text      json.RawMessage `json:"text_config"`
}

// official are the keys of Wan's image tower, in the words of its code and of the
// peer's: vision_layers counts the last one, which is not run, and num_layers does not.
type official struct {
	Dim          int     `json:"dim"`
	Ratio        float64 `json:"mlp_ratio"`
	Heads        int     `json:"num_heads"`
	Layers       int     `json:"num_layers"`
	VisionDim    int     `json:"vision_dim"`
	VisionRatio  float64 `json:"vision_mlp_ratio"`
	VisionHeads  int     `json:"vision_heads"`
	VisionLayers int     `json:"vision_layers"`
	ImageSize    int     `json:"image_size"`
	PatchSize    int     `json:"patch_size"`
	Act          string  `json:"activation"`
	Eps          float64 `json:"eps"`
	NormEps      float64 `json:"norm_eps"`
}

// parse reads any publisher's config.json and refuses what the programs do not do.
func parse(raw []byte) (Config, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return Config{}, fault.New(models.ErrConfig, nil, "not a JSON object: %v", err)
	}
	c := Config{Eps: 1e-5, Act: "gelu"}
	var err error
	switch {
	case keys["tower"] != nil:
		err = json.Unmarshal(raw, &c)
	case keys["hidden_size"] != nil || keys["text_config"] != nil:
		c, err = parseHugging(raw)
	default:
		c, err = parseOfficial(raw)
	}
	if err != nil {
		return c, fault.New(models.ErrConfig, nil, "%v", err)
	}
	var l fault.List
	sizes := []models.Sized{{Name: "dim", N: c.Dim}, {Name: "ffn_dim", N: c.FFNDim}, {Name: "num_heads", N: c.Heads}, {Name: "num_layers", N: c.Layers}}
	if c.Tower == vision {
		sizes = append(sizes, models.Sized{Name: "image_size", N: c.ImageSize}, models.Sized{Name: "patch_size", N: c.PatchSize})
	} else {
		sizes = append(sizes, models.Sized{Name: "vocab_size", N: c.Vocab}, models.Sized{Name: "max_position_embeddings", N: c.Places})
	}
	l.Add(models.CheckSizes(sizes...))
	l.Add(models.CheckEps("eps", c.Eps))
	if !slices.Contains([]string{"gelu", "quick_gelu"}, c.Act) {
		l.Add(fault.New(models.ErrVariant, nil, "hidden_act %q: gelu and quick_gelu are run", c.Act))
	}
	if (c.Tower != vision && c.Tower != text) || (c.Names != "wan" && c.Names != "transformers") || (c.Tower == text && c.Names == "wan") {
		l.Add(fault.New(models.ErrConfig, nil, "tower %q with names %q: want vision with wan or transformers, or text with transformers", c.Tower, c.Names))
	}
	if err := l.Err(); err != nil {
		return c, err
	}
	if c.Dim%c.Heads != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "dim %d over num_heads %d: heads have a whole width", c.Dim, c.Heads))
	}
	if c.Tower == vision {
		l.Add(models.CheckPatch("image_size", c.ImageSize, c.PatchSize))
	}
	return c, l.Err()
}

func parseHugging(raw []byte) (Config, error) {
	h := hugging{LayerEps: 1e-5}
	if err := json.Unmarshal(raw, &h); err != nil {
		return Config{}, err
	}
	if h.Text != nil { // both towers: the text's is run
		h = hugging{LayerEps: 1e-5, Dim: 512, FFNDim: 2048, Layers: 12, Heads: 8, Vocab: 49408, Places: 77, Act: "quick_gelu"} // what it leaves out
		if err := json.Unmarshal(raw, &struct {
			Text *hugging `json:"text_config"`
		}{&h}); err != nil {
			return Config{}, err
		}
		h.ModelType = "clip_text_model"
	}
	c := Config{Tower: text, Dim: h.Dim, FFNDim: h.FFNDim, Heads: h.Heads, Layers: h.Layers, Eps: h.LayerEps, Act: h.Act, Names: "transformers"}
	if h.Eps != 0 {
		c.Eps = h.Eps
	}
	if c.Act == "" {
		c.Act = "quick_gelu"
	}
	if h.ModelType == "clip_vision_model" {
		c.Tower, c.Layers, c.ImageSize, c.PatchSize = vision, h.Layers-1, h.ImageSize, h.PatchSize
	} else {
		c.Vocab, c.Places = h.Vocab, h.Places
	}
	return c, nil
}

func parseOfficial(raw []byte) (Config, error) {
	o := official{Ratio: 4, Act: "gelu", Eps: 1e-5}
	if err := json.Unmarshal(raw, &o); err != nil {
		return Config{}, err
	}
	if o.VisionDim > 0 {
		o.Dim, o.Heads, o.Layers = o.VisionDim, o.VisionHeads, o.VisionLayers-1
		if o.VisionRatio > 0 {
			o.Ratio = o.VisionRatio
		}
	}
	if o.NormEps > 0 {
		o.Eps = o.NormEps
	}
	return Config{Tower: vision, Dim: o.Dim, FFNDim: int(float64(o.Dim) * o.Ratio), Heads: o.Heads, Layers: o.Layers, Eps: o.Eps, Act: o.Act,
		Names: "wan", ImageSize: o.ImageSize, PatchSize: o.PatchSize}, nil
}

// detect says whether a config.json is of a CLIP tower.
func detect(c map[string]any) bool {
	switch c["model_type"] {
	case "clip", "clip_text_model", "clip_vision_model":
		return true
	}
	_, image := c["image_size"]
	_, patch := c["patch_size"].(float64)
	_, dim := c["dim"]
	_, visionDim := c["vision_dim"]
	_, tower := c["tower"]
	return tower || (image && patch && (dim || visionDim))
}

var presets = map[string]json.RawMessage{
	"wan2.1-clip-vit-h14": models.Preset(Config{Tower: vision, Dim: 1280, FFNDim: 5120, Heads: 16, Layers: 31, Eps: 1e-5, Act: "gelu", Names: "wan", ImageSize: 224, PatchSize: 14}),
	"hunyuan-clip-l-text": models.Preset(Config{Tower: text, Dim: 768, FFNDim: 3072, Heads: 12, Layers: 12, Eps: 1e-5, Act: "quick_gelu", Names: "transformers", Vocab: 49408, Places: 77}),
}

// nameOf is the preset that c is, whoever published it, or the kind of tower.
func nameOf(c Config) string {
	name := models.PresetName(presets, parse, func(p Config) bool {
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
		Detect:  detect,
		New: func(_ string, raw []byte) (models.Model, error) {
			c, err := parse(raw)
			if err != nil {
				return nil, err
			}
			return &Model{name: nameOf(c), c: c, n: namesOf(c)}, nil
		},
	})
}
