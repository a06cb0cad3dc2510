package ltxvae

import (
	"fmt"
	"slices"
)

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

// Blocks is the number of residual blocks that a frame passes in the decoder.
func (c Config) Blocks() int {
	_, n, _ := c.middle()
	for _, b := range c.upBlocks() {
		n += b.layers
		if b.in != b.out {
			n++
		}
	}
	return n
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
		b := upBlock{name: fmt.Sprint("decoder.up_blocks.", i), factor: c.UpFactor[at], layers: c.DecoderLayers[at],
			up: c.Up[at], residual: c.UpResidual[at], noise: c.Noise[at], kind: foldSpaceTime}
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
