package attention

import (
	"slices"

	"weft/fault"
	"weft/sharding"
	"weft/spmd"
)

// headAxes returns the axes that split the heads where the attention is computed: those that
// split them now, and behind them those that split the tokens and are no ring, which Ulysses moves
// to the heads.
func headAxes(b *spmd.Builder, p Parts) []string {
	tokens := p.K.Spec.Dim(1)
	if len(tokens) == 0 {
		return p.Q.Spec.Dim(2)
	}
	if !slices.Equal(p.Q.Spec.Dim(1), tokens) {
		b.Fail(fault.New(ErrOperands, nil, "query tokens are split over %v and key tokens over %v; both or neither", p.Q.Spec.Dim(1), tokens))
	}
	m, ring := b.Mesh(), ringAxes(p)
	if !slices.Equal(tokens[:len(ring)], ring) {
		b.Fail(fault.New(ErrOperands, nil, "tokens are split over %v: the axis of a ring is the first, so that the others gather neighbours", tokens))
	}
	tokens = tokens[len(ring):]
	if err := sharding.CheckHeads(p.Q.Dim(2), m.Parts(p.Q.Spec.Dim(2)), m.Parts(tokens)); err != nil {
		b.Fail(err)
	}
	return append(p.Q.Spec.Dim(2), tokens...)
}

// copyKeyHeads gives keys or values at least as many heads as there are devices that share
// the heads of q. Where there are fewer, it repeats each head for the neighbouring devices
// that use it. From there on the copies are heads like any other, and travel once each.
func copyKeyHeads(b *spmd.Builder, k, q spmd.Tensor) spmd.Tensor {
	_, copies, err := sharding.KVHeads(q.Dim(2), k.Dim(2), b.Mesh().Parts(q.Spec.Dim(2)))
	if err != nil {
		b.Fail(err)
	}
	if copies == 1 {
		return k
	}
	x := b.Local(k)
	n, s, h, d := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	x = b.LReshape(b.LBroadcast(b.LReshape(x, n, s, h, 1, d), n, s, h, copies, d), n, s, h*copies, d)
	shape := slices.Clone(k.Shape)
	shape[2] *= copies
	return b.Global(x, shape, k.Spec)
}

// tokenMover moves tensors (B, S, H, D) between devices and cuts them along their tokens.
type tokenMover struct {
	b *spmd.Builder
	// mergesHeads moves tensors as (B, S, H*D), as the kernel takes them. With D as a dim of
	// its own, a TPU would change the order in memory before the kernel and after it. Other
	// forms have heads as a dim.
	mergesHeads bool
}

// withMergedHeads applies change to tensors as they are moved.
func (m tokenMover) withMergedHeads(change func(xs []spmd.Tensor) spmd.Tensor, xs ...spmd.Tensor) spmd.Tensor {
	h, d := xs[0].Dim(2), xs[0].Dim(3)
	if !m.mergesHeads || slices.ContainsFunc(xs, func(x spmd.Tensor) bool { return len(x.Spec.Dim(3)) > 0 }) {
		return change(xs)
	}
	merged := make([]spmd.Tensor, len(xs))
	for i, x := range xs {
		merged[i] = m.b.MergeDims(x, 2, 2)
	}
	return m.b.SplitDim(change(merged), 2, h, d)
}

// reshard lays x out as spec says; why is written on the collectives.
func (m tokenMover) reshard(x spmd.Tensor, spec sharding.Spec, why string) spmd.Tensor {
	if spec.Equal(x.Spec) {
		return x
	}
	return m.withMergedHeads(func(xs []spmd.Tensor) spmd.Tensor {
		to := sharding.Whole(xs[0].Rank())
		for d := range xs[0].Rank() {
			to = to.WithDim(d, spec.Dim(d)...)
		}
		return m.b.Reshard(xs[0], to, why)
	}, x)
}

// splitHeads moves the operands from split tokens to heads split over the axes, by one
// all-to-all each (Ulysses). Along a ring the tokens stay split.
func (m tokenMover) splitHeads(p Parts, axes []string) Parts {
	ring := ringAxes(p)
	move := func(x spmd.Tensor, why string) spmd.Tensor {
		return m.reshard(x, x.Spec.WithDim(1, ring...).WithDim(2, axes...), why)
	}
	p.Q = move(p.Q, "ulysses: query tokens to heads")
	p.K = move(copyKeyHeads(m.b, p.K, p.Q), "ulysses: key tokens to heads")
	p.V = move(copyKeyHeads(m.b, p.V, p.Q), "ulysses: value tokens to heads")
	return p
}

// slice keeps tokens [from, to).
func (m tokenMover) slice(x spmd.Tensor, from, to int) spmd.Tensor {
	return m.withMergedHeads(func(xs []spmd.Tensor) spmd.Tensor { return m.b.Slice(xs[0], 1, from, to) }, x)
}

// concat lays the tokens of several tensors end to end.
func (m tokenMover) concat(xs ...spmd.Tensor) spmd.Tensor {
	return m.withMergedHeads(func(xs []spmd.Tensor) spmd.Tensor { return m.b.Concat(1, xs...) }, xs...)
}

// padTo adds tokens of zeros up to n.
func (m tokenMover) padTo(x spmd.Tensor, n int) spmd.Tensor {
	return m.withMergedHeads(func(xs []spmd.Tensor) spmd.Tensor { return m.b.PadTo(xs[0], 1, n) }, x)
}
