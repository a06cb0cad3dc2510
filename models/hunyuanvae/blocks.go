package hunyuanvae

import (
	"weft/dtype"
	"weft/models/vae"
	"weft/spmd"
)

// programBuilder is one program under construction. Its frames are those of one tile.
type programBuilder struct {
	*vae.Program
	s *build
}

// eps is the epsilon of every norm.
const eps = 1e-6

// normGroups is a group norm over all frames of the tile.
func (p *programBuilder) normGroups(name string, x spmd.Tensor) spmd.Tensor {
	return p.NormGroups(name, x, p.s.m.c.Groups, eps)
}

// causalConv applies a convolution whose kernel covers a frame and the two before it, and a
// position and its neighbours: x (B, T, H, W, I) to (B, T', H', W', O). Beyond the edges it reads
// the nearest position, and before the first frame that frame.
func (p *programBuilder) causalConv(name string, x spmd.Tensor, strides ...int) spmd.Tensor {
	y := p.ConvReplicated(p.Compute(x), p.Weight(name+".weight"), [][2]int{{2, 0}, {1, 1}, {1, 1}}, strides, p.Sizes(x), dtype.F32)
	return p.Add(y, p.Weight(name+".bias"))
}

// applyResidual applies a residual block: two convolutions with a shortcut around them. The
// residual stream is f32.
func (p *programBuilder) applyResidual(name string, x spmd.Tensor) spmd.Tensor {
	y := p.causalConv(name+".conv1.conv", p.Silu(p.normGroups(name+".norm1", x)))
	y = p.causalConv(name+".conv2.conv", p.Silu(p.normGroups(name+".norm2", y)))
	if p.Has(name + ".conv_shortcut.conv.weight") { // behind the convolutions, which need the most memory
		x = p.Linear(name+".conv_shortcut.conv", p.Compute(x), p.s.Layout.Pictures)
	}
	return p.Add(y, x)
}

// applyMiddle applies the middle of a half: residual blocks around an attention.
func (p *programBuilder) applyMiddle(half string, x spmd.Tensor) spmd.Tensor {
	x = p.applyResidual(half+".mid_block.resnets.0", x)
	if p.s.m.c.Attends {
		x = p.attendCausally(half+".mid_block.attentions.0", x)
	}
	return p.applyResidual(half+".mid_block.resnets.1", x)
}

// attendCausally applies attention with one head from the positions of each frame of x
// (B, T, H, W, C) to those of this frame and the ones before it. Each device keeps the queries of
// its own positions; keys and values are gathered, without padding. The frames take their turns,
// each with as many keys as it sees: so no mask is needed, and no score is computed to be masked.
func (p *programBuilder) attendCausally(name string, x spmd.Tensor) spmd.Tensor {
	l, c := p.s.Layout, x.Dim(4)
	h := p.Compute(p.normGroups(name+".group_norm", x))
	project := func(linear string) spmd.Tensor { return p.Compute(p.Linear(name+"."+linear, h, l.Pictures)) }
	q := project("to_q")
	kv := p.Positions(p.Concat(4, project("to_k"), project("to_v")), "keys and values of all positions")
	perFrame := l.Rows * l.Cols
	var frames []spmd.Tensor
	for t := range x.Dim(1) {
		seen := p.Slice(kv, 1, 0, (t+1)*perFrame)
		k, v := p.SplitDim(p.Slice(seen, 2, 0, c), 2, 1, c), p.SplitDim(p.Slice(seen, 2, c, 2*c), 2, 1, c)
		frames = append(frames, p.AttendOver(p.Slice(q, 1, t, t+1), k, v))
	}
	return p.Add(p.Linear(name+".to_out.0", p.Compute(p.Concat(1, frames...)), l.Pictures), x)
}

// applyUpsample doubles rows and columns and, with frames, the number of all frames but the
// first, and applies a convolution.
func (p *programBuilder) applyUpsample(name string, x spmd.Tensor, frames bool) spmd.Tensor {
	x = p.Compute(x)
	if n := x.Dim(1); frames && n > 1 {
		x = p.Concat(1, p.Slice(x, 1, 0, 1), p.Repeat(p.Slice(x, 1, 1, n), 1, 2))
	}
	x = p.Repeat(p.Repeat(x, 2, 2), 3, 2)
	p.PerLatent *= 2
	return p.causalConv(name, x)
}

// applyDownsample halves rows and columns and, with frames, the number of all frames but the
// first: a convolution in steps of 2.
func (p *programBuilder) applyDownsample(name string, x spmd.Tensor, frames bool) spmd.Tensor {
	strides := []int{1, 2, 2}
	if frames {
		strides[0] = 2
	}
	x = p.causalConv(name, x, strides...)
	p.PerLatent /= 2
	return x
}
