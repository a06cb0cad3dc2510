// Package ltx is the diffusion transformer of LTX-Video (2B and 13B), the video
// half of LTX-2.5's, and LTX-2.5's connector, which prepares its text. README.md
// says what is special about them and which splits are legal.
package ltx

import (
	"encoding/json"
	"slices"

	"weft/fault"
	"weft/models"
)

// Config is a transformer of the family, in the words of the official releases,
// whose single files hold it in their metadata, below "transformer".
type Config struct {
	Heads       int `json:"num_attention_heads"`
	HeadDim     int `json:"attention_head_dim"`
	InChannels  int `json:"in_channels"`
	OutChannels int `json:"out_channels"`
	Layers      int `json:"num_layers"`
	CrossDim    int `json:"cross_attention_dim"` // of the text where it meets the video: the width
	// CaptionChannels is the width of the text's embedding; 0 where it comes with
	// CrossDim already (LTX-2.5, by its connector).
	CaptionChannels int        `json:"caption_channels,omitempty"`
	Theta           float64    `json:"positional_embedding_theta"`
	MaxPos          [3]float64 `json:"positional_embedding_max_pos"` // seconds, pixels, pixels
	TimeScale       float64    `json:"timestep_scale_multiplier"`
	Eps             float64    `json:"norm_eps"`
	// Causal: the first latent frame stands for one frame, not for eight.
	Causal bool `json:"causal_temporal_positioning"`

	// What LTX-2.5 has besides. Second says that heads rotate by halves, at the
	// middle of each patch.
	Second bool `json:"use_middle_indices_grid,omitempty"`
	// Precision of the rotary frequencies: "float64", or float32 throughout.
	Precision  string `json:"frequencies_precision,omitempty"`
	FFBias     bool   `json:"ff_bias"`
	CrossAdaLN bool   `json:"cross_attention_adaln,omitempty"`
	Gated      bool   `json:"apply_gated_attention,omitempty"`
	Keyframes  bool   `json:"use_keyframes_abs_pos_embedding,omitempty"`
}

// Dim is the width of the stream.
func (c Config) Dim() int { return c.Heads * c.HeadDim }

// modulations is how many parts of the width a layer's modulation has.
func (c Config) modulations() int {
	if c.CrossAdaLN {
		return 9
	}
	return 6
}

// qkEps is that of the norms of queries and keys.
func (c Config) qkEps() float64 {
	if c.Second {
		return c.Eps
	}
	return 1e-5
}

// timeDim is the width of the timestep's sinusoidal embedding.
const timeDim = 256

// defaults are what configurations leave out.
var defaults = Config{InChannels: 128, OutChannels: 128, Theta: 10000, MaxPos: [3]float64{20, 2048, 2048}, TimeScale: 1000, Eps: 1e-6, FFBias: true}

// fixed are the keys of a configuration that the programs take one value of.
type fixed struct {
	Class         string `json:"_class_name"`
	Activation    string `json:"activation_fn"`
	QKNorm        string `json:"qk_norm"`
	Norm          string `json:"standardization_norm"`
	AdaptiveNorm  string `json:"adaptive_norm"`
	Affine        bool   `json:"norm_elementwise_affine"`
	AttentionBias bool   `json:"attention_bias"`
	OutBias       bool   `json:"attention_out_bias"`
	Patch         int    `json:"patch_size"`
	PatchT        int    `json:"patch_size_t"`
	RopeType      string `json:"rope_type"`
}

