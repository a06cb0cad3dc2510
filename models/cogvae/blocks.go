package cogvae

import (
	"weft/dtype"
	"weft/models/vae"
	"weft/spmd"
)

// programBuilder is one program under construction. Its frames are those of one batch.
type programBuilder struct {
	*vae.Program
	s *build
}

// normGroups is a group norm over all frames of the batch, with weight and bias.
func (p *programBuilder) normGroups(name string, x spmd.Tensor, eps float64) spmd.Tensor {
	return p.NormGroups(name, x, p.s.m.c.Groups, eps)
}

// spatialEps is the epsilon of the group norms that are followed by SiLU and the last
// convolution, and of those of the decoder, whatever the configuration has for the others.
const spatialEps = 1e-6

// norm is one of the norms of a half: it gives the parts of x along its frames, in order.
type norm func(name string, x spmd.Tensor) []spmd.Tensor

// plainNorm is the encoder's.
func (p *programBuilder) plainNorm(name string, x spmd.Tensor) []spmd.Tensor {
	return []spmd.Tensor{p.normGroups(name, x, p.s.m.c.Eps)}
}

// spatialNorm is the decoder's: a group norm, whose result is scaled and shifted by what two
// pointwise convolutions make of the latents z (B, T, H, W, C) of the same place and time. The
// convolutions are applied to the latents before these are repeated to the size of x, which
// is the same and costs a few hundred times less.
func (p *programBuilder) spatialNorm(z spmd.Tensor) norm {
	return func(name string, x spmd.Tensor) []spmd.Tensor {
		x = p.normGroups(name+".norm_layer", x, spatialEps)
		y := p.Linear(name+".conv_y.conv", z, p.s.Layout.Pictures)
		b := p.Linear(name+".conv_b.conv", z, p.s.Layout.Pictures)
		frames, latents := x.Dim(1), z.Dim(1)
		var out []spmd.Tensor
		part := func(from, to, latentsFrom, latentsTo int) {
			again := func(t spmd.Tensor) spmd.Tensor {
				t = p.Repeat(p.Slice(t, 1, latentsFrom, latentsTo), 1, (to-from)/(latentsTo-latentsFrom))
				return p.Repeat(p.Repeat(t, 2, p.PerLatent), 3, p.PerLatent)
			}
			out = append(out, p.Add(p.Mul(p.Slice(x, 1, from, to), again(y)), again(b)))
		}
		if frames > 1 && frames%2 == 1 { // the first frame is the first latent frame's alone
			part(0, 1, 0, 1)
			part(1, frames, 1, latents)
		} else {
			part(0, frames, 0, latents)
		}
		return out
	}
}

// pastFrames is the number of frames before its own that a causal convolution reads.
const pastFrames = 2

// causalConv applies a convolution whose kernel covers a frame and the two before it to the
// frames of a batch, which come in parts (B, t, H, W, I): (B, T, H, W, O). The two last frames
// are kept for the next batch, in the compute type and in the memory of those that were kept for
// this one. Before the first batch its first frame comes twice.
func (p *programBuilder) causalConv(name string, parts ...spmd.Tensor) spmd.Tensor {
	for i, x := range parts {
		parts[i] = p.ZeroPadding(p.Compute(x))
	}
	kept := ""
	if p.s.First {
		first := p.Slice(parts[0], 1, 0, 1)
		parts = append([]spmd.Tensor{first, first}, parts...)
	} else {
		kept = vae.Port(name, -1)
		parts = append([]spmd.Tensor{p.Value(kept)}, parts...)
	}
	seen := p.Concat(1, parts...)
	if p.s.continues {
		n := seen.Dim(1)
		past := p.Slice(seen, 1, n-pastFrames, n)
		if p.s.First {
			p.Keep(vae.Port(name, -1), past)
		}
		p.Output(vae.Port(name, 0), past, kept)
	}
	return p.ApplyConv(name, seen, p.Weight(name+".weight"))
}

// activate is SiLU of each part.
func (p *programBuilder) activate(parts []spmd.Tensor) []spmd.Tensor {
	for i, x := range parts {
		parts[i] = p.Silu(x)
	}
	return parts
}

// applyResidual applies a residual block: two convolutions with a shortcut around them. The
// residual stream is f32.
func (p *programBuilder) applyResidual(name string, x spmd.Tensor, norm norm) spmd.Tensor {
	y := p.causalConv(name+".conv1.conv", p.activate(norm(name+".norm1", x))...)
	y = p.causalConv(name+".conv2.conv", p.activate(norm(name+".norm2", y))...)
	if p.Has(name + ".conv_shortcut.weight") { // behind the convolutions, which need the most memory
		x = p.Linear(name+".conv_shortcut", p.Compute(x), p.s.Layout.Pictures)
	}
	return p.Add(y, x)
}

// applyUpsample doubles rows and columns and, with frames, the number of frames, of which the
// first of an odd number stays alone. The convolution takes each frame alone, so frames are
// repeated behind it: they are the same.
func (p *programBuilder) applyUpsample(name string, x spmd.Tensor, frames bool) spmd.Tensor {
	x = p.ZeroPadding(p.Compute(x))
	x = p.Repeat(p.Repeat(x, 2, 2), 3, 2)
	p.PerLatent *= 2
	x = p.ApplyConv(name, x, p.ExpandDim(p.Weight(name+".weight"), 2))
	n := x.Dim(1)
	switch {
	case !frames || n == 1:
		return x
	case n%2 == 1:
		return p.Concat(1, p.Slice(x, 1, 0, 1), p.Repeat(p.Slice(x, 1, 1, n), 1, 2))
	}
	return p.Repeat(x, 1, 2)
}

// applyDownsample halves rows and columns and, with frames, the number of frames: it takes the
// mean of each two, of which the first of an odd number stays alone, and then a convolution in
// steps of 2, with zeros below and to the right.
func (p *programBuilder) applyDownsample(name string, x spmd.Tensor, frames bool) spmd.Tensor {
	if frames {
		x = p.averagePairs(x)
	}
	w := p.ExpandDim(p.Weight(name+".weight"), 2)
	x = p.ConvStrided(p.ZeroPadding(p.Compute(x)), w, [][2]int{{}, {0, 1}, {0, 1}}, []int{1, 2, 2}, dtype.F32)
	p.PerLatent /= 2
	return p.Add(x, p.Weight(name+".bias"))
}

// averagePairs takes the mean of each two frames of x (B, T, H, W, C). The first of an odd number
// stays alone.
func (p *programBuilder) averagePairs(x spmd.Tensor) spmd.Tensor {
	n := x.Dim(1)
	alone := n % 2
	if n == 1 {
		return x
	}
	pairs := p.SplitDim(p.Slice(x, 1, alone, n), 1, n/2, 2)
	means := p.Scale(p.DropDim(p.Sum(pairs, 2), 2), 0.5)
	if alone == 0 {
		return means
	}
	return p.Concat(1, p.Slice(x, 1, 0, 1), means)
}
