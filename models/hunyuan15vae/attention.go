package hunyuan15vae

import (
	"weft/attention"
	"weft/dtype"
	"weft/models/step"
	"weft/models/vae"
	"weft/sharding"
	"weft/spmd"
)

// addMiddle adds the middle of a half: residual blocks around an attention.
func (k *chain) addMiddle(half string) {
	width := k.s.m.c.Widths[len(k.s.m.c.Widths)-1]
	middle := half + ".mid_block"
	k.addResidual(middle, blockName(middle, 0), width, width)
	k.addAttention(middle + ".attentions.0")
	k.addResidual(middle, blockName(middle, 1), width, width)
}

// Ports of the attention: keys and values (B, T H W, 2 C) of all frames, of which the first ones
// are there, and how many those are.
const (
	memory = "memory"
	seen   = "seen"
)

// addAttention adds an attention with one head, from the positions of a frame to those of this
// frame and of the ones before it. Keys and values of all frames lie in one value, in whose memory
// each frame puts its own: so all frames share a program, which masks those that are not there yet.
// Every device keeps them all, since a head cannot be split; queries stay where they are.
func (k *chain) addAttention(name string) {
	from, l := k.x, k.s.Layout
	frames, perFrame := k.frames, l.Rows*l.Cols
	k.addStream(k.perLatent, moduleLayer(name), func(p *programBuilder) spmd.Tensor {
		x := p.Window(stream, from, 0)
		c := x.Dim(4)
		h := p.Compute(p.normChannels("norm", x))
		project := func(linear string) spmd.Tensor { return p.Compute(p.Linear(linear, h, l.Pictures)) }
		q := project("to_q")
		kv := p.Positions(p.Concat(4, project("to_k"), project("to_v")), "keys and values of all positions")
		var o attention.Options
		if frames > 1 {
			kv, o = p.remember(kv, frames, perFrame)
		}
		y := p.AttendWith(q, p.oneHead(kv, 0, c), p.oneHead(kv, c, 2*c), o)
		return p.Add(p.Linear("proj_out", p.Compute(y), l.Pictures), x)
	})
}

// oneHead is channels lo to hi of x (B, S, C) as one head.
func (p *programBuilder) oneHead(x spmd.Tensor, lo, hi int) spmd.Tensor {
	return p.SplitDim(p.Slice(x, 2, lo, hi), 2, 1, hi-lo)
}

// remember puts the keys and values of a frame (B, N, C) behind those of the frames before it, and
// returns all with the options of an attention that sees those which are there. For the first frame
// these are its own alone.
func (p *programBuilder) remember(kv spmd.Tensor, frames, perFrame int) (spmd.Tensor, attention.Options) {
	keys := frames * perFrame
	number := func(v spmd.Local) spmd.Tensor { return p.Global(v, []int{1}, sharding.Whole(1)) }
	if p.first {
		p.Output(vae.Port(memory, 0), p.PadTo(kv, 1, keys), "")
		p.Output(vae.Port(seen, 0), number(p.LConst(dtype.I32, float64(perFrame), 1)), "")
		return kv, attention.Options{}
	}
	p.Graph.Value(vae.Port(memory, -1), step.Value{DType: kv.DType, Shape: []int{kv.Dim(0), keys, kv.Dim(2)}, Spec: kv.Spec})
	p.Graph.Value(vae.Port(seen, -1), step.Value{DType: dtype.I32, Shape: []int{1}, Spec: sharding.Whole(1)})
	all, before := p.Value(vae.Port(memory, -1)), p.Local(p.Value(vae.Port(seen, -1)))
	all = p.Global(p.LDynUpdate(p.Local(all), p.Local(kv), 1, p.LReshape(before)), all.Shape, all.Spec)
	now := p.LAdd(before, p.LConst(dtype.I32, float64(perFrame), 1))
	mask := p.Global(p.LCompare("LT", p.LIota(dtype.I32, 3, 1, 1, 1, keys), p.LReshape(now)), []int{1, 1, 1, keys}, sharding.Whole(4))
	p.Output(vae.Port(memory, 0), all, vae.Port(memory, -1))
	p.Output(vae.Port(seen, 0), number(now), "")
	return all, attention.Options{Mask: &mask}
}
