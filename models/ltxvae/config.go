package ltxvae

import (
	"slices"

	"weft/models"
)

// Config is the autoencoder, in diffusers' words. Lists of the decoder are in the order of the
// encoder: the decoder passes them from the last to the first.
type Config struct {
	Latent int     `json:"latent_channels"`
	Patch  int     `json:"patch_size"` // pixels along a side that are grouped
	Eps    float64 `json:"resnet_norm_eps"`
	Scale  float64 `json:"scaling_factor"` // normalised latents are multiplied by it

	Widths     []int    `json:"block_out_channels"`
	Layers     []int    `json:"layers_per_block"`        // of each block, and of the middle
	Down       []bool   `json:"spatio_temporal_scaling"` // which blocks have fewer positions at their end
	DownBlocks []string `json:"down_block_types"`
	DownKinds  []string `json:"downsample_type"` // of the blocks of 0.9.5
	Causal     bool     `json:"encoder_causal"`

	DecoderWidths []int  `json:"decoder_block_out_channels"`
	DecoderLayers []int  `json:"decoder_layers_per_block"`
	Up            []bool `json:"decoder_spatio_temporal_scaling"`
	Noise         []bool `json:"decoder_inject_noise"`
	UpResidual    []bool `json:"upsample_residual"`
	UpFactor      []int  `json:"upsample_factor"` // by which upsampling lowers the width
	// UpKinds says what a block of LTX-2's decoder doubles, in the order in which a frame passes
	// them. In LTX-Video it is rows, columns and frames.
	UpKinds []string `json:"upsample_type,omitempty"`
	// Padding is what kernels of LTX-2's decoder read beyond the edges; "" in LTX-Video, whose
	// kernels read zeros.
	Padding       string `json:"decoder_spatial_padding_mode,omitempty"`
	DecoderCausal bool   `json:"decoder_causal"`
	// Timestep says that the decoder is told how much noise the latents have left.
	Timestep bool `json:"timestep_conditioning"`
}

// The blocks of the encoder that releases have, and how those of 0.9.5 and of LTX-2 lower the
// number of positions.
const (
	plainBlock  = "LTXVideoDownBlock3D"
	foldBlock   = "LTXVideo095DownBlock3D"
	secondBlock = "LTX2VideoDownBlock3D"

	byConv         = "conv"
	foldSpace      = "spatial"
	foldTime       = "temporal"
	foldSpaceTime  = "spatiotemporal"
	pictureChannel = 3
)

var stageBound = models.Bound{Least: 1, Most: 64, Why: "every stage has that many residual blocks"}

// The classes in diffusers.
const (
	class       = "AutoencoderKLLTXVideo"
	secondClass = "AutoencoderKLLTX2Video"
)

// configWords are diffusers' for the autoencoders of LTX-2 and of LTX-Video. The defaults are its
// own: those of LTX-2.0, and of 0.9.0.
var configWords = []models.Words[Config]{
	{
		Of: "LTX-2",
		Recognize: func(r *models.ConfigReader) bool {
			return r.Class() == secondClass || r.Has("decoder_spatial_padding_mode")
		},
		Defaults: Config{Latent: 128, Patch: 4, Eps: 1e-6, Scale: 1, Causal: true, DecoderCausal: true,
			Widths: []int{256, 512, 1024, 2048}, Layers: []int{4, 6, 6, 2, 2}, DecoderWidths: []int{256, 512, 1024}, DecoderLayers: []int{5, 5, 5, 5},
			UpFactor: []int{2, 2, 2}, Padding: "reflect"},
		Keys: func(c *Config) []models.Key {
			return append(commonKeys(c), models.Fixed("encoder_spatial_padding_mode", zeroPadding, "LTX-2"),
				models.String("decoder_spatial_padding_mode", &c.Padding), models.StringList("upsample_type", &c.UpKinds))
		},
		Derive: func(c *Config, r *models.ConfigReader) {
			if c.Padding != zeroPadding {
				r.Unsupported("decoder_spatial_padding_mode %q: LTX-2.0's decoder reflects pictures at their edges; only %q is run, as in LTX-2.3 and 2.5", c.Padding, zeroPadding)
			}
			c.deriveSecondLists()
			deriveAndCheck(c, r)
		},
	},
	{
		Of: "LTX-Video",
		Defaults: Config{Latent: 128, Patch: 4, Eps: 1e-6, Scale: 1, Causal: true,
			Widths: []int{128, 256, 512, 512}, Layers: []int{4, 3, 3, 3, 4}, DecoderWidths: []int{128, 256, 512, 512}, DecoderLayers: []int{4, 3, 3, 3, 4},
			UpFactor: []int{1, 1, 1, 1}},
		Keys:   commonKeys,
		Derive: deriveAndCheck,
	},
}

const zeroPadding = "zeros"

