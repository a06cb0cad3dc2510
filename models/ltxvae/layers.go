package ltxvae

import (
	"cmp"
	"fmt"

	"weft/dtype"
	"weft/models/step"
	"weft/models/vae"
	"weft/sharding"
	"weft/spmd"
	"weft/strategy"
)

// program is one program under construction.
type program struct {
	*vae.Program
	s *build
}

// normEps is added to the mean square by which positions are normalised.
const normEps = 1e-8

// Ports of programs: the residual stream in f32, and what the next convolution reads, in the
// compute type.
const (
	stream = "x"
	ready  = "ready"
)

// reader says what the layer behind another one makes of its result before its convolution.
type reader struct {
	norms      bool   // normalises positions, modulates them and applies SiLU
	modulation string // the value with shift and scale; "" where the half has no timestep
	stream     bool   // reads the residual stream as well
}

// programSuffix tells the programs of a layer apart that have other readers.
func (r reader) programSuffix() string {
	switch {
	case r.norms && r.stream:
		return ""
	case r.norms:
		return " before the output"
	case r.stream:
		return " before folding"
	}
	return " before sampling"
}

// outputFor makes the outputs of frames x (B, T, H, W, C) for their reader.
func (p *program) outputFor(r reader, x spmd.Tensor) {
	if r.stream {
		p.OutputFrames(stream, x)
	}
	if r.norms {
		x = p.applyNorm("next", r.modulation, 0, x)
	}
	p.OutputFrames(ready, p.ZeroPadding(p.Compute(x)))
}

// applyNorm normalises the channels of each position, shifts and scales them by rows row and
// row+1 of a modulation, if there is one, and applies SiLU. port is the modulation's.
func (p *program) applyNorm(port, modulation string, row int, x spmd.Tensor) spmd.Tensor {
	x = p.Mul(x, p.RMSFactors(normEps, x)[0])
	if modulation != "" {
		p.Graph.Value(port, p.s.modulations[modulation])
		m := p.Value(port) // B rows C
		at := func(row int) spmd.Tensor {
			return p.ExpandDim(p.ExpandDim(p.Slice(m, 1, row, row+1), 1), 1) // B 1 1 1 C
		}
		x = p.Modulate(x, at(row), at(row+1))
	}
	return p.Silu(x)
}

// convolve applies a convolution over three frames to frames whose padding is zero: (B, T, H, W, I)
// to (B, T-2, H, W, O).
func (p *program) convolve(name string, x spmd.Tensor) spmd.Tensor {
	return p.ApplyConv(name, x, p.Weight(name+".weight"))
}

// addNoise adds a plane of noise, the same for all frames and videos, times a factor for each
// channel.
func (p *program) addNoise(factor string, x spmd.Tensor) spmd.Tensor {
	l := p.Graph.Layout
	p.Graph.Value("noise", step.Value{DType: dtype.F32, Shape: []int{p.PerLatent * l.Rows, p.PerLatent * l.Cols}, Spec: sharding.Whole(2)})
	n := p.ExpandDim(p.ExpandDim(p.ExpandDim(p.Value("noise"), 0), 0), 4) // 1 1 H W 1
	n = p.PadTo(p.PadTo(n, 2, p.PerLatent*l.Padded[0]), 3, p.PerLatent*l.Padded[1])
	n = p.Reshard(n, strategy.SpecOf(strategy.None, strategy.None, strategy.Rows, strategy.Columns), "noise cut over the mesh")
	return p.Add(x, p.Mul(n, p.Weight(factor)))
}

// chain is what the layers that were added so far hand on.
type chain struct {
	s         *build
	offsets   []int // of the frames that a kernel reads, from its own
	perLatent int   // positions along a side for each latent position
	frames    int
	x, ready  *vae.Sequence
	err       error
}

// layer describes one layer: its program and how it is called.
type layer struct {
	program string // layers of the same name share it
	title   string // of its calls, for people; "" for name
	name    string // begins the names of its values; "" for those of the ports
	prefix  string // begins the names of its parameters
	reads   map[string]*vae.Sequence
	values  map[string]string                                  // what ports without frames are bound to
	call    func(program string) func(frame int) vae.FrameCall // nil for a call for each frame
	frames  int                                                // that it makes, 0 for as many as there are
	define  func(p *program)
}

