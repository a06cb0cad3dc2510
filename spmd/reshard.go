package spmd

import (
	"slices"

	"weft/program"
	"weft/sharding"
)

// reshard is a change of layout that was made.
type reshard struct {
	shape    []int
	from, to sharding.Spec
	made     Local
}

// Reshard brings t to another layout by the cheapest steps that sharding.Reshard
// finds. It reduces partial sums over axes that spec does not list. Every collective
// carries reason. A tensor that was brought to a layout before is not brought there again.
func (b *Builder) Reshard(t Tensor, spec sharding.Spec, reason string) Tensor {
	spec = b.canonicalSpec("reshard", t.Shape, spec)
	if spec.Equal(t.Spec) {
		return t
	}
	for _, r := range b.resharded[t.local.ID] {
		if slices.Equal(r.shape, t.Shape) && r.from.Equal(t.Spec) && r.to.Equal(spec) {
			return b.Global(r.made, t.Shape, spec)
		}
	}
	steps, err := sharding.Reshard(b.mesh, t.Spec, spec, t.Shape, t.DType.Size())
	if err != nil {
		b.fail(err)
	}
	v := t.local
	for _, s := range steps {
		switch s.Op {
		case sharding.Slice:
			v = b.sliceAxes(v, s.Dim, s.Axes)
		case sharding.AllReduce:
			v = b.LAllReduce(program.Sum, v, s.Axes, reason)
		case sharding.AllGather:
			v = b.LAllGather(v, s.Dim, s.Axes, reason)
		case sharding.ReduceScatter:
			v = b.LReduceScatter(v, s.Dim, s.Axes, reason)
		case sharding.AllToAll:
			v = b.LAllToAll(v, s.SplitDim, s.ConcatDim, s.Axes, reason)
		case sharding.Permute:
			v = b.LPermute(v, s.Pairs, s.Axes, reason)
		}
	}
	if b.depth == 0 { // a value that a loop makes cannot be used outside of it
		id := t.local.ID
		b.resharded[id] = append(b.resharded[id], reshard{t.Shape, t.Spec, spec, v})
	}
	return b.Global(v, t.Shape, spec)
}

// sliceAxes keeps this device's shard of dim along axes, without traffic.
func (b *Builder) sliceAxes(v Local, dim int, axes []string) Local {
	n := b.mesh.Size(axes...)
	size := v.Shape[dim] / n
	start := b.LMul(b.LAxisIndex(axes...), b.constI32(size))
	return b.LDynSlice(v, dim, start, size)
}

// Reduced is t with its partial sums reduced and its dims sharded as before.
func (b *Builder) Reduced(t Tensor, reason string) Tensor {
	if len(t.Spec.Partial()) == 0 {
		return t
	}
	return b.Reshard(t, t.Spec.WithoutPartial(t.Spec.Partial()...), reason)
}

// ReducedTogether is Reduced for several tensors, in as few collectives as possible:
// tensors of one type and layout, and of one shape but for the last dim, are
// concatenated along it and reduced as one. The time of a small reduction is its
// latency, whatever its bytes.
func (b *Builder) ReducedTogether(reason string, ts ...Tensor) []Tensor {
	out := make([]Tensor, len(ts))
	done := make([]bool, len(ts))
	for i, t := range ts {
		if done[i] {
			continue
		}
		group := []int{i}
		for j := i + 1; j < len(ts) && len(t.Spec.Partial()) > 0; j++ {
			if !done[j] && b.canReduceTogether(t, ts[j]) {
				group = append(group, j)
			}
		}
		if len(group) == 1 {
			out[i] = b.Reduced(t, reason)
			continue
		}
		last := t.Rank() - 1
		parts := make([]Local, len(group))
		for k, j := range group {
			parts[k] = ts[j].local
			done[j] = true
		}
		all := b.LAllReduce(program.Sum, b.LConcat(last, parts...), t.Spec.Partial(), reason)
		at := 0
		for k, j := range group {
			n := parts[k].Shape[last]
			out[j] = b.Global(b.LSlice(all, last, at, at+n), ts[j].Shape, ts[j].Spec.WithoutPartial(ts[j].Spec.Partial()...))
			at += n
		}
	}
	return out
}

func (b *Builder) canReduceTogether(x, y Tensor) bool {
	last := x.Rank() - 1
	return last >= 0 && y.Rank() == x.Rank() && x.DType == y.DType && x.Spec.Equal(y.Spec) &&
		len(x.Spec.Dim(last)) == 0 && slices.Equal(x.local.Shape[:last], y.local.Shape[:last])
}

// withoutAxes returns spec without axes on every dim but keep, where -1 keeps none, and
// whether that changed it.
func withoutAxes(spec sharding.Spec, rank, keep int, axes []string) (sharding.Spec, bool) {
	changed := false
	for d := 0; d < rank; d++ {
		if d == keep {
			continue
		}
		left := []string{}
		for _, a := range spec.Dim(d) {
			drop := false
			for _, x := range axes {
				drop = drop || x == a
			}
			if drop {
				changed = true
			} else {
				left = append(left, a)
			}
		}
		spec = spec.WithDim(d, left...)
	}
	return spec, changed
}
