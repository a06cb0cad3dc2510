package cogvae

import (
	"fmt"

	"weft/graph"
	"weft/models/vae"
	"weft/spmd"
)

// buildEncoder builds the encoder. The frames of a batch pass the stages together, of which the
// first ones halve their number; what comes out of the last stage passes the middle, which makes
// latent frames of it.
func (s *build) buildEncoder() (*graph.Graph, error) {
	c, l := s.m.c, s.Layout
	s.Graph.Layers = middleBlocks + len(c.Widths)*c.ResBlocks
	frames := s.m.pictures.VideoFrames(l.Frames) // the most are in the first batch, whose ports the later ones share
	s.FrameInputs("video", vae.PictureChannels, frames, c.scale()*l.Rows, c.scale()*l.Cols)
	batches := cutBatches(frames, framesInBatch)
	s.FramePorts("video", vae.PictureChannels, batches[0].frames, c.scale()*l.Rows, c.scale()*l.Cols)
	if err := s.eachBatch(batches, s.buildDownStages); err != nil {
		return nil, err
	}
	made := 0 // latent frames
	for i, b := range batches {
		s.First = i == 0
		own := map[string]int{"video": b.first}
		for _, o := range posterior {
			own[o] = made
		}
		for k, name := range s.downNames() {
			s.AddCall(vae.Call{Program: s.ProgramName(name), Name: fmt.Sprintf("%s, batch %d", name, i), Frame: i, Frames: own, Trace: map[string][]int{name: s.downShape(k, b.frames)}})
		}
		made += halveFrames(halveFrames(b.frames))
	}
	for _, name := range posterior {
		s.OutputFrames(name, l.Frames, s.Request.Latent, name)
	}
	return s.Finish()
}

// posterior lists the outputs of the encoder.
var posterior = []string{"encode", "encode_mean", "encode_logvar"}

// downNames lists the encoder's stages in the order in which a batch passes them.
func (s *build) downNames() []string {
	var names []string
	for i := range s.m.c.Widths {
		names = append(names, fmt.Sprintf("down_%d", i))
	}
	return append(names, "middle")
}

// downShape is the shape of what stage k of the encoder makes of so many frames, without
// padding.
func (s *build) downShape(k, frames int) []int {
	c := s.m.c
	for range min(k+1, timeStages) {
		frames = halveFrames(frames)
	}
	last := len(c.Widths) - 1
	perLatent := 1 << max(0, last-1-k)
	return []int{s.Request.Batch, frames, perLatent * s.Layout.Rows, perLatent * s.Layout.Cols, c.Widths[min(k, last)]}
}

// buildDownStages builds the programs of a batch: each stage, the first with the first
// convolution, and the middle with the head.
func (s *build) buildDownStages() error {
	names := s.downNames()
	last := len(names) - 2
	for k, name := range names {
		err := s.defineProgram(s.ProgramName(name), 1<<max(0, last-k), func(p *programBuilder) {
			var x spmd.Tensor
			if k == 0 {
				x = p.causalConv("encoder.conv_in.conv", p.joinPictures())
			} else {
				x = p.Value(vae.Port(names[k-1], 0))
			}
			if k > last {
				x = p.applyMiddle("encoder", x, p.plainNorm)
				x = p.causalConv("encoder.conv_out.conv", p.Silu(p.normGroups("encoder.norm_out", x, spatialEps)))
				p.OutputPosterior(x, func(mean spmd.Tensor) spmd.Tensor { return p.Mul(mean, p.Factor()) })
				return
			}
			stage := fmt.Sprintf("encoder.down_blocks.%d", k)
			for j := range s.m.c.ResBlocks {
				x = p.applyResidual(fmt.Sprintf("%s.resnets.%d", stage, j), x, p.plainNorm)
			}
			if k < last {
				x = p.applyDownsample(stage+".downsamplers.0.conv", x, k < timeStages)
			}
			p.OutputValue(name, x)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// joinPictures joins the frames (B, 3, 1, H, W) of the batch and cuts them over the mesh:
// (B, T, H, W, 3).
func (p *programBuilder) joinPictures() spmd.Tensor {
	var frames []spmd.Tensor
	for t := range p.s.frames {
		frames = append(frames, p.CutOver(p.Transpose(p.Value(vae.Port("video", t)), 0, 2, 3, 4, 1)))
	}
	return p.Concat(1, frames...)
}
