package wanvae

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"weft/attention"
	"weft/dtype"
	"weft/graph"
	"weft/models/step"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// programBuilder is one program under construction.
type programBuilder struct {
	*step.ProgramBuilder
	s     *build
	scale int // positions along a side for each latent position, at this point of the program
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
// (B, 1, H, W, I) to (B, 1, H, W, O). The two frames before x are kept from call to
// call, in the compute type: this frame takes over the memory of the older of them. Zeros
// precede the first frame, so only the last frame of the
// kernel has an effect there.
func (p *programBuilder) causalConv(name string, x spmd.Tensor) spmd.Tensor {
	w := p.Weight(name + ".weight")
	x = p.Compute(x)
	if w.Shape[3] > 1 {
		x = p.zeroPadding(x)
	}
	if p.s.first {
		p.keepFirstFrame(name, x)
		return p.applyConv(name, x, p.Slice(w, 2, pastFrames, pastFrames+1))
	}
	seen := p.Concat(1, p.Value(port(name, -2)), p.Value(port(name, -1)), x)
	p.Output(port(name, 0), x, port(name, -2))
	return p.applyConv(name, seen, w)
}

// keepFirstFrame keeps the first frame that a convolution reads, and zeros in the place of the
// one before it, unless no frame follows.
func (p *programBuilder) keepFirstFrame(name string, x spmd.Tensor) {
	if p.s.layout.frames == 1 {
		return
	}
	for back := -pastFrames; back <= 0; back++ {
		p.s.Value(port(name, back), step.Value{DType: x.DType, Shape: x.Shape, Spec: x.Spec})
	}
	p.Output(port(name, 0), x, "")
	p.Output(port(name, -1), p.zerosLike(x), "")
}

// zerosLike is a tensor of zeros of the type and layout of x.
func (p *programBuilder) zerosLike(x spmd.Tensor) spmd.Tensor {
	return p.Global(p.LConst(x.DType, 0, p.Local(x).Shape...), x.Shape, x.Spec)
}

// applyConv convolves x with w (O, I, K...), with zeros around rows and columns and sums in
// f32, and adds the bias.
func (p *programBuilder) applyConv(name string, x, w spmd.Tensor) spmd.Tensor {
	rows, cols := w.Shape[3]/2, w.Shape[4]/2
	return p.Add(p.Conv(x, w, [][2]int{{}, {rows, rows}, {cols, cols}}, dtype.F32), p.Weight(name+".bias"))
}

// zeroPadding sets the rows and columns that are padding to zero, as a kernel expects beyond
// the edge.
func (p *programBuilder) zeroPadding(x spmd.Tensor) spmd.Tensor {
	l := p.s.layout
	return p.ZeroFrom(p.ZeroFrom(x, 2, p.scale*l.rows), 3, p.scale*l.cols)
}

// port names the input or output of a program that is bound to the frame of a value that lies
// by so many frames from the call's own.
func port(value string, offset int) string { return fmt.Sprintf("%s@%+d", value, offset) }

// frameName is the name of one frame of a value in the graph.
func frameName(value string, frame int) string { return fmt.Sprintf("%s.%d", value, frame) }

// outputFrames makes the frames of x (B, T, H, W, C) outputs for the next stage's program,
// which reads one at a time.
func (p *programBuilder) outputFrames(name string, x spmd.Tensor) {
	n := x.Dim(1)
	for t := range n {
		frame := p.Slice(x, 1, t, t+1)
		p.s.Value(port(name, t), step.Value{DType: frame.DType, Shape: frame.Shape, Spec: frame.Spec})
		p.Output(port(name, t), frame, "")
	}
}

// frameCall is a call of a program for one frame.
type frameCall struct {
	program string
	frame   int // the call's own, from which the offsets of ports count
	// frames has the own frame of values that run at another rate, by name.
	frames map[string]int
	// others has the values that ports are bound to whose frames are those of another value.
	others map[string]string
	trace  map[string][]int // the shapes of outputs that are traced, by value
}

// addCall adds a call. A port that is named like a parameter is bound to that parameter,
// V@-1 to the frame before the call's own of the value V, any other to the value of its name.
func (s *build) addCall(c frameCall) {
	p := s.Graph.Programs[c.program]
	bind := func(name string) (value, frame string) {
		at := strings.LastIndex(name, "@")
		if at < 0 {
			return name, name
		}
		offset, err := strconv.Atoi(name[at+1:])
		if err != nil {
			panic("wanvae: port " + name)
		}
		value = name[:at]
		own, ok := c.frames[value]
		if !ok {
			own = c.frame
		}
		frame = frameName(value, own+offset)
		if other, ok := c.others[frame]; ok {
			frame = other
		}
		return value, frame
	}
	call := graph.Call{Name: fmt.Sprintf("%s, frame %d", strings.TrimSuffix(c.program, ofTheFirstFrame), c.frame), Program: c.program, Trace: map[int]graph.Traced{}}
	for _, in := range p.Inputs {
		if s.Has(in.Name) {
			call.Args = append(call.Args, graph.Ref{Weight: true, Name: in.Name})
			continue
		}
		_, frame := bind(in.Name)
		call.Args = append(call.Args, graph.Ref{Name: frame})
	}
	for i, o := range p.Outputs {
		value, frame := bind(o.Name)
		call.Outs = append(call.Outs, frame)
		if shape, ok := c.trace[value]; ok {
			call.Trace[i] = graph.Traced{Name: frame, Shape: shape}
		}
	}
	s.Graph.Calls = append(s.Graph.Calls, call)
}
