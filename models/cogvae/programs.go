package cogvae

import (
	"fmt"

	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/vae"
	"weft/spmd"
)

// build is one graph under construction. Its values are those of a batch of frames, by the
// number of the batch, but for frames of latents and videos.
type build struct {
	*vae.Build
	m *Model
	// frames of the batch whose programs are under construction: of latents where it decodes, of
	// the video where it encodes.
	frames int
	// continues says whether another batch follows the first.
	continues bool
}

// defineProgram builds a program, which begins at perLatent positions along a side for each latent
// position.
func (s *build) defineProgram(name string, perLatent int, define func(p *programBuilder)) error {
	return s.Define(name, perLatent, func(p *vae.Program) { define(&programBuilder{p, s}) })
}

// Graph builds the decoder, or the encoder if the request says so. Every program takes one batch
// of frames, besides the two frames that each causal convolution keeps from batch to batch. The
// first batch has programs of its own: it may have more frames, and nothing comes before it.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := vae.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Build: base, m: m}
	s.DeclareFactor()
	if r.Encode {
		return s.buildEncoder()
	}
	return s.buildDecoder()
}

// eachBatch builds the programs of the first batch and of the later ones.
func (s *build) eachBatch(batches []batch, programs func() error) error {
	s.continues = len(batches) > 1
	for i, b := range batches[:min(len(batches), 2)] {
		s.First, s.frames = i == 0, b.frames
		if err := programs(); err != nil {
			return err
		}
	}
	return nil
}

// buildDecoder builds the decoder. A program prepares each latent frame; those of a batch then
// pass the stages together.
func (s *build) buildDecoder() (*graph.Graph, error) {
	c, l := s.m.c, s.Layout
	s.Graph.Layers = c.Blocks()
	if err := s.buildLatents(); err != nil {
		return nil, err
	}
	batches := cutBatches(l.Frames, latentsInBatch)
	if err := s.eachBatch(batches, s.buildUpStages); err != nil {
		return nil, err
	}
	shown := 0 // frames of the video
	for i, b := range batches {
		for t := range b.frames {
			s.AddCall(vae.Call{Program: "latents", Frame: b.first + t})
		}
		s.First = i == 0
		for k, name := range s.upNames() {
			s.AddCall(vae.Call{Program: s.ProgramName(name), Name: fmt.Sprintf("%s, batch %d", name, i), Frame: i,
				Frames: map[string]int{"latent": b.first, "video": shown}, Trace: map[string][]int{name: s.upShape(k, b.frames)}})
		}
		shown += doubleFrames(doubleFrames(b.frames))
	}
	shape, err := s.m.pictures.VideoShape(s.Request.Latent)
	if err != nil {
		return nil, err
	}
	s.OutputFrames("video", shape[1], shape, "out", "decode")
	return s.Finish()
}

// buildLatents builds the program that brings a latent frame (B, C, 1, H, W) to the encoder's
// units and cuts it over the mesh: (B, 1, H, W, C).
func (s *build) buildLatents() error {
	c, l := s.m.c, s.Layout
	s.FrameInputs("z", c.Latents, l.Frames, l.Rows, l.Cols)
	return s.defineProgram("latents", 1, func(p *programBuilder) {
		x := p.Mul(p.Transpose(p.Value(vae.Port("z", 0)), 0, 2, 3, 4, 1), p.Factor())
		x = p.Compute(p.CutOver(x))
		p.OutputFrames("latent", x)
		for t := range latentsInBatch { // a batch has one more at most
			p.Keep(vae.Port("latent", 1+t), x)
		}
	})
}

// upNames lists the decoder's stages in the order in which a batch passes them.
func (s *build) upNames() []string {
	names := []string{"middle"}
	for i := range s.m.c.Widths {
		names = append(names, fmt.Sprintf("up_%d", i))
	}
	return names
}

// upShape is the shape of what stage k of the decoder makes of so many latent frames, without
// padding.
func (s *build) upShape(k, frames int) []int {
	c := s.m.c
	for range min(k, timeStages) {
		frames = doubleFrames(frames)
	}
	perLatent := 1 << min(k, len(c.Widths)-1)
	return []int{s.Request.Batch, frames, perLatent * s.Layout.Rows, perLatent * s.Layout.Cols, c.decoderWidth(max(0, k-1))}
}

// buildUpStages builds the programs of a batch: the first convolution with the middle, then each
// stage. The last stage has the head as well.
func (s *build) buildUpStages() error {
	names := s.upNames()
	for k, name := range names {
		err := s.defineProgram(s.ProgramName(name), 1<<max(0, k-1), func(p *programBuilder) {
			if k == 0 {
				z := p.joinLatents()
				p.OutputValue(name, p.applyMiddle("decoder", p.causalConv("decoder.conv_in.conv", z), p.spatialNorm(z)))
				return
			}
			norm := p.spatialNorm(p.Value(vae.Port("zq", 0)))
			x := p.Value(vae.Port(names[k-1], 0))
			stage := fmt.Sprintf("decoder.up_blocks.%d", k-1)
			for j := range s.m.c.ResBlocks + 1 {
				x = p.applyResidual(fmt.Sprintf("%s.resnets.%d", stage, j), x, norm)
			}
			if k < len(names)-1 {
				p.OutputValue(name, p.applyUpsample(stage+".upsamplers.0.conv", x, k <= timeStages))
				return
			}
			x = p.causalConv("decoder.conv_out.conv", p.activate(norm("decoder.norm_out", x))...)
			x = p.Transpose(x, 0, 4, 1, 2, 3)
			for t := range x.Dim(2) {
				p.Output(vae.Port("video", t), p.Slice(x, 2, t, t+1), "")
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// joinLatents joins the latent frames of the batch, and hands them on to the stages, whose norms
// read them.
func (p *programBuilder) joinLatents() spmd.Tensor {
	var frames []spmd.Tensor
	for t := range p.s.frames {
		frames = append(frames, p.Value(vae.Port("latent", t)))
	}
	z := p.Concat(1, frames...)
	p.OutputValue("zq", z)
	return z
}

// applyMiddle applies the residual blocks in the middle of a half.
func (p *programBuilder) applyMiddle(half string, x spmd.Tensor, norm norm) spmd.Tensor {
	for j := range middleBlocks {
		x = p.applyResidual(fmt.Sprintf("%s.mid_block.resnets.%d", half, j), x, norm)
	}
	return x
}
