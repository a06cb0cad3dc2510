package clip

import (
	"cmp"
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
	// Names are those of the official checkpoint: "wan", "transformers", "llava" or "siglip". The
	// last two are image towers that differ in what they compute.
	Names string `json:"names"`
	// Projector is the width of the rows that LLaVA's tower makes of an image's patches, with two
	// linear layers behind the tower; 0 for others.
	Projector int `json:"projector_dim,omitempty"`

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

// Towers that compute something else than CLIP's own, by their names.
const (
	llava  = "llava"
	siglip = "siglip"
)

// HeadDim returns the width of one head.
func (c Config) HeadDim() int { return c.Dim / c.Heads }

// Tokens returns the number of an image's tokens: its patches, and the class token in
// front of them, which SigLIP lacks.
func (c Config) Tokens() int {
	if c.Names == siglip {
		return c.Grid() * c.Grid()
	}
	return c.Grid()*c.Grid() + 1
}

// rows is how many rows the image tower makes: LLaVA's leaves the class token out.
func (c Config) rows() int {
	if c.Names == llava {
		return c.Grid() * c.Grid()
	}
	return c.Tokens()
}

// width is how wide these rows are.
func (c Config) width() int { return cmp.Or(c.Projector, c.Dim) }

// Grid returns the number of patches along each side of an image.
func (c Config) Grid() int { return c.ImageSize / c.PatchSize }

// configWords are those of the presets, of transformers, of Wan's code, and of the peer.
var configWords = []models.Words[Config]{
	{
		Of: "weft", Recognize: func(r *models.ConfigReader) bool { return r.Has("tower") }, Defaults: Config{Eps: 1e-5, Act: "gelu"},
		Keys: func(c *Config) []models.Key {
			return []models.Key{
				models.String("tower", &c.Tower),
				models.String("names", &c.Names),
				models.Int("dim", &c.Dim, models.WidthBound),
				models.Int("ffn_dim", &c.FFNDim, models.WidthBound),
				models.Int("num_heads", &c.Heads, models.HeadBound),
				models.Int("num_layers", &c.Layers, models.LayerBound),
				models.Float("eps", &c.Eps, models.SmallSpan),
				models.String("hidden_act", &c.Act),
				models.OptionalInt("projector_dim", &c.Projector, models.WidthBound),
			}
		},
		Derive: func(c *Config, r *models.ConfigReader) {
			towers := map[string][]string{vision: {"wan", "transformers", llava, siglip}, text: {"transformers"}}
			if !slices.Contains(towers[c.Tower], c.Names) {
				r.Refuse("tower %q with names %q: want one of %v", c.Tower, c.Names, towers)
			}
			if (c.Names == llava) != (c.Projector > 0) {
				r.Refuse("projector_dim %d with names %q: LLaVA's tower has it, and no other", c.Projector, c.Names)
			}
		},
	},
	{
		Of: "transformers, of SigLIP", Recognize: isSigLIP,
		Within: func(r *models.ConfigReader) *models.ConfigReader {
			if !r.Has("vision_config") {
				return r
			}
			r.Metadata(append(transformersMetadata, "initializer_factor", "text_config")...)
			return r.ObjectOr("vision_config")
		},
		Defaults: Config{Tower: vision, Names: siglip, Eps: 1e-6, Act: "gelu_pytorch_tanh", Dim: 768, FFNDim: 3072, Heads: 12, Layers: 12},
		Keys: func(c *Config) []models.Key {
			return append(transformersKeys(c), models.Metadata("vision_use_head"))
		},
	},
	{ // one for both towers: the text tower's part is read, which is the one that is run
		Of: "transformers, of both towers", Recognize: func(r *models.ConfigReader) bool { return r.Has("text_config") },
		Within: func(r *models.ConfigReader) *models.ConfigReader {
			r.Metadata(append(transformersMetadata, "initializer_factor")...)
			return r.ObjectOr("text_config")
		},
		Defaults: Config{Tower: text, Names: "transformers", Eps: 1e-5, Act: "quick_gelu", Dim: 512, FFNDim: 2048, Layers: 12, Heads: 8, Vocab: 49408, Places: 77},
		Keys:     transformersKeys,
	},
	{
		Of: "transformers, of one tower", Recognize: func(r *models.ConfigReader) bool { return r.Has("hidden_size") },
		Defaults: Config{Tower: text, Names: "transformers", Eps: 1e-5, Act: "quick_gelu"},
		Keys:     transformersKeys,
		Derive: func(c *Config, r *models.ConfigReader) {
			if r.String("model_type", "") == "clip_vision_model" {
				c.Tower = vision
				c.dropLastLayer(r, "num_hidden_layers")
			}
		},
	},
	{
		Of: "the peer", Recognize: func(r *models.ConfigReader) bool { return r.Has("vision_dim") },
		Defaults: Config{Tower: vision, Names: "wan", Eps: 1e-5, Act: "gelu"},
		Keys: func(c *Config) []models.Key {
			return []models.Key{
				models.Int("vision_dim", &c.Dim, models.WidthBound),
				models.Int("vision_heads", &c.Heads, models.HeadBound),
				models.Int("vision_layers", &c.Layers, models.LayerBound),
				models.Float("norm_eps", &c.Eps, models.SmallSpan).Also("eps"),
				models.String("activation", &c.Act),
			}
		},
		Derive: func(c *Config, r *models.ConfigReader) {
			c.FFNDim = r.Scale("vision_mlp_ratio", models.WidthBound, c.Dim, r.Float("vision_mlp_ratio", 4, models.RatioSpan))
			c.dropLastLayer(r, "vision_layers")
		},
	},
	{
		Of: "Wan", Defaults: Config{Tower: vision, Names: "wan", Eps: 1e-5, Act: "gelu"},
		Keys: func(c *Config) []models.Key {
			return []models.Key{
				models.Int("dim", &c.Dim, models.WidthBound),
				models.Int("num_heads", &c.Heads, models.HeadBound),
				models.Int("num_layers", &c.Layers, models.LayerBound), // without the last
				models.Float("norm_eps", &c.Eps, models.SmallSpan).Also("eps"),
				models.String("activation", &c.Act),
			}
		},
		Derive: func(c *Config, r *models.ConfigReader) {
			c.FFNDim = r.Scale("mlp_ratio", models.WidthBound, c.Dim, r.Float("mlp_ratio", 4, models.RatioSpan))
		},
	},
}

// isSigLIP says whether a configuration is of SigLIP, or of its image tower alone.
func isSigLIP(r *models.ConfigReader) bool {
	return slices.Contains([]string{"siglip", "siglip_vision_model"}, r.String("model_type", ""))
}

// transformersMetadata are keys that transformers writes and no program depends on.
var transformersMetadata = []string{"num_channels", "projection_dim", "logit_scale_init_value", "vision_config", "vision_config_dict", "text_config_dict", "model_type"}

// transformersKeys are those that transformers writes for one tower.
func transformersKeys(c *Config) []models.Key {
	return []models.Key{
		models.Metadata(transformersMetadata...),
		models.Int("hidden_size", &c.Dim, models.WidthBound),
		models.Int("intermediate_size", &c.FFNDim, models.WidthBound),
		models.Int("num_attention_heads", &c.Heads, models.HeadBound),
		models.Int("num_hidden_layers", &c.Layers, models.LayerBound),
		models.Float("eps", &c.Eps, models.SmallSpan).Also("layer_norm_eps"), // the first is the peer's name for it
		models.String("hidden_act", &c.Act),
	}
}

// dropLastLayer takes off the last layer of an image tower, because video models read the
// features in front of it. key has the number of all.
func (c *Config) dropLastLayer(r *models.ConfigReader, key string) {
	if c.Layers < 2 && r.Sound(key) {
		r.Refuse("%s %d: the last layer is not run, so at least 2 are needed", key, c.Layers)
	}
	c.Layers = max(1, c.Layers-1)
}

// deriveAndCheck reads the sizes of a tower's input, vocabulary and positions of a text or the
// pixels of an image and its patches, and refuses values that the programs do not implement.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	if c.Tower == text {
		c.Vocab, c.Places = r.Int("vocab_size", c.Vocab, models.VocabBound), r.Int("max_position_embeddings", c.Places, models.RowBound)
	} else {
		c.ImageSize, c.PatchSize = r.Int("image_size", 0, models.SizeBound), r.Int("patch_size", 0, models.Bound{Least: 1, Most: 1 << 10, Why: "it is a square of pixels"})
		if c.Names != siglip { // whose patches may leave pixels over
			r.MultipleOf("image_size", c.ImageSize, c.PatchSize, "it is cut into patches of patch_size")
		} else if c.ImageSize < c.PatchSize && r.Sound("image_size", "patch_size") {
			r.Refuse("image_size %d: want at least one patch of %d", c.ImageSize, c.PatchSize)
		}
	}
	if !slices.Contains([]string{"gelu", "quick_gelu", "gelu_pytorch_tanh"}, c.Act) {
		r.Unsupported("hidden_act %q: gelu, quick_gelu and gelu_pytorch_tanh are run", c.Act)
	}
	r.Divide("dim", c.Dim, "num_heads", c.Heads, false)
}

