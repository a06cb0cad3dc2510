package decoder

import (
	"encoding/json"

	"weft/models"
)

// imageTower is LLaVA's image tower: a CLIP tower, of which the last layer is not run, and two
// linear layers that make rows of the token table's width of its patches.
type imageTower struct {
	dim, ffn, heads, layers, image, patch, projector int
	eps                                              float64
	act                                              string
}

// config is the tower's configuration in the words of its own family, the zero value's "".
func (t imageTower) config() string {
	raw, err := json.Marshal(map[string]any{"tower": "vision", "names": "llava", "dim": t.dim, "ffn_dim": t.ffn, "num_heads": t.heads, "num_layers": t.layers,
		"eps": t.eps, "hidden_act": t.act, "image_size": t.image, "patch_size": t.patch, "projector_dim": t.projector})
	if err != nil {
		return ""
	}
	return string(raw)
}

// llavaWords are what every release of LLaVA that is run has.
var llavaWords = models.FixedKeys("LLaVA with one layer of CLIP's", "vision_feature_layer", -2, "vision_feature_select_strategy", "default", "projector_hidden_act", "gelu",
	"multimodal_projector_bias", true)

// readTower reads LLaVA's image tower from the whole configuration.
func (c *Config) readTower(r *models.ConfigReader) {
	r.Read(llavaWords...)
	v := r.Object("vision_config")
	if v == nil {
		return
	}
	if kind := v.String("model_type", "clip_vision_model"); kind != "clip_vision_model" {
		v.Unsupported("vision_config: model_type %q: LLaVA with a clip_vision_model is run", kind)
	}
	v.Metadata("projection_dim", "vocab_size", "num_channels", "attention_dropout", "dropout", "initializer_factor", "initializer_range")
	t := imageTower{eps: 1e-5, act: "quick_gelu", dim: 768, ffn: 3072, heads: 12, layers: 12, image: 224, patch: 32, projector: c.Dim}
	v.Read(models.Int("hidden_size", &t.dim, models.WidthBound), models.Int("intermediate_size", &t.ffn, models.WidthBound),
		models.Int("num_attention_heads", &t.heads, models.HeadBound), models.Int("num_hidden_layers", &t.layers, models.LayerBound),
		models.Int("image_size", &t.image, models.SizeBound), models.Int("patch_size", &t.patch, models.SizeBound),
		models.Float("layer_norm_eps", &t.eps, models.SmallSpan), models.String("hidden_act", &t.act))
	if t.layers--; t.layers < 1 {
		v.Refuse("vision_config: num_hidden_layers %d: the last layer is not run, so at least 2 are needed", t.layers+1)
		return
	}
	c.Images = t.config()
}
