package wanvae

import (
	"cmp"
	"slices"
	"strings"

	"weft/models"
	"weft/models/vae"
)

// Config is the autoencoder, in the words of the official code.
type Config struct {
	Dim       int   `json:"dim"`     // the encoder's base width
	DecDim    int   `json:"dec_dim"` // the decoder's
	ZDim      int   `json:"z_dim"`   // channels of the latents
	DimMult   []int `json:"dim_mult"`
	ResBlocks int   `json:"num_res_blocks"`
	// TemporalDown says for each stage of the encoder except the last whether it
	// halves the number of frames. The decoder doubles them in the reverse order. Every
	// publisher's files spell the name in this way.
	TemporalDown []bool `json:"temperal_downsample"`
	// Residual marks Wan2.2's architecture: shortcuts go around whole stages,
	// upsampling keeps the width, and pixels are grouped in patches of Patch x Patch.
	Residual bool `json:"is_residual"`
	Patch    int  `json:"patch_size"`
	// Mean and Std of each latent channel: the decoder reads z*Std + Mean.
	Mean []float64 `json:"latents_mean"`
	Std  []float64 `json:"latents_std"`
}

// The statistics of the released models' latents. Official releases state them in their
// code, not in a file.
var (
	releasedMean = []float64{-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
		0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921}
	releasedStd = []float64{2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
		3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160}
	releasedMean22 = []float64{-0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557,
		-0.1382, 0.0542, 0.2813, 0.0891, 0.1570, -0.0098, 0.0375, -0.1825,
		-0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, -0.2158, 0.2502,
		-0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.1230,
		-0.0313, -0.1649, 0.0117, 0.0723, -0.2839, -0.2083, -0.0520, 0.3748,
		0.0152, 0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667}
	releasedStd22 = []float64{0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013,
		0.8158, 1.0344, 0.5894, 1.0901, 0.6885, 0.6165, 0.8454, 0.4978,
		0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
		0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093,
		0.5709, 0.6065, 0.6415, 0.4944, 0.5726, 1.2042, 0.5458, 1.6887,
		0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744}
)

// Blocks is the number of residual blocks that a frame passes: two in the middle, and those
// of every stage.
func (c Config) Blocks() int { return 2 + len(c.DimMult)*(c.ResBlocks+1) }

// Scale is the number of pixels that a latent position is wide and high.
func (c Config) Scale() int { return c.Patch << (len(c.DimMult) - 1) }

// pixelChannels is the number of channels of the encoder's input and of the decoder's
// output: those of a whole patch of pixels.
func (c Config) pixelChannels() int { return vae.PictureChannels * c.Patch * c.Patch }

// FramesPerLatent is the number of frames that a latent frame stands for. The first stands
// for one frame only.
func (c Config) FramesPerLatent() int {
	n := 1
	for _, down := range c.TemporalDown {
		if down {
			n *= 2
		}
	}
	return n
}

// decoderWidths are the numbers of channels in the decoder's middle and then in each of its
// stages.
func (c Config) decoderWidths() []int {
	out := []int{c.DecDim * c.DimMult[len(c.DimMult)-1]}
	for _, m := range slices.Backward(c.DimMult) {
		out = append(out, c.DecDim*m)
	}
	return out
}

// stageOutputWidth is the number of channels that stage i of the decoder, counted from 1,
// passes to the next; 0 stands for the middle. Upsampling halves the width, except in
// Wan2.2.
func (c Config) stageOutputWidth(i int) int {
	if i > 0 && i < len(c.DimMult) && !c.Residual {
		return c.decoderWidths()[i] / 2
	}
	return c.decoderWidths()[i]
}

// doublesFrames says whether stage i of the decoder, counted from 0, doubles the number of
// frames.
func (c Config) doublesFrames(i int) bool { return c.TemporalDown[len(c.TemporalDown)-1-i] }

// configWords are those of Wan's code and of diffusers.
var configWords = []models.Words[Config]{{
	Of: "Wan and diffusers",
	Keys: func(c *Config) []models.Key {
		return []models.Key{
			models.Metadata("scale_factor_spatial", "scale_factor_temporal"),
			models.Int("dim", &c.Dim, widthBound).Also("base_dim"), // the second is diffusers' word
			models.OptionalInt("dec_dim", &c.DecDim, widthBound).Also("decoder_base_dim"),
			models.Int("z_dim", &c.ZDim, models.ChannelBound),
			models.IntList("dim_mult", &c.DimMult, models.Bound{Least: 1, Most: 1 << 8, Why: "it multiplies the base width"}),
			models.Int("num_res_blocks", &c.ResBlocks, models.Bound{Least: 1, Most: 64, Why: "every stage has that many"}),
			models.BoolList("temperal_downsample", &c.TemporalDown),
			models.FloatList("latents_mean", &c.Mean, models.StatsSpan),
			models.FloatList("latents_std", &c.Std, models.Positive),
			models.OptionalInt("patch_size", &c.Patch, models.PatchBound),
		}
	},
	Derive: deriveAndCheck,
}}