// detectConfig says whether a config.json describes a CLIP tower.
func detectConfig(c map[string]any) bool {
	switch c["model_type"] {
	case "clip", "clip_text_model", "clip_vision_model", "siglip", "siglip_vision_model":
		return true
	}
	_, image := c["image_size"]
	_, patch := c["patch_size"].(json.Number)
	_, dim := c["dim"]
	_, visionDim := c["vision_dim"]
	_, tower := c["tower"]
	return tower || (image && patch && (dim || visionDim))
}

var presets = map[string]Config{
	"wan2.1-clip-vit-h14": {Tower: vision, Dim: 1280, FFNDim: 5120, Heads: 16, Layers: 31, Eps: 1e-5, Act: "gelu", Names: "wan", ImageSize: 224, PatchSize: 14},
	"llava-clip-l-336":    {Tower: vision, Dim: 1024, FFNDim: 4096, Heads: 16, Layers: 23, Eps: 1e-5, Act: "quick_gelu", Names: llava, ImageSize: 336, PatchSize: 14, Projector: 4096},
	"siglip-so400m-384":   {Tower: vision, Dim: 1152, FFNDim: 4304, Heads: 16, Layers: 27, Eps: 1e-6, Act: "gelu_pytorch_tanh", Names: siglip, ImageSize: 384, PatchSize: 14},
	"hunyuan-clip-l-text": {Tower: text, Dim: 768, FFNDim: 3072, Heads: 12, Layers: 12, Eps: 1e-5, Act: "quick_gelu", Names: "transformers", Vocab: 49408, Places: 77},
}

// samePreset compares towers under any publisher's tensor names, where these are names alone.
func samePreset(preset, c Config) bool {
	if publishers := []string{"wan", "transformers"}; slices.Contains(publishers, preset.Names) && slices.Contains(publishers, c.Names) {
		preset.Names = c.Names
	}
	return preset == c
}
