package hunyuan15vae

import (
	"weft/graph"
	"weft/models/vae"
	"weft/spmd"
)

// buildEncoder builds the encoder.
func (s *build) buildEncoder() (*graph.Graph, error) {
	c, l := s.m.c, s.Layout
	k := &chain{s: s, perLatent: c.Space, frames: s.m.pictures.VideoFrames(l.Frames)}
	k.addPixels()
	s.Graph.Layers = 2
	for i, d := range c.downStages() {
		s.Graph.Layers += c.ResBlocks
		k.addBlocks(downName(i), c.ResBlocks, d)
		if d.halves {
			k.addDownsample(downName(i)+".downsamplers.0", d)
		}
	}
	k.addMiddle("encoder")
	posterior := k.addPosterior()
	if k.err != nil {
		return nil, k.err
	}
	posterior["encode"].MakeAll()
	for _, name := range []string{"encode", "encode_mean", "encode_logvar"} {
		s.OutputFrames(name, l.Frames, s.Request.Latent, name)
	}
	return s.Finish()
}

// addPixels adds the layer that cuts a frame of the video (B, 3, 1, H, W) over the mesh and applies
// the first convolution.
func (k *chain) addPixels() {
	s, l := k.s, k.s.Layout
	s.FrameInputs("video", vae.PictureChannels, k.frames, k.perLatent*l.Rows, k.perLatent*l.Cols)
	video := s.Given("video", k.frames)
	in := moduleLayer("encoder.conv_in")
	in.reads = map[string]*vae.Sequence{"video": video}
	k.addStream(k.perLatent, in, func(p *programBuilder) spmd.Tensor {
		return p.causalConv("conv", p.CutOver(p.Transpose(p.Window("video", video, 0), 0, 2, 3, 4, 1)))
	})
}

// addDownsample adds the layer that halves rows and columns and, with time, the frames that are not
// the first: the positions that a convolution made lie behind each other among the channels. The
// shortcut around it does the same with what is there, and averages groups of channels.
func (k *chain) addDownsample(name string, of stage) {
	from, out := k.x, of.next
	l := moduleLayer(name)
	if of.time {
		l.frames, l.call = (k.frames-1)/2+1, vae.EveryOther
	}
	k.addStream(k.perLatent/2, l, func(p *programBuilder) spmd.Tensor {
		own, before := []int{0}, []int{-2, -1}
		switch {
		case p.first:
			before = []int{0, 0}
		case of.time:
			own, before = []int{-1, 0}, []int{-3, -2}
		}
		x := p.Window(stream, from, own...)
		y := p.positionsToChannels(p.convolve("conv.conv", p.Concat(1, p.Window(stream, from, before...), x)))
		if of.time && p.first { // of half as many positions as there are places for
			y = p.Concat(4, y, y)
		}
		return p.Add(y, p.averageGroups(p.positionsToChannels(x), out))
	})
}

// positionsToChannels puts frames and 2 x 2 positions (B, T, H, W, C) behind each other among the channels:
// (B, 1, H/2, W/2, T 2 2 C). Of the places within the channels, C varies fastest.
func (p *programBuilder) positionsToChannels(x spmd.Tensor) spmd.Tensor {
	x = p.SplitDim(p.SplitDim(x, 3, x.Dim(3)/2, 2), 2, x.Dim(2)/2, 2) // B, T, H', 2, W', 2, C
	return p.ExpandDim(p.MergeDims(p.Transpose(x, 0, 2, 4, 1, 3, 5, 6), 3, 4), 1)
}

// averageGroups averages groups of neighbouring channels of x (B, T, H, W, C), so that n are left.
func (p *programBuilder) averageGroups(x spmd.Tensor, n int) spmd.Tensor {
	group := x.Dim(4) / n
	x = p.Scale(p.Sum(p.SplitDim(x, 4, n, group), -1), 1/float64(group))
	return p.DropDim(x, 5)
}

// addPosterior adds the head of the encoder, which makes the posterior of a latent frame. The
// shortcut around it averages groups of channels.
func (k *chain) addPosterior() map[string]*vae.Sequence {
	from := k.x
	return k.add(layer{program: "encoder.conv_out", prefix: "encoder.", reads: map[string]*vae.Sequence{stream: from}, define: func(p *programBuilder) {
		x := p.Window(stream, from, 0)
		y := p.causalConv("conv_out.conv", p.Silu(p.normChannels("norm_out", x)))
		p.OutputPosterior(p.Add(y, p.averageGroups(x, y.Dim(4))), func(mean spmd.Tensor) spmd.Tensor { return p.Mul(mean, p.Factor()) })
	}})
}
