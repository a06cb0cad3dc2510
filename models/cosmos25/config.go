// Package cosmos25 is the diffusion transformer of Cosmos-Predict2.5, 2B and 14B.
// README.md says what is special about it and which splits are legal.
package cosmos25

import (
	"encoding/json"

	"weft/fault"
	"weft/models"
)

// Config is a Cosmos-Predict2.5 transformer, in the words of NVIDIA's own
// MinimalV1LVGDiT. Released checkpoints have no config.json.
type Config struct {
	Width         int     `json:"model_channels"`
	Heads         int     `json:"num_heads"`
	Layers        int     `json:"num_blocks"`
	MLPRatio      float64 `json:"mlp_ratio"`
	InChannels    int     `json:"in_channels"` // of the latents; two masks come behind
	OutChannels   int     `json:"out_channels"`
	PatchSpatial  int     `json:"patch_spatial"`
	PatchTemporal int     `json:"patch_temporal"`
	LoRADim       int     `json:"adaln_lora_dim"`
	TextDim       int     `json:"crossattn_proj_in_channels"` // of the text encoder's layers, end to end
	ContextDim    int     `json:"crossattn_emb_channels"`     // of a text row after its projection
	TimeScale     float64 `json:"timestep_scale"`
	// RoPE ratios stretch the base of an axis' frequencies: 10000 r^(n/(n-2)) for n channels.
	RopeT float64 `json:"rope_t_extrapolation_ratio"`
	RopeH float64 `json:"rope_h_extrapolation_ratio"`
	RopeW float64 `json:"rope_w_extrapolation_ratio"`
}

// TextLen is how many rows the text context is padded to with zeros.
const TextLen = 512

// eps is that of every norm. diffusers leaves its attention's default 1e-5 at
// the norms of q and k, which is not what the model was trained with.
const eps = 1e-6

// masks are the channels behind the latents': which frames are given, and which
// pixels are real.
const masks = 2

// HeadDim is the width of one head.
func (c Config) HeadDim() int { return c.Width / c.Heads }

// FFN is the width of the hidden layer.
func (c Config) FFN() int { return int(float64(c.Width) * c.MLPRatio) }

// Patch is (frames, rows, columns) of a token.
func (c Config) Patch() [3]int { return [3]int{c.PatchTemporal, c.PatchSpatial, c.PatchSpatial} }

// axes are how many of a head's channels turn with the frame, row and column:
// d - 4(d/6), 2(d/6) and 2(d/6).
func (c Config) axes() [3]int {
	n := c.HeadDim() / 6 * 2
	return [3]int{c.HeadDim() - 2*n, n, n}
}

// switches are what other models of the same class have and this one does not.
type switches struct {
	PaddingMask *bool   `json:"concat_padding_mask"`
	LoRA        *bool   `json:"use_adaln_lora"`
	Projection  *bool   `json:"use_crossattn_projection"`
	PosEmb      *string `json:"pos_emb_cls"`
	ExtraPos    *bool   `json:"extra_per_block_abs_pos_emb"`
	FPS         *bool   `json:"rope_enable_fps_modulation"`
	ImageText   *int    `json:"extra_image_context_dim"`
	// diffusers'
	ExtraPosType *string `json:"extra_pos_embed_type"`
	ControlNet   *int    `json:"controlnet_block_every_n"`
	ImageContext *int    `json:"img_context_dim_in"`
}

// diffusersConfig is what diffusers writes for the same model.
type diffusersConfig struct {
	In        int       `json:"in_channels"` // with the mask of given frames
	Out       int       `json:"out_channels"`
	Heads     int       `json:"num_attention_heads"`
	HeadDim   int       `json:"attention_head_dim"`
	Layers    int       `json:"num_layers"`
	MLPRatio  float64   `json:"mlp_ratio"`
	TextDim   int       `json:"text_embed_dim"`
	LoRADim   int       `json:"adaln_lora_dim"`
	Patch     []int     `json:"patch_size"`
	RopeScale []float64 `json:"rope_scale"`
	ProjIn    int       `json:"crossattn_proj_in_channels"`
	ProjOut   int       `json:"encoder_hidden_states_channels"`
}

func defaults() Config {
	return Config{MLPRatio: 4, InChannels: 16, OutChannels: 16, PatchSpatial: 2, PatchTemporal: 1, LoRADim: 256,
		TextDim: 100352, ContextDim: 1024, TimeScale: 0.001, RopeT: 1, RopeH: 3, RopeW: 3}
}

