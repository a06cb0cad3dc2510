package hunyuan15vae

import (
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/vae"
	"weft/spmd"
)

// build is one graph under construction.
type build struct {
	*vae.Build
	m *Model
}

// Graph builds the decoder, or the encoder if the request says so. Every residual block, and every
// change of size, is a call for each frame. The first frame has programs of its own, which later
// frames do not share: before it, kernels read it again, and changes of the number of frames
// arrange its channels otherwise. Residual blocks of the same size share their programs.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := vae.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Build: base, m: m}
	if s.SplitsPictures() {
		s.Note("attention in the middle, of one head over all frames so far: every device keeps the keys and values of all positions, queries stay where they are")
	}
	s.DeclareFactor()
	if r.Encode {
		return s.buildEncoder()
	}
	return s.buildDecoder()
}

// buildDecoder builds the decoder.
func (s *build) buildDecoder() (*graph.Graph, error) {
	c, l := s.m.c, s.Layout
	k := &chain{s: s, perLatent: 1, frames: l.Frames}
	k.addLatents()
	k.addMiddle("decoder")
	s.Graph.Layers = c.Blocks()
	for i, u := range c.upStages() {
		k.addBlocks(upName(i), c.ResBlocks+1, u)
		if u.halves {
			k.addUpsample(upName(i)+".upsamplers.0", u)
		}
	}
	video := k.addVideo()
	if k.err != nil {
		return nil, k.err
	}
	video.MakeAll()
	shape, err := s.m.pictures.VideoShape(s.Request.Latent)
	if err != nil {
		return nil, err
	}
	s.OutputFrames("video", shape[1], shape, "out", "decode")
	return s.Finish()
}

// addLatents adds the layer that brings a latent frame (B, C, 1, H, W) to the encoder's units, cuts
// it over the mesh, and applies the first convolution. The shortcut around it repeats channels.
func (k *chain) addLatents() {
	s, l := k.s, k.s.Layout
	s.FrameInputs("z", s.m.c.Latents, l.Frames, l.Rows, l.Cols)
	z := s.Given("z", l.Frames)
	in := moduleLayer("decoder.conv_in")
	in.reads = map[string]*vae.Sequence{"z": z}
	k.addStream(1, in, func(p *programBuilder) spmd.Tensor {
		x := p.CutOver(p.Mul(p.Transpose(p.Window("z", z, 0), 0, 2, 3, 4, 1), p.Factor()))
		y := p.causalConv("conv", x)
		return p.Add(y, p.Repeat(x, 4, y.Dim(4)/x.Dim(4)))
	})
}

// addBlocks adds the residual blocks of a stage.
func (k *chain) addBlocks(name string, n int, of stage) {
	in := of.in
	for i := range n {
		k.addResidual(name, blockName(name, i), in, of.width)
		in = of.width
	}
}

// addUpsample adds the layer that doubles rows and columns and, with time, the frames that are not
// the first: a convolution makes eight positions of one, or four. The shortcut around it arranges
// the channels that are there in the same way, and repeats each.
func (k *chain) addUpsample(name string, of stage) {
	from, out := k.x, of.next
	copies := of.folded() * out / of.width
	l := moduleLayer(name)
	if of.time {
		l.frames = 2*k.frames - 1
		l.call = func(program string) func(int) vae.FrameCall {
			return func(frame int) vae.FrameCall {
				return vae.FrameCall{Program: program, Own: (frame + 1) / 2, First: frame, Makes: 2}
			}
		}
	}
	k.addStream(2*k.perLatent, l, func(p *programBuilder) spmd.Tensor {
		x := p.Window(stream, from, 0)
		y := p.causalConv("conv.conv", x)
		switch {
		case !of.time:
			return p.Add(p.unfold(y, 1), p.unfold(p.Repeat(x, 4, copies), 1))
		case p.first: // twice as many channels as are wanted
			return p.Add(p.Slice(p.unfold(y, 1), 4, 0, out), p.Repeat(p.unfold(x, 1), 4, copies/2))
		}
		return p.Add(p.unfold(y, 2), p.Repeat(p.unfold(x, 2), 4, copies))
	})
}

// unfold arranges the channels of each position (B, 1, H, W, T 2 2 C) as T frames and 2 x 2
// positions: (B, T, 2 H, 2 W, C). Of the places within the channels, C varies fastest.
func (p *programBuilder) unfold(x spmd.Tensor, frames int) spmd.Tensor {
	x = p.Transpose(p.SplitDim(x, 4, frames, 2, 2, x.Dim(4)/frames/4), 0, 1, 4, 2, 5, 3, 6, 7)
	return p.MergeDims(p.MergeDims(p.MergeDims(x, 5, 2), 3, 2), 1, 2)
}

// addVideo adds the head of the decoder, which makes a frame of the video (B, 3, 1, H, W), and
// returns the video.
func (k *chain) addVideo() *vae.Sequence {
	from := k.x
	return k.add(layer{program: "decoder.conv_out", prefix: "decoder.", reads: map[string]*vae.Sequence{stream: from}, define: func(p *programBuilder) {
		x := p.causalConv("conv_out.conv", p.Silu(p.normChannels("norm_out", p.Window(stream, from, 0))))
		p.Output(vae.Port("video", 0), p.Transpose(x, 0, 4, 1, 2, 3), "")
	}})["video"]
}
