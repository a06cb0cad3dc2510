package attention

import (
	"cmp"

	"weft/dtype"
	"weft/program"
	"weft/spmd"
)

// blockedForm walks the keys block by block with a running softmax, as while loops that
// every device runs. It takes every call.
type blockedForm struct{}

func (blockedForm) name() string { return Blocked }

func (blockedForm) help() string { return "loops, everywhere" }

func (blockedForm) plan(c call) (formPlan, error) {
	return formPlan{
		scratchBytes: blockedScratchBytes(c),
		handsOnState: true,
		emit:         func(b *spmd.Builder, in localOperands) spmd.Local { return emitBlocked(b, in, c.o) },
		fold: func(b *spmd.Builder, q spmd.Local, kvHeads int) keyFolder {
			return newBlockedFolder(b, q, kvHeads, c.o)
		},
	}, nil
}

// blockedScratchBytes counts q, k, v and the result with heads before tokens, and, in f32, a
// block of scores, their exponentials and the running softmax of a block of queries; in a ring, that of
// all queries.
func blockedScratchBytes(c call) int64 {
	keys := cmp.Or(c.o.Keys, c.keys)
	if c.ring > 1 {
		keys = (c.keys + c.ring - 1) / c.ring
	}
	ordered := 2*c.heads*c.queries + 2*c.kvHeads*keys
	bq := queryBlock(c.queries, c.o)
	bk := spmd.EvenBlock(keys, c.o.BlockK)
	heads := c.batch * c.heads
	if c.o.HeadBlock > 0 && c.o.Bias == nil && c.o.Mask == nil && c.o.Relative == nil {
		heads = min(heads, c.o.HeadBlock*c.heads/c.kvHeads)
	}
	block := heads * bq * (2*bk + c.headDim + 2)
	if c.ring > 1 { // the states of all queries, and the keys and values that arrive
		block += c.batch * c.heads * c.queries * (c.headDim + 2)
		ordered += 2 * c.kvHeads * ((c.keys + c.ring - 1) / c.ring)
	}
	return int64(c.batch)*int64(ordered)*int64(c.headDim)*int64(c.dtype.Size()) + 4*int64(block)
}

// queryBlock is how many queries a block has.
func queryBlock(queries int, o Options) int {
	if o.Causal {
		return spmd.EvenBlock(queries, max(o.BlockQ, (queries+causalBlocks-1)/causalBlocks))
	}
	return spmd.EvenBlock(queries, o.BlockQ)
}

// emitBlocked computes attention on one device.
//
//	q (B, Sq, H, D), k and v (B, Sk, Hkv, D), H a multiple of Hkv; result (B, Sq, H, D)
//
// Query head h uses key head h / (H/Hkv). Grouped heads become rows of one matmul, so k
// and v are never copied. A length that is no multiple of a block ends in a shorter block,
// so nothing is padded, and nothing masked for that.
//
// The bias is added to the scaled scores; where the mask does not hold they become
// NegInf. Scores and running sums are f32 whatever the operands are.
func emitBlocked(b *spmd.Builder, in localOperands, o Options) spmd.Local {
	q, k, v := in.q, in.k, in.v
	batch, sq, heads, d := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3]
	sk, kv := k.Shape[1], k.Shape[2]
	a := &blockedCall{b: b, o: o, batch: batch, kv: kv, group: heads / kv, d: d, bias: in.bias, mask: in.mask, table: in.table, out: q.DType}

	// Heads stand before tokens, so that every block is a plain batched matmul.
	q = b.LTranspose(b.LReshape(q, batch, sq, kv, a.group, d), 0, 2, 3, 1, 4) // B Hkv G Sq D
	q = b.LReshape(q, a.queryShape(sq)...)
	k = b.LReshape(b.LTranspose(k, 0, 2, 1, 3), batch*kv, sk, d)
	v = b.LReshape(b.LTranspose(v, 0, 2, 1, 3), batch*kv, sk, d)

	out := a.attendByHeads(q, k, v)
	out = b.LReshape(out, batch, kv, a.group, sq, d)
	return b.LReshape(b.LTranspose(out, 0, 3, 1, 2, 4), batch, sq, heads, d)
}