// parse reads either publisher's config.json and refuses what the programs do not do.
func parse(raw []byte) (Config, error) {
	var l fault.List
	unsupported := func(format string, args ...any) { l.Add(fault.New(models.ErrVariant, nil, format, args...)) }
	wrong := func(format string, args ...any) { l.Add(fault.New(models.ErrConfig, nil, format, args...)) }
	c := defaults()
	var keys map[string]json.RawMessage
	var s switches
	err := json.Unmarshal(raw, &keys)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return c, fault.New(models.ErrConfig, nil, "%v", err)
	}
	if _, diffusers := keys["num_attention_heads"]; diffusers {
		d := diffusersConfig{In: 17, Out: 16, Heads: 32, HeadDim: 128, Layers: 28, MLPRatio: 4, TextDim: 1024, LoRADim: 256,
			Patch: []int{1, 2, 2}, RopeScale: []float64{2, 1, 1}, ProjIn: 1024, ProjOut: 1024}
		if err := json.Unmarshal(raw, &d); err != nil {
			return c, fault.New(models.ErrConfig, nil, "%v", err)
		}
		if len(d.Patch) != 3 || d.Patch[1] != d.Patch[2] {
			wrong("patch_size %v: want three numbers, the last two equal", d.Patch)
			d.Patch = []int{1, 1, 1}
		}
		if len(d.RopeScale) != 3 {
			wrong("rope_scale %v: want three numbers", d.RopeScale)
			d.RopeScale = []float64{1, 1, 1}
		}
		if d.TextDim != d.ProjOut {
			wrong("text_embed_dim %d and encoder_hidden_states_channels %d: layers read what the projection makes", d.TextDim, d.ProjOut)
		}
		if s.ExtraPosType == nil && keys["extra_pos_embed_type"] == nil {
			unsupported("extra_pos_embed_type is not there, which means learnable: that is Cosmos-Predict1; Predict2.5 has null")
		}
		if s.Projection == nil {
			s.Projection = new(bool)
		}
		c.Width, c.Heads, c.Layers, c.MLPRatio = d.Heads*d.HeadDim, d.Heads, d.Layers, d.MLPRatio
		c.InChannels, c.OutChannels, c.PatchTemporal, c.PatchSpatial = d.In-1, d.Out, d.Patch[0], d.Patch[1]
		c.LoRADim, c.TextDim, c.ContextDim = d.LoRADim, d.ProjIn, d.ProjOut
		c.RopeT, c.RopeH, c.RopeW = d.RopeScale[0], d.RopeScale[1], d.RopeScale[2]
	} else if err := json.Unmarshal(raw, &c); err != nil {
		return c, fault.New(models.ErrConfig, nil, "%v", err)
	}
	for _, b := range []struct {
		name string
		got  *bool
		want bool
	}{{"concat_padding_mask", s.PaddingMask, true}, {"use_adaln_lora", s.LoRA, true},
		{"extra_per_block_abs_pos_emb", s.ExtraPos, false}, {"rope_enable_fps_modulation", s.FPS, false}} {
		if b.got != nil && *b.got != b.want {
			unsupported("%s %v: Cosmos-Predict2.5 has %v", b.name, *b.got, b.want)
		}
	}
	if s.Projection != nil && !*s.Projection {
		unsupported("use_crossattn_projection false: that is Cosmos-Predict2, whose text is T5's; Predict2.5 projects Reason1's")
	}
	if s.PosEmb != nil && *s.PosEmb != "rope3d" {
		unsupported("pos_emb_cls %q: Cosmos-Predict2.5 has rope3d", *s.PosEmb)
	}
	if s.ExtraPosType != nil {
		unsupported("extra_pos_embed_type %q: Cosmos-Predict2.5 has none", *s.ExtraPosType)
	}
	if s.ControlNet != nil {
		unsupported("controlnet_block_every_n %d: Cosmos-Transfer2.5 is not run", *s.ControlNet)
	}
	for _, n := range []*int{s.ImageContext, s.ImageText} {
		if n != nil && *n > 0 {
			unsupported("an image context of width %d: such models are not run", *n)
		}
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"model_channels", c.Width}, {"num_heads", c.Heads}, {"num_blocks", c.Layers}, {"in_channels", c.InChannels}, {"out_channels", c.OutChannels},
		{"patch_spatial", c.PatchSpatial}, {"patch_temporal", c.PatchTemporal}, {"adaln_lora_dim", c.LoRADim},
		{"crossattn_proj_in_channels", c.TextDim}, {"crossattn_emb_channels", c.ContextDim}} {
		if f.n < 1 || f.n > 1<<24 {
			wrong("%s is %d: want a positive number", f.name, f.n)
		}
	}
	for _, f := range []struct {
		name string
		x    float64
	}{{"mlp_ratio", c.MLPRatio}, {"timestep_scale", c.TimeScale}, {"rope_t_extrapolation_ratio", c.RopeT},
		{"rope_h_extrapolation_ratio", c.RopeH}, {"rope_w_extrapolation_ratio", c.RopeW}} {
		if !(f.x > 0 && f.x < 1<<16) {
			wrong("%s is %g: want a positive number", f.name, f.x)
		}
	}
	if err := l.Err(); err != nil {
		return c, err
	}
	if c.Width%c.Heads != 0 || c.HeadDim()%2 != 0 || c.HeadDim() < 12 {
		wrong("model_channels %d over num_heads %d: heads must have an even whole width of at least 12, so that each axis has more than two channels", c.Width, c.Heads)
	}
	if c.FFN() < 1 || c.FFN() > 1<<24 {
		wrong("mlp_ratio %g of model_channels %d is a hidden layer of %d", c.MLPRatio, c.Width, c.FFN())
	}
	return c, l.Err()
}

// detect says whether a config.json is a Cosmos-Predict transformer of either publisher.
func detect(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	if class != "" {
		return class == "MinimalV1LVGDiT" || class == "MiniTrainDIT" || class == "CosmosTransformer3DModel"
	}
	_, width := c["model_channels"]
	_, lora := c["adaln_lora_dim"]
	return width && lora
}

func preset(width, heads, layers int) json.RawMessage {
	c := defaults()
	c.Width, c.Heads, c.Layers = width, heads, layers
	return models.Preset(c)
}

var presets = map[string]json.RawMessage{
	"cosmos2.5-2b":  preset(2048, 16, 28),
	"cosmos2.5-14b": preset(5120, 40, 36),
}

// nameOf is the preset that c is, or the family's name.
func nameOf(c Config) string {
	if name := models.PresetName(presets, parse, func(p Config) bool { return p == c }); name != "" {
		return name
	}
	return "cosmos2.5"
}

func init() {
	models.Register(models.Family{
		Name:    "cosmos2.5",
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
