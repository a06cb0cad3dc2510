package decoder

import (
	"cmp"
	"slices"

	"weft/models"
)

// Gemma is what a Gemma 4 says besides. Its layers are of two types: in sliding
// ones a token sees no more than a window, in full ones, which have heads of their
// own and take their values from the keys' projection, all before it.
type Gemma struct {
	// LayerTypes is "sliding_attention" or "full_attention" for every layer; nil in
	// a file is full for every sixth and the last.
	LayerTypes    []string `json:"layer_types,omitempty"`
	Window        int      `json:"sliding_window,omitempty"`
	GlobalHeadDim int      `json:"global_head_dim,omitempty"`
	GlobalKVHeads int      `json:"num_global_key_value_heads,omitempty"`
	GlobalTheta   float64  `json:"rope_theta_full,omitempty"`
	// Partial is which part of a full layer's head rotates: its lowest channels of
	// either half.
	Partial float64 `json:"partial_rotary_factor_full,omitempty"`
}

// The types of layers.
const (
	sliding = "sliding_attention"
	full    = "full_attention"
)

// readGemma reads what a Gemma says besides, fills in what it leaves out, as
// transformers does, and refuses what the programs do not do.
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

// checkGemma fills in the types of layers and holds a Gemma's numbers against each other.
func (c *Config) checkGemma(r *models.ConfigReader) {
	if c.LayerTypes == nil {
		for i := range c.Layers {
			kind := sliding
			if i%6 == 5 || i == c.Layers-1 {
				kind = full
			}
			c.LayerTypes = append(c.LayerTypes, kind)
		}
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

// isGlobal says whether a layer is one of full attention among sliding ones.
func (c Config) isGlobal(layer int) bool {
	return layer < len(c.LayerTypes) && c.LayerTypes[layer] == full
}

// keyHeads are how many key heads a layer has, and how wide its heads are.
func (c Config) keyHeads(global bool) (kv, dim int) {
	if global {
		return c.GlobalKVHeads, c.GlobalHeadDim
	}
	return c.KVHeads, c.HeadDim
}

// firstOfEachType are the first layers from lo up to hi of each type that is among them.
func (c Config) firstOfEachType(lo, hi int) []int {
	var out []int
	for i := lo; i < hi; i++ {
		if !slices.ContainsFunc(out, func(first int) bool { return c.isGlobal(first) == c.isGlobal(i) }) {
			out = append(out, i)
		}
	}
	return out
}
