package wanvae

import (
	"fmt"

	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/vae"
	"weft/sharding"
	"weft/spmd"
)

// build is one graph under construction.
type build struct {
	*vae.Build
	m *Model
}

// defineProgram builds a program, which begins at scale positions along a side for each latent
// position.
func (s *build) defineProgram(name string, scale int, define func(p *programBuilder)) error {
	return s.Define(name, scale, func(p *vae.Program) { define(&programBuilder{p, s}) })
}

// Graph builds the decoder, or the encoder if the request says so. Every program takes one
// frame: that is all that the devices hold of a stage at a time, besides the two frames that
// each causal convolution keeps for those that follow. The first frame has programs of its
// own, since nothing comes before it, and since changes of the number of frames leave it
// alone.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := vae.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{base, m}
	if s.SplitsPictures() {
		s.Note("attention in the middle, of one head: keys and values are gathered, queries stay where they are")
	}
	for _, name := range []string{"latents_mean", "latents_std"} {
		s.Input(graph.Input{Name: name, DType: dtype.F32, Shape: []int{m.c.ZDim}, Spec: sharding.Whole(1)})
	}
	if r.Encode {
		return s.buildEncoder()
	}
	return s.buildDecoder()
}

// buildDecoder builds the decoder. A program prepares each latent frame, which then passes the
// stages. A stage that doubles the number of frames makes two of each but the first, and the
// next stage is called for each of them.
func (s *build) buildDecoder() (*graph.Graph, error) {
	s.Graph.Layers = s.m.c.Blocks()
	if err := s.buildLatents(); err != nil {
		return nil, err
	}
	for t := range min(s.Layout.Frames, 2) {
		s.First = t == 0
		if err := s.buildStages(); err != nil {
			return nil, err
		}
	}
	for t := range s.Layout.Frames {
		s.AddCall(vae.Call{Program: "latents", Frame: t, Trace: map[string][]int{"decode_conv2": {s.Request.Batch, s.m.c.ZDim, 1, s.Layout.Rows, s.Layout.Cols}}})
		s.addStageCalls(0, t)
	}
	shape, err := s.m.pictures.VideoShape(s.Request.Latent)
	if err != nil {
		return nil, err
	}
	s.OutputFrames("video", shape[1], shape, "out", "decode")
	return s.Finish()
}

// stageNames lists the decoder's stages in the order in which a frame passes them.
func (s *build) stageNames() []string {
	names := []string{"middle"}
	for i := range s.m.c.DimMult {
		names = append(names, fmt.Sprintf("up_%d", i))
	}
	return names
}

// addStageCalls adds the call of a stage's program for a frame, and then those of the later
// stages for each frame that it makes: one frame passes all stages before the next one.
func (s *build) addStageCalls(stage, frame int) {
	names := s.stageNames()
	if stage == len(names) {
		return
	}
	s.First = frame == 0
	name := names[stage]
	doubles := stage > 0 && stage < len(names)-1 && s.m.c.doublesFrames(stage-1)
	c := vae.Call{Program: s.ProgramName(name), Frame: frame, Frames: map[string]int{}, Trace: map[string][]int{}}
	made := []int{frame}
	if doubles && frame > 0 {
		made = []int{2*frame - 1, 2 * frame}
	}
	c.Frames[name] = made[0]
	if stage < len(names)-1 {
		scale := 1 << stage
		c.Trace[name] = []int{s.Request.Batch, 1, scale * s.Layout.Rows, scale * s.Layout.Cols, s.m.c.stageOutputWidth(stage)}
	}
	s.AddCall(c)
	for _, t := range made {
		s.addStageCalls(stage+1, t)
	}
}

// buildLatents builds the program that undoes the normalisation of a latent frame
// (B, z, 1, H, W) and applies the pointwise convolution in front of the decoder:
// (B, 1, H, W, z).
func (s *build) buildLatents() error {
	l, c := s.Layout, s.m.c
	s.FrameInputs("z", c.ZDim, l.Frames, l.Rows, l.Cols)
	return s.defineProgram("latents", 1, func(p *programBuilder) {
		x := p.Transpose(p.Value(vae.Port("z", 0)), 0, 2, 3, 4, 1)
		x = p.Add(p.Mul(x, p.Value("latents_std")), p.Value("latents_mean"))
		x = p.Linear("conv2", p.Compute(p.CutOver(x)), l.Pictures)
		p.Output(vae.Port("decode_conv2", 0), p.Transpose(x, 0, 4, 1, 2, 3), "")
		p.OutputFrames("latent", x)
	})
}