// attendByHeads computes a few heads at a time where the target wants that, so that their
// blocks of scores stay in a near cache. With a bias, mask or table it computes all heads
// at once, because those are cut by batch and head.
func (a *blockedCall) attendByHeads(q, k, v spmd.Local) spmd.Local {
	b, n := a.b, q.Shape[0]
	few := a.o.HeadBlock
	for few > 0 && n%few != 0 {
		few--
	}
	if few < 1 || few >= n || a.bias != nil || a.mask != nil || a.table != nil {
		return a.attendAllQueries(q, k, v)
	}
	acc := b.LConst(a.out, 0, q.Shape...)
	return b.LLoop(n/few, []spmd.Local{acc}, func(i spmd.Local, c []spmd.Local) []spmd.Local {
		at := b.LMul(i, b.LConst(dtype.I32, float64(few)))
		out := a.attendAllQueries(b.LDynSlice(q, 0, at, few), b.LDynSlice(k, 0, at, few), b.LDynSlice(v, 0, at, few))
		return []spmd.Local{b.LDynUpdate(c[0], out, 0, at)}
	})[0]
}

// attendAllQueries computes all queries of some heads, block by block.
func (a *blockedCall) attendAllQueries(q, k, v spmd.Local) spmd.Local {
	b, sq := a.b, q.Shape[len(q.Shape)-2]
	a.k, a.v = k, v
	if a.o.Causal {
		return a.attendCausal(q)
	}
	bq := queryBlock(sq, a.o)
	full := sq / bq
	if sq == bq {
		return a.attendQueryBlock(q, b.LConst(dtype.I32, 0), sq)
	}
	token := len(q.Shape) - 2
	acc := b.LConst(a.out, 0, q.Shape...)
	acc = b.LLoop(full, []spmd.Local{acc}, func(i spmd.Local, c []spmd.Local) []spmd.Local {
		start := b.LMul(i, b.LConst(dtype.I32, float64(bq)))
		block := a.attendQueryBlock(b.LDynSlice(q, token, start, bq), start, bq)
		return []spmd.Local{b.LDynUpdate(c[0], block, token, start)}
	})[0]
	if rest := sq - full*bq; rest > 0 {
		start := b.LConst(dtype.I32, float64(full*bq))
		block := a.attendQueryBlock(b.LSlice(q, token, full*bq, sq), start, rest)
		acc = b.LDynUpdate(acc, block, token, start)
	}
	return acc
}

// causalBlocks is the most blocks of queries that a causal call is written out in.
const causalBlocks = 16

// attendCausal computes block of queries by block, each with the keys up to its own end.
// Blocks of scores above the diagonal are not computed, and those below it need no mask.
// Each block of queries sees a different number of keys, so the blocks are written out
// instead of looped over.
func (a *blockedCall) attendCausal(q spmd.Local) spmd.Local {
	b, token := a.b, len(q.Shape)-2
	sq, sk := q.Shape[token], a.k.Shape[1]
	bq := queryBlock(sq, a.o)
	var blocks []spmd.Local
	for start := 0; start < sq; start += bq {
		n := min(bq, sq-start)
		at := b.LConst(dtype.I32, float64(start))
		blocks = append(blocks, a.attendKeyPrefix(b.LSlice(q, token, start, start+n), at, n, min(start, sk), min(start+n, sk)))
	}
	return b.LConcat(token, blocks...)
}

// blockedCall has what all blocks of one call share.
type blockedCall struct {
	b                   *spmd.Builder
	o                   Options
	batch, kv, group, d int
	k, v                spmd.Local // of the heads that are computed now: (heads, Sk, D)
	bias, mask, table   *spmd.Local
	valid               *spmd.Local // keys from this one on are padding; nil for none
	out                 dtype.DType
}

