package ltxvae

import (
	"fmt"
	"slices"
	"strings"

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

// deriveAndCheck fills in the lists that a file does not have, and refuses what does not fit
// together or no program is there for.
func deriveAndCheck(c *Config, r *models.ConfigReader) {
	c.deriveLists()
	if !c.checkLists(r) {
		return
	}
	c.checkEncoder(r)
	c.checkDecoder(r)
	space, time := c.encoderScale()
	upSpace, upTime := c.decoderScale()
	if space != upSpace || time != upTime {
		r.Refuse("the encoder makes one position of %d x %d pixels and %d frames, and the decoder makes %d x %d and %d of it: want the same", space, space, time, upSpace, upSpace, upTime)
	}
	for _, stated := range []struct {
		key string
		is  int
	}{{"spatial_compression_ratio", space}, {"temporal_compression_ratio", time}} {
		if n := r.OptionalInt(stated.key, models.Bound{Least: 1, Most: 1 << 10, Why: "it is how many pixels or frames a latent stands for"}); n != 0 && n != stated.is {
			r.Refuse("%s is %d, and the blocks make it %d", stated.key, n, stated.is)
		}
	}
}

// deriveLists fills in the lists of values that are the same for all blocks, as diffusers does.
func (c *Config) deriveLists() {
	scaling := func(n int) []bool { // all but the last block
		list := slices.Repeat([]bool{true}, max(n, 1))
		list[len(list)-1] = false
		return list
	}
	if c.Down == nil {
		c.Down = scaling(len(c.Widths))
	}
	if c.DownBlocks == nil {
		c.DownBlocks = slices.Repeat([]string{plainBlock}, len(c.Down))
	}
	if c.DownKinds == nil {
		c.DownKinds = slices.Repeat([]string{byConv}, len(c.Down))
	}
	if c.Up == nil {
		c.Up = scaling(len(c.DecoderWidths))
	}
	if c.Noise == nil {
		c.Noise = make([]bool, len(c.DecoderWidths)+1)
	}
	if c.UpResidual == nil {
		c.UpResidual = make([]bool, len(c.DecoderWidths))
	}
}

// checkLists reports lists whose lengths do not fit together, and blocks of unknown kinds. It says
// whether the others can be looked at.
func (c *Config) checkLists(r *models.ConfigReader) bool {
	ok := c.checkKinds(r)
	for key, n := range map[string]int{"block_out_channels": len(c.Widths), "decoder_block_out_channels": len(c.DecoderWidths)} {
		if n < 1 || n > 8 {
			r.Refuse("%d %s: want 1 to 8", n, key)
			ok = false
		}
	}
	if !ok {
		return false
	}
	blocks, up := c.downBlockCount(), len(c.DecoderWidths)
	for _, l := range []struct {
		key        string
		have, want int
	}{
		{"layers_per_block", len(c.Layers), blocks + 1}, {"spatio_temporal_scaling", len(c.Down), blocks}, {"down_block_types", len(c.DownBlocks), blocks},
		{"downsample_type", len(c.DownKinds), blocks}, {"decoder_layers_per_block", len(c.DecoderLayers), up + 1},
		{"decoder_spatio_temporal_scaling", len(c.Up), up}, {"decoder_inject_noise", len(c.Noise), up + 1}, {"upsample_residual", len(c.UpResidual), up},
		{"upsample_factor", len(c.UpFactor), up},
	} {
		if l.have != l.want {
			r.Refuse("%d %s: want %d, one for each block and, of layers and noise, one for the middle", l.have, l.key, l.want)
			ok = false
		}
	}
	if c.isSecond() && len(c.UpKinds) != up {
		r.Refuse("%d upsample_type: want %d, one for each block", len(c.UpKinds), up)
		ok = false
	}
	return ok
}

// checkKinds reports blocks of unknown kinds.
func (c *Config) checkKinds(r *models.ConfigReader) bool {
	ok, blocks := true, []string{plainBlock, foldBlock}
	if c.isSecond() {
		blocks = []string{secondBlock}
	}
	folds := []string{foldSpace, foldTime, foldSpaceTime}
	for _, l := range []struct {
		key          string
		kinds, known []string
	}{{"down_block_types", c.DownBlocks, blocks}, {"downsample_type", c.DownKinds, append([]string{byConv}, folds...)}, {"upsample_type", c.UpKinds, folds}} {
		for _, kind := range l.kinds {
			if !slices.Contains(l.known, kind) {
				r.Unsupported("%s has %q: want one of %s", l.key, kind, strings.Join(l.known, ", "))
				ok = false
			}
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(c.DownBlocks)))) > 1 {
		r.Unsupported("down_block_types %q: all blocks of an encoder are of one kind", c.DownBlocks)
		ok = false
	}
	return ok
}

