package hunyuanvae

import (
	"fmt"

	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/vae"
	"weft/spmd"
)

// build is one graph under construction. Its values are those of a tile, by the number of the
// tile, but for frames of latents and videos.
type build struct {
	*vae.Build
	m      *Model
	frames int // of the tile whose programs are under construction
}

// defineProgram builds a program, which begins at perLatent positions along a side for each latent
// position.
func (s *build) defineProgram(name string, perLatent int, define func(p *programBuilder)) error {
	return s.Define(name, perLatent, func(p *vae.Program) { define(&programBuilder{p, s}) })
}

// Graph builds the decoder, or the encoder if the request says so. Every program takes one tile
// along time; tiles of as many frames share their programs.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := vae.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Build: base, m: m}
	if s.SplitsPictures() && m.c.Attends {
		s.Note("attention in the middle, of one head: keys and values are gathered, queries stay where they are")
	}
	s.DeclareFactor()
	if r.Encode {
		return s.buildEncoder()
	}
	return s.buildDecoder()
}

// ofTile ends the names of programs that take a tile of so many frames.
func ofTile(program string, frames int) string {
	return fmt.Sprintf("%s of %d frames", program, frames)
}

// eachLength builds the programs of tiles, once for each number of frames.
func (s *build) eachLength(tiles []tile, programs func() error) error {
	built := map[int]bool{}
	for _, t := range tiles {
		if built[t.frames] {
			continue
		}
		built[t.frames], s.frames = true, t.frames
		if err := programs(); err != nil {
			return err
		}
	}
	return nil
}

// noteTiles says that there are several tiles, since they give other numbers than the whole.
func (s *build) noteTiles(tiles []tile) {
	if len(tiles) > 1 {
		s.Note("%d tiles along time of %d frames that lie %d apart and are blended where they overlap, as the release has them", len(tiles), s.m.c.TileFrames, s.m.c.TileFrames-s.m.c.TileFrames/tileShare)
	}
}

// buildDecoder builds the decoder. A program prepares each latent frame; those of a tile then
// pass the stages together.
func (s *build) buildDecoder() (*graph.Graph, error) {
	c, l := s.m.c, s.Layout
	s.Graph.Layers = c.Blocks()
	if err := s.buildLatents(); err != nil {
		return nil, err
	}
	tiles := c.decodeTiles(l.Frames)
	s.noteTiles(tiles)
	if err := s.eachLength(tiles, s.buildUpStages); err != nil {
		return nil, err
	}
	ready := 0 // latent frames
	joined := s.newJoin("made", "shown")
	for i, t := range tiles {
		for ; ready < t.first+t.frames; ready++ {
			s.AddCall(vae.Call{Program: "latents", Frame: ready})
		}
		for k, name := range upNames() {
			s.AddCall(vae.Call{Program: ofTile(name, t.frames), Name: fmt.Sprintf("%s, tile %d", name, i), Frame: i,
				Frames: map[string]int{"latent": t.first, "made": joined.baseOf(i)}, Trace: map[string][]int{name: s.upShape(k, t.frames)}})
		}
		if err := joined.addTile(i, t); err != nil {
			return nil, err
		}
	}
	shape, err := s.m.pictures.VideoShape(s.Request.Latent)
	if err != nil {
		return nil, err
	}
	s.OutputValues(joined.values, shape, "out", "decode")
	return s.Finish()
}

// buildLatents builds the program that brings a latent frame (B, C, 1, H, W) to the encoder's
// units, cuts it over the mesh and applies the pointwise convolution in front of the decoder:
// (B, 1, H, W, C).
func (s *build) buildLatents() error {
	c, l := s.m.c, s.Layout
	s.FrameInputs("z", c.Latents, l.Frames, l.Rows, l.Cols)
	return s.defineProgram("latents", 1, func(p *programBuilder) {
		x := p.CutOver(p.Mul(p.Transpose(p.Value(vae.Port("z", 0)), 0, 2, 3, 4, 1), p.Factor()))
		x = p.Compute(p.Linear("post_quant_conv", p.Compute(x), l.Pictures))
		p.OutputFrames("latent", x)
		for t := range min(l.Frames, c.TileFrames/framesPerLatent+1) {
			p.Keep(vae.Port("latent", t), x)
		}
	})
}

// upNames lists the decoder's stages in the order in which a tile passes them.
func upNames() []string {
	names := []string{"middle"}
	for i := range stages {
		names = append(names, fmt.Sprintf("up_%d", i))
	}
	return names
}

// upShape is the shape of what stage k of the decoder makes of so many latent frames, without
// padding.
func (s *build) upShape(k, frames int) []int {
	for i := range k {
		if halvesFrames(i) {
			frames = 1 + 2*(frames-1)
		}
	}
	perLatent := 1 << min(k, stages-1)
	return []int{s.Request.Batch, frames, perLatent * s.Layout.Rows, perLatent * s.Layout.Cols, s.m.c.decoderWidth(max(0, k-1))}
}

// buildUpStages builds the programs of a tile: the first convolution with the middle, then each
// stage. The last stage has the head as well.
func (s *build) buildUpStages() error {
	names := upNames()
	for k, name := range names {
		err := s.defineProgram(ofTile(name, s.frames), 1<<max(0, k-1), func(p *programBuilder) {
			if k == 0 {
				var frames []spmd.Tensor
				for t := range s.frames {
					frames = append(frames, p.Value(vae.Port("latent", t)))
				}
				p.OutputValue(name, p.applyMiddle("decoder", p.causalConv("decoder.conv_in.conv", p.Concat(1, frames...))))
				return
			}
			x := p.Value(vae.Port(names[k-1], 0))
			stage := fmt.Sprintf("decoder.up_blocks.%d", k-1)
			for j := range s.m.c.ResBlocks + 1 {
				x = p.applyResidual(fmt.Sprintf("%s.resnets.%d", stage, j), x)
			}
			if k < stages {
				p.OutputValue(name, p.applyUpsample(stage+".upsamplers.0.conv.conv", x, halvesFrames(k-1)))
				return
			}
			x = p.causalConv("decoder.conv_out.conv", p.Silu(p.normGroups("decoder.conv_norm_out", x)))
			p.outputEach("made", p.Transpose(x, 0, 4, 1, 2, 3), 2)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outputEach makes each element of x along dim an output.
func (p *programBuilder) outputEach(name string, x spmd.Tensor, dim int) {
	for t := range x.Dim(dim) {
		frame := p.Slice(x, dim, t, t+1)
		p.Keep(vae.Port(name, t), frame)
		p.Output(vae.Port(name, t), frame, "")
	}
}