// buildStages builds the programs of a frame: the first convolution with the
// middle, then each stage. The last stage has the head as well.
func (s *build) buildStages() error {
	before := "latent"
	for i, name := range s.stageNames() {
		err := s.defineProgram(s.ProgramName(name), 1<<max(0, i-1), func(p *programBuilder) {
			given := p.Value(vae.Port(before, 0))
			if i == 0 {
				p.OutputFrames(name, p.applyMiddle("decoder", p.CausalConv("decoder.conv1", given)))
				return
			}
			x, stage := given, s.m.c.decoderStage(i-1)
			for _, r := range stage.residuals {
				x = p.applyResidual(r, x)
			}
			if stage.upsample != "" {
				frames := s.m.c.doublesFrames(i - 1)
				x = p.applyUpsample(stage.upsample, x, frames)
				if s.m.c.Residual {
					x = p.Add(x, p.stageShortcut(given, x.Dim(-1), frames))
				}
				p.OutputFrames(name, x)
				return
			}
			x = p.CausalConv("decoder.head.2", p.Silu(p.normChannels("decoder.head.0", x)))
			if !s.Request.Tile {
				x = p.AtMost(p.AtLeast(x, -1), 1)
			}
			p.Output(vae.Port("video", 0), p.unpatchPixels(x), "")
		})
		if err != nil {
			return err
		}
		before = name
	}
	return nil
}

// applyMiddle applies the middle of one half: a residual block, attention,
// and another residual block.
func (p *programBuilder) applyMiddle(half string, x spmd.Tensor) spmd.Tensor {
	x = p.applyResidual(half+".middle.0", x)
	x = p.attendInFrame(half+".middle.1", x)
	return p.applyResidual(half+".middle.2", x)
}

// applyUpsample doubles rows and columns and, with frames, the number of frames. The first
// frame is not doubled, and the kernel of a later one does not read it either: zeros stand
// in its place.
func (p *programBuilder) applyUpsample(name string, x spmd.Tensor, frames bool) spmd.Tensor {
	switch {
	case frames && p.s.First:
		p.KeepFirstFrame(name+".time_conv", p.ZerosLike(p.Compute(x)))
	case frames:
		c := x.Dim(-1)
		x = p.CausalConv(name+".time_conv", x) // (B, T, H, W, 2 C): two frames of each
		x = p.MergeDims(p.Transpose(p.SplitDim(x, 4, 2, c), 0, 1, 4, 2, 3, 5), 1, 2)
	}
	x = p.ZeroPadding(p.Compute(x))
	x = p.Repeat(p.Repeat(x, 2, 2), 3, 2)
	p.PerLatent *= 2
	return p.ApplyConv(name+".resample.1", x, p.ExpandDim(p.Weight(name+".resample.1.weight"), 2))
}

// stageShortcut is Wan2.2's shortcut around a whole stage. It repeats each channel of x
// (B, T, H, W, I) until there are enough for out channels of twice the rows and columns and,
// with frames, twice the frames, and rearranges them so. Of the two frames that the first
// one gives, the later one is kept.
func (p *programBuilder) stageShortcut(x spmd.Tensor, out int, frames bool) spmd.Tensor {
	t := 1
	if frames {
		t = 2
	}
	x = p.Repeat(x, 4, out*t*4/x.Dim(-1))
	x = p.Transpose(p.SplitDim(x, 4, out, t, 2, 2), 0, 1, 5, 2, 6, 3, 7, 4)
	x = p.MergeDims(p.MergeDims(p.MergeDims(x, 5, 2), 3, 2), 1, 2)
	if p.s.First {
		x = p.Slice(x, 1, t-1, t)
	}
	return x
}

// unpatchPixels rearranges the channels of each position (B, T, H, W, 3 P P) into a patch of
// P x P pixels: (B, 3, T, H P, W P). Within the channels, columns vary more slowly than
// rows.
func (p *programBuilder) unpatchPixels(x spmd.Tensor) spmd.Tensor {
	n := p.s.m.c.Patch
	x = p.Transpose(p.SplitDim(x, 4, vae.PictureChannels, n, n), 0, 4, 1, 2, 6, 3, 5)
	return p.MergeDims(p.MergeDims(x, 5, 2), 3, 2)
}
