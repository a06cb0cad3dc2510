package hunyuanvae

import (
	"fmt"
	"slices"

	"weft/models"
	"weft/models/vae"
	"weft/sharding"
)

func newModel(name string, c Config) *Model {
	m := &Model{c: c, pictures: vae.Autoencoder{Model: name, Channels: c.Latents, ChannelsKey: "latent_channels", Scale: scale,
		FramesPerLatent: framesPerLatent, Latents: []string{vae.RawLatents}}}
	t := &paramTable{&m.params, c}
	t.addEncoder()
	t.addConv("quant_conv", 2*c.Latents, 2*c.Latents, 1, 1, 1)
	t.addConv("post_quant_conv", c.Latents, c.Latents, 1, 1, 1)
	t.addDecoder()
	return m
}

// Params lists the parameters of encoder and decoder. It takes no notice of the number of
// layers, since none can be left out.
func (m *Model) Params(int) []models.Param { return slices.Clone(m.params.List) }

// Rules replicate every weight.
func (m *Model) Rules() sharding.Rules {
	return vae.WholeRules("encoder", "decoder", "quant_conv", "post_quant_conv")
}

// paramTable adds parameters to a model. The publisher and diffusers have the same names.
type paramTable struct {
	*vae.Params
	c Config
}

func (t *paramTable) addConv(name string, out, in int, kernel ...int) {
	t.AddConv(name, name, out, in, kernel...)
}

func (t *paramTable) addNorm(name string, channels int) { t.AddNorm(name, name, channels) }

func (t *paramTable) addResidual(name string, in, out int) {
	t.addNorm(name+".norm1", in)
	t.addConv(name+".conv1.conv", out, in, 3, 3, 3)
	t.addNorm(name+".norm2", out)
	t.addConv(name+".conv2.conv", out, out, 3, 3, 3)
	if in != out {
		t.addConv(name+".conv_shortcut.conv", out, in, 1, 1, 1)
	}
}

// addMiddle adds the middle of a half: residual blocks around an attention of one head.
func (t *paramTable) addMiddle(half string, width int) {
	t.addResidual(half+".mid_block.resnets.0", width, width)
	if t.c.Attends {
		attention := half + ".mid_block.attentions.0"
		t.addNorm(attention+".group_norm", width)
		for _, linear := range []string{"to_q", "to_k", "to_v", "to_out.0"} {
			t.addConv(attention+"."+linear, width, width)
		}
	}
	t.addResidual(half+".mid_block.resnets.1", width, width)
}

func (t *paramTable) addEncoder() {
	in := t.c.Widths[0]
	t.addConv("encoder.conv_in.conv", in, vae.PictureChannels, 3, 3, 3)
	for i, out := range t.c.Widths {
		stage := fmt.Sprintf("encoder.down_blocks.%d", i)
		for j := range t.c.ResBlocks {
			t.addResidual(fmt.Sprintf("%s.resnets.%d", stage, j), in, out)
			in = out
		}
		if i < stages-1 {
			t.addConv(stage+".downsamplers.0.conv.conv", out, out, 3, 3, 3)
		}
	}
	t.addMiddle("encoder", in)
	t.addNorm("encoder.conv_norm_out", in)
	t.addConv("encoder.conv_out.conv", 2*t.c.Latents, in, 3, 3, 3)
}

func (t *paramTable) addDecoder() {
	in := t.c.decoderWidth(0)
	t.addConv("decoder.conv_in.conv", in, t.c.Latents, 3, 3, 3)
	t.addMiddle("decoder", in)
	for i := range t.c.Widths {
		stage, out := fmt.Sprintf("decoder.up_blocks.%d", i), t.c.decoderWidth(i)
		for j := range t.c.ResBlocks + 1 {
			t.addResidual(fmt.Sprintf("%s.resnets.%d", stage, j), in, out)
			in = out
		}
		if i < stages-1 {
			t.addConv(stage+".upsamplers.0.conv.conv", out, out, 3, 3, 3)
		}
	}
	t.addNorm("decoder.conv_norm_out", in)
	t.addConv("decoder.conv_out.conv", vae.PictureChannels, in, 3, 3, 3)
}