// queryShape is the shape of values with sq queries: (B*Hkv, Sq, D), or (B*Hkv, G, Sq, D)
// where G query heads share a key head.
func (a *blockedCall) queryShape(sq int) []int {
	if a.group == 1 {
		return []int{a.batch * a.kv, sq, a.d}
	}
	return []int{a.batch * a.kv, a.group, sq, a.d}
}

// runningSoftmax is the state of one block of queries after some of the keys: the maximum m
// of the scores, and, relative to it, the sum l of exponentials and the weighted sum acc of
// values. Keys may be folded into it in any order, and on any device that has it.
type runningSoftmax struct{ m, l, acc spmd.Local }

// attendQueryBlock computes a block of n queries that starts at token start, over all keys.
func (a *blockedCall) attendQueryBlock(q, start spmd.Local, n int) spmd.Local {
	return a.attendKeyPrefix(q, start, n, a.k.Shape[1], a.k.Shape[1])
}

// attendKeyPrefix computes a block of n queries that starts at token start. Each query sees
// the first all keys, and of the keys from there to end those up to its own place.
func (a *blockedCall) attendKeyPrefix(q, start spmd.Local, n, all, end int) spmd.Local {
	s := a.emptySoftmax(q)
	s = a.foldKeyRange(q, start, n, 0, all, false, s)
	s = a.foldKeyRange(q, start, n, all, end, true, s)
	return a.b.LConvert(a.b.LDiv(s.acc, s.l), a.out)
}

// emptySoftmax returns the state of a block of queries before the first key.
func (a *blockedCall) emptySoftmax(q spmd.Local) runningSoftmax {
	stat := append(append([]int{}, q.Shape[:len(q.Shape)-1]...), 1)
	return runningSoftmax{
		m:   a.b.LConst(dtype.F32, spmd.NegInf, stat...),
		l:   a.b.LConst(dtype.F32, 0, stat...),
		acc: a.b.LConst(dtype.F32, 0, q.Shape...),
	}
}

// foldKeyRange folds the keys [lo, hi) into the state, block by block. On the diagonal a
// query sees the keys up to its own place.
func (a *blockedCall) foldKeyRange(q, start spmd.Local, n, lo, hi int, diagonal bool, s runningSoftmax) runningSoftmax {
	if lo == hi {
		return s
	}
	b := a.b
	fold := func(lo, hi int, s runningSoftmax) runningSoftmax {
		return a.foldKeyBlock(q, start, n, b.LSlice(a.k, 1, lo, hi), b.LSlice(a.v, 1, lo, hi), b.LConst(dtype.I32, float64(lo)), diagonal, s)
	}
	bk := spmd.EvenBlock(hi-lo, a.o.BlockK)
	full := (hi - lo) / bk
	if full > 1 {
		c := b.LLoop(full, []spmd.Local{s.m, s.l, s.acc}, func(j spmd.Local, c []spmd.Local) []spmd.Local {
			at := b.LMul(j, b.LConst(dtype.I32, float64(bk)))
			if lo > 0 {
				at = b.LAdd(at, b.LConst(dtype.I32, float64(lo)))
			}
			s := a.foldKeyBlock(q, start, n, b.LDynSlice(a.k, 1, at, bk), b.LDynSlice(a.v, 1, at, bk), at, diagonal, runningSoftmax{c[0], c[1], c[2]})
			return []spmd.Local{s.m, s.l, s.acc}
		})
		s = runningSoftmax{c[0], c[1], c[2]}
	} else {
		s = fold(lo, lo+bk, s)
	}
	if lo+full*bk < hi {
		s = fold(lo+full*bk, hi, s)
	}
	return s
}

