package decoder

import (
	"cmp"
	"slices"

	"weft/models"
)

// Gemma has the keys that only a Gemma 4 has. Its layers are of two types. In a
// sliding one a token attends to the tokens of a window. In a full one a token
// attends to all tokens before it; full layers have their own number and width of
// heads, and use the keys' projection for the values too.
type Gemma struct {
	// LayerTypes is "sliding_attention" or "full_attention" for every layer. Where a
	// file does not have it, every sixth layer and the last are full.
	LayerTypes    []string `json:"layer_types,omitempty"`
	Window        int      `json:"sliding_window,omitempty"`
	GlobalHeadDim int      `json:"global_head_dim,omitempty"`
	GlobalKVHeads int      `json:"num_global_key_value_heads,omitempty"`
	GlobalTheta   float64  `json:"rope_theta_full,omitempty"`
	// Partial is the share of a full layer's head channels that rotate: the first
	// ones of either half.
	Partial float64 `json:"partial_rotary_factor_full,omitempty"`
}

// The types of layers.
const (
	sliding = "sliding_attention"
	full    = "full_attention"
)

// readGemma reads the keys that only a Gemma has, with transformers' defaults, and
// refuses values that the programs do not implement.
func (c *Config) readGemma(r *models.ConfigReader) {
	const of = "Gemma"
	r.Fixed("hidden_activation", "gelu_pytorch_tanh", of)
	r.Fixed("attention_bias", false, of)
	r.Fixed("attention_k_eq_v", true, of)
	r.Fixed("num_kv_shared_layers", 0, of)
	r.Fixed("use_double_wide_mlp", false, of)
	r.Fixed("rope_scaling", nil, of)
	r.Metadata("hidden_act")
	if r.String("use_bidirectional_attention", "") == "all" {
		r.Unsupported("use_bidirectional_attention \"all\": a token sees those before it")
	}
	c.LayerTypes = r.Strings("layer_types")
	c.HeadDim = cmp.Or(c.HeadDim, 256)
	c.GlobalHeadDim, c.Window = cmp.Or(r.OptionalInt("global_head_dim", models.WidthBound), 512), cmp.Or(r.OptionalInt("sliding_window", models.RowBound), 1024)
	c.GlobalKVHeads = cmp.Or(r.OptionalInt("num_global_key_value_heads", models.HeadBound), c.KVHeads)
	c.GlobalTheta, c.Partial = r.Float("rope_theta_full", 1e6, models.ThetaSpan), r.Float("partial_rotary_factor_full", 0.25, models.ShareSpan)
	p := r.Object("rope_parameters")
	if p == nil {
		return
	}
	if s := p.Object(sliding); s != nil {
		s.Fixed("rope_type", "default", "sliding_attention")
		c.Theta = s.Float("rope_theta", c.Theta, models.ThetaSpan)
	}
	if f := p.Object(full); f != nil {
		f.Fixed("rope_type", "proportional", "full_attention")
		c.GlobalTheta, c.Partial = f.Float("rope_theta", c.GlobalTheta, models.ThetaSpan), f.Float("partial_rotary_factor", c.Partial, models.ShareSpan)
	}
}

// checkGemma fills in the types of layers where the file does not have them, and
// checks that a Gemma's numbers fit each other.
func (c *Config) checkGemma(r *models.ConfigReader) {
	if c.LayerTypes == nil {
		c.LayerTypes = usualLayerTypes(c.Layers)
	}
	for i, kind := range c.LayerTypes {
		if kind != sliding && kind != full {
			r.Unsupported("layer_types[%d] is %q: %s and %s are run", i, kind, sliding, full)
		}
	}
	if n := len(c.LayerTypes); r.Sound("num_hidden_layers", "layer_types") && (n != c.Layers || c.LayerTypes[n-1] != full) {
		r.Refuse("%d layer_types: want num_hidden_layers, %d, the last %s", n, c.Layers, full)
	}
	r.MultipleOf("global_head_dim", c.GlobalHeadDim, 2, "a head's halves rotate")
	r.Multiply("num_attention_heads x global_head_dim", models.WidthBound, c.Heads, c.GlobalHeadDim)
	if c.Heads%c.GlobalKVHeads != 0 && r.Sound("num_attention_heads", "num_global_key_value_heads", "num_key_value_heads") {
		r.Refuse("num_attention_heads %d with num_global_key_value_heads %d: as many queries share each key", c.Heads, c.GlobalKVHeads)
	}
	if c.SkipLayers != 0 {
		r.Refuse("hidden_state_skip_layer is %d: of Gemma every layer is taken, 0", c.SkipLayers)
	}
}

// usualLayerTypes lists the types of layers where a file does not have them.
func usualLayerTypes(layers int) []string {
	out := slices.Repeat([]string{sliding}, layers)
	for i := range out {
		if i%6 == 5 || i == layers-1 {
			out[i] = full
		}
	}
	return out
}

// isGlobal says whether a layer is one of Gemma's layers of full attention.
func (c Config) isGlobal(layer int) bool {
	return layer < len(c.LayerTypes) && c.LayerTypes[layer] == full
}

// keyHeads returns the number of key heads of a layer, full or not, and the width of
// its heads.
func (c Config) keyHeads(global bool) (kv, dim int) {
	if global {
		return c.GlobalKVHeads, c.GlobalHeadDim
	}
	return c.KVHeads, c.HeadDim
}

// firstOfEachType returns the first layer of each type from lo up to but not
// including hi. Layers of one type share a program and rotary tables.
func (c Config) firstOfEachType(lo, hi int) []int {
	var out []int
	for i := lo; i < hi; i++ {
		if !slices.ContainsFunc(out, func(first int) bool { return c.isGlobal(first) == c.isGlobal(i) }) {
			out = append(out, i)
		}
	}
	return out
}
