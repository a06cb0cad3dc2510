package wanvae

import (
	"fmt"

	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/sharding"
	"weft/spmd"
	"weft/strategy"
)

// build is one graph under construction.
//
// Shapes: B batch, T frames, H rows and W columns padded so that the sharded dims divide, C
// channels. Channels come last, because convolutions on CPU and TPU want them so.
type build struct {
	*step.Step
	m      *Model
	r      models.Request
	layout layout
	// first says whether the programs under construction are those of the first
	// frame or those of the later ones.
	first bool
}

// Graph builds the decoder, or the encoder if the request says so. Every program takes one
// frame: that is all that the devices hold of a stage at a time, besides the two frames that
// each causal convolution keeps for those that follow. The first frame has programs of its
// own, since nothing comes before it, and since changes of the number of frames leave it
// alone.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Step: base, m: m, r: r, layout: m.layOutRequest(on, r)}
	for i, d := range m.splitDims(r.Latent) {
		if p := s.layout.padded[i]; p > d.size {
			s.Note("%d %s padded by %d to %d for %s=%d; padding is zeros to every kernel and is cut off again", d.size, d.what, p-d.size, p, d.axis, on.Size(d.axis))
		}
	}
	if on.Size(strategy.Axes(strategy.Rows, strategy.Columns)...) > 1 {
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

// frameInputs declares an input of the model (B, C, T, H, W) as an input of the graph for each
// frame, and as the input of programs that read one frame.
func (s *build) frameInputs(name string, channels, frames, rows, cols int) {
	shape := []int{s.r.Batch, channels, 1, rows, cols}
	for t := range frames {
		s.Graph.Inputs = append(s.Graph.Inputs, graph.Input{Name: frameName(name, t), DType: dtype.F32, Shape: shape, Spec: s.layout.batch, Step: true, Of: name, Frame: t})
	}
	s.Value(port(name, 0), step.Value{DType: dtype.F32, Shape: shape, Spec: s.layout.batch})
}

// output makes the frames of a value an output of the graph under each of the names. They
// follow one another along dim 2.
func (s *build) output(value string, frames int, shape []int, names ...string) {
	o := graph.Output{Value: frameName(value, 0), Dim: 2, Shape: append([]int{s.r.Batch}, shape...)}
	for t := 1; t < frames; t++ {
		o.Then = append(o.Then, frameName(value, t))
	}
	for _, o.Name = range names {
		s.Graph.Outputs = append(s.Graph.Outputs, o)
	}
}

// ofTheFirstFrame ends the names of the first frame's programs.
const ofTheFirstFrame = " of the first frame"

// programName tells the names of the first frame's programs from those of the later
// ones.
func (s *build) programName(stage string) string {
	if s.first {
		return stage + ofTheFirstFrame
	}
	return stage
}

// buildDecoder builds the decoder. A program prepares each latent frame, which then passes the
// stages. A stage that doubles the number of frames makes two of each but the first, and the
// next stage is called for each of them.
func (s *build) buildDecoder() (*graph.Graph, error) {
	s.Graph.Layers = s.m.c.Blocks()
	if err := s.buildLatents(); err != nil {
		return nil, err
	}
	for t := range min(s.layout.frames, 2) {
		s.first = t == 0
		if err := s.buildStages(); err != nil {
			return nil, err
		}
	}
	for t := range s.layout.frames {
		s.addCall(frameCall{program: "latents", frame: t, trace: map[string][]int{"decode_conv2": {s.r.Batch, s.m.c.ZDim, 1, s.layout.rows, s.layout.cols}}})
		s.addStageCalls(0, t)
	}
	shape, err := s.m.VideoShape(s.r.Latent)
	if err != nil {
		return nil, err
	}
	s.output("video", shape[1], shape, "out", "decode")
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
	s.first = frame == 0
	name := names[stage]
	doubles := stage > 0 && stage < len(names)-1 && s.m.c.doublesFrames(stage-1)
	c := frameCall{program: s.programName(name), frame: frame, frames: map[string]int{}, trace: map[string][]int{}}
	made := []int{frame}
	if doubles && frame > 0 {
		made = []int{2*frame - 1, 2 * frame}
	}
	c.frames[name] = made[0]
	if stage < len(names)-1 {
		scale := 1 << stage
		c.trace[name] = []int{s.r.Batch, 1, scale * s.layout.rows, scale * s.layout.cols, s.m.c.stageOutputWidth(stage)}
	}
	s.addCall(c)
	for _, t := range made {
		s.addStageCalls(stage+1, t)
	}
}

// buildLatents builds the program that undoes the normalisation of a latent frame
// (B, z, 1, H, W) and applies the pointwise convolution in front of the decoder:
// (B, 1, H, W, z).
func (s *build) buildLatents() error {
	l, c := s.layout, s.m.c
	s.frameInputs("z", c.ZDim, l.frames, l.rows, l.cols)
	return s.Build("latents", "", func(base *step.ProgramBuilder) {
		p := &programBuilder{base, s, 1}
		x := p.Transpose(p.Value(port("z", 0)), 0, 2, 3, 4, 1)
		x = p.Add(p.Mul(x, p.Value("latents_std")), p.Value("latents_mean"))
		x = p.PadTo(p.PadTo(x, 2, l.padded[0]), 3, l.padded[1])
		x = p.Reshard(x, l.pictures, "rows and columns cut over the mesh")
		x = p.Linear("conv2", p.Compute(x), l.pictures)
		p.Output(port("decode_conv2", 0), p.Transpose(x, 0, 4, 1, 2, 3), "")
		p.outputFrames("latent", x)
	})
}

// buildStages builds the programs of a frame: the first convolution with the
// middle, then each stage. The last stage has the head as well.
func (s *build) buildStages() error {
	before := "latent"
	for i, name := range s.stageNames() {
		err := s.Build(s.programName(name), "", func(base *step.ProgramBuilder) {
			p := &programBuilder{base, s, 1 << max(0, i-1)}
			given := p.Value(port(before, 0))
			if i == 0 {
				p.outputFrames(name, p.applyMiddle("decoder", p.causalConv("decoder.conv1", given)))
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
				p.outputFrames(name, x)
				return
			}
			x = p.causalConv("decoder.head.2", p.Silu(p.normChannels("decoder.head.0", x)))
			if !s.r.Tile {
				x = p.AtMost(p.AtLeast(x, -1), 1)
			}
			p.Output(port("video", 0), p.unpatchPixels(x), "")
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
	case frames && p.s.first:
		p.keepFirstFrame(name+".time_conv", p.zerosLike(p.Compute(x)))
	case frames:
		c := x.Dim(-1)
		x = p.causalConv(name+".time_conv", x) // (B, T, H, W, 2 C): two frames of each
		x = p.MergeDims(p.Transpose(p.SplitDim(x, 4, 2, c), 0, 1, 4, 2, 3, 5), 1, 2)
	}
	x = p.zeroPadding(p.Compute(x))
	x = p.Repeat(p.Repeat(x, 2, 2), 3, 2)
	p.scale *= 2
	return p.applyConv(name+".resample.1", x, p.ExpandDim(p.Weight(name+".resample.1.weight"), 2))
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
	if p.s.first {
		x = p.Slice(x, 1, t-1, t)
	}
	return x
}

// unpatchPixels rearranges the channels of each position (B, T, H, W, 3 P P) into a patch of
// P x P pixels: (B, 3, T, H P, W P). Within the channels, columns vary more slowly than
// rows.
func (p *programBuilder) unpatchPixels(x spmd.Tensor) spmd.Tensor {
	n := p.s.m.c.Patch
	x = p.Transpose(p.SplitDim(x, 4, pictureChannels, n, n), 0, 4, 1, 2, 6, 3, 5)
	return p.MergeDims(p.MergeDims(x, 5, 2), 3, 2)
}
