package decoder

import (
	"cmp"
	"slices"

	"weft/fault"
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

// gemmaFile is what a Gemma's config.json may say that weft does not run, but for
// the values here.
type gemmaFile struct {
	Activation    string  `json:"hidden_activation"`
	KEqV          *bool   `json:"attention_k_eq_v"`
	SharedLayers  int     `json:"num_kv_shared_layers"`
	DoubleWide    bool    `json:"use_double_wide_mlp"`
	Bidirectional *string `json:"use_bidirectional_attention"`
}

// gemmaRope is a Gemma's rotary positions: one set for each type of layers.
type gemmaRope struct {
	Partial float64 `json:"partial_rotary_factor"`
	Sliding *rope   `json:"sliding_attention"`
	Full    *rope   `json:"full_attention"`
}

// readGemma fills in what the file leaves out, as transformers does, and refuses
// what the programs do not do.
func (c *Config) readGemma(f file) error {
	var l fault.List
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			l.Add(fault.New(models.ErrVariant, nil, format, args...))
		}
	}
	refuse(f.Activation != "" && f.Activation != "gelu_pytorch_tanh", "hidden_activation %q: only gelu_pytorch_tanh is run of Gemma", f.Activation)
	refuse(f.QKVBias != nil && *f.QKVBias, "attention_bias true: Gemma is run without")
	refuse(f.KEqV != nil && !*f.KEqV, "attention_k_eq_v false: values of full_attention layers are run as the keys' projection")
	refuse(f.SharedLayers != 0, "num_kv_shared_layers is %d: every layer is run with keys of its own, 0", f.SharedLayers)
	refuse(f.DoubleWide, "use_double_wide_mlp true: all layers are run as wide as intermediate_size")
	refuse(f.Bidirectional != nil && *f.Bidirectional == "all", "use_bidirectional_attention \"all\": a token sees those before it")
	refuse(f.Scaling != nil, "rope_scaling is given: Gemma's rope_parameters are read")
	c.GlobalTheta, c.Partial = cmp.Or(c.GlobalTheta, 1e6), cmp.Or(c.Partial, 0.25)
	if f.Parameters != nil {
		if r := f.Parameters.Sliding; r != nil {
			refuse(r.Type != "" && r.Type != "default", "rope type %q of sliding_attention: only \"default\" is run", r.Type)
			c.Theta = cmp.Or(r.Theta, c.Theta)
		}
		if r := f.Parameters.Full; r != nil {
			refuse(r.Type != "" && r.Type != "proportional", "rope type %q of full_attention: only \"proportional\" is run", r.Type)
			c.GlobalTheta, c.Partial = cmp.Or(r.Theta, c.GlobalTheta), cmp.Or(r.Partial, c.Partial)
		}
	}
	c.HeadDim, c.GlobalHeadDim, c.Window = cmp.Or(c.HeadDim, 256), cmp.Or(c.GlobalHeadDim, 512), cmp.Or(c.Window, 1024)
	c.GlobalKVHeads = cmp.Or(c.GlobalKVHeads, c.KVHeads)
	return l.Err()
}

// checkGemma fills in the types of layers and holds a Gemma's numbers against each other.
func (c *Config) checkGemma() error {
	if c.ModelType != gemma {
		return nil
	}
	if c.LayerTypes == nil {
		for i := range c.Layers {
			kind := sliding
			if i%6 == 5 || i == c.Layers-1 {
				kind = full
			}
			c.LayerTypes = append(c.LayerTypes, kind)
		}
	}
	var l fault.List
	l.Add(models.CheckSizes(models.Sized{Name: "sliding_window", N: c.Window}, models.Sized{Name: "global_head_dim", N: c.GlobalHeadDim}, models.Sized{Name: "num_global_key_value_heads", N: c.GlobalKVHeads}))
	if !(c.GlobalTheta > 0) || !(c.Partial > 0 && c.Partial <= 1) {
		l.Add(fault.New(models.ErrConfig, nil, "full_attention rotates %g of a head with rope_theta %g: want more than 0 and up to 1, and a positive number", c.Partial, c.GlobalTheta))
	}
	for i, kind := range c.LayerTypes {
		if kind != sliding && kind != full {
			l.Add(fault.New(models.ErrVariant, nil, "layer_types[%d] is %q: %s and %s are run", i, kind, sliding, full))
		}
	}
	if n := len(c.LayerTypes); n != c.Layers || c.LayerTypes[n-1] != full {
		l.Add(fault.New(models.ErrConfig, nil, "%d layer_types: want num_hidden_layers, %d, the last %s", n, c.Layers, full))
	}
	if c.GlobalKVHeads > 0 && (c.GlobalHeadDim%2 != 0 || c.Heads%c.GlobalKVHeads != 0) {
		l.Add(fault.New(models.ErrConfig, nil, "%d heads of %d with %d key heads in full_attention: a head's halves rotate, and as many queries share each key", c.Heads, c.GlobalHeadDim, c.GlobalKVHeads))
	}
	if c.SkipLayers != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "hidden_state_skip_layer is %d: of Gemma every layer is taken, 0", c.SkipLayers))
	}
	return l.Err()
}

// global says whether a layer is one of full attention among sliding ones.
func (c Config) global(layer int) bool {
	return layer < len(c.LayerTypes) && c.LayerTypes[layer] == full
}

// keys are how many key heads a layer has, and how wide its heads are.
func (c Config) keys(global bool) (kv, dim int) {
	if global {
		return c.GlobalKVHeads, c.GlobalHeadDim
	}
	return c.KVHeads, c.HeadDim
}

// firsts are the first layers from lo up to hi of each type that is among them.
func (c Config) firsts(lo, hi int) []int {
	var out []int
	for i := lo; i < hi; i++ {
		if !slices.ContainsFunc(out, func(first int) bool { return c.global(first) == c.global(i) }) {
			out = append(out, i)
		}
	}
	return out
}
