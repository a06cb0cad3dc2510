package ltxvae

import (
	"fmt"

	"weft/dtype"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/models/vae"
	"weft/sharding"
	"weft/spmd"
)

// build is one graph under construction.
type build struct {
	*vae.Build
	m *Model
	// modulations has the types of the values that shift and scale norms, by name.
	modulations map[string]step.Value
	draws       int // planes of noise that layers read so far
}

// Graph builds the decoder, or the encoder if the request says so. Each convolution is a call for
// each frame, which reads the frames under its kernel: those around its own or, in a causal half,
// those before it. At the ends of the video the first or the last frame is bound in the place of
// those beyond it, so all frames share one program, and so do residual blocks of the same size.
func (m *Model) Graph(on *mesh.Mesh, r models.Request) (*graph.Graph, error) {
	base, err := vae.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &build{Build: base, m: m, modulations: map[string]step.Value{}}
	if r.Encode {
		return s.buildEncoder()
	}
	return s.buildDecoder()
}

// defineProgram builds a program.
func (s *build) defineProgram(name, prefix string, perLatent int, define func(p *program)) error {
	return s.Step.Build(name, prefix, func(base *step.ProgramBuilder) {
		define(&program{&vae.Program{ProgramBuilder: base, Graph: s.Build, PerLatent: perLatent}, s})
	})
}

// offsetsOf lists the frames that a kernel reads, from its own.
func offsetsOf(causal bool) []int {
	if causal {
		return []int{-2, -1, 0}
	}
	return []int{-1, 0, 1}
}

// normalisedLatents is the graph's input that is 1 for latents as transformers read them, and 0
// for those that the encoder made (vae.RawLatents).
const normalisedLatents = "normalised"

