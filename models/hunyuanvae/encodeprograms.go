package hunyuanvae

import (
	"fmt"

	"weft/graph"
	"weft/models/vae"
	"weft/spmd"
)

// buildEncoder builds the encoder. The frames of a tile pass the stages together; what comes out
// of the last stage passes the middle, which makes the parameters of posteriors of it. These are
// blended between tiles, and a program for each latent frame makes the outputs.
func (s *build) buildEncoder() (*graph.Graph, error) {
	c, l := s.m.c, s.Layout
	s.Graph.Layers = 2 + stages*c.ResBlocks
	frames := s.m.pictures.VideoFrames(l.Frames)
	s.FrameInputs("video", vae.PictureChannels, frames, scale*l.Rows, scale*l.Cols)
	s.FramePorts("video", vae.PictureChannels, min(frames, c.TileFrames+1), scale*l.Rows, scale*l.Cols)
	tiles := c.encodeTiles(frames)
	s.noteTiles(tiles)
	if err := s.eachLength(tiles, s.buildDownStages); err != nil {
		return nil, err
	}
	if err := s.buildPosterior(); err != nil {
		return nil, err
	}
	joined := s.newJoin("moments", "joined")
	shown := 0
	for i, t := range tiles {
		for k, name := range downNames() {
			s.AddCall(vae.Call{Program: ofTile(name, t.frames), Name: fmt.Sprintf("%s, tile %d", name, i), Frame: i,
				Frames: map[string]int{"video": t.first, "moments": joined.baseOf(i)}, Trace: map[string][]int{name: s.downShape(k, t.frames)}})
		}
		if err := joined.addTile(i, t); err != nil {
			return nil, err
		}
		for ; shown < len(joined.values); shown++ {
			s.AddCall(vae.Call{Program: "posterior", Frame: shown, Others: map[string]string{vae.FrameName("moment", shown): joined.values[shown]}})
		}
	}
	for _, name := range []string{"encode", "encode_mean", "encode_logvar"} {
		s.OutputFrames(name, l.Frames, s.Request.Latent, name)
	}
	return s.Finish()
}

// downNames lists the encoder's stages in the order in which a tile passes them.
func downNames() []string {
	var names []string
	for i := range stages {
		names = append(names, fmt.Sprintf("down_%d", i))
	}
	return append(names, "middle")
}

// downShape is the shape of what stage k of the encoder makes of so many frames, without padding.
func (s *build) downShape(k, frames int) []int {
	for i := range min(k+1, stages) {
		if halvesFrames(i) {
			frames = 1 + (frames-1)/2
		}
	}
	perLatent := 1 << max(0, stages-2-k)
	return []int{s.Request.Batch, frames, perLatent * s.Layout.Rows, perLatent * s.Layout.Cols, s.m.c.Widths[min(k, stages-1)]}
}

// buildDownStages builds the programs of a tile: each stage, the first with the first
// convolution, and the middle with the head.
func (s *build) buildDownStages() error {
	names := downNames()
	for k, name := range names {
		err := s.defineProgram(ofTile(name, s.frames), 1<<max(0, stages-1-k), func(p *programBuilder) {
			var x spmd.Tensor
			if k == 0 {
				x = p.causalConv("encoder.conv_in.conv", p.joinPictures())
			} else {
				x = p.Value(vae.Port(names[k-1], 0))
			}
			if k == stages {
				x = p.applyMiddle("encoder", x)
				x = p.causalConv("encoder.conv_out.conv", p.Silu(p.normGroups("encoder.conv_norm_out", x)))
				p.outputEach("moments", p.Linear("quant_conv", p.Compute(x), s.Layout.Pictures), 1)
				return
			}
			stage := fmt.Sprintf("encoder.down_blocks.%d", k)
			for j := range s.m.c.ResBlocks {
				x = p.applyResidual(fmt.Sprintf("%s.resnets.%d", stage, j), x)
			}
			if k < stages-1 {
				x = p.applyDownsample(stage+".downsamplers.0.conv.conv", x, halvesFrames(k))
			}
			p.OutputValue(name, x)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// joinPictures joins the frames (B, 3, 1, H, W) of the tile and cuts them over the mesh:
// (B, T, H, W, 3).
func (p *programBuilder) joinPictures() spmd.Tensor {
	var frames []spmd.Tensor
	for t := range p.s.frames {
		frames = append(frames, p.CutOver(p.Transpose(p.Value(vae.Port("video", t)), 0, 2, 3, 4, 1)))
	}
	return p.Concat(1, frames...)
}

// buildPosterior builds the program that makes the outputs of a latent frame of its posterior's
// parameters (B, 1, H, W, 2 C).
func (s *build) buildPosterior() error {
	s.Value(vae.Port("moment", 0), s.ValueOf(vae.Port("moments", 0)))
	return s.defineProgram("posterior", 1, func(p *programBuilder) {
		p.OutputPosterior(p.Value(vae.Port("moment", 0)), func(mean spmd.Tensor) spmd.Tensor { return p.Mul(mean, p.Factor()) })
	})
}
