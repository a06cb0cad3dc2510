package ltxvae

import (
	"fmt"

	"weft/internal/bystander"
	"weft/models"
	"weft/models/vae"
	"weft/sharding"
)

// timeWidth is the width of a timestep's sinusoidal embedding.
const timeWidth = 256

// Tensors of the official file that lie beside the autoencoder's own: other statistics of its
// latents, and the 1000 that the decoder's timestep is multiplied by in every release.
var (
	otherStatistics = bystander.Kind{Name: "statistics that no program reads", Globs: []string{"per_channel_statistics.channel", "per_channel_statistics.mean-of-stds*"}}
	timestepFactor  = bystander.Kind{Name: "the factor of timesteps, which is 1000", Globs: []string{"decoder.timestep_scale_multiplier"}}
)

// paramTable collects the parameters under diffusers' names, and their names in the official file.
type paramTable struct {
	vae.Params
	official map[string]string // diffusers' name of a module by the official one
}

func newParams(c Config) paramTable {
	t := paramTable{official: map[string]string{}}
	t.addEncoder(c)
	t.addDecoder(c)
	for _, name := range []string{"latents_mean", "latents_std"} {
		t.addVector(name, c.Latent)
	}
	return t
}

// addVector adds a parameter that no matmul reads.
func (t *paramTable) addVector(name string, shape ...int) {
	t.Add(models.Param{Name: name, Shape: shape}, name)
}

// addKernel adds a convolution over three frames, rows and columns, as both publishers wrap it.
func (t *paramTable) addKernel(name string, out, in int) {
	t.AddConv(name+".conv", name+".conv", out, in, 3, 3, 3)
}

// addResidual adds a residual block.
func (t *paramTable) addResidual(name string, in, out int, noise, timestep bool) {
	t.addKernel(name+".conv1", out, in)
	t.addKernel(name+".conv2", out, out)
	if in != out {
		t.addVector(name+".norm3.weight", in)
		t.addVector(name+".norm3.bias", in)
		t.AddConv(name+".conv_shortcut.conv", name+".conv_shortcut.conv", out, in, 1, 1, 1)
	}
	if noise {
		for _, scale := range []string{".per_channel_scale1", ".per_channel_scale2"} {
			t.Add(models.Param{Name: name + scale, Shape: []int{out, 1, 1}, View: []int{out}}, name+scale)
		}
	}
	if timestep {
		t.addVector(name+".scale_shift_table", 4, in)
	}
}

// addEmbedder adds the layers that make width numbers of a timestep's embedding.
func (t *paramTable) addEmbedder(name string, width int) {
	for i, in := range []int{timeWidth, width} {
		for _, p := range models.LinearParams(fmt.Sprintf("%s.time_embedder.timestep_embedder.linear_%d", name, i+1), width, in, true) {
			t.Add(p, p.Name)
		}
	}
}

// addResiduals adds the residual blocks of a stage. width is theirs.
func (t *paramTable) addResiduals(name string, n, width int, noise, timestep bool) {
	for i := range n {
		t.addResidual(fmt.Sprintf("%s.resnets.%d", name, i), width, width, noise, timestep)
	}
}

// addEncoder adds the parameters of the encoder. The official file numbers its modules through.
func (t *paramTable) addEncoder(c Config) {
	t.addKernel("encoder.conv_in", c.firstWidth(), pictureChannel*c.Patch*c.Patch)
	n := 0
	next := func(diffusers string) {
		t.official[fmt.Sprint("encoder.down_blocks.", n)] = diffusers
		n++
	}
	width := c.firstWidth()
	for _, b := range c.downBlocks() {
		next(b.name)
		t.addResiduals(b.name, b.layers, b.in, false, false)
		down := b.name + ".downsamplers.0"
		switch {
		case b.kind == byConv:
			next(down)
			t.AddConv(down+".conv", down+".conv", b.in, b.in, 3, 3, 3)
		case b.kind != "":
			next(down)
			t.addKernel(down+".conv", b.out/b.folded(), b.in)
		}
		if b.widens {
			next(b.name + ".conv_out")
			t.addResidual(b.name+".conv_out", b.in, b.out, false, false)
		}
		width = b.out
	}
	next("encoder.mid_block")
	t.addResiduals("encoder.mid_block", c.Layers[len(c.Layers)-1], width, false, false)
	t.addKernel("encoder.conv_out", c.Latent+1, width)
}

// addDecoder adds the parameters of the decoder.
func (t *paramTable) addDecoder(c Config) {
	n := 0
	next := func(diffusers string) {
		t.official[fmt.Sprint("decoder.up_blocks.", n)] = diffusers
		n++
	}
	width, layers, noise := c.middle()
	t.addKernel("decoder.conv_in", width, c.Latent)
	next("decoder.mid_block")
	if c.Timestep {
		t.addEmbedder("decoder.mid_block", 4*width)
	}
	t.addResiduals("decoder.mid_block", layers, width, noise, c.Timestep)
	for _, b := range c.upBlocks() {
		if b.in != b.out {
			next(b.name + ".conv_in")
			t.addResidual(b.name+".conv_in", b.in, b.out, false, false)
		}
		if b.up {
			next(b.name + ".upsamplers.0")
			t.addKernel(b.name+".upsamplers.0.conv", b.unfolded()*b.out, b.factor*b.out)
		}
		next(b.name)
		if c.Timestep {
			t.addEmbedder(b.name, 4*b.out)
		}
		t.addResiduals(b.name, b.layers, b.out, b.noise, c.Timestep)
		width = b.out
	}
	if c.Timestep {
		t.addEmbedder("decoder", 2*width)
		t.addVector("decoder.scale_shift_table", 2, width)
	}
	t.addKernel("decoder.conv_out", pictureChannel*c.Patch*c.Patch, width)
}

// Rules replicate every weight. Rows and columns of the pictures are sharded instead, and every
// device applies the whole kernel to its own part.
func (m *Model) Rules() sharding.Rules {
	return append(vae.WholeRules("encoder", "decoder"), sharding.Rule{Match: "latents_*", Spec: sharding.NewSpec()})
}
