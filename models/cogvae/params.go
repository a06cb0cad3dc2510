package cogvae

import (
	"fmt"
	"slices"
	"strings"

	"weft/models"
	"weft/models/vae"
	"weft/sharding"
)

func newModel(name string, c Config) *Model {
	m := &Model{c: c, pictures: vae.Autoencoder{Model: name, Channels: c.Latents, ChannelsKey: "latent_channels", Scale: c.scale(),
		FramesPerLatent: framesPerLatent, DecodedFrames: decodedFrames, Latents: []string{vae.RawLatents}}}
	t := &paramTable{&m.params, c}
	t.addEncoder()
	t.addDecoder()
	return m
}

// Params lists the parameters of encoder and decoder. It takes no notice of the number of
// layers, since none can be left out.
func (m *Model) Params(int) []models.Param { return slices.Clone(m.params.List) }

// Rules replicate every weight.
func (m *Model) Rules() sharding.Rules { return vae.WholeRules("encoder", "decoder") }

// paramTable adds parameters to a model. Names are diffusers'; those of the publisher's own files
// are translated.
type paramTable struct {
	*vae.Params
	c Config
}

// publishedName is the publisher's own name of a module: for instance decoder.up.0.block.1 of
// decoder.up_blocks.3.resnets.1, since it counts the decoder's stages from the last one.
func (t *paramTable) publishedName(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) > 2 && parts[1] == "up_blocks" {
		stage := 0
		_, _ = fmt.Sscan(parts[2], &stage) // our own numbers
		parts[1], parts[2] = "up", fmt.Sprint(len(t.c.Widths)-1-stage)
	}
	return strings.NewReplacer("mid_block.resnets.0", "mid.block_1", "mid_block.resnets.1", "mid.block_2", "down_blocks.", "down.", "resnets.", "block.",
		"downsamplers.0", "downsample", "upsamplers.0", "upsample", "conv_shortcut", "nin_shortcut").Replace(strings.Join(parts, "."))
}

func (t *paramTable) addConv(name string, out, in int, kernel ...int) {
	t.AddConv(name, t.publishedName(name), out, in, kernel...)
}

// addNorm adds the weight and the bias of a group norm.
func (t *paramTable) addNorm(name string, channels int) {
	t.AddNorm(name, t.publishedName(name), channels)
}

// addSpatialNorm adds a norm of the decoder: a group norm, and two convolutions of the latents.
func (t *paramTable) addSpatialNorm(name string, channels int) {
	t.addNorm(name+".norm_layer", channels)
	for _, what := range []string{".conv_y", ".conv_b"} {
		t.addConv(name+what+".conv", channels, t.c.Latents, 1, 1, 1)
	}
}

// addResidual adds a residual block, whose two norms norm adds.
func (t *paramTable) addResidual(name string, in, out int, norm func(name string, channels int)) {
	norm(name+".norm1", in)
	t.addConv(name+".conv1.conv", out, in, 3, 3, 3)
	norm(name+".norm2", out)
	t.addConv(name+".conv2.conv", out, out, 3, 3, 3)
	if in != out {
		t.addConv(name+".conv_shortcut", out, in, 1, 1, 1)
	}
}

func (t *paramTable) addEncoder() {
	widths := t.c.Widths
	t.addConv("encoder.conv_in.conv", widths[0], vae.PictureChannels, 3, 3, 3)
	in := widths[0]
	for i, out := range widths {
		stage := fmt.Sprintf("encoder.down_blocks.%d", i)
		for j := range t.c.ResBlocks {
			t.addResidual(fmt.Sprintf("%s.resnets.%d", stage, j), in, out, t.addNorm)
			in = out
		}
		if i < len(widths)-1 {
			t.addConv(stage+".downsamplers.0.conv", out, out, 3, 3)
		}
	}
	t.addMiddle("encoder", in, t.addNorm)
	t.addNorm("encoder.norm_out", in)
	t.addConv("encoder.conv_out.conv", 2*t.c.Latents, in, 3, 3, 3)
}

// addMiddle adds the two residual blocks in the middle of a half.
func (t *paramTable) addMiddle(half string, width int, norm func(name string, channels int)) {
	for j := range middleBlocks {
		t.addResidual(fmt.Sprintf("%s.mid_block.resnets.%d", half, j), width, width, norm)
	}
}

// middleBlocks is the number of residual blocks in the middle of each half.
const middleBlocks = 2

func (t *paramTable) addDecoder() {
	in := t.c.decoderWidth(0)
	t.addConv("decoder.conv_in.conv", in, t.c.Latents, 3, 3, 3)
	t.addMiddle("decoder", in, t.addSpatialNorm)
	for i := range t.c.Widths {
		stage, out := fmt.Sprintf("decoder.up_blocks.%d", i), t.c.decoderWidth(i)
		for j := range t.c.ResBlocks + 1 {
			t.addResidual(fmt.Sprintf("%s.resnets.%d", stage, j), in, out, t.addSpatialNorm)
			in = out
		}
		if i < len(t.c.Widths)-1 {
			t.addConv(stage+".upsamplers.0.conv", out, out, 3, 3)
		}
	}
	t.addSpatialNorm("decoder.norm_out", in)
	t.addConv("decoder.conv_out.conv", vae.PictureChannels, in, 3, 3, 3)
}