// add adds a layer, unless an earlier one failed, and returns what it makes.
func (c *chain) add(l layer) map[string]*vae.Sequence {
	if c.err != nil {
		return nil
	}
	if c.s.Graph.Programs[l.program] == nil {
		if c.err = c.s.defineProgram(l.program, l.prefix, c.perLatent, l.define); c.err != nil {
			return nil
		}
	}
	if l.call == nil {
		l.call = vae.EachFrame
	}
	return c.s.AddLayer(vae.Layer{Title: l.title, Name: l.name, Prefix: l.prefix, Frames: cmp.Or(l.frames, c.frames), Reads: l.reads, Values: l.values, Call: l.call(l.program)})
}

// addFor adds a layer whose result of after positions for each latent one is read by next.
func (c *chain) addFor(next reader, after int, l layer, compute func(p *program) spmd.Tensor) {
	l.program += next.programSuffix()
	if next.modulation != "" {
		if l.values == nil {
			l.values = map[string]string{}
		}
		l.values["next"] = next.modulation
	}
	l.define = func(p *program) {
		x := compute(p)
		p.PerLatent = after
		p.outputFor(next, x)
	}
	made := c.add(l)
	c.x, c.ready, c.frames, c.perLatent = made[stream], made[ready], cmp.Or(l.frames, c.frames), after
}

// addConvIn adds the first convolution of a half.
func (c *chain) addConvIn(half string, next reader) {
	from := c.ready
	l := moduleLayer(half + ".conv_in")
	l.reads = map[string]*vae.Sequence{ready: from}
	c.addFor(next, c.perLatent, l, func(p *program) spmd.Tensor { return p.convolve("conv", p.Window(ready, from, c.offsets...)) })
}

// moduleLayer is a layer with a program of its own, named like the module that has its parameters.
func moduleLayer(module string) layer {
	return layer{program: module, name: module, prefix: module + "."}
}

// blockName is the name of residual block i of a stage.
func blockName(stage string, i int) string { return fmt.Sprintf("%s.resnets.%d", stage, i) }

// addResiduals adds the residual blocks of a stage. last is the reader of the stage's result.
func (c *chain) addResiduals(stage string, n int, noise bool, last reader) {
	for i := range n {
		next := last
		if i+1 < n {
			next = c.s.readerOf(blockName(stage, i+1))
		}
		c.addResidual(stage, blockName(stage, i), noise, next)
	}
}

// modulationOf is the name of the value that shifts and scales the norms of a residual block.
func modulationOf(block string) string { return block + ".modulation" }

// readerOf is the residual block of a name, as the layer before it sees it.
func (s *build) readerOf(block string) reader {
	r := reader{norms: true, stream: true}
	if _, ok := s.modulations[modulationOf(block)]; ok {
		r.modulation = modulationOf(block)
	}
	return r
}

// addResidual adds a residual block, as a layer for each of its two convolutions. The layer before
// it has computed the first norm.
func (c *chain) addResidual(stage, name string, noise bool, next reader) {
	x, from, offsets := c.x, c.ready, c.offsets
	values := func() map[string]string {
		out := map[string]string{"modulation": modulationOf(name)}
		if noise {
			out["noise"] = c.s.nextNoise()
		}
		return out
	}
	first := layer{program: stage + " first half", title: name + " first half", name: name, prefix: name + ".", reads: map[string]*vae.Sequence{ready: from}, values: values()}
	first.define = func(p *program) {
		y := p.convolve("conv1.conv", p.Window(ready, from, offsets...))
		if noise {
			y = p.addNoise("per_channel_scale1", y)
		}
		y = p.applyNorm("modulation", c.s.readerOf(name).modulation, 2, y)
		p.OutputFrames("hidden", p.ZeroPadding(p.Compute(y)))
	}
	hidden := c.add(first)["hidden"]
	second := layer{program: stage + " second half", title: name + " second half", name: name, prefix: name + ".", values: values(),
		reads: map[string]*vae.Sequence{"hidden": hidden, stream: x}}
	c.addFor(next, c.perLatent, second, func(p *program) spmd.Tensor {
		y := p.convolve("conv2.conv", p.Window("hidden", hidden, offsets...))
		if noise {
			y = p.addNoise("per_channel_scale2", y)
		}
		beside := p.Window(stream, x, 0)
		if p.Has("conv_shortcut.conv.weight") {
			beside = p.Linear("conv_shortcut.conv", p.Compute(p.Norm("norm3", beside, c.s.m.c.Eps)), c.s.Layout.Pictures)
		}
		return p.Add(y, beside)
	})
}
