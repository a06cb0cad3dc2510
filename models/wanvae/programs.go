package wanvae

import (
	"fmt"
	"math"
	"slices"

	"weft/attention"
	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/program"
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
	// first says whether the programs under construction are those of the first latent
	// frame or those of the later ones.
	first bool
}

// Graph builds the decoder. One program prepares all latents; then each latent frame passes
// the stages, one call for each stage. The first latent frame has programs of its own, since
// nothing comes before it and its frames are not doubled. Each causal convolution reads two
// frames before its own: calls pass those on to the calls for the next latent frame.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	if err := m.Check(on, r); err != nil {
		return nil, err
	}
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
	if err := s.buildLatents(); err != nil {
		return nil, err
	}
	s.Call(graph.Call{Name: "latents", Program: "latents", Trace: step.Tokens("decode_conv2", append([]int{r.Batch}, r.Latent...)...)}, "", 0)
	s.Graph.Layers = m.c.Blocks()
	for t := range min(s.layout.frames, 2) {
		s.first = t == 0
		if err := s.buildStages(); err != nil {
			return nil, err
		}
		if s.first {
			s.addCalls(0)
		}
	}
	for t := 1; t < s.layout.frames; t++ {
		s.addCalls(t)
	}
	return s.finishVideo()
}

// finishVideo makes the video the graph's output: the frames of all latent frames one after
// another.
func (s *build) finishVideo() (*graph.Graph, error) {
	shape, err := s.m.VideoShape(s.r.Latent)
	if err != nil {
		return nil, err
	}
	o := graph.Output{Value: "video.0", Dim: 2, Shape: append([]int{s.r.Batch}, shape...)}
	for t := 1; t < s.layout.frames; t++ {
		o.Then = append(o.Then, fmt.Sprintf("video.%d", t))
	}
	for _, o.Name = range []string{"out", "decode"} {
		s.Graph.Outputs = append(s.Graph.Outputs, o)
	}
	return s.Finish()
}

// programSuffix tells the names of the first latent frame's programs from those of the later
// ones.
func (s *build) programSuffix() string {
	if s.first {
		return " of the first frame"
	}
	return ""
}

// stageNames lists the programs of one latent frame in the order in which they run.
func (s *build) stageNames() []string {
	names := []string{"middle"}
	for i := range s.m.c.DimMult {
		names = append(names, fmt.Sprintf("up_%d", i))
	}
	return names
}

// addCalls adds the calls of the stages' programs for latent frame t.
func (s *build) addCalls(t int) {
	s.first = t == 0
	frames, scale := 1, 1
	names := s.stageNames()
	for i, name := range names {
		c := graph.Call{Name: fmt.Sprintf("%s, frame %d", name, t), Program: name + s.programSuffix()}
		if i > 0 && i < len(names)-1 {
			scale *= 2
			if t > 0 && s.m.c.doublesFrames(i-1) {
				frames *= 2
			}
		}
		if i < len(names)-1 {
			last := len(s.Graph.Programs[c.Program].Outputs) - 1 // cached frames come before it
			c.Trace = map[int]graph.Traced{last: {Name: fmt.Sprintf("%s.%d", name, t), Shape: []int{s.r.Batch, frames, scale * s.layout.rows, scale * s.layout.cols, s.m.c.stageOutputWidth(i)}}}
		}
		s.Call(c, "", t)
	}
}

// buildLatents builds the program that undoes the normalisation of all latents
// (B, z, T, H, W), applies the pointwise convolution in front of the decoder, and cuts them
// into frames (B, 1, H, W, z).
func (s *build) buildLatents() error {
	l, c := s.layout, s.m.c
	s.Input(graph.Input{Name: "z", DType: dtype.F32, Shape: append([]int{s.r.Batch}, s.r.Latent...), Spec: l.batch, Step: true})
	for _, name := range []string{"latents_mean", "latents_std"} {
		s.Input(graph.Input{Name: name, DType: dtype.F32, Shape: []int{c.ZDim}, Spec: sharding.Whole(1)})
	}
	frame := []int{s.r.Batch, 1, l.padded[0], l.padded[1], c.ZDim}
	s.Value("latent", step.Value{DType: dtype.F32, Shape: frame, Spec: l.pictures, Kind: step.PerLayer})
	return s.Build("latents", "", func(p *step.ProgramBuilder) {
		x := p.Transpose(p.Value("z"), 0, 2, 3, 4, 1)
		x = p.Add(p.Mul(x, p.Value("latents_std")), p.Value("latents_mean"))
		x = p.PadTo(p.PadTo(x, 2, l.padded[0]), 3, l.padded[1])
		x = p.Reshard(x, l.pictures, "rows and columns cut over the mesh")
		x = p.Linear("conv2", p.Compute(x), l.pictures)
		p.Output("conv2", p.Transpose(x, 0, 4, 1, 2, 3), "")
		for t := range l.frames {
			p.Output(fmt.Sprintf("latent.%d", t), p.Slice(x, 1, t, t+1), "")
		}
	})
}

