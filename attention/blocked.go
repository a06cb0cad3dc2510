package attention

import (
	"math"

	"weft/dtype"
	"weft/spmd"
)

// blocked is attention on one device.
//
//	q (B, Sq, H, D), k and v (B, Sk, Hkv, D), H a multiple of Hkv; result (B, Sq, H, D)
//
// Query head h uses key head h / (H/Hkv): grouped heads become rows of one
// matmul, k and v are never copied. Lengths that are no multiple of a block end
// in a shorter block of its own, so nothing is padded and nothing masked for it.
//
// bias and mask, where there is one, have shape (B|1, H|1, Sq|1, Sk). bias is
// added to the scaled scores; where mask does not hold they become NegInf.
// table (buckets, H) is o.Relative's for these heads.
// Scores and the running sums are f32 whatever the operands are.
func blocked(b *spmd.Builder, q, k, v spmd.Local, bias, mask, table *spmd.Local, o Options) spmd.Local {
	batch, sq, heads, d := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3]
	sk, kv := k.Shape[1], k.Shape[2]
	a := &blockedCall{b: b, o: o, batch: batch, kv: kv, group: heads / kv, d: d, bias: bias, mask: mask, table: table, out: q.DType}

	// Heads before tokens, so that every block is a plain batched matmul.
	q = b.LTranspose(b.LReshape(q, batch, sq, kv, a.group, d), 0, 2, 3, 1, 4) // B Hkv G Sq D
	q = b.LReshape(q, a.rows(sq)...)
	k = b.LReshape(b.LTranspose(k, 0, 2, 1, 3), batch*kv, sk, d)
	v = b.LReshape(b.LTranspose(v, 0, 2, 1, 3), batch*kv, sk, d)

	out := a.heads(q, k, v)
	out = b.LReshape(out, batch, kv, a.group, sq, d)
	return b.LReshape(b.LTranspose(out, 0, 3, 1, 2, 4), batch, sq, heads, d)
}

// heads attends with a few heads at a time, where the target wants it: their
// blocks of scores stay in a near cache. A bias, mask or table is cut by batch and head,
// so it takes all heads at once.
func (a *blockedCall) heads(q, k, v spmd.Local) spmd.Local {
	b, n := a.b, q.Shape[0]
	few := a.o.HeadBlock
	for few > 0 && n%few != 0 {
		few--
	}
	if few < 1 || few >= n || a.bias != nil || a.mask != nil || a.table != nil {
		return a.tokens(q, k, v)
	}
	acc := b.LConst(a.out, 0, q.Shape...)
	return b.LLoop(n/few, []spmd.Local{acc}, func(i spmd.Local, c []spmd.Local) []spmd.Local {
		at := b.LMul(i, b.LConst(dtype.I32, float64(few)))
		out := a.tokens(b.LDynSlice(q, 0, at, few), b.LDynSlice(k, 0, at, few), b.LDynSlice(v, 0, at, few))
		return []spmd.Local{b.LDynUpdate(c[0], out, 0, at)}
	})[0]
}

// tokens attends with all queries of some heads, block by block.
func (a *blockedCall) tokens(q, k, v spmd.Local) spmd.Local {
	b, sq := a.b, q.Shape[len(q.Shape)-2]
	a.k, a.v = k, v
	if a.o.Causal {
		return a.causal(q)
	}
	bq := spmd.EvenBlock(sq, a.o.BlockQ)
	full := sq / bq
	if sq == bq {
		return a.queries(q, b.LConst(dtype.I32, 0), sq)
	}
	token := len(q.Shape) - 2
	acc := b.LConst(a.out, 0, q.Shape...)
	acc = b.LLoop(full, []spmd.Local{acc}, func(i spmd.Local, c []spmd.Local) []spmd.Local {
		start := b.LMul(i, b.LConst(dtype.I32, float64(bq)))
		block := a.queries(b.LDynSlice(q, token, start, bq), start, bq)
		return []spmd.Local{b.LDynUpdate(c[0], block, token, start)}
	})[0]
	if rest := sq - full*bq; rest > 0 {
		start := b.LConst(dtype.I32, float64(full*bq))
		block := a.queries(b.LSlice(q, token, full*bq, sq), start, rest)
		acc = b.LDynUpdate(acc, block, token, start)
	}
	return acc
}