// downBlockCount is the number of the encoder's blocks. Those of 0.9.5 have a width before the
// first.
func (c *Config) downBlockCount() int {
	if slices.Contains(c.DownBlocks, foldBlock) {
		return len(c.Widths) - 1
	}
	return len(c.Widths)
}

// checkEncoder reports widths that the encoder's blocks cannot have.
func (c *Config) checkEncoder(r *models.ConfigReader) {
	for i, b := range c.downBlocks() {
		switch {
		case b.folded() > 1 && b.out%b.folded() != 0:
			r.Refuse("block %d of the encoder folds %d positions into %d channels: want a multiple", i, b.folded(), b.out)
		case b.folded() > 1 && b.in*b.folded()%b.out != 0:
			r.Refuse("block %d of the encoder from %d to %d channels: its shortcut averages groups of %d/%d, which is no whole number", i, b.in, b.out, b.in*b.folded(), b.out)
		case c.DownBlocks[i] != plainBlock && b.folded() == 1 && b.in != b.out:
			r.Unsupported("block %d of the encoder from %d to %d channels: a block of %s changes the width where it folds positions", i, b.in, b.out, c.DownBlocks[i])
		}
	}
}

// checkDecoder reports widths that the decoder's blocks cannot have, and blocks that no release
// has.
func (c *Config) checkDecoder(r *models.ConfigReader) {
	width := c.DecoderWidths[len(c.DecoderWidths)-1]
	for i, b := range c.upBlocks() {
		if b.factor > 1 && (!b.up || width%b.factor != 0 || b.in != b.out) {
			r.Unsupported("block %d of the decoder from %d to %d channels with upsample_factor %d: upsampling lowers the width to %d/%d", i, width, b.out, b.factor, width, b.factor)
			return
		}
		if n := b.unfolded(); b.up && b.residual && (b.out*b.factor%n != 0 || n%b.factor != 0) {
			r.Refuse("block %d of the decoder: its shortcut makes %d channels of %d, which is no whole number of copies of %d/%d", i, b.out, b.out*b.factor, b.out*b.factor, n)
		}
		if b.in != b.out && (c.Timestep || b.noise) {
			r.Unsupported("block %d of the decoder from %d to %d channels, with noise or a timestep: no release has such a block", i, b.in, b.out)
		}
		width = b.out
	}
}

// downBlock is one block of the encoder: residual blocks, then fewer positions, then another
// width.
type downBlock struct {
	name    string // diffusers'
	in, out int
	layers  int
	kind    string // byConv and so on; "" where the number of positions stays
	widens  bool   // by a residual block at its end
}

// halves says whether the block makes one of two rows and columns, and of two frames.
func (b downBlock) halves() (space, time bool) {
	return b.kind == byConv || b.kind == foldSpace || b.kind == foldSpaceTime, b.kind == byConv || b.kind == foldTime || b.kind == foldSpaceTime
}

// folded is the number of positions that lie behind each other among the channels afterwards.
func (b downBlock) folded() int {
	switch b.kind {
	case foldSpace:
		return 4
	case foldTime:
		return 2
	case foldSpaceTime:
		return 8
	}
	return 1
}

// firstWidth is the width behind the encoder's first convolution.
func (c *Config) firstWidth() int {
	if c.isSecond() {
		return c.Latent
	}
	return c.Widths[0]
}