// buildDecoder builds the decoder.
func (s *build) buildDecoder() (*graph.Graph, error) {
	c, l := s.m.c, s.Layout
	if err := s.addTimes(); err != nil {
		return nil, err
	}
	for i, scale := range c.noiseScales() {
		s.Input(graph.Input{Name: noiseName(i), DType: dtype.F32, Shape: []int{scale * l.Rows, scale * l.Cols}, Spec: sharding.Whole(2)})
	}
	k := &chain{s: s, offsets: offsetsOf(c.DecoderCausal), perLatent: 1, frames: l.Frames}
	k.addLatents()
	_, layers, noise := c.middle()
	s.Graph.Layers = c.Blocks()
	blocks := c.upBlocks()
	k.addConvIn("decoder", s.readerOf(blockName("decoder.mid_block", 0)))
	k.addResiduals("decoder.mid_block", layers, noise, s.readerOfStage(blocks, 0))
	for i, b := range blocks {
		if b.in != b.out {
			k.addResidual(b.name+".conv_in", b.name+".conv_in", false, s.readerBehindConvIn(b))
		}
		if b.up {
			k.addUpsample(b)
		}
		k.addResiduals(b.name, b.layers, b.noise, s.readerOfStage(blocks, i+1))
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

// readerOfStage is the first layer of a block of the decoder, or behind the last one the output,
// as the layer before it sees it.
func (s *build) readerOfStage(blocks []upBlock, i int) reader {
	if i == len(blocks) {
		r := reader{norms: true}
		if s.m.c.Timestep {
			r.modulation = modulationOf("decoder")
		}
		return r
	}
	if b := blocks[i]; b.in != b.out {
		return reader{norms: true, stream: true}
	}
	return s.readerBehindConvIn(blocks[i])
}

// readerBehindConvIn is what a block of the decoder has behind the residual block that changes the
// width.
func (s *build) readerBehindConvIn(b upBlock) reader {
	if b.up {
		return reader{stream: b.residual}
	}
	return s.readerOf(blockName(b.name, 0))
}

// addTimes adds the program that makes of the timestep what shifts and scales the norms: rows
// shift and scale of the first norm, then of the second, of each residual block (B, 4, C), and
// those of the last norm (B, 2, C).
func (s *build) addTimes() error {
	c := s.m.c
	if !c.Timestep {
		return nil
	}
	s.Input(graph.Input{Name: "time", DType: dtype.F32, Shape: []int{s.Request.Batch, timeWidth}, Spec: s.Layout.Batch})
	err := s.defineProgram("times", "", 1, func(p *program) {
		embed := func(stage string, rows, width int) spmd.Tensor {
			embedder := stage + ".time_embedder.timestep_embedder."
			e := p.PreciseMLP(embedder+"linear_1", embedder+"linear_2", p.Value("time"), s.Layout.Batch)
			return p.SplitDim(e, 1, rows, width)
		}
		output := func(name string, e spmd.Tensor) {
			m := p.Reshard(p.Add(e, p.Weight(name+".scale_shift_table")), s.Layout.Batch, "modulations of all devices")
			s.modulations[modulationOf(name)] = step.Value{DType: m.DType, Shape: m.Shape, Spec: m.Spec}
			p.Output(modulationOf(name), m, "")
		}
		stage := func(name string, layers, width int) {
			e := embed(name, 4, width)
			for i := range layers {
				output(blockName(name, i), e)
			}
		}
		width, layers, _ := c.middle()
		stage("decoder.mid_block", layers, width)
		for _, b := range c.upBlocks() {
			stage(b.name, b.layers, b.out)
			width = b.out
		}
		output("decoder", embed("decoder", 2, width))
	})
	if err != nil {
		return err
	}
	call := graph.Call{Name: "times", Program: "times"}
	for _, in := range s.Graph.Programs["times"].Inputs {
		call.Args = append(call.Args, graph.Ref{Weight: s.Has(in.Name), Name: in.Name})
	}
	for _, o := range s.Graph.Programs["times"].Outputs {
		call.Outs = append(call.Outs, o.Name)
	}
	s.Graph.Calls = append(s.Graph.Calls, call)
	return nil
}

// noiseName is the name of a plane of noise.
func noiseName(i int) string { return fmt.Sprint("noise.", i) }

// nextNoise is the plane of noise that the next layer reads.
func (s *build) nextNoise() string {
	s.draws++
	return noiseName(s.draws - 1)
}

// addLatents adds the program that undoes the normalisation of a latent frame (B, C, 1, H, W) and
// cuts it over the mesh.
func (k *chain) addLatents() {
	s := k.s
	l := s.Layout
	s.Input(graph.Input{Name: normalisedLatents, DType: dtype.F32, Shape: []int{1}, Spec: sharding.Whole(1)})
	s.FrameInputs("z", s.m.c.Latent, l.Frames, l.Rows, l.Cols)
	z := s.Given("z", l.Frames)
	made := k.add(layer{program: "latents", name: "latents", reads: map[string]*vae.Sequence{"z": z},
		define: func(p *program) {
			x := p.Transpose(p.Window("z", z, 0), 0, 2, 3, 4, 1)
			is := p.Value(normalisedLatents)
			scale := p.Add(p.Scale(p.Mul(p.Weight("latents_std"), is), 1/s.m.c.Scale), p.Shift(p.Scale(is, -1), 1))
			x = p.Add(p.Mul(x, scale), p.Mul(p.Weight("latents_mean"), is))
			p.OutputFrames(ready, p.Compute(p.CutOver(x)))
		}})
	k.ready = made[ready]
}

// addUpsample adds the layer that doubles rows and columns, frames or all of them: a convolution
// makes several positions of one. Of two frames that the first one gives, the later one is kept. The
// shortcut around it arranges the channels that are there in the same way, and repeats them.
func (k *chain) addUpsample(b upBlock) {
	x, from, offsets := k.x, k.ready, k.offsets
	l := moduleLayer(b.name + ".upsamplers.0")
	l.reads = map[string]*vae.Sequence{ready: from, stream: x}
	space, time := b.doubles()
	after := k.perLatent
	if space {
		after *= 2
	}
	if time {
		l.frames, l.call = 2*k.frames-1, twoOfEach
	}
	k.addFor(k.s.readerOf(blockName(b.name, 0)), after, l, func(p *program) spmd.Tensor {
		y := p.unfold(p.convolve("conv.conv", p.Window(ready, from, offsets...)), b)
		if !b.residual {
			return y
		}
		beside := p.unfold(p.Window(stream, x, 0), b)
		copies := make([]spmd.Tensor, b.unfolded()/b.factor)
		for i := range copies {
			copies[i] = beside
		}
		return p.Add(y, p.Concat(4, copies...))
	})
}

// twoOfEach is the call of a layer that makes two frames of each, of which the earlier one of the
// first is dropped.
func twoOfEach(program string) func(int) vae.FrameCall {
	return func(frame int) vae.FrameCall {
		if frame == 0 {
			return vae.FrameCall{Program: program, Own: 0, First: -1, Makes: 1}
		}
		return vae.FrameCall{Program: program, Own: (frame + 1) / 2, First: frame, Makes: 2}
	}
}

// unfold arranges the channels of each position (B, 1, H, W, C T n n) as T frames and n x n positions:
// (B, T, n H, n W, C). Within the channels, frames vary more slowly than rows, and rows than
// columns.
func (p *program) unfold(x spmd.Tensor, b upBlock) spmd.Tensor {
	t, n := 1, 1
	space, time := b.doubles()
	if time {
		t = 2
	}
	if space {
		n = 2
	}
	x = p.Transpose(p.SplitDim(x, 4, x.Dim(4)/b.unfolded(), t, n, n), 0, 1, 5, 2, 6, 3, 7, 4)
	return p.MergeDims(p.MergeDims(p.MergeDims(x, 5, 2), 3, 2), 1, 2)
}

// addVideo adds the last convolution of the decoder, which makes a frame of the video
// (B, 3, 1, H, W), and returns the video.
func (k *chain) addVideo() *vae.Sequence {
	from := k.ready
	return k.add(layer{program: "decoder.conv_out", reads: map[string]*vae.Sequence{ready: from}, define: func(p *program) {
		x := p.convolve("decoder.conv_out.conv", p.Window(ready, from, k.offsets...))
		p.Output(vae.Port("video", 0), p.unpatchPixels(x), "")
	}})["video"]
}

// unpatchPixels rearranges the channels of each position (B, T, H, W, 3 P P) into a patch of
// P x P pixels: (B, 3, T, H P, W P). Within the channels, columns vary more slowly than rows.
func (p *program) unpatchPixels(x spmd.Tensor) spmd.Tensor {
	n := p.s.m.c.Patch
	x = p.Transpose(p.SplitDim(x, 4, pictureChannel, n, n), 0, 4, 1, 2, 6, 3, 5)
	return p.MergeDims(p.MergeDims(x, 5, 2), 3, 2)
}
