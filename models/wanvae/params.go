package wanvae

import (
	"fmt"
	"slices"

	"weft/models"
	"weft/models/vae"
	"weft/sharding"
)

func newModel(name string, c Config) *Model {
	m := &Model{c: c, pictures: vae.Autoencoder{Model: name, Channels: c.ZDim, ChannelsKey: "z_dim", Scale: c.Scale(), FramesPerLatent: c.FramesPerLatent()}}
	t := &paramTable{&m.params, c}
	t.addEncoder()
	t.AddConv("conv1", "quant_conv", 2*c.ZDim, 2*c.ZDim, 1, 1, 1)
	t.AddConv("conv2", "post_quant_conv", c.ZDim, c.ZDim, 1, 1, 1)
	t.addDecoder()
	return m
}

// Params lists the parameters of encoder and decoder. It takes no notice of the number of
// layers, since none can be left out.
func (m *Model) Params(int) []models.Param { return slices.Clone(m.params.List) }

// Rules replicate every weight.
func (m *Model) Rules() sharding.Rules { return vae.WholeRules("encoder", "decoder", "conv1", "conv2") }

// paramTable adds parameters to a model. Each module has an official name
// and a name in diffusers.
type paramTable struct {
	*vae.Params
	c Config
}

// addNorm adds the scale of n channels. Files store it with so many dims of 1 behind the
// channels.
func (t *paramTable) addNorm(name, diffusers string, n, dims int) {
	shape := []int{n}
	for range dims {
		shape = append(shape, 1)
	}
	t.Add(models.Param{Name: name + ".gamma", Shape: shape, View: []int{n}}, diffusers+".gamma")
}

// addResidual adds a residual block: two norms, two convolutions and, if the width changes,
// a shortcut.
func (t *paramTable) addResidual(name, diffusers string, in, out int) {
	t.addNorm(name+".residual.0", diffusers+".norm1", in, 3)
	t.AddConv(name+".residual.2", diffusers+".conv1", out, in, 3, 3, 3)
	t.addNorm(name+".residual.3", diffusers+".norm2", out, 3)
	t.AddConv(name+".residual.6", diffusers+".conv2", out, out, 3, 3, 3)
	if in != out {
		t.AddConv(name+".shortcut", diffusers+".conv_shortcut", out, in, 1, 1, 1)
	}
}

// addEnds adds the modules that encoder and decoder have in common: the first convolution,
// the middle and the head. The stages lie before the middle in the encoder and behind it in
// the decoder.
func (t *paramTable) addEnds(half string, in, first, middle, last, out int) {
	t.AddConv(half+".conv1", half+".conv_in", first, in, 3, 3, 3)
	t.addResidual(half+".middle.0", half+".mid_block.resnets.0", middle, middle)
	attn, diffusers := half+".middle.1", half+".mid_block.attentions.0"
	t.addNorm(attn+".norm", diffusers+".norm", middle, 2)
	t.AddConv(attn+".to_qkv", diffusers+".to_qkv", 3*middle, middle, 1, 1)
	t.AddConv(attn+".proj", diffusers+".proj", middle, middle, 1, 1)
	t.addResidual(half+".middle.2", half+".mid_block.resnets.1", middle, middle)
	t.addNorm(half+".head.0", half+".norm_out", last, 3)
	t.AddConv(half+".head.2", half+".conv_out", out, last, 3, 3, 3)
}

// moduleName gives the official name of module j of stage i, which is number n among the
// modules of all stages. Wan2.1 numbers them through, Wan2.2 stage by stage.
func (c Config) moduleName(half, part string, n, i, j int) string {
	if c.Residual {
		return fmt.Sprintf("%s.%s.%d.%s.%d", half, part, i, part, j)
	}
	return fmt.Sprintf("%s.%s.%d", half, part, n)
}

// addEncoder adds the parameters of the encoder.
func (t *paramTable) addEncoder() {
	c := t.c
	n, width := 0, c.Dim
	for i, mult := range c.DimMult {
		next := func(j int, own string) (name, diffusers string) {
			name = c.moduleName("encoder", "downsamples", n, i, j)
			diffusers = fmt.Sprint("encoder.down_blocks.", n)
			if c.Residual {
				diffusers = fmt.Sprintf("encoder.down_blocks.%d.%s", i, own)
			}
			n++
			return name, diffusers
		}
		for j := range c.ResBlocks {
			name, diffusers := next(j, fmt.Sprint("resnets.", j))
			t.addResidual(name, diffusers, width, c.Dim*mult)
			width = c.Dim * mult
		}
		if i == len(c.DimMult)-1 {
			continue
		}
		name, diffusers := next(c.ResBlocks, "downsampler")
		t.AddConv(name+".resample.1", diffusers+".resample.1", width, width, 3, 3)
		if c.TemporalDown[i] {
			t.AddConv(name+".time_conv", diffusers+".time_conv", width, width, 3, 1, 1)
		}
	}
	t.addEnds("encoder", c.pixelChannels(), c.Dim, width, width, 2*c.ZDim)
}

// addDecoder adds the parameters of the decoder.
func (t *paramTable) addDecoder() {
	c := t.c
	widths := c.decoderWidths()
	t.addEnds("decoder", c.ZDim, widths[0], widths[0], widths[len(widths)-1], c.pixelChannels())
	up := "upsamplers.0"
	if c.Residual {
		up = "upsampler"
	}
	for i := range c.DimMult {
		in, out := c.stageOutputWidth(i), widths[i+1]
		s := c.decoderStage(i)
		for j, name := range s.residuals {
			t.addResidual(name, fmt.Sprintf("decoder.up_blocks.%d.resnets.%d", i, j), in, out)
			in = out
		}
		if s.upsample == "" {
			continue
		}
		diffusers := fmt.Sprintf("decoder.up_blocks.%d.%s", i, up)
		t.AddConv(s.upsample+".resample.1", diffusers+".resample.1", c.stageOutputWidth(i+1), out, 3, 3)
		if c.doublesFrames(i) {
			t.AddConv(s.upsample+".time_conv", diffusers+".time_conv", 2*out, out, 3, 1, 1)
		}
	}
}

// stageModules names the modules of a stage of the decoder: the official names of its
// residual blocks and of its upsampling, which the last stage does not have.
type stageModules struct {
	residuals []string
	upsample  string
}

// decoderStage names the modules of stage i of the decoder, counted from 0.
func (c Config) decoderStage(i int) stageModules {
	var s stageModules
	for j := range c.ResBlocks + 2 {
		name := c.moduleName("decoder", "upsamples", i*(c.ResBlocks+2)+j, i, j)
		switch {
		case j <= c.ResBlocks:
			s.residuals = append(s.residuals, name)
		case i < len(c.DimMult)-1:
			s.upsample = name
		}
	}
	return s
}
