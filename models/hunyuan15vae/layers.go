package hunyuan15vae

import (
	"cmp"
	"fmt"
	"math"

	"weft/dtype"
	"weft/models/step"
	"weft/models/vae"
	"weft/program"
	"weft/spmd"
)

// programBuilder is one program under construction.
type programBuilder struct {
	*vae.Program
	s *build
	// first says that the program takes the first frame.
	first bool
}

// stream is the port of the residual stream, (B, 1, H, W, C) in f32.
const stream = "x"

// leastLength is the lower bound of the length that normChannels divides by, so that a position
// of zeros stays zero.
const leastLength = 1e-12

// normChannels scales the channels of each position to the length sqrt(C), then by the weights.
func (p *programBuilder) normChannels(name string, x spmd.Tensor) spmd.Tensor {
	length := p.AtLeast(p.Unary(program.OpSqrt, p.Sum(p.Mul(x, x), -1)), leastLength)
	factor := p.Div(p.Constant(dtype.F32, math.Sqrt(float64(x.Dim(-1)))), length)
	return p.Mul(p.Mul(x, factor), p.Weight(name+".gamma"))
}

// convolve applies a convolution over three frames to frames (B, T, H, W, I): (B, T-2, H, W, O).
// Beyond the edges it reads the nearest position.
func (p *programBuilder) convolve(name string, x spmd.Tensor) spmd.Tensor {
	y := p.ConvReplicated(p.Compute(x), p.Weight(name+".weight"), [][2]int{{}, {1, 1}, {1, 1}}, nil, p.Sizes(x), dtype.F32)
	return p.Add(y, p.Weight(name+".bias"))
}

// causalConv applies a convolution to a frame and the two before it. It keeps the frame, in the
// compute type, for the calls for the next two. Before the first frame it reads that frame.
func (p *programBuilder) causalConv(name string, x spmd.Tensor) spmd.Tensor {
	x = p.Compute(x)
	kept := "kept " + name
	p.OutputFrames(kept, x)
	before := []spmd.Tensor{x, x}
	if !p.first {
		for back := range before {
			p.Keep(vae.Port(kept, back-2), x)
			before[back] = p.Value(vae.Port(kept, back-2))
		}
	}
	return p.convolve(name, p.Concat(1, append(before, x)...))
}

// chain is what the layers that were added so far hand on.
type chain struct {
	s         *build
	perLatent int // positions along a side for each latent position
	frames    int
	x         *vae.Sequence
	err       error
}

// layer describes one layer: its programs and how they are called.
type layer struct {
	program string // layers of the same name share it
	name    string // begins the names of its values; "" for those of the ports
	prefix  string // begins the names of its parameters
	reads   map[string]*vae.Sequence
	frames  int // that it makes, 0 for as many as there are
	// call is of a frame that is not the first; nil for a call for each frame.
	call func(program string) func(frame int) vae.FrameCall
	// ofAll says that the first frame has no program of its own.
	ofAll  bool
	define func(p *programBuilder)
}

// moduleLayer is a layer with programs of its own, named like the module that has its parameters.
func moduleLayer(module string) layer {
	return layer{program: module, name: module, prefix: module + "."}
}

// ofTheFirst ends the names of the first frame's programs.
const ofTheFirst = " of the first frame"

// add adds a layer, unless an earlier one failed, and returns what it makes.
func (c *chain) add(l layer) map[string]*vae.Sequence {
	if c.err != nil {
		return nil
	}
	l.frames = cmp.Or(l.frames, c.frames)
	first := l.program + ofTheFirst
	if l.ofAll {
		first = l.program
	} else {
		c.defineProgram(first, l, true)
	}
	if l.ofAll || l.frames > 1 {
		c.defineProgram(l.program, l, false)
	}
	if c.err != nil {
		return nil
	}
	if l.call == nil {
		l.call = vae.EachFrame
	}
	later := l.call(l.program)
	return c.s.AddLayer(vae.Layer{Name: l.name, Prefix: l.prefix, Frames: l.frames, Reads: l.reads, Call: func(frame int) vae.FrameCall {
		if frame == 0 && !l.ofAll {
			return vae.FrameCall{Program: first, Makes: 1}
		}
		return later(frame)
	}})
}

// defineProgram builds a program of a layer, unless layers before it share it.
func (c *chain) defineProgram(name string, l layer, first bool) {
	if c.err != nil || c.s.Graph.Programs[name] != nil {
		return
	}
	c.err = c.s.Build.Build(name, l.prefix, func(base *step.ProgramBuilder) {
		l.define(&programBuilder{&vae.Program{ProgramBuilder: base, Graph: c.s.Build, PerLatent: c.perLatent}, c.s, first})
	})
}

// addStream adds a layer that makes the residual stream of after positions for each latent one.
func (c *chain) addStream(after int, l layer, compute func(p *programBuilder) spmd.Tensor) {
	l.define = func(p *programBuilder) { p.OutputFrames(stream, compute(p)) }
	if l.reads == nil {
		l.reads = map[string]*vae.Sequence{stream: c.x}
	}
	made := c.add(l)
	c.x, c.perLatent, c.frames = made[stream], after, cmp.Or(l.frames, c.frames)
}

// addResidual adds a residual block: two convolutions with a shortcut around them.
func (c *chain) addResidual(stage, name string, in, out int) {
	from := c.x
	l := layer{program: fmt.Sprintf("%s block %d to %d", stage, in, out), name: name, prefix: name + "."}
	c.addStream(c.perLatent, l, func(p *programBuilder) spmd.Tensor {
		x := p.Window(stream, from, 0)
		beside := x
		if p.Has("conv_shortcut.weight") {
			beside = p.Linear("conv_shortcut", p.Compute(x), p.Graph.Layout.Pictures)
		}
		y := p.causalConv("conv1.conv", p.Silu(p.normChannels("norm1", x)))
		y = p.causalConv("conv2.conv", p.Silu(p.normChannels("norm2", y)))
		return p.Add(y, beside)
	})
}
