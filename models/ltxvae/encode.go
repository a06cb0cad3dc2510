package ltxvae

import (
	"weft/dtype"
	"weft/graph"
	"weft/models/vae"
	"weft/spmd"
)

// buildEncoder builds the encoder.
func (s *build) buildEncoder() (*graph.Graph, error) {
	c, l := s.m.c, s.Layout
	k := &chain{s: s, offsets: offsetsOf(c.Causal), perLatent: s.m.pictures.Scale / c.Patch, frames: s.m.pictures.VideoFrames(l.Frames)}
	k.addPixels()
	block := reader{norms: true, stream: true}
	k.addConvIn("encoder", block)
	for _, b := range c.downBlocks() {
		s.Graph.Layers += b.layers
		behind := block
		switch b.kind {
		case "":
		case byConv:
			behind = reader{}
		default:
			behind = reader{stream: true}
		}
		k.addResiduals(b.name, b.layers, false, behind)
		switch b.kind {
		case "":
		case byConv:
			k.addDownsample(b)
		default:
			k.addFold(b)
		}
		if b.widens {
			k.addResidual(b.name+".conv_out", b.name+".conv_out", false, block)
		}
	}
	layers := c.Layers[len(c.Layers)-1]
	s.Graph.Layers += layers
	k.addResiduals("encoder.mid_block", layers, false, reader{norms: true})
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

// addPixels adds the program that groups the pixels of a frame (B, 3, 1, H P, W P) in patches and
// cuts them over the mesh: (B, 1, H, W, 3 P P).
func (k *chain) addPixels() {
	s, n, l := k.s, k.s.m.c.Patch, k.s.Layout
	scale := s.m.pictures.Scale
	s.FrameInputs("video", pictureChannel, k.frames, scale*l.Rows, scale*l.Cols)
	video := s.Given("video", k.frames)
	made := k.add(layer{program: "pixels", name: "pixels", reads: map[string]*vae.Sequence{"video": video}, define: func(p *program) {
		x := p.Window("video", video, 0)
		x = p.SplitDim(p.SplitDim(x, 4, x.Dim(4)/n, n), 3, x.Dim(3)/n, n) // B, 3, T, H, P, W, P
		x = p.MergeDims(p.Transpose(x, 0, 2, 3, 5, 1, 6, 4), 4, 3)
		p.OutputFrames(ready, p.Compute(p.CutOver(x)))
	}})
	k.ready = made[ready]
}

// addDownsample adds a convolution in steps of two frames, rows and columns, with zeros around
// rows and columns.
func (k *chain) addDownsample(b downBlock) {
	from, offsets := k.ready, k.offsets
	l := moduleLayer(b.name + ".downsamplers.0")
	l.reads = map[string]*vae.Sequence{ready: from}
	l.call, l.frames = vae.EveryOther, (k.frames-1)/2+1
	k.addFor(reader{norms: true, stream: true}, k.perLatent/2, l, func(p *program) spmd.Tensor {
		y := p.ConvStrided(p.Window(ready, from, offsets...), p.Weight("conv.weight"), [][2]int{{}, {1, 1}, {1, 1}}, []int{1, 2, 2}, dtype.F32)
		return p.Add(y, p.Weight("conv.bias"))
	})
}

// addFold adds a layer of 0.9.5 that makes one position of several: those that a convolution made
// lie behind each other among the channels. The shortcut around it does the same with what is
// there, and averages groups of channels. Where frames are folded, the first one stands twice at
// the beginning.
func (k *chain) addFold(b downBlock) {
	x, from := k.x, k.ready
	space, time := b.halves()
	own, under := []int{0}, k.offsets
	l := moduleLayer(b.name + ".downsamplers.0")
	l.reads = map[string]*vae.Sequence{ready: from, stream: x}
	if time {
		own, under = []int{-1, 0}, append([]int{under[0] - 1}, under...)
		l.call, l.frames = vae.EveryOther, (k.frames-1)/2+1
	}
	after, n := k.perLatent, 1
	if space {
		after, n = k.perLatent/2, 2
	}
	k.addFor(reader{norms: true, stream: true}, after, l, func(p *program) spmd.Tensor {
		y := p.positionsToChannels(p.convolve("conv.conv", p.Window(ready, from, under...)), n)
		beside := p.positionsToChannels(p.Window(stream, x, own...), n)
		group := beside.Dim(4) / b.out
		beside = p.Scale(p.Sum(p.SplitDim(beside, 4, b.out, group), -1), 1/float64(group))
		return p.Add(y, p.DropDim(beside, 5))
	})
}

// positionsToChannels puts frames and n x n positions (B, T, H, W, C) behind each other among the channels:
// (B, 1, H/n, W/n, C T n n). Within the channels, frames vary more slowly than rows, and rows than
// columns.
func (p *program) positionsToChannels(x spmd.Tensor, n int) spmd.Tensor {
	x = p.SplitDim(p.SplitDim(x, 3, x.Dim(3)/n, n), 2, x.Dim(2)/n, n) // B, T, H', n, W', n, C
	return p.ExpandDim(p.MergeDims(p.Transpose(x, 0, 2, 4, 6, 1, 3, 5), 3, 4), 1)
}

// addPosterior adds the last convolution of the encoder, which makes the posterior of a latent
// frame: a mean for each channel, and one variance for all.
func (k *chain) addPosterior() map[string]*vae.Sequence {
	from, c := k.ready, k.s.m.c
	return k.add(layer{program: "encoder.conv_out", reads: map[string]*vae.Sequence{ready: from}, define: func(p *program) {
		x := p.convolve("encoder.conv_out.conv", p.Window(ready, from, k.offsets...))
		x = p.Concat(4, p.Slice(x, 4, 0, c.Latent), p.Repeat(p.Slice(x, 4, c.Latent, c.Latent+1), 4, c.Latent))
		p.OutputPosterior(x, func(mean spmd.Tensor) spmd.Tensor {
			return p.Div(p.Scale(p.Sub(mean, p.Weight("latents_mean")), c.Scale), p.Weight("latents_std"))
		})
	}})
}
