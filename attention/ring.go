package attention

import (
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/sharding"
	"weft/spmd"
)

// A ring (Liu et al., Ring Attention with Blockwise Transformers). Each device has the queries of its
// own tokens and, in turn, the keys and values of each device of the ring: it folds those that it has
// into the running softmax of its queries while they travel on. After as many turns as there are devices
// every query has seen every key. No turn sends anything that the next does not need, so that a ring of
// n sends keys and values n-1 times.
//
// Together with Ulysses (USP, Fang and Zhao) the ring is the outer of the two: all-to-alls gather the
// tokens of neighbours first.

// ringAxes returns those axes of the tokens along which keys travel.
func ringAxes(p Parts) []string {
	return slices.DeleteFunc(p.K.Spec.Dim(1), func(axis string) bool { return axis != mesh.Ring })
}

// attendInRing computes what computeLocally does where the video's tokens are split over a ring. Keys of a
// text, which are whole, belong to every device: each folds them into its own queries. The text's queries
// are whole too; each device folds its own keys into them, and one reduction joins what the devices have,
// so that all have the same result.
func (s sequence) attendInRing(b *spmd.Builder, m tokenMover, f formPlan, ring []string, o Options) (textOut, videoOut spmd.Tensor) {
	s.refuseInRing(b, o)
	spec := sharding.Whole(4).WithDim(0, s.video.Q.Spec.Dim(0)...).WithDim(2, s.video.Q.Spec.Dim(2)...)
	tokens := spec.WithDim(1, ring...)
	q := b.Reshard(s.video.Q, tokens, "queries whole along the head dim: scores sum over it")
	k := b.Reshard(copyKeyHeads(b, s.video.K, q), tokens, "keys held as the queries are")
	v := b.Reshard(copyKeyHeads(b, s.video.V, q), tokens, "values held as the queries are")
	r := &ringCall{b: b, axes: ring, folder: f.fold(b, b.Local(q), b.Local(k).Shape[2]), own: b.Local(k).Shape[1]}
	realKeys := o.Keys
	if s.text != nil {
		realKeys = s.realVideo
		r.textK = r.localText(b, s.text.K, q, m, spec)
		r.textV = r.localText(b, s.text.V, q, m, spec)
	}
	if realKeys > 0 && realKeys < k.Dim(1) {
		r.real = realKeys
	}
	r.splitByKeys(b, o, s, k.Dim(1), q.Spec, ring)
	var text keyFolder
	var textQ spmd.Tensor
	if s.textAttends {
		textQ = m.reshard(s.text.Q, spec, "joint ulysses: text cut by heads")
		text = f.fold(b, b.Local(textQ), b.Local(k).Shape[2])
	}
	videoState, textState := r.turn(b.Local(k), b.Local(v), text)
	videoOut = b.Global(r.folder.result(videoState), q.Shape, q.Spec)
	if s.text != nil && s.textAttends {
		videoOut = b.ZeroFrom(videoOut, 1, s.realVideo) // as queries, padding gives zeros
		textOut = b.Global(text.result(*textState), textQ.Shape, textQ.Spec)
	}
	return textOut, videoOut
}

// refuseInRing fails the build of an attention whose scores depend on the place of a query: no device of
// a ring knows where the keys that it has begin before the program runs.
func (s sequence) refuseInRing(b *spmd.Builder, o Options) {
	byQuery := func(x *spmd.Tensor) bool { return x != nil && x.Shape[2] > 1 }
	if o.Causal || o.Relative != nil || byQuery(o.Mask) || byQuery(o.Bias) {
		b.Fail(fault.New(ErrOperands, nil, "tokens split over a ring with a causal attention, a bias by distance, or a mask or bias for each query: "+
			"a ring passes on what belongs to keys alone; split the tokens over sp"))
	}
}

// ringCall is one attention along a ring, as each device computes it.
type ringCall struct {
	b            *spmd.Builder
	axes         []string
	folder       keyFolder
	own          int // keys of a device
	real         int // of all keys; 0 where none is padding
	textK, textV *spmd.Local
	// bias and mask are those of the device's own keys, and textBias and textMask those of the text's.
	bias, mask, textBias, textMask *spmd.Local
}