// programBuilder is one program under construction.
type programBuilder struct {
	*step.ProgramBuilder
	s     *build
	scale int // positions along a side for each latent position, at this point of the program
}

// buildStages builds the programs of one latent frame: the first convolution with the
// middle, then each stage. The last stage has the head as well.
func (s *build) buildStages() error {
	scale := 1
	for i, name := range s.stageNames() {
		err := s.Build(name+s.programSuffix(), "", func(base *step.ProgramBuilder) {
			p := &programBuilder{base, s, scale}
			if i == 0 {
				p.outputStage("middle", p.applyMiddle())
				return
			}
			given := p.Value(s.stageNames()[i-1])
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
				p.outputStage(name, x)
				scale = p.scale
				return
			}
			x = p.causalConv("decoder.head.2", p.Silu(p.normChannels("decoder.head.0", x)))
			s.Value("video", step.Value{Kind: step.PerLayer})
			p.Output("video", p.unpatchPixels(p.AtMost(p.AtLeast(x, -1), 1)), "")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outputStage makes x the output that the next stage's program reads.
func (p *programBuilder) outputStage(name string, x spmd.Tensor) {
	p.s.Value(name, step.Value{DType: x.DType, Shape: x.Shape, Spec: x.Spec, Kind: step.PerLayer})
	p.Output(name, x, "")
}

// applyMiddle applies the first convolution, and the middle: a residual block, attention,
// and another residual block.
func (p *programBuilder) applyMiddle() spmd.Tensor {
	x := p.causalConv("decoder.conv1", p.Value("latent"))
	x = p.applyResidual("decoder.middle.0", x)
	x = p.attendInFrame("decoder.middle.1", x)
	return p.applyResidual("decoder.middle.2", x)
}

// leastLength is the lower bound of the length that normChannels divides by, so that a
// position of zeros stays zero.
const leastLength = 1e-12

// normChannels scales the channels of each position to the length sqrt(C), then by the
// weights. An RMS norm with an epsilon would give other results where the channels are
// small.
func (p *programBuilder) normChannels(name string, x spmd.Tensor) spmd.Tensor {
	length := p.AtLeast(p.Unary(program.OpSqrt, p.Sum(p.Mul(x, x), -1)), leastLength)
	factor := p.Div(p.Constant(dtype.F32, math.Sqrt(float64(x.Dim(-1)))), length)
	return p.Mul(p.Mul(x, factor), p.Weight(name+".gamma"))
}

// applyResidual applies a residual block: two convolutions with a shortcut around them. The
// residual stream is f32.
func (p *programBuilder) applyResidual(name string, x spmd.Tensor) spmd.Tensor {
	beside := x
	if p.Has(name + ".shortcut.weight") {
		beside = p.Linear(name+".shortcut", p.Compute(x), p.s.layout.pictures)
	}
	y := p.causalConv(name+".residual.2", p.Silu(p.normChannels(name+".residual.0", x)))
	y = p.causalConv(name+".residual.6", p.Silu(p.normChannels(name+".residual.3", y)))
	return p.Add(y, beside)
}

// attendInFrame applies attention with one head over the positions (B, 1, H, W, C) of a
// frame. Each device keeps the queries of its own positions. Keys and values are gathered,
// since they are small at the size of the latents, and the padding of rows and columns is
// cut off them.
func (p *programBuilder) attendInFrame(name string, x spmd.Tensor) spmd.Tensor {
	l, c := p.s.layout, x.Dim(-1)
	qkv := p.Compute(p.Linear(name+".to_qkv", p.Compute(p.normChannels(name+".norm", x)), l.pictures))
	kv := p.Reshard(p.Slice(qkv, 4, c, 3*c), l.batch, "keys and values of all positions")
	kv = p.MergeDims(p.Slice(p.Slice(kv, 2, 0, l.rows), 3, 0, l.cols), 1, 3)
	k, v := p.SplitDim(p.Slice(kv, 2, 0, c), 2, 1, c), p.SplitDim(p.Slice(kv, 2, c, 2*c), 2, 1, c)

	// Each device flattens its own positions: attention does not depend on the order of
	// queries.
	q := p.Slice(qkv, 4, 0, c)
	own := p.Local(q)
	tokens := p.Global(p.LReshape(own, own.Shape[0], own.Shape[2]*own.Shape[3], 1, c), []int{q.Shape[0], q.Shape[2] * q.Shape[3], 1, c},
		sharding.NewSpec(q.Spec.Dim(0), append(q.Spec.Dim(2), q.Spec.Dim(3)...)))
	y := attention.Attend(p.Builder, tokens, k, v, attention.Options{})
	y = p.Global(p.LReshape(p.Local(y), own.Shape...), q.Shape, q.Spec)
	return p.Add(p.Linear(name+".proj", y, l.pictures), x)
}

// pastFrames is the number of frames before its own that a causal convolution reads.
const pastFrames = 2

// causalConv applies a convolution whose kernel covers a frame and the two before it: x
// (B, T, H, W, I) to (B, T, H, W, O). The frames that precede x are cached from call to
// call, in the compute type. Zeros precede the first frame, so only the last frame of the
// kernel has an effect there.
func (p *programBuilder) causalConv(name string, x spmd.Tensor) spmd.Tensor {
	w := p.Weight(name + ".weight")
	x = p.Compute(x)
	if w.Shape[3] > 1 {
		x = p.zeroPadding(x)
	}
	seen := x
	if p.s.first {
		w = p.Slice(w, 2, pastFrames, pastFrames+1)
		p.startCache(name, p.padFramesBefore(x, pastFrames-x.Dim(1)))
	} else {
		cache := "before " + name
		seen = p.Concat(1, p.Value(cache), x)
		p.Output(cache, p.Slice(seen, 1, x.Dim(1), x.Dim(1)+pastFrames), cache)
	}
	return p.applyConv(name, seen, w)
}

// padFramesBefore puts n frames of zeros before x.
func (p *programBuilder) padFramesBefore(x spmd.Tensor, n int) spmd.Tensor {
	shape := slices.Clone(x.Shape)
	shape[1] += n
	return p.Global(p.LPad(p.Local(x), 1, n, 0, 0), shape, x.Spec)
}

// startCache declares the cache of the frames that a convolution reads in the next call, and
// gives it its first value.
func (p *programBuilder) startCache(name string, x spmd.Tensor) {
	if p.s.layout.frames == 1 {
		return // no later frame will read it
	}
	cache := "before " + name
	p.s.Value(cache, step.Value{DType: x.DType, Shape: x.Shape, Spec: x.Spec, Kind: step.Stream})
	p.Output(cache, x, "")
}

// applyConv convolves x with w (O, I, K...), with zeros around rows and columns and sums in
// f32, and adds the bias.
func (p *programBuilder) applyConv(name string, x, w spmd.Tensor) spmd.Tensor {
	pads := [][2]int{{}, {w.Shape[3] / 2, w.Shape[3] / 2}, {w.Shape[4] / 2, w.Shape[4] / 2}}
	return p.Add(p.Conv(x, w, pads, dtype.F32), p.Weight(name+".bias"))
}

// zeroPadding sets the rows and columns that are padding to zero, as a kernel expects beyond
// the edge.
func (p *programBuilder) zeroPadding(x spmd.Tensor) spmd.Tensor {
	l := p.s.layout
	return p.ZeroFrom(p.ZeroFrom(x, 2, p.scale*l.rows), 3, p.scale*l.cols)
}

// applyUpsample doubles rows and columns and, with frames, the number of frames. The first
// frame is not doubled, and the kernel of a later one does not read it either: zeros stand
// in its place.
func (p *programBuilder) applyUpsample(name string, x spmd.Tensor, frames bool) spmd.Tensor {
	switch {
	case frames && p.s.first:
		own, shape := slices.Clone(p.Local(x).Shape), slices.Clone(x.Shape)
		own[1], shape[1] = pastFrames, pastFrames
		p.startCache(name+".time_conv", p.Global(p.LConst(p.s.r.DType, 0, own...), shape, x.Spec))
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
