// Package cosmos3 is the two-stream transformer of Cosmos3, Nano and Edge, as a
// generator of video: text ids and latents in, velocity out. README.md says what
// is special about it and which splits are legal.
package cosmos3

import (
	"encoding/json"

	"weft/fault"
	"weft/models"
)

// Config is a Cosmos3 transformer, in the words of its config.json, which is
// also diffusers'.
type Config struct {
	Vocab        int     `json:"vocab_size"`
	Width        int     `json:"hidden_size"`
	FFN          int     `json:"intermediate_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	KVHeads      int     `json:"num_key_value_heads"`
	HeadDim      int     `json:"head_dim"`
	Eps          float64 `json:"rms_norm_eps"`
	Act          string  `json:"hidden_act"`             // silu (gated) or relu2
	QKNormText   bool    `json:"qk_norm_for_text"`       // norms of the text's q and k
	KNormForGen  bool    `json:"use_und_k_norm_for_gen"` // of the text's k as the video reads it, where those are not there
	Channels     int     `json:"latent_channel"`
	Patch        int     `json:"latent_patch_size"`
	RopeTheta    float64 `json:"rope_theta"`
	RopeAxes     [3]int  `json:"rope_axes_dim"` // channel pairs of frame, row and column
	TimeScale    float64 `json:"timestep_scale"`
	BaseFPS      float64 `json:"base_fps"`
	FramesBehind int     `json:"unified_3d_mrope_temporal_modality_margin"` // where the video's frames begin behind the text
}

// The activations of the hidden layers.
const (
	silu  = "silu"
	relu2 = "relu2"
)

// timeDim is how many sinusoids a timestep is made of.
const timeDim = 256

// textLen is how many ids a text has where nothing says: what the released
// pipelines pad to.
const textLen = 3072

// normed says whether the video reads the text's keys through a norm of their own.
func (c Config) normed() bool { return c.KNormForGen && !c.QKNormText }

// patch is (frames, rows, columns) of a token.
func (c Config) patch() [3]int { return [3]int{1, c.Patch, c.Patch} }

func defaults() Config {
	return Config{Eps: 1e-6, Act: silu, QKNormText: true, Channels: 48, Patch: 2, RopeTheta: 5e6, RopeAxes: [3]int{24, 20, 20},
		TimeScale: 0.001, BaseFPS: 24, FramesBehind: 15000}
}

// parse reads a config.json and refuses what the programs do not do.
func parse(raw []byte) (Config, error) {
	c := defaults()
	var more struct {
		Bias  bool  `json:"attention_bias"`
		Axes  []int `json:"rope_axes_dim"`
		Patch *int  `json:"patch_latent_dim"`
	}
	err := json.Unmarshal(raw, &more)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return c, fault.New(models.ErrConfig, nil, "%v", err)
	}
	var l fault.List
	wrong := func(format string, args ...any) { l.Add(fault.New(models.ErrConfig, nil, format, args...)) }
	if more.Bias {
		l.Add(fault.New(models.ErrVariant, nil, "attention_bias true: Cosmos3's projections have none"))
	}
	if c.Act != silu && c.Act != relu2 {
		l.Add(fault.New(models.ErrVariant, nil, "hidden_act %q: silu (gated) and relu2 are run", c.Act))
	}
	l.Add(models.CheckSizes([]models.Sized{{Name: "vocab_size", N: c.Vocab}, {Name: "hidden_size", N: c.Width}, {Name: "intermediate_size", N: c.FFN},
		{Name: "num_hidden_layers", N: c.Layers}, {Name: "num_attention_heads", N: c.Heads}, {Name: "num_key_value_heads", N: c.KVHeads},
		{Name: "head_dim", N: c.HeadDim}, {Name: "latent_channel", N: c.Channels}, {Name: "latent_patch_size", N: c.Patch},
		{Name: "rope_axes_dim[0]", N: c.RopeAxes[0]}, {Name: "rope_axes_dim[1]", N: c.RopeAxes[1]}, {Name: "rope_axes_dim[2]", N: c.RopeAxes[2]}}...))
	l.Add(models.CheckEps("rms_norm_eps", c.Eps))
	for _, f := range []struct {
		name string
		x    float64
	}{{"rope_theta", c.RopeTheta}, {"timestep_scale", c.TimeScale}, {"base_fps", c.BaseFPS}} {
		if !(f.x > 0 && f.x < 1<<40) {
			wrong("%s is %g: want a positive number", f.name, f.x)
		}
	}
	if c.FramesBehind < 0 || c.FramesBehind > 1<<23 {
		wrong("unified_3d_mrope_temporal_modality_margin is %d: want a number of positions", c.FramesBehind)
	}
	if len(more.Axes) != 0 && len(more.Axes) != 3 {
		wrong("rope_axes_dim %v: want three numbers", more.Axes)
	}
	if err := l.Err(); err != nil {
		return c, err
	}
	if c.Heads%c.KVHeads != 0 {
		wrong("%d attention heads over %d key and value heads: each serves equally many", c.Heads, c.KVHeads)
	}
	if sum := c.RopeAxes[0] + c.RopeAxes[1] + c.RopeAxes[2]; c.HeadDim%2 != 0 || sum != c.HeadDim/2 {
		wrong("rope_axes_dim %v: want %d channel pairs in all, half of head_dim %d", c.RopeAxes, c.HeadDim/2, c.HeadDim)
	} else if n := 3 * max(c.RopeAxes[1], c.RopeAxes[2]); n > c.HeadDim/2 {
		wrong("rope_axes_dim %v: rows and columns take every third of the first %d channel pairs, of which there are %d", c.RopeAxes, n, c.HeadDim/2)
	}
	if want := c.Channels * c.Patch * c.Patch; more.Patch != nil && *more.Patch != want {
		wrong("patch_latent_dim %d: %d channels in patches of %d make %d", *more.Patch, c.Channels, c.Patch, want)
	}
	return c, l.Err()
}

// detect says whether a config.json is a Cosmos3 transformer.
func detect(c map[string]any) bool {
	if class, _ := c["_class_name"].(string); class != "" {
		return class == "Cosmos3OmniTransformer"
	}
	_, patch := c["latent_patch_size"]
	_, axes := c["rope_axes_dim"]
	return patch && axes
}

func preset(change func(c *Config)) json.RawMessage {
	c := defaults()
	c.KVHeads, c.HeadDim = 8, 128
	change(&c)
	return models.Preset(c)
}

var presets = map[string]json.RawMessage{
	"cosmos3-nano": preset(func(c *Config) {
		c.Vocab, c.Width, c.FFN, c.Layers, c.Heads = 151936, 4096, 12288, 36, 32
	}),
	"cosmos3-edge": preset(func(c *Config) {
		c.Vocab, c.Width, c.FFN, c.Layers, c.Heads = 131072, 2048, 9216, 28, 16
		c.Eps, c.Act, c.QKNormText, c.KNormForGen, c.RopeTheta = 1e-5, relu2, false, true, 1e8
	}),
}

// nameOf is the preset that c is, or the family's name.
func nameOf(c Config) string {
	if name := models.PresetName(presets, parse, func(p Config) bool { return p == c }); name != "" {
		return name
	}
	return "cosmos3"
}

func init() {
	models.Register(models.Family{
		Name:    "cosmos3",
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