var widthBound = models.Bound{Least: 1, Most: 1 << 12, Why: "it is a base width, which stages multiply"}

// deriveAndCheck fills in what a file does not state, and refuses settings that the programs do not
// implement.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	c.DecDim = cmp.Or(c.DecDim, c.Dim)
	c.Residual = r.Bool("is_residual", c.ZDim == len(releasedMean22))
	if c.Residual {
		c.Patch = cmp.Or(c.Patch, 2)
	}
	c.Patch = cmp.Or(c.Patch, 1)
	for _, key := range []string{"in_channels", "out_channels"} {
		if n := r.OptionalInt(key, models.ChannelBound); n != 0 && n != c.pixelChannels() {
			r.Unsupported("%s %d: this version decodes to %d (%d of %d x %d pixels)", key, n, c.pixelChannels(), vae.PictureChannels, c.Patch, c.Patch)
		}
	}
	if scales := r.Floats("attn_scales", nil, -1, models.Positive); len(scales) > 0 {
		r.Unsupported("attn_scales %v: only attention in the middle ([]) is supported", scales)
	}
	if c.Mean == nil && c.Std == nil {
		switch c.ZDim {
		case len(releasedMean):
			c.Mean, c.Std = releasedMean, releasedStd
		case len(releasedMean22):
			c.Mean, c.Std = releasedMean22, releasedStd22
		}
	}
	if len(c.Mean) != c.ZDim || len(c.Std) != c.ZDim {
		r.Refuse("%d latents_mean and %d latents_std for z_dim %d: want one of each a channel", len(c.Mean), len(c.Std), c.ZDim)
	}
	c.checkStages(r)
}

// checkStages reports widths of stages that their layers cannot have.
func (c *Config) checkStages(r *models.ConfigReader) {
	if n := len(c.DimMult); n < 1 || n > 8 || len(c.TemporalDown) != n-1 {
		r.Refuse("%d dim_mult and %d temperal_downsample: want 1 to 8, and one fewer of the latter", n, len(c.TemporalDown))
		return
	}
	for i, m := range c.DimMult {
		if i > 0 && c.DecDim*m%2 != 0 {
			r.Refuse("dim_mult[%d] is %d: want an even width dec_dim*dim_mult where a stage halves it", i, m)
		}
	}
	if !c.Residual {
		return
	}
	for i := range len(c.DimMult) - 1 {
		if in, out := c.decoderWidths()[i], c.decoderWidths()[i+1]*c.positionsFromOne(i); out%in != 0 {
			r.Refuse("stage %d of the decoder from %d to %d channels: its shortcut repeats each %d/%d times, which is no whole number", i, in, c.decoderWidths()[i+1], out, in)
		}
	}
	in := c.Dim
	for i, mult := range c.DimMult {
		out, positions := c.Dim*mult, 1
		if i < len(c.DimMult)-1 {
			positions = 4
		}
		if c.halvesFrames(i) {
			positions *= 2
		}
		if in*positions%out != 0 {
			r.Refuse("stage %d of the encoder from %d to %d channels: its shortcut averages groups of %d/%d, which is no whole number", i, in, out, in*positions, out)
		}
		in = out
	}
}

// positionsFromOne is the number of positions that stage i of the decoder makes from one:
// 2x2 in space, times two frames if it doubles them.
func (c Config) positionsFromOne(i int) int {
	if c.doublesFrames(i) {
		return 8
	}
	return 4
}

// detectConfig says whether a config.json describes a Wan autoencoder, of either publisher.
func detectConfig(c map[string]any) bool {
	class, _ := c["_class_name"].(string)
	_, z := c["z_dim"]
	_, mult := c["dim_mult"]
	return class == "AutoencoderKLWan" || strings.HasPrefix(class, "WanVAE") || class == "" && z && mult
}

var released = map[string]Config{
	"wan2.1-vae": {Dim: 96, DecDim: 96, ZDim: 16, DimMult: []int{1, 2, 4, 4}, ResBlocks: 2, TemporalDown: []bool{false, true, true},
		Patch: 1, Mean: releasedMean, Std: releasedStd},
	"wan2.2-vae": {Dim: 160, DecDim: 256, ZDim: 48, DimMult: []int{1, 2, 4, 4}, ResBlocks: 2, TemporalDown: []bool{false, true, true},
		Residual: true, Patch: 2, Mean: releasedMean22, Std: releasedStd22},
}
