// Package wanvae is Wan2.1's causal video autoencoder: all its parameters, and
// its decoder, which turns latents into video one latent frame at a time.
// README.md says what is special about it and which splits are legal.
package wanvae

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"weft/fault"
	"weft/models"
)

// Config is the autoencoder, in the words of the official code.
type Config struct {
	Dim       int   `json:"dim"`
	ZDim      int   `json:"z_dim"` // channels of the latents
	DimMult   []int `json:"dim_mult"`
	ResBlocks int   `json:"num_res_blocks"`
	// TemporalDown says, for each of the encoder's stages but the last, whether it
	// halves the frames; the decoder doubles them in the reverse order. The name is
	// spelt so in every publisher's files.
	TemporalDown []bool `json:"temperal_downsample"`
	// Mean and Std of each latent channel: the decoder reads z*Std + Mean.
	Mean []float64 `json:"latents_mean"`
	Std  []float64 `json:"latents_std"`
}

// The released latents' statistics, which official files keep in code alone.
var (
	releasedMean = []float64{-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
		0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921}
	releasedStd = []float64{2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
		3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160}
)

// Scale is how many pixels a latent position is wide and high.
func (c Config) Scale() int { return 1 << (len(c.DimMult) - 1) }

// FramesPerLatent is how many frames a latent frame stands for, but for the first, which is one.
func (c Config) FramesPerLatent() int {
	n := 1
	for _, down := range c.TemporalDown {
		if down {
			n *= 2
		}
	}
	return n
}

// widths are the decoder's: of its middle, then after each of its stages.
func (c Config) widths() []int {
	out := []int{c.Dim * c.DimMult[len(c.DimMult)-1]}
	for _, m := range slices.Backward(c.DimMult) {
		out = append(out, c.Dim*m)
	}
	return out
}

// doubles says whether stage i of the decoder doubles the frames.
func (c Config) doubles(i int) bool { return c.TemporalDown[len(c.TemporalDown)-1-i] }

// file is either publisher's config.json.
type file struct {
	Config
	Class       string    `json:"_class_name"`
	BaseDim     *int      `json:"base_dim"` // diffusers' dim
	DecoderDim  *int      `json:"decoder_base_dim"`
	DecDim      *int      `json:"dec_dim"`
	Residual    bool      `json:"is_residual"`
	Patch       *int      `json:"patch_size"`
	InChannels  *int      `json:"in_channels"`
	OutChannels *int      `json:"out_channels"`
	AttnScales  []float64 `json:"attn_scales"`
}

func parse(raw []byte) (Config, error) {
	var f file
	if err := json.Unmarshal(raw, &f); err != nil {
		return Config{}, fault.New(models.ErrConfig, nil, "%v", err)
	}
	c := f.Config
	if f.BaseDim != nil {
		c.Dim = *f.BaseDim
	}
	var l fault.List
	unsupported := func(format string, args ...any) { l.Add(fault.New(models.ErrVariant, nil, format, args...)) }
	if f.Residual || c.ZDim == wan22Channels || f.Patch != nil && *f.Patch != 1 {
		unsupported("this is Wan2.2's autoencoder (z_dim %d, patches of pixels, averaging shortcuts): this version decodes Wan2.1's, wan2.1-vae", c.ZDim)
		return c, l.Err()
	}
	for _, d := range []*int{f.DecoderDim, f.DecDim} {
		if d != nil && *d != c.Dim {
			unsupported("a decoder of base width %d beside an encoder of %d: Wan2.1's have one width", *d, c.Dim)
		}
	}
	for _, n := range []*int{f.InChannels, f.OutChannels} {
		if n != nil && *n != pictures {
			unsupported("pictures of %d channels: this version decodes to %d", *n, pictures)
		}
	}
	if len(f.AttnScales) > 0 {
		unsupported("attn_scales %v: only attention in the middle ([]) is supported", f.AttnScales)
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"dim", c.Dim}, {"z_dim", c.ZDim}, {"num_res_blocks", c.ResBlocks}, {"the number of dim_mult", len(c.DimMult)}} {
		if n.n < 1 || n.n > 1<<16 {
			l.Add(fault.New(models.ErrConfig, nil, "%s is %d: want a positive number", n.name, n.n))
		}
	}
	if len(c.DimMult) > 8 || len(c.TemporalDown) != len(c.DimMult)-1 {
		l.Add(fault.New(models.ErrConfig, nil, "%d dim_mult and %d temperal_downsample: want at most 8, and one fewer of the latter", len(c.DimMult), len(c.TemporalDown)))
	}
	for i, m := range c.DimMult {
		if m < 1 || m > 1<<8 || i > 0 && c.Dim*m%2 != 0 {
			l.Add(fault.New(models.ErrConfig, nil, "dim_mult[%d] is %d: want a positive number, and an even width dim*dim_mult where a stage halves it", i, m))
		}
	}
	if c.Mean == nil && c.Std == nil && c.ZDim == len(releasedMean) {
		c.Mean, c.Std = releasedMean, releasedStd
	}
	if len(c.Mean) != c.ZDim || len(c.Std) != c.ZDim {
		l.Add(fault.New(models.ErrConfig, nil, "%d latents_mean and %d latents_std for z_dim %d: want one of each a channel", len(c.Mean), len(c.Std), c.ZDim))
	}
	return c, l.Err()
}

// pictures is how many channels a picture has; wan22Channels what Wan2.2's own latents have.
const (
	pictures      = 3
	wan22Channels = 48
)

// detect says whether a config.json is a Wan autoencoder of either publisher.
func detect(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	_, z := c["z_dim"]
	_, mult := c["dim_mult"]
	return class == "AutoencoderKLWan" || strings.HasPrefix(class, "WanVAE") || class == "" && z && mult
}

var released = Config{Dim: 96, ZDim: 16, DimMult: []int{1, 2, 4, 4}, ResBlocks: 2, TemporalDown: []bool{false, true, true}, Mean: releasedMean, Std: releasedStd}

// Name21 is the preset's name.
const Name21 = "wan2.1-vae"

func init() {
	raw, err := json.Marshal(released)
	if err != nil {
		panic(err)
	}
	models.Register(models.Family{
		Name:    "wan-vae",
		Presets: map[string]json.RawMessage{Name21: raw},
		Detect:  detect,
		New: func(_ string, raw []byte) (models.Model, error) {
			c, err := parse(raw)
			if err != nil {
				return nil, err
			}
			name := "wan-vae"
			if reflect.DeepEqual(c, released) {
				name = Name21
			}
			return newModel(name, c), nil
		},
	})
}
