package vae

import (
	"weft/attention"
	"weft/dtype"
	"weft/models/step"
	"weft/sharding"
	"weft/spmd"
)

// Program is one program of a graph under construction.
type Program struct {
	*step.ProgramBuilder
	Graph     *Build
	PerLatent int // positions along a side for each latent position, at this point of the program
}

// Define builds a program, which begins at perLatent positions along a side for each latent
// position.
func (s *Build) Define(name string, perLatent int, define func(p *Program)) error {
	return s.Build(name, "", func(base *step.ProgramBuilder) { define(&Program{base, s, perLatent}) })
}

// Keep declares x as a value that other programs read under the name of a port.
func (p *Program) Keep(port string, x spmd.Tensor) {
	p.Graph.Value(port, step.Value{DType: x.DType, Shape: x.Shape, Spec: x.Spec})
}

// OutputFrames makes the frames of x (B, T, H, W, C) outputs for the next program,
// which reads one at a time.
func (p *Program) OutputFrames(name string, x spmd.Tensor) {
	n := x.Dim(1)
	for t := range n {
		frame := p.Slice(x, 1, t, t+1)
		p.Keep(Port(name, t), frame)
		p.Output(Port(name, t), frame, "")
	}
}

// OutputValue makes x an output for later programs under the name of a value, whole.
func (p *Program) OutputValue(name string, x spmd.Tensor) {
	p.Keep(Port(name, 0), x)
	p.Output(Port(name, 0), x, "")
}

// ZerosLike is a tensor of zeros of the type and layout of x.
func (p *Program) ZerosLike(x spmd.Tensor) spmd.Tensor {
	return p.Global(p.LConst(x.DType, 0, p.Local(x).Shape...), x.Shape, x.Spec)
}

// CutOver pads the rows and columns of pictures (B, T, H, W, C) and cuts them over the mesh.
func (p *Program) CutOver(x spmd.Tensor) spmd.Tensor {
	l := p.Graph.Layout
	x = p.PadTo(p.PadTo(x, 2, p.PerLatent*l.Padded[0]), 3, p.PerLatent*l.Padded[1])
	return p.Reshard(x, l.Pictures, "rows and columns cut over the mesh")
}

// ZeroPadding sets the rows and columns that are padding to zero, as a kernel expects beyond
// the edge.
func (p *Program) ZeroPadding(x spmd.Tensor) spmd.Tensor {
	l := p.Graph.Layout
	return p.ZeroFrom(p.ZeroFrom(x, 2, p.PerLatent*l.Rows), 3, p.PerLatent*l.Cols)
}

// Sizes are the numbers of frames, rows and columns of x (B, T, H, W, C) that are no padding.
func (p *Program) Sizes(x spmd.Tensor) []int {
	l := p.Graph.Layout
	return []int{x.Dim(1), p.PerLatent * l.Rows, p.PerLatent * l.Cols}
}

// NormGroups is a group norm over all positions of x (B, T, H, W, C), with weight and bias.
func (p *Program) NormGroups(name string, x spmd.Tensor, groups int, eps float64) spmd.Tensor {
	x = p.GroupNorm(x, groups, eps, p.Sizes(x))
	return p.Add(p.Mul(x, p.Weight(name+".weight")), p.Weight(name+".bias"))
}

// ApplyConv convolves x (B, T, H, W, I) with w (O, I, K...), with zeros around rows and columns
// and sums in f32, and adds the bias of name.
func (p *Program) ApplyConv(name string, x, w spmd.Tensor) spmd.Tensor {
	return p.Add(p.convInFrame(x, w), p.Weight(name+".bias"))
}

// convInFrame is ApplyConv without the bias.
func (p *Program) convInFrame(x, w spmd.Tensor) spmd.Tensor {
	rows, cols := w.Shape[3]/2, w.Shape[4]/2
	return p.Conv(x, w, [][2]int{{}, {rows, rows}, {cols, cols}}, dtype.F32)
}

// PastFrames is the number of frames before its own that a causal convolution reads.
const PastFrames = 2

// CausalConv applies a convolution whose kernel covers a frame and the two before it: x
// (B, 1, H, W, I) to (B, 1, H, W, O). The two frames before x are kept from call to
// call, in the compute type: this frame takes over the memory of the older of them. Zeros
// precede the first frame, so only the last frame of the
// kernel has an effect there. A convolution to fewer channels keeps sums in place of frames.
func (p *Program) CausalConv(name string, x spmd.Tensor) spmd.Tensor {
	w := p.Weight(name + ".weight")
	x = p.Compute(x)
	if w.Shape[3] > 1 {
		x = p.ZeroPadding(x)
	}
	if w.Shape[0] < w.Shape[1] {
		return p.convKeepingSums(name, x, w)
	}
	if p.Graph.First {
		p.KeepFirstFrame(name, x)
		return p.ApplyConv(name, x, p.Slice(w, 2, PastFrames, PastFrames+1))
	}
	oldest := p.Value(Port(name, -2))
	y, kept := p.ReplaceAfter(p.convInFrame(p.Concat(1, oldest, p.Value(Port(name, -1)), x), w), oldest, x)
	p.Output(Port(name, 0), kept, Port(name, -2))
	return p.Add(y, p.Weight(name+".bias"))
}