func commonKeys(c *Config) []models.Key {
	return []models.Key{
		models.Fixed("in_channels", pictureChannel, "LTX-Video"),
		models.Fixed("out_channels", pictureChannel, "LTX-Video"),
		models.Fixed("patch_size_t", 1, "LTX-Video"),
		models.Int("latent_channels", &c.Latent, models.ChannelBound),
		models.Int("patch_size", &c.Patch, models.PatchBound),
		models.Float("resnet_norm_eps", &c.Eps, models.SmallSpan),
		models.Float("scaling_factor", &c.Scale, models.Positive),
		models.IntList("block_out_channels", &c.Widths, models.WidthBound),
		models.IntList("layers_per_block", &c.Layers, stageBound),
		models.StringList("down_block_types", &c.DownBlocks),
		models.StringList("downsample_type", &c.DownKinds),
		models.BoolList("spatio_temporal_scaling", &c.Down),
		models.Bool("encoder_causal", &c.Causal),
		models.IntList("decoder_block_out_channels", &c.DecoderWidths, models.WidthBound),
		models.IntList("decoder_layers_per_block", &c.DecoderLayers, stageBound),
		models.BoolList("decoder_spatio_temporal_scaling", &c.Up),
		models.BoolList("decoder_inject_noise", &c.Noise),
		models.BoolList("upsample_residual", &c.UpResidual),
		models.IntList("upsample_factor", &c.UpFactor, models.Bound{Least: 1, Most: 8, Why: "upsampling makes eight positions of one"}),
		models.Bool("decoder_causal", &c.DecoderCausal),
		models.Bool("timestep_conditioning", &c.Timestep),
	}
}

// isSecond says whether the autoencoder is LTX-2's.
func (c *Config) isSecond() bool { return c.Padding != "" }

// deriveSecondLists fills in the lists that a file of LTX-2 does not have.
func (c *Config) deriveSecondLists() {
	if c.Down == nil {
		c.Down = slices.Repeat([]bool{true}, len(c.Widths))
	}
	if c.DownBlocks == nil {
		c.DownBlocks = slices.Repeat([]string{secondBlock}, len(c.Widths))
	}
	if c.DownKinds == nil {
		c.DownKinds = []string{foldSpace, foldTime, foldSpaceTime, foldSpaceTime}
	}
	if c.Up == nil {
		c.Up = slices.Repeat([]bool{true}, len(c.DecoderWidths))
	}
	if c.UpResidual == nil {
		c.UpResidual = slices.Repeat([]bool{true}, len(c.DecoderWidths))
	}
	if c.UpKinds == nil {
		c.UpKinds = slices.Repeat([]string{foldSpaceTime}, len(c.DecoderWidths))
	}
}

// detectConfig says whether a config.json describes an autoencoder of LTX-Video or LTX-2.
func detectConfig(c map[string]any) bool {
	named, _ := c["_class_name"].(string)
	_, own := c["spatio_temporal_scaling"]
	return named == class || named == secondClass || named == "" && own
}

var four = []string{plainBlock, plainBlock, plainBlock, plainBlock}

var fourSecond = []string{secondBlock, secondBlock, secondBlock, secondBlock}

// The names are those of models.Companions and, for the versions before, of the releases.
var released = map[string]Config{
	"ltx-video-vae": {Latent: 128, Patch: 4, Eps: 1e-6, Scale: 1, Causal: true, Widths: []int{128, 256, 512, 1024, 2048}, Layers: []int{4, 6, 6, 2, 2},
		Down: []bool{true, true, true, true}, DownBlocks: []string{foldBlock, foldBlock, foldBlock, foldBlock}, DownKinds: []string{foldSpace, foldTime, foldSpaceTime, foldSpaceTime},
		DecoderWidths: []int{256, 512, 1024}, DecoderLayers: []int{5, 5, 5, 5}, Up: []bool{true, true, true}, Noise: []bool{false, false, false, false},
		UpResidual: []bool{true, true, true}, UpFactor: []int{2, 2, 2}, Timestep: true},
	"ltx-video-0.9.1-vae": {Latent: 128, Patch: 4, Eps: 1e-6, Scale: 1, Causal: true, Widths: []int{128, 256, 512, 512}, Layers: []int{4, 3, 3, 3, 4},
		Down: []bool{true, true, true, false}, DownBlocks: four, DownKinds: []string{byConv, byConv, byConv, byConv},
		DecoderWidths: []int{256, 512, 1024}, DecoderLayers: []int{5, 6, 7, 8}, Up: []bool{true, true, true}, Noise: []bool{true, true, true, false},
		UpResidual: []bool{true, true, true}, UpFactor: []int{2, 2, 2}, Timestep: true},
	"ltx-video-0.9.0-vae": {Latent: 128, Patch: 4, Eps: 1e-6, Scale: 1, Causal: true, Widths: []int{128, 256, 512, 512}, Layers: []int{4, 3, 3, 3, 4},
		Down: []bool{true, true, true, false}, DownBlocks: four, DownKinds: []string{byConv, byConv, byConv, byConv},
		DecoderWidths: []int{128, 256, 512, 512}, DecoderLayers: []int{4, 3, 3, 3, 4}, Up: []bool{true, true, true, false}, Noise: []bool{false, false, false, false, false},
		UpResidual: []bool{false, false, false, false}, UpFactor: []int{1, 1, 1, 1}},
	"ltx2.5-vae-conv": {Latent: 128, Patch: 4, Eps: 1e-6, Scale: 1, Causal: true, Widths: []int{256, 512, 1024, 1024}, Layers: []int{4, 6, 4, 2, 2},
		Down: []bool{true, true, true, true}, DownBlocks: fourSecond, DownKinds: []string{foldSpace, foldTime, foldSpaceTime, foldSpaceTime},
		DecoderWidths: []int{256, 512, 512, 1024}, DecoderLayers: []int{4, 6, 4, 2, 2}, Up: []bool{true, true, true, true}, Noise: []bool{false, false, false, false, false},
		UpResidual: []bool{false, false, false, false}, UpFactor: []int{2, 2, 1, 2}, UpKinds: []string{foldSpaceTime, foldSpaceTime, foldTime, foldSpace}, Padding: zeroPadding},
}