// localText cuts the text's keys or values as the queries' heads are cut.
func (r *ringCall) localText(b *spmd.Builder, x, q spmd.Tensor, m tokenMover, spec sharding.Spec) *spmd.Local {
	text := b.Local(m.reshard(copyKeyHeads(b, x, q), spec, "joint ulysses: text cut by heads"))
	return &text
}

// splitByKeys cuts a bias and a mask (B|1, H|1, 1, Sk) into the text's part and the video's, and the
// video's as its keys are split.
func (r *ringCall) splitByKeys(b *spmd.Builder, o Options, s sequence, padded int, queries sharding.Spec, ring []string) {
	cut := func(x *spmd.Tensor, what string) (text, video *spmd.Local) {
		if x == nil {
			return nil, nil
		}
		own := *x
		if s.text != nil {
			n := s.text.K.Dim(1)
			first, second := n, s.realVideo
			if !s.textFirst {
				first, second = second, first
			}
			head, tail := b.Slice(own, 3, 0, first), b.Slice(own, 3, first, first+second)
			if !s.textFirst {
				head, tail = tail, head
			}
			text, own = splitAsScores(b, &head, queries.WithDim(1), what), tail
		}
		spec := sharding.Whole(4)
		for d, axes := range [][]string{queries.Dim(0), queries.Dim(2)} {
			if own.Shape[d] > 1 {
				spec = spec.WithDim(d, axes...)
			}
		}
		part := b.Local(b.Reshard(b.PadTo(own, 3, padded), spec.WithDim(3, ring...), what+" held as the keys are"))
		return text, &part
	}
	r.textBias, r.bias = cut(o.Bias, "bias")
	r.textMask, r.mask = cut(o.Mask, "mask")
}

// turn folds all keys into the queries' states. In each turn but the last, keys and values are sent on
// before those that are here are folded, so that a compiler may do both at once.
func (r *ringCall) turn(k, v spmd.Local, text keyFolder) (video runningSoftmax, textState *runningSoftmax) {
	b, turns := r.b, r.b.Mesh().Parts(r.axes)
	k, v = r.folder.order(k), r.folder.order(v)
	bias, mask := r.bias, r.mask
	video = r.folder.empty()
	if text != nil { // of the device's own keys, and then of all devices'
		own := text.fold(text.empty(), k, v, bias, mask, r.validIn(0, turns))
		own = text.joined(own, r.axes)
		own = text.fold(own, text.order(*r.textK), text.order(*r.textV), r.textBias, r.textMask, nil)
		textState = &own
	}
	if r.textK != nil {
		video = r.folder.fold(video, r.folder.order(*r.textK), r.folder.order(*r.textV), r.textBias, r.textMask, nil)
	}
	rotate := func(x *spmd.Local, why string) *spmd.Local {
		if x == nil {
			return nil
		}
		next := b.LRotate(*x, r.axes, why)
		return &next
	}
	for t := range turns {
		nextK, nextV, nextBias, nextMask := k, v, bias, mask
		if t < turns-1 {
			nextK, nextV = *rotate(&k, "ring: keys to the next device"), *rotate(&v, "ring: values to the next device")
			nextBias, nextMask = rotate(bias, "ring: bias to the next device"), rotate(mask, "ring: mask to the next device")
		}
		video = r.folder.fold(video, k, v, bias, mask, r.validIn(t, turns))
		k, v, bias, mask = nextK, nextV, nextBias, nextMask
	}
	return video, textState
}

// validIn says how many of the keys that a device has in a turn are real: those of the device that is so
// many places before it. nil where all keys of the ring are.
func (r *ringCall) validIn(turn, turns int) *spmd.Local {
	if r.real == 0 {
		return nil
	}
	b := r.b
	number := func(n int) spmd.Local { return b.LConst(dtype.I32, float64(n)) }
	from := b.LSub(b.LAxisIndex(r.axes...), number(turn))
	if turn > 0 {
		from = b.LSelect(b.LCompare("LT", from, number(0)), b.LAdd(from, number(turns)), from)
	}
	valid := b.LSub(number(r.real), b.LMul(from, number(r.own)))
	return &valid
}
