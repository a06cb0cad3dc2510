package hunyuan15vae

import (
	"fmt"

	"weft/models"
	"weft/models/vae"
)

// paramTable adds parameters to a model. Each module has a name in diffusers, which is its own
// here, and one in the publisher's file.
type paramTable struct {
	*vae.Params
	c Config
}

// addKernel adds a convolution over three frames, rows and columns, as both publishers wrap it.
func (t *paramTable) addKernel(name, published string, out, in int) {
	t.AddConv(name+".conv", published+".conv", out, in, 3, 3, 3)
}

// addGamma adds the scale of so many channels.
func (t *paramTable) addGamma(name, published string, channels int) {
	t.Add(models.Param{Name: name + ".gamma", Shape: []int{channels, 1, 1, 1}, View: []int{channels}}, published+".gamma")
}

// addResidual adds a residual block: two norms, two convolutions and, if the width changes, a
// shortcut.
func (t *paramTable) addResidual(name, published string, in, out int) {
	t.addGamma(name+".norm1", published+".norm1", in)
	t.addKernel(name+".conv1", published+".conv1", out, in)
	t.addGamma(name+".norm2", published+".norm2", out)
	t.addKernel(name+".conv2", published+".conv2", out, out)
	if in != out {
		t.AddConv(name+".conv_shortcut", published+".nin_shortcut", out, in, 1, 1, 1)
	}
}

// addMiddle adds the middle of a half: residual blocks around an attention.
func (t *paramTable) addMiddle(half string, width int) {
	middle, published := half+".mid_block", half+".mid"
	t.addResidual(middle+".resnets.0", published+".block_1", width, width)
	attn, publishedAttn := middle+".attentions.0", published+".attn_1"
	t.addGamma(attn+".norm", publishedAttn+".norm", width)
	for _, of := range [][2]string{{"to_q", "q"}, {"to_k", "k"}, {"to_v", "v"}, {"proj_out", "proj_out"}} {
		t.AddConv(attn+"."+of[0], publishedAttn+"."+of[1], width, width, 1, 1, 1)
	}
	t.addResidual(middle+".resnets.1", published+".block_2", width, width)
}

// addStage adds the residual blocks of a stage.
func (t *paramTable) addStage(name, published string, blocks int, s stage) {
	in := s.in
	for i := range blocks {
		t.addResidual(blockName(name, i), fmt.Sprintf("%s.block.%d", published, i), in, s.width)
		in = s.width
	}
}

// addEncoder adds the parameters of the encoder.
func (t *paramTable) addEncoder() {
	t.addKernel("encoder.conv_in", "encoder.conv_in", t.c.Widths[0], vae.PictureChannels)
	width := t.c.Widths[len(t.c.Widths)-1]
	for i, s := range t.c.downStages() {
		name, published := downName(i), fmt.Sprint("encoder.down.", i)
		t.addStage(name, published, t.c.ResBlocks, s)
		if s.halves {
			t.addKernel(name+".downsamplers.0.conv", published+".downsample.conv", s.next/s.folded(), s.width)
		}
	}
	t.addMiddle("encoder", width)
	t.addGamma("encoder.norm_out", "encoder.norm_out", width)
	t.addKernel("encoder.conv_out", "encoder.conv_out", 2*t.c.Latents, width)
}

// addDecoder adds the parameters of the decoder.
func (t *paramTable) addDecoder() {
	width := t.c.Widths[len(t.c.Widths)-1]
	t.addKernel("decoder.conv_in", "decoder.conv_in", width, t.c.Latents)
	t.addMiddle("decoder", width)
	for i, s := range t.c.upStages() {
		name, published := upName(i), fmt.Sprint("decoder.up.", i)
		t.addStage(name, published, t.c.ResBlocks+1, s)
		if s.halves {
			t.addKernel(name+".upsamplers.0.conv", published+".upsample.conv", s.folded()*s.next, s.width)
		}
	}
	t.addGamma("decoder.norm_out", "decoder.norm_out", t.c.Widths[0])
	t.addKernel("decoder.conv_out", "decoder.conv_out", vae.PictureChannels, t.c.Widths[0])
}

// The names of modules in diffusers.
func downName(i int) string                { return fmt.Sprint("encoder.down_blocks.", i) }
func upName(i int) string                  { return fmt.Sprint("decoder.up_blocks.", i) }
func blockName(stage string, i int) string { return fmt.Sprintf("%s.resnets.%d", stage, i) }
