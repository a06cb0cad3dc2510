package wanvae

import (
	"fmt"

	"weft/dtype"
	"weft/graph"
	"weft/models/step"
	"weft/models/vae"
	"weft/spmd"
)

// buildEncoder builds the encoder. Each frame of the video passes the stages. A stage that
// halves the number of frames has a program besides, which makes one frame of each two but the
// first. What comes out of the last stage passes the middle, which makes a latent frame of it.
func (s *build) buildEncoder() (*graph.Graph, error) {
	c, l := s.m.c, s.Layout
	s.Graph.Layers = 2 + len(c.DimMult)*c.ResBlocks
	frames := s.m.pictures.VideoFrames(l.Frames)
	scale := c.Scale()
	s.FrameInputs("video", vae.PictureChannels, frames, scale*l.Rows, scale*l.Cols)
	for t := range min(l.Frames, 2) {
		s.First = t == 0
		if err := s.buildDownStages(); err != nil {
			return nil, err
		}
	}
	for t := range frames {
		s.addDownCalls(0, t)
	}
	for _, name := range []string{"encode", "encode_mean", "encode_logvar"} {
		s.OutputFrames(name, l.Frames, s.Request.Latent, name)
	}
	return s.Finish()
}

// halvesFrames says whether stage i of the encoder, counted from 0, halves the number of
// frames.
func (c Config) halvesFrames(i int) bool {
	return i >= 0 && i < len(c.TemporalDown) && c.TemporalDown[i]
}

// downName is the name of stage i of the encoder, and of the frames that it makes.
func downName(i int) string { return fmt.Sprintf("down_%d", i) }

// halfName is the name of the program that halves the number of frames behind stage i.
func halfName(i int) string { return fmt.Sprintf("half_%d", i) }

// stageResult is the name of the frames that stage i hands on.
func (c Config) stageResult(i int) string {
	switch {
	case i < 0:
		return "video"
	case c.halvesFrames(i):
		return halfName(i)
	}
	return downName(i)
}

// shortcutInput is the name of the frames that Wan2.2's shortcut leads around stage i: what the
// stage before handed on, or what the first convolution, which belongs to the first stage, made.
func (c Config) shortcutInput(i int) string {
	if i == 0 {
		return "pixels"
	}
	return c.stageResult(i - 1)
}

// addDownCalls adds the calls for a frame from a stage on. A frame that completes none of the
// stage's pairs goes no further until the next one comes.
func (s *build) addDownCalls(stage, frame int) {
	c := s.m.c
	s.First = frame == 0
	if stage == len(c.DimMult) {
		s.AddCall(vae.Call{Program: s.ProgramName("middle"), Frame: frame})
		return
	}
	// The first frame is not halved, so the next stage reads it as the stage left it. Wan2.2's
	// stage makes it another one for the next stage, with its shortcut.
	others := map[string]string{}
	if frame == 0 && c.halvesFrames(stage-1) && !c.Residual {
		others[vae.FrameName(halfName(stage-1), 0)] = vae.FrameName(downName(stage-1), 0)
	}
	name := downName(stage)
	s.AddCall(vae.Call{Program: s.ProgramName(name), Frame: frame, Others: others, Trace: map[string][]int{name: s.downShape(stage)}})
	if !c.halvesFrames(stage) || frame == 0 {
		s.addDownCalls(stage+1, frame)
		return
	}
	if frame%2 == 1 {
		return
	}
	half := halfName(stage)
	call := vae.Call{Program: half, Frame: frame, Frames: map[string]int{half: frame / 2}, Trace: map[string][]int{half: s.downShape(stage)}}
	s.AddCall(call)
	s.addDownCalls(stage+1, frame/2)
}

// downShape is the shape of a frame that a stage makes, without padding.
func (s *build) downShape(stage int) []int {
	c := s.m.c
	scale := 1 << max(0, len(c.DimMult)-2-stage)
	return []int{s.Request.Batch, 1, scale * s.Layout.Rows, scale * s.Layout.Cols, c.Dim * c.DimMult[stage]}
}

// encoderStage names the modules of stage i of the encoder, counted from 0.
func (c Config) encoderStage(i int) (residuals []string, downsample string) {
	for j := range c.ResBlocks + 1 {
		name := c.moduleName("encoder", "downsamples", i*(c.ResBlocks+1)+j, i, j)
		switch {
		case j < c.ResBlocks:
			residuals = append(residuals, name)
		case i < len(c.DimMult)-1:
			downsample = name
		}
	}
	return residuals, downsample
}

// buildDownStages builds the programs of a frame: each stage, the first with the first
// convolution, and the middle. The programs that halve the number of frames are for later
// frames only.
func (s *build) buildDownStages() error {
	c := s.m.c
	for i := range c.DimMult {
		before := c.stageResult(i - 1)
		err := s.defineProgram(s.ProgramName(downName(i)), 1<<(len(c.DimMult)-1-i), func(p *programBuilder) {
			p.OutputFrames(downName(i), p.applyDownStage(i, p.Value(vae.Port(before, 0))))
		})
		if err == nil && c.halvesFrames(i) && !s.First {
			err = s.defineProgram(halfName(i), 0, func(p *programBuilder) {
				p.OutputFrames(halfName(i), p.halveFrames(i))
			})
		} else if err == nil && c.halvesFrames(i) {
			s.declareHalves(i)
		}
		if err != nil {
			return err
		}
	}
	return s.defineProgram(s.ProgramName("middle"), 1, func(p *programBuilder) {
		x := p.applyMiddle("encoder", p.Value(vae.Port(c.stageResult(len(c.DimMult)-1), 0)))
		x = p.CausalConv("encoder.head.2", p.Silu(p.normChannels("encoder.head.0", x)))
		p.OutputPosterior(p.Linear("conv1", p.Compute(x), s.Layout.Pictures), func(mean spmd.Tensor) spmd.Tensor {
			return p.Div(p.Sub(mean, p.Value("latents_mean")), p.Value("latents_std"))
		})
	})
}