// downBlocks lists the encoder's blocks.
func (c *Config) downBlocks() []downBlock {
	var out []downBlock
	width := c.firstWidth()
	for i := range c.downBlockCount() {
		b := downBlock{name: fmt.Sprint("encoder.down_blocks.", i), in: width, layers: c.Layers[i]}
		switch c.DownBlocks[i] {
		case secondBlock:
			b.out = c.Widths[i]
		case foldBlock:
			b.out = c.Widths[i+1]
		default:
			b.out = c.Widths[min(i+1, len(c.Widths)-1)]
			b.widens = b.in != b.out
		}
		switch {
		case !c.Down[i]:
		case c.DownBlocks[i] == plainBlock:
			b.kind = byConv
		default:
			b.kind = c.DownKinds[i]
		}
		width = b.out
		out = append(out, b)
	}
	return out
}

// upBlock is one block of the decoder: another width, then more positions, then residual blocks.
type upBlock struct {
	name         string // diffusers'
	in, out      int    // of the residual blocks; upsampling reads factor times as many channels
	factor       int
	layers       int
	up, residual bool
	kind         string // what upsampling doubles: foldSpace and so on
	noise        bool
}

// doubles says whether the block doubles rows and columns, and frames.
func (b upBlock) doubles() (space, time bool) {
	return b.up && b.kind != foldTime, b.up && b.kind != foldSpace
}

// unfolded is the number of positions that upsampling makes of one.
func (b upBlock) unfolded() int { return downBlock{kind: b.kind}.folded() }

// upBlocks lists the decoder's blocks in the order in which a frame passes them.
func (c *Config) upBlocks() []upBlock {
	n := len(c.DecoderWidths)
	var out []upBlock
	width := c.DecoderWidths[n-1]
	for i := range n {
		at := n - 1 - i
		b := upBlock{name: fmt.Sprint("decoder.up_blocks.", i), factor: c.UpFactor[at], layers: c.DecoderLayers[at], up: c.Up[at], residual: c.UpResidual[at], noise: c.Noise[at], kind: foldSpaceTime}
		if c.isSecond() {
			b.kind = c.UpKinds[i]
		}
		b.in, b.out = width/b.factor, c.DecoderWidths[at]/b.factor
		width = b.out
		out = append(out, b)
	}
	return out
}

// middle is the width, the number of residual blocks and the noise of the decoder's middle.
func (c *Config) middle() (width, layers int, noise bool) {
	n := len(c.DecoderWidths)
	return c.DecoderWidths[n-1], c.DecoderLayers[n], c.Noise[n]
}

// lastWidth is the width of the decoder's last block.
func (c *Config) lastWidth() int {
	blocks := c.upBlocks()
	return blocks[len(blocks)-1].out
}

// encoderScale is the number of pixels along a side, and of frames, that the encoder makes one
// position of.
func (c *Config) encoderScale() (space, time int) {
	space, time = c.Patch, 1
	for _, b := range c.downBlocks() {
		s, t := b.halves()
		if s {
			space *= 2
		}
		if t {
			time *= 2
		}
	}
	return space, time
}

// decoderScale is the number of pixels along a side, and of frames, that the decoder makes of a
// position.
func (c *Config) decoderScale() (space, time int) {
	space, time = c.Patch, 1
	for _, b := range c.upBlocks() {
		s, t := b.doubles()
		if s {
			space *= 2
		}
		if t {
			time *= 2
		}
	}
	return space, time
}

// noiseScales lists, for each plane of noise that a decoding takes, the positions along a side for
// each latent position. A stage that injects noise takes two for each residual block.
func (c *Config) noiseScales() []int {
	var out []int
	scale := 1
	stage := func(layers int, noise bool) {
		if noise {
			out = append(out, slices.Repeat([]int{scale}, 2*layers)...)
		}
	}
	_, layers, noise := c.middle()
	stage(layers, noise)
	for _, b := range c.upBlocks() {
		if space, _ := b.doubles(); space {
			scale *= 2
		}
		stage(b.layers, b.noise)
	}
	return out
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