// section is the part of a configuration that describes the transformer.
func section(raw []byte) ([]byte, error) {
	var c struct {
		Transformer json.RawMessage `json:"transformer"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fault.New(models.ErrConfig, nil, "not a JSON object: %v", err)
	}
	if c.Transformer != nil {
		return c.Transformer, nil
	}
	return raw, nil
}

func parse(raw []byte) (Config, error) {
	c := defaults
	raw, err := section(raw)
	if err != nil {
		return c, err
	}
	f := fixed{Activation: "gelu-approximate", QKNorm: "rms_norm", Norm: "rms_norm", AdaptiveNorm: "single_scale_shift", AttentionBias: true, OutBias: true, Patch: 1, PatchT: 1}
	given := map[string]json.RawMessage{}
	for _, to := range []any{&c, &f, &given} {
		if err := json.Unmarshal(raw, to); err != nil {
			return c, fault.New(models.ErrConfig, nil, "%v", err)
		}
	}
	var l fault.List
	unsupported := func(format string, args ...any) { l.Add(fault.New(models.ErrVariant, nil, format, args...)) }
	c.Second = c.Second || c.CrossAdaLN || c.Gated || c.Keyframes || f.RopeType == "split"
	if c.Second {
		c.CaptionChannels = 0
		if f.RopeType != "" && f.RopeType != "split" {
			unsupported("rope_type %q of an LTX-2 transformer: split is run", f.RopeType)
		}
	} else if f.RopeType != "" && f.RopeType != "interleaved" {
		unsupported("rope_type %q: LTX-Video's is interleaved", f.RopeType)
	}
	if f.Class == diffusersClass {
		// diffusers has one name for the norm, and leaves out how time is counted:
		// the 13B releases count the first frame alone.
		if f.QKNorm == "rms_norm_across_heads" {
			f.QKNorm = "rms_norm"
		}
		if given["causal_temporal_positioning"] == nil {
			c.Causal = c.Layers == 48
		}
	}
	for _, k := range []struct {
		key       string
		got, want any
	}{{"activation_fn", f.Activation, "gelu-approximate"}, {"qk_norm", f.QKNorm, "rms_norm"}, {"standardization_norm", f.Norm, "rms_norm"},
		{"adaptive_norm", f.AdaptiveNorm, "single_scale_shift"}, {"norm_elementwise_affine", f.Affine, false}, {"attention_bias", f.AttentionBias, true},
		{"attention_out_bias", f.OutBias, true}, {"patch_size", f.Patch, 1}, {"patch_size_t", f.PatchT, 1}} {
		if k.got != k.want {
			unsupported("%s %v: every release has %v, which is all that is run", k.key, k.got, k.want)
		}
	}
	sizes := []models.Sized{{Name: "num_attention_heads", N: c.Heads}, {Name: "attention_head_dim", N: c.HeadDim}, {Name: "in_channels", N: c.InChannels},
		{Name: "out_channels", N: c.OutChannels}, {Name: "num_layers", N: c.Layers}, {Name: "cross_attention_dim", N: c.CrossDim}}
	if !c.Second {
		sizes = append(sizes, models.Sized{Name: "caption_channels", N: c.CaptionChannels})
	}
	l.Add(models.CheckSizes(sizes...))
	l.Add(models.CheckEps("norm_eps", c.Eps))
	for i, n := range append([]float64{c.Theta, c.TimeScale}, c.MaxPos[:]...) {
		if !(n > 0 && n <= 1e9) {
			name := []string{"positional_embedding_theta", "timestep_scale_multiplier", "positional_embedding_max_pos[0]", "positional_embedding_max_pos[1]", "positional_embedding_max_pos[2]"}[i]
			l.Add(fault.New(models.ErrConfig, nil, "%s is %g: want a positive number", name, n))
		}
	}
	if err := l.Err(); err != nil {
		return c, err
	}
	if c.HeadDim%2 != 0 {
		l.Add(fault.New(models.ErrConfig, nil, "attention_head_dim %d: rotary positions turn pairs of channels", c.HeadDim))
	}
	if c.CrossDim != c.Dim() {
		l.Add(fault.New(models.ErrConfig, nil, "cross_attention_dim %d: the text is as wide as the video, %d heads of %d", c.CrossDim, c.Heads, c.HeadDim))
	}
	return c, l.Err()
}

const (
	officialClass   = "Transformer3DModel"
	secondClass     = "AVTransformer3DModel"
	diffusersClass  = "LTXVideoTransformer3DModel"
	connectorClass  = "Embeddings1DConnector"
	connectorPrefix = "video_embeddings_connector."
)

func detect(c map[string]any) bool {
	if t, ok := c["transformer"].(map[string]any); ok {
		c = t
	}
	class, _ := c["_class_name"].(string)
	_, theta := c["positional_embedding_theta"]
	_, cross := c["cross_attention_dim"]
	return slices.Contains([]string{officialClass, secondClass, diffusersClass}, class) || class == "" && theta && cross
}

func preset(change func(c *Config)) json.RawMessage {
	c := defaults
	c.Heads, c.HeadDim, c.Layers, c.CrossDim, c.CaptionChannels = 32, 128, 48, 4096, 4096
	change(&c)
	return models.Preset(c)
}

var presets = map[string]json.RawMessage{
	"ltx-video-2b":  preset(func(c *Config) { c.HeadDim, c.Layers, c.CrossDim = 64, 28, 2048 }),
	"ltx-video-13b": preset(func(c *Config) { c.Causal = true }),
	"ltx2.5-22b": preset(func(c *Config) {
		c.Causal, c.Second, c.CaptionChannels, c.Precision = true, true, 0, "float64"
		c.FFBias, c.CrossAdaLN, c.Gated, c.Keyframes = false, true, true, true
	}),
}

// nameOf is the preset that c is, however it counts time, or the kind of model.
func nameOf(c Config) string {
	name := models.PresetName(presets, parse, func(p Config) bool {
		p.Causal = c.Causal
		return p == c
	})
	if name != "" {
		return name
	}
	if c.Second {
		return "ltx2.5"
	}
	return "ltx-video"
}

func init() {
	models.Register(models.Family{
		Name:    "ltx",
		Presets: presets,
		Detect:  detect,
		New: func(_ string, raw []byte) (models.Model, error) {
			c, err := parse(raw)
			if err != nil {
				return nil, err
			}
			return &Model{name: nameOf(c), c: c}, nil
		},
	})
}
