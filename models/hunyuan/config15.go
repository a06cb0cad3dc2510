package hunyuan

import (
	"encoding/json"

	"weft/fault"
)

const (
	officialClass15  = "HunyuanVideo_1_5_DiffusionTransformer"
	diffusersClass15 = "HunyuanVideo15Transformer3DModel"
)

var defaults15 = Config{Dim: 2048, Heads: 16, In: 32, Out: 32, MLPRatio: 4, Double: 54, Patch: [3]int{1, 1, 1},
	RopeDims: [3]int{16, 56, 56}, RopeTheta: 256, TextDim: 3584, Glyphs: true, GlyphDim: 1472, GlyphHidden: 2048, VisionDim: 1152}

// wide is how many channels are embedded: the latents, and of 1.5 besides the
// image's and one that says which frames the image gives.
func (c Config) wide() int {
	if c.Glyphs {
		return 2*c.In + 1
	}
	return c.In
}

// fixed15 are 1.5's keys that the programs take one value of.
type fixed15 struct {
	Pool      *string `json:"text_pool_type"`
	Concat    bool    `json:"concat_condition"`
	Frames    bool    `json:"is_reshape_temporal_channels"`
	Vision    string  `json:"vision_projection"`
	CondTypes bool    `json:"use_cond_type_embedding"`
	MeanFlow  bool    `json:"use_meanflow"`
}

// official15 reads the release's config of HunyuanVideo-1.5.
func official15(raw []byte, l *fault.List) (Config, error) {
	c, f := defaults15, usual
	f.Glyphs = true
	if err := f.read(raw, &c, l); err != nil {
		return c, err
	}
	g := fixed15{nil, true, false, "linear", true, false}
	if err := json.Unmarshal(raw, &g); err != nil {
		return c, err
	}
	for _, k := range []struct {
		key       string
		got, want any
	}{{"glyph_byT5_v2", f.Glyphs, true}, {"mm_single_blocks_depth", c.Single, 0}, {"guidance_embed", c.Guidance, false},
		{"concat_condition", g.Concat, true}, {"is_reshape_temporal_channels", g.Frames, false}, {"vision_projection", g.Vision, "linear"},
		{"use_cond_type_embedding", g.CondTypes, true}, {"use_meanflow", g.MeanFlow, false}} {
		if k.got != k.want {
			l.Add(unsupported("%s %v: of HunyuanVideo-1.5 %v is all that is run", k.key, k.got, k.want))
		}
	}
	if g.Pool != nil {
		l.Add(unsupported("text_pool_type %q: of HunyuanVideo-1.5 none is run", *g.Pool))
	}
	c.PooledDim = 0
	return c, nil
}

// diffusers15 are the keys that diffusers has for 1.5 besides.
type diffusers15 struct {
	GlyphDim    int  `json:"text_embed_2_dim"`
	GlyphHidden int  `json:"byt5_hidden"`
	VisionDim   int  `json:"image_embed_dim"`
	MeanFlow    bool `json:"use_meanflow"`
}

// fromDiffusers15 reads diffusers' config of HunyuanVideo-1.5.
func fromDiffusers15(raw []byte, l *fault.List) (Config, error) {
	c := defaults15
	d := diffusers{c.Heads, 128, c.wide(), c.Out, c.MLPRatio, c.Double, 0, refiners, 1, 1, c.RopeDims, c.RopeTheta, c.TextDim, 0, false, "rms_norm", nil}
	e := diffusers15{c.GlyphDim, c.GlyphHidden, c.VisionDim, false}
	for _, to := range []any{&d, &e} {
		if err := json.Unmarshal(raw, to); err != nil {
			return c, err
		}
	}
	d.common(&c, l)
	c.GlyphDim, c.GlyphHidden, c.VisionDim = e.GlyphDim, e.GlyphHidden, e.VisionDim
	if c.In = (d.In - 1) / 2; c.wide() != d.In {
		l.Add(unsupported("in_channels %d: want an odd number, the latents', the image's and one more", d.In))
	}
	if e.MeanFlow {
		l.Add(unsupported("use_meanflow true: models of two timesteps are not run"))
	}
	return c, nil
}
