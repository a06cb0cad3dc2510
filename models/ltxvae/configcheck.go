package ltxvae

import (
	"slices"
	"strings"

	"weft/models"
)

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
		r.Refuse("the encoder makes one position of %d x %d pixels and %d frames, and the decoder makes %d x %d and %d of it: want the same",
			space, space, time, upSpace, upSpace, upTime)
	}
	for _, stated := range []struct {
		key string
		is  int
	}{{"spatial_compression_ratio", space}, {"temporal_compression_ratio", time}} {
		n := r.OptionalInt(stated.key, models.Bound{Least: 1, Most: 1 << 10, Why: "it is how many pixels or frames a latent stands for"})
		if n != 0 && n != stated.is {
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
			r.Unsupported("block %d of the decoder from %d to %d channels with upsample_factor %d: upsampling lowers the width to %d/%d",
				i, width, b.out, b.factor, width, b.factor)
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