// causalBlocks is how many blocks of queries a causal call is written out in, at most.
const causalBlocks = 16

// causal attends block of queries by block, each to the keys up to its own end:
// blocks of scores above the diagonal are not computed, and those below need no
// mask. How far a block sees differs, so they are written out and not looped over.
func (a *blockedCall) causal(q spmd.Local) spmd.Local {
	b, token := a.b, len(q.Shape)-2
	sq, sk := q.Shape[token], a.k.Shape[1]
	bq := spmd.EvenBlock(sq, max(a.o.BlockQ, (sq+causalBlocks-1)/causalBlocks))
	var blocks []spmd.Local
	for start := 0; start < sq; start += bq {
		n := min(bq, sq-start)
		at := b.LConst(dtype.I32, float64(start))
		blocks = append(blocks, a.seeing(b.LSlice(q, token, start, start+n), at, n, min(start, sk), min(start+n, sk)))
	}
	return b.LConcat(token, blocks...)
}

// blockedCall is what one call's blocks share.
type blockedCall struct {
	b                   *spmd.Builder
	o                   Options
	batch, kv, group, d int
	k, v                spmd.Local // of the heads at hand: (heads, Sk, D)
	bias, mask, table   *spmd.Local
	out                 dtype.DType
}

// rows is the shape of query-like values: (B*Hkv, Sq, D), or (B*Hkv, G, Sq, D) for grouped heads.
func (a *blockedCall) rows(sq int) []int {
	if a.group == 1 {
		return []int{a.batch * a.kv, sq, a.d}
	}
	return []int{a.batch * a.kv, a.group, sq, a.d}
}

// state is the running softmax of one block of queries: the maximum so far, the
// sum of exponentials and the weighted sum of values, both relative to it.
type state struct{ m, l, acc spmd.Local }

// queries attends with one block of n queries that starts at token start.
func (a *blockedCall) queries(q, start spmd.Local, n int) spmd.Local {
	return a.seeing(q, start, n, a.k.Shape[1], a.k.Shape[1])
}

// seeing is queries where each query sees the first all keys, and of those from
// there to end the ones up to its own place.
func (a *blockedCall) seeing(q, start spmd.Local, n, all, end int) spmd.Local {
	b := a.b
	stat := append(append([]int{}, q.Shape[:len(q.Shape)-1]...), 1)
	s := state{
		m:   b.LConst(dtype.F32, spmd.NegInf, stat...),
		l:   b.LConst(dtype.F32, 0, stat...),
		acc: b.LConst(dtype.F32, 0, q.Shape...),
	}
	s = a.between(q, start, n, 0, all, false, s)
	s = a.between(q, start, n, all, end, true, s)
	return b.LConvert(b.LDiv(s.acc, s.l), a.out)
}

// between folds keys [lo, hi) into the state, block by block; on the diagonal a
// query sees those up to its own place.
func (a *blockedCall) between(q, start spmd.Local, n, lo, hi int, diagonal bool, s state) state {
	if lo == hi {
		return s
	}
	b := a.b
	fold := func(lo, hi int, s state) state {
		return a.keys(q, start, n, b.LSlice(a.k, 1, lo, hi), b.LSlice(a.v, 1, lo, hi), b.LConst(dtype.I32, float64(lo)), diagonal, s)
	}
	bk := spmd.EvenBlock(hi-lo, a.o.BlockK)
	full := (hi - lo) / bk
	if full > 1 {
		c := b.LLoop(full, []spmd.Local{s.m, s.l, s.acc}, func(j spmd.Local, c []spmd.Local) []spmd.Local {
			at := b.LMul(j, b.LConst(dtype.I32, float64(bk)))
			if lo > 0 {
				at = b.LAdd(at, b.LConst(dtype.I32, float64(lo)))
			}
			s := a.keys(q, start, n, b.LDynSlice(a.k, 1, at, bk), b.LDynSlice(a.v, 1, at, bk), at, diagonal, state{c[0], c[1], c[2]})
			return []spmd.Local{s.m, s.l, s.acc}
		})
		s = state{c[0], c[1], c[2]}
	} else {
		s = fold(lo, lo+bk, s)
	}
	if lo+full*bk < hi {
		s = fold(lo+full*bk, hi, s)
	}
	return s
}