// declareHalves declares the frames that the program behind stage i reads and makes: they have
// the type of the stage's own.
func (s *build) declareHalves(i int) {
	p := s.Graph.Programs[s.ProgramName(downName(i))]
	for _, o := range p.Outputs {
		if o.Name != vae.Port(downName(i), 0) {
			continue
		}
		v := step.Value{DType: o.DType, Shape: o.Shape, Spec: o.Spec}
		for back := -vae.PastFrames; back <= 0; back++ {
			s.Value(vae.Port(downName(i), back), v)
		}
		s.Value(vae.Port(halfName(i), 0), v)
	}
	before := s.m.c.shortcutInput(i)
	for _, in := range p.Inputs {
		if in.Name == vae.Port(before, 0) {
			s.Value(vae.Port(before, -1), step.Value{DType: in.DType, Shape: in.Shape, Spec: in.Spec})
		}
	}
}

// applyDownStage applies stage i of the encoder to a frame: the residual blocks, and the
// convolution that halves rows and columns, which the last stage does not have.
func (p *programBuilder) applyDownStage(i int, given spmd.Tensor) spmd.Tensor {
	c := p.s.m.c
	x := given
	if i == 0 {
		x = p.CausalConv("encoder.conv1", p.patchPixels(x))
		given = x
	}
	residuals, downsample := c.encoderStage(i)
	for _, r := range residuals {
		x = p.applyResidual(r, x)
	}
	if downsample != "" {
		x = p.applyDownsample(downsample, x)
	}
	switch {
	case !c.Residual:
	case !c.halvesFrames(i):
		x = p.Add(x, p.averageShortcut(x.Dim(-1), downsample != "", given))
	case p.s.First: // zeros stand in the place of the frame before
		p.OutputFrames(halfName(i), p.Add(x, p.averageShortcut(x.Dim(-1), true, p.ZerosLike(given), given)))
	case i == 0:
		p.s.Value(vae.Port(c.shortcutInput(i), -1), step.Value{DType: given.DType, Shape: given.Shape, Spec: given.Spec})
		p.OutputFrames(c.shortcutInput(i), given)
	}
	return x
}

// patchPixels is the inverse of unpatchPixels for a frame (B, 3, 1, H P, W P): it makes
// (B, 1, H, W, 3 P P), padded and cut over the mesh.
func (p *programBuilder) patchPixels(x spmd.Tensor) spmd.Tensor {
	n := p.s.m.c.Patch
	x = p.SplitDim(p.SplitDim(x, 4, x.Dim(4)/n, n), 3, x.Dim(3)/n, n) // B, 3, T, H, P, W, P
	return p.CutOver(p.MergeDims(p.Transpose(x, 0, 2, 3, 5, 1, 6, 4), 4, 3))
}

// applyDownsample halves rows and columns: a convolution in steps of 2, with zeros below and to
// the right.
func (p *programBuilder) applyDownsample(name string, x spmd.Tensor) spmd.Tensor {
	w := p.ExpandDim(p.Weight(name+".resample.1.weight"), 2)
	x = p.ConvStrided(p.ZeroPadding(p.Compute(x)), w, [][2]int{{}, {0, 1}, {0, 1}}, []int{1, 2, 2}, dtype.F32)
	p.PerLatent /= 2
	return p.Add(x, p.Weight(name+".resample.1.bias"))
}

// halveFrames makes one frame of two: a convolution in steps of 2 reads them and the frame
// before them. Wan2.2 adds its shortcut around the stage.
func (p *programBuilder) halveFrames(i int) spmd.Tensor {
	_, name := p.s.m.c.encoderStage(i)
	var seen []spmd.Tensor
	for back := -vae.PastFrames; back <= 0; back++ {
		seen = append(seen, p.Compute(p.Value(vae.Port(downName(i), back))))
	}
	w := p.Weight(name + ".time_conv.weight")
	x := p.ConvStrided(p.Concat(1, seen...), w, [][2]int{{}, {}, {}}, []int{2, 1, 1}, dtype.F32)
	x = p.Add(x, p.Weight(name+".time_conv.bias"))
	if p.s.m.c.Residual {
		given := p.s.m.c.shortcutInput(i)
		x = p.Add(x, p.averageShortcut(x.Dim(-1), true, p.Value(vae.Port(given, -1)), p.Value(vae.Port(given, 0))))
	}
	return x
}

// averageShortcut is Wan2.2's shortcut around a stage. The frames (B, 1, H, W, C) and, if
// halved, the 2 x 2 positions that become one lie behind each other among the channels, which
// are then averaged in groups until out are left: (B, 1, H', W', out).
func (p *programBuilder) averageShortcut(out int, halved bool, frames ...spmd.Tensor) spmd.Tensor {
	x := p.Concat(1, frames...)
	n := 1
	if halved {
		n = 2
	}
	c := x.Dim(-1)
	x = p.SplitDim(p.SplitDim(x, 3, x.Dim(3)/n, n), 2, x.Dim(2)/n, n) // B, T, H', n, W', n, C
	x = p.MergeDims(p.Transpose(x, 0, 2, 4, 6, 1, 3, 5), 3, 4)
	group := c * len(frames) * n * n / out
	x = p.Scale(p.Sum(p.SplitDim(x, 3, out, group), -1), 1/float64(group)) // B, H', W', out, 1
	return p.ExpandDim(p.DropDim(x, 4), 1)
}