// convKeepingSums is CausalConv for a kernel with fewer outputs than inputs. What the kernel makes
// of this frame for the next one, added to what it made of the frame before, and what it makes for
// the one after are kept, because they are smaller than frames. The sums are those of CausalConv, in
// its order. Where frames follow, the kernel's places along time are one convolution to as many times
// the channels, so that edges of a split picture are exchanged once.
func (p *Program) convKeepingSums(name string, x, w spmd.Tensor) spmd.Tensor {
	if p.Graph.Layout.Frames == 1 {
		return p.ApplyConv(name, x, p.Slice(w, 2, PastFrames, PastFrames+1))
	}
	channels := w.Shape[0]
	all := p.convInFrame(x, p.ExpandDim(p.MergeDims(p.Transpose(w, 2, 0, 1, 3, 4), 0, 2), 2))
	at := func(place int) spmd.Tensor { // the kernel's place along time
		return p.Reduced(p.Slice(all, 4, place*channels, (place+1)*channels), "sums that are kept are whole")
	}
	y, forNext, forAfter := at(PastFrames), at(PastFrames-1), at(PastFrames-2)
	next, after := name+".next", name+".after"
	p.keepSums(next, forNext)
	p.keepSums(after, forAfter)
	if p.Graph.First {
		p.Output(Port(next, 0), forNext, "")
		p.Output(Port(after, 0), forAfter, "")
	} else {
		y = p.Add(p.Value(Port(next, -1)), y)
		p.Output(Port(next, 0), p.Add(p.Value(Port(after, -1)), forNext), Port(next, -1))
		p.Output(Port(after, 0), forAfter, Port(after, -1))
	}
	return p.Add(y, p.Weight(name+".bias"))
}

// keepSums declares sums as values that the call of the next frame reads.
func (p *Program) keepSums(name string, x spmd.Tensor) {
	p.Keep(Port(name, -1), x)
	p.Keep(Port(name, 0), x)
}

// KeepFirstFrame keeps the first frame that a convolution reads, and zeros in the place of the
// one before it, unless no frame follows.
func (p *Program) KeepFirstFrame(name string, x spmd.Tensor) {
	if p.Graph.Layout.Frames == 1 {
		return
	}
	for back := -PastFrames; back <= 0; back++ {
		p.Keep(Port(name, back), x)
	}
	p.Output(Port(name, 0), x, "")
	p.Output(Port(name, -1), p.ZerosLike(x), "")
}

// Positions gathers x (B, T, H, W, C) of latents' size, of which several devices may hold parts,
// without the rows and columns that are padding: (B, T H W, C).
func (p *Program) Positions(x spmd.Tensor, reason string) spmd.Tensor {
	l := p.Graph.Layout
	x = p.Reshard(x, l.Batch, reason)
	return p.MergeDims(p.Slice(p.Slice(x, 2, 0, l.Rows), 3, 0, l.Cols), 1, 3)
}

// AttendOver applies attention with one head from the positions of q (B, 1, H, W, C) to keys and
// values (B, S, 1, C): (B, 1, H, W, C). Each device flattens its own positions, since attention
// does not depend on the order of queries.
func (p *Program) AttendOver(q, k, v spmd.Tensor) spmd.Tensor {
	return p.AttendWith(q, k, v, attention.Options{})
}

// AttendWith is AttendOver with options.
func (p *Program) AttendWith(q, k, v spmd.Tensor, o attention.Options) spmd.Tensor {
	c := q.Dim(4)
	own := p.Local(q)
	tokens := p.Global(p.LReshape(own, own.Shape[0], own.Shape[2]*own.Shape[3], 1, c), []int{q.Shape[0], q.Shape[2] * q.Shape[3], 1, c},
		sharding.NewSpec(q.Spec.Dim(0), append(q.Spec.Dim(2), q.Spec.Dim(3)...)))
	y := attention.Attend(p.Builder, tokens, k, v, o)
	return p.Global(p.LReshape(p.Local(y), own.Shape...), q.Shape, q.Spec)
}

// The bounds of the logarithm of a posterior's variance, as every reference has them.
const (
	LeastLogvar = -30
	MostLogvar  = 20
)

// OutputPosterior makes the outputs of the posteriors of frames of their parameters x
// (B, T, H, W, 2 C), (B, C, 1, H, W) each: encode, which normalise makes of the mean,
// encode_mean, the mean itself, and encode_logvar, the logarithm of the variance.
func (p *Program) OutputPosterior(x spmd.Tensor, normalise func(mean spmd.Tensor) spmd.Tensor) {
	n := x.Dim(4) / 2
	mean, logvar := p.Slice(x, 4, 0, n), p.Slice(x, 4, n, 2*n)
	if !p.Step.Request.Tile {
		logvar = p.AtMost(p.AtLeast(logvar, LeastLogvar), MostLogvar)
	}
	for _, o := range []struct {
		name string
		x    spmd.Tensor
	}{{"encode", normalise(mean)}, {"encode_mean", mean}, {"encode_logvar", logvar}} {
		y := p.Transpose(o.x, 0, 4, 1, 2, 3)
		for t := range y.Dim(2) {
			p.Output(Port(o.name, t), p.Slice(y, 2, t, t+1), "")
		}
	}
}