// keys folds one block of keys and values into the state.
func (a *blockedCall) keys(q, qStart spmd.Local, n int, k, v, kStart spmd.Local, diagonal bool, s state) state {
	b := a.b
	last := len(q.Shape) - 1
	scores := b.LDot(q, k, spmd.DotDims{LeftBatch: []int{0}, RightBatch: []int{0}, LeftContract: []int{last}, RightContract: []int{2}}, dtype.F32)
	scale := a.o.Scale
	if a.bias != nil || a.mask != nil || a.table != nil {
		scores, scale = b.LScale(scores, scale), 1
	}
	block := func(x *spmd.Local) spmd.Local { return a.blockOf(*x, scores.Shape, qStart, n, kStart, k.Shape[1]) }
	if a.bias != nil {
		scores = b.LAdd(scores, block(a.bias))
	}
	if a.mask != nil {
		scores = b.LSelect(block(a.mask), scores, b.LConst(dtype.F32, spmd.NegInf))
	}
	if a.table != nil || diagonal {
		distance := b.LSub(a.places(kStart, 1, n, k.Shape[1]), a.places(qStart, 0, n, k.Shape[1]))
		if a.table != nil {
			scores = b.LAdd(scores, a.byDistance(distance, scores.Shape))
		}
		if diagonal {
			scores = b.LSelect(b.LCompare("LE", distance, b.LConst(dtype.I32, 0)), scores, b.LConst(dtype.F32, spmd.NegInf))
		}
	}
	m := b.LMax(s.m, b.LReduceKeep(spmd.Maximum, scores, last))
	p := b.LUnary(spmd.OpExp, b.LScale(b.LSub(scores, m), scale))
	keep := b.LUnary(spmd.OpExp, b.LScale(b.LSub(s.m, m), scale))
	l := b.LAdd(b.LMul(s.l, keep), b.LReduceKeep(spmd.Sum, p, last))
	pv := b.LDot(b.LConvert(p, v.DType), v, spmd.DotDims{LeftBatch: []int{0}, RightBatch: []int{0}, LeftContract: []int{last}, RightContract: []int{1}}, dtype.F32)
	return state{m, l, b.LAdd(b.LMul(s.acc, keep), pv)}
}

// places counts from start along dim of a block of n queries by nk keys.
func (a *blockedCall) places(start spmd.Local, dim, n, nk int) spmd.Local {
	return a.b.LAdd(a.b.LIota(dtype.I32, dim, n, nk), start)
}

// byDistance is the bias of a block in the scores' shape. Looking up in so small a
// table is a contraction with ones where the bucket is: an accelerator is slow at
// anything else, and in f32 of the highest precision it is exact.
func (a *blockedCall) byDistance(distance spmd.Local, scores []int) spmd.Local {
	b := a.b
	bucket := a.o.Relative.Bucket(b, distance)
	n, nk := distance.Shape[0], distance.Shape[1]
	ones := b.LConvert(b.LCompare("EQ", b.LIota(dtype.I32, 0, a.table.Shape[0], n, nk), bucket), dtype.F32)
	bias := b.LDot(*a.table, ones, spmd.DotDims{LeftContract: []int{0}, RightContract: []int{0}}, dtype.F32) // H n nk
	return b.LReshape(b.LBroadcast(b.LReshape(bias, 1, a.kv, a.group, n, nk), a.batch, a.kv, a.group, n, nk), scores...)
}

// blockOf is the part of a bias or mask that belongs to a block of scores, in their shape.
func (a *blockedCall) blockOf(x spmd.Local, scores []int, qStart spmd.Local, n int, kStart spmd.Local, nk int) spmd.Local {
	b := a.b
	if x.Shape[2] > 1 {
		x = b.LDynSlice(x, 2, qStart, n)
	}
	x = b.LDynSlice(x, 3, kStart, nk)
	// (B|1, H|1, n|1, nk) to (B, Hkv, G, n, nk) to the scores' shape.
	if x.Shape[1] == 1 {
		x = b.LReshape(x, x.Shape[0], 1, 1, x.Shape[2], nk)
	} else {
		x = b.LReshape(x, x.Shape[0], a.kv, a.group, x.Shape[2], nk)
	}
	x = b.LBroadcast(x, a.batch, a.kv, a.group, n, nk)
	return b.LReshape(x, scores...)
}

// defaultScale is 1/sqrt(d).
func defaultScale(d int) float64 { return 1 / math.Sqrt(float64(d)) }