// foldKeyBlock folds one block of keys and values into the state.
func (a *blockedCall) foldKeyBlock(q, qStart spmd.Local, n int, k, v, kStart spmd.Local, diagonal bool, s runningSoftmax) runningSoftmax {
	b := a.b
	last := len(q.Shape) - 1
	scores := b.LDot(q, k, program.DotDims{LeftBatch: []int{0}, RightBatch: []int{0}, LeftContract: []int{last}, RightContract: []int{2}}, dtype.F32)
	scale := a.o.Scale
	if a.bias != nil || a.mask != nil || a.table != nil {
		scores, scale = b.LScale(scores, scale), 1
	}
	block := func(x *spmd.Local) spmd.Local {
		return a.sliceForScores(*x, scores.Shape, qStart, n, kStart, k.Shape[1])
	}
	if a.bias != nil {
		scores = b.LAdd(scores, block(a.bias))
	}
	if a.mask != nil {
		scores = b.LSelect(block(a.mask), scores, b.LConst(dtype.F32, spmd.NegInf))
	}
	if a.table != nil || diagonal {
		distance := b.LSub(a.tokenPlaces(kStart, 1, n, k.Shape[1]), a.tokenPlaces(qStart, 0, n, k.Shape[1]))
		if a.table != nil {
			scores = b.LAdd(scores, a.biasByDistance(distance, scores.Shape))
		}
		if diagonal {
			scores = b.LSelect(b.LCompare("LE", distance, b.LConst(dtype.I32, 0)), scores, b.LConst(dtype.F32, spmd.NegInf))
		}
	}
	if a.valid != nil {
		scores = b.LSelect(b.LCompare("LT", a.tokenPlaces(kStart, 1, n, k.Shape[1]), *a.valid), scores, b.LConst(dtype.F32, spmd.NegInf))
	}
	m := b.LMax(s.m, b.LReduceKeep(program.Maximum, scores, last))
	p := b.LUnary(program.OpExp, b.LScale(b.LSub(scores, m), scale))
	keep := b.LUnary(program.OpExp, b.LScale(b.LSub(s.m, m), scale))
	l := b.LAdd(b.LMul(s.l, keep), b.LReduceKeep(program.Sum, p, last))
	pv := b.LDot(b.LConvert(p, v.DType), v, program.DotDims{LeftBatch: []int{0}, RightBatch: []int{0}, LeftContract: []int{last}, RightContract: []int{1}}, dtype.F32)
	return runningSoftmax{m, l, b.LAdd(b.LMul(s.acc, keep), pv)}
}

// tokenPlaces counts from start along one dim of a block of n queries by nk keys.
func (a *blockedCall) tokenPlaces(start spmd.Local, dim, n, nk int) spmd.Local {
	return a.b.LAdd(a.b.LIota(dtype.I32, dim, n, nk), start)
}

// biasByDistance computes a block of Relative's bias in the scores' shape. It looks the bias
// up by a contraction with ones where the bucket is: an accelerator is slow at any other
// lookup in so small a table, and in f32 of the highest precision this one is exact.
func (a *blockedCall) biasByDistance(distance spmd.Local, scores []int) spmd.Local {
	b := a.b
	bucket := a.o.Relative.Bucket(b, distance)
	n, nk := distance.Shape[0], distance.Shape[1]
	ones := b.LConvert(b.LCompare("EQ", b.LIota(dtype.I32, 0, a.table.Shape[0], n, nk), bucket), dtype.F32)
	bias := b.LDot(*a.table, ones, program.DotDims{LeftContract: []int{0}, RightContract: []int{0}}, dtype.F32) // H n nk
	return b.LReshape(b.LBroadcast(b.LReshape(bias, 1, a.kv, a.group, n, nk), a.batch, a.kv, a.group, n, nk), scores...)
}

// sliceForScores cuts the part of a bias or mask that belongs to a block of scores and
// gives it their shape.
func (a *blockedCall) sliceForScores(x spmd.Local, scores []int, qStart spmd.Local, n int, kStart spmd.Local, nk int) spmd.Local {
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
