package mosaic

// writeGridStep writes the kernel's body, which runs once for each step of the grid. A step
// folds one block of keys into the running softmax of one block of queries; the first
// step along the keys initialises that state, and the last one writes the result.
func (k *kernel) writeGridStep() {
	steps := k.gridSizes()[3]
	first, last := k.initState, k.writeResult
	if steps == 1 {
		first()
		k.foldSubBlocks(k.spec.stepKinds(k.blocks)[0].subs)
		last()
		return
	}
	k.ifElse(k.compare(equal, k.step, k.int32Const(0)), first, nil)
	k.writeStepKinds(k.spec.stepKinds(k.blocks))
	k.ifElse(k.compare(equal, k.step, k.int32Const(steps-1)), last, nil)
}

// initState sets the running softmax to that of no keys at all. Where a step has two
// heads, it also puts each head's queries into the lanes of its keys.
func (k *kernel) initState() {
	rows := k.blocks.Q
	for e := range k.heads {
		k.storeAll(k.floatConst(lowestMax, rows, lanes), k.m[e])
		if k.l != nil {
			k.storeAll(k.floatConst(0, rows, lanes), k.l[e])
		}
		k.storeAll(k.floatConst(0, k.acc[e].dims...), k.acc[e])
		if k.heads > 1 {
			q := k.rotateToKeyLanes(e, k.toF32(k.loadAll(k.q)))
			k.storeAll(k.toBF16(k.selectLanes(k.keyLanesMask(e, rows), q, k.floatConst(0, rows, lanes))), k.laneQ[e])
		}
	}
}

// writeStepKinds writes the code of every kind of step, each behind a test whether the step
// at hand is of that kind. The last kind is the commonest and needs no test.
func (k *kernel) writeStepKinds(kinds []stepKind) {
	here := kinds[0]
	run := func() { k.foldSubBlocks(here.subs) }
	if len(here.subs) == 0 {
		run = nil
	}
	switch {
	case len(kinds) > 1:
		k.ifElse(k.isStepOfKind(here), run, func() { k.writeStepKinds(kinds[1:]) })
	case run != nil:
		run()
	}
}

// isStepOfKind compares the index of the step with the range of a kind.
func (k *kernel) isStepOfKind(x stepKind) value {
	if x.from == x.to {
		return k.compare(equal, k.step, k.int32Const(x.from))
	}
	return k.writeOp("arith.andi", "", scalarType("i1"), k.compare(atLeast, k.step, k.int32Const(x.from)), k.compare(less, k.step, k.int32Const(x.to+1)))
}

// firstKeyLane computes the first lane of the key head that query head e of a pair uses: 0
// or 64. The other key head in that register starts at 64 minus it.
func (k *kernel) firstKeyLane(e int) value {
	if k.spec.queryHeadsPerKey() == 1 {
		return k.int32Const(e * lanes / 2)
	}
	int32op := func(name string, a, b value) value { return k.writeOp("arith."+name, "", scalarType("i32"), a, b) }
	head := int32op("divsi", int32op("addi", int32op("muli", value{name: "%h", elem: "i32"}, k.int32Const(2)), k.int32Const(e)), k.int32Const(k.spec.queryHeadsPerKey()))
	return int32op("muli", int32op("andi", head, k.int32Const(1)), k.int32Const(lanes/2))
}

// halfLanesMask is true in the lower 64 lanes (upper 0) or in the upper ones (upper 1).
func (k *kernel) halfLanesMask(upper, rows int) value {
	predicate := []int{less, atLeast}[upper]
	return k.compare(predicate, k.iotaAlong(1, rows, lanes), k.splatConst(vectorType("i32", rows, lanes), itoa(lanes/2)))
}

// keyLanesMask is true in the lanes that hold the keys and values of head e.
func (k *kernel) keyLanesMask(e, rows int) value {
	if k.spec.queryHeadsPerKey() == 1 {
		return k.halfLanesMask(e, rows)
	}
	lane, first := k.iotaAlong(1, rows, lanes), k.firstKeyLane(e)
	end := k.writeOp("arith.addi", "", first, first, k.int32Const(lanes/2))
	from := k.compare(atLeast, lane, k.broadcast(first, rows, lanes))
	return k.writeOp("arith.andi", "", from, from, k.compare(less, lane, k.broadcast(end, rows, lanes)))
}

// rotateToKeyLanes rotates head e of a (rows, 128) from its own lanes to those of its keys. The
// same rotation by 64 lanes or by none leads back.
func (k *kernel) rotateToKeyLanes(e int, x value) value {
	if k.spec.queryHeadsPerKey() == 1 {
		return x
	}
	by := k.firstKeyLane(e)
	if e == 1 {
		by = k.writeOp("arith.subi", "", by, k.int32Const(lanes/2), by)
	}
	return k.rotateLanes(x, by)
}

// keepKeyLanes keeps the keys or values x in the lanes of head e and replaces the other
// lanes by the bf16 that has the bits other. It works on words of 32 bits, because two
// rows of bf16 share one word of a register.
func (k *kernel) keepKeyLanes(e int, x value, other uint32) value {
	words := k.bitcast(x, "i32", x.dims[0]/2)
	rest := k.splatConst(vectorType("i32", words.dims...), itoa(int(other<<16|other)))
	return k.bitcast(k.selectLanes(k.keyLanesMask(e, words.dims[0]), words, rest), "bf16", x.dims[0])
}

// state is the running softmax of a block of queries, by head: the queries q, the maximum
// m so far, the sums l of exponentials by lane, and the weighted sum acc of values. There is
// no l where the matrix unit adds the exponentials up beside the values.
type state struct{ q, m, l, acc []value }

// loadState reads the running softmax from scratch memory.
func (k *kernel) loadState() state {
	var st state
	for e := range k.heads {
		q := k.q
		if k.heads > 1 {
			q = k.laneQ[e]
		}
		st.q, st.m, st.acc = append(st.q, k.loadAll(q)), append(st.m, k.loadAll(k.m[e])), append(st.acc, k.loadAll(k.acc[e]))
		if k.l != nil {
			st.l = append(st.l, k.loadAll(k.l[e]))
		}
	}
	return st
}

// storeState writes the running softmax back to scratch memory; the queries do not change.
func (k *kernel) storeState(st state) {
	for e := range k.heads {
		k.storeAll(st.m[e], k.m[e])
		k.storeAll(st.acc[e], k.acc[e])
		if k.l != nil {
			k.storeAll(st.l[e], k.l[e])
		}
	}
}

// foldSubBlocks folds sub-blocks of keys into the running softmax, one after another. The
// state stays in values between them where Blocks.Kept says so, and goes through scratch
// memory elsewhere and around a loop.
func (k *kernel) foldSubBlocks(subs []subBlock) {
	var st state
	held := false
	hold := func() {
		if held {
			k.storeState(st)
		}
		held = false
	}
	for _, x := range subs {
		if x.times > 1 {
			hold()
			k.forLoop(x.times, x.from, x.n, func(at value) { k.storeState(k.foldSubBlock(x, at, k.loadState())) })
			continue
		}
		if !held {
			st, held = k.loadState(), true
		}
		st = k.foldSubBlock(x, k.indexConst(x.from), st)
		if !k.blocks.Kept {
			hold()
		}
	}
	hold()
}

// foldSubBlock computes the scores of the keys of x, which start at row at of the window,
// and folds them into the running softmax:
//
//	s = q k^T + mask              m' = max(m, max_j s_j)
//	p = 2^(s - m')                c = 2^(m - m')
//	l' = c l + p by lane          acc' = c acc + p v
//
// The sums l stay apart by lane until the last step, or are made with the values, and the
// division waits until then as well, so that both cost once a block of queries.
func (k *kernel) foldSubBlock(x subBlock, at value, st state) state {
	rows := k.blocks.Q
	kk, vv := k.loadRows(k.k, at, x.n), k.loadRealValues(x, at)
	next := state{q: st.q}
	for e := range k.heads {
		ke := kk
		if k.spec.KVHeads%k.heads != 0 { // lanes beyond the last head hold anything
			ke = k.keepKeyLanes(e, kk, 0)
		}
		s := k.maskScores(x, at, k.matmulAdd(st.q[e], ke, true, k.floatConst(0, rows, x.n)))
		m := k.max(st.m[e], k.broadcast(k.reduceColumns("maximumf", s, "0xFF800000"), rows, lanes))
		p := k.exp2(k.minus(s, k.repeatColumns(m, x.n/lanes)))
		keep := k.exp2(k.minus(st.m[e], m))
		acc := k.matmulAdd(k.toBF16(p), k.valuesWithOnes(e, vv), false, k.floatConst(0, k.acc[e].dims...))
		next.m = append(next.m, m)
		next.acc = append(next.acc, k.add(k.mul(st.acc[e], k.repeatColumns(keep, acc.dims[1]/lanes)), acc))
		if k.l != nil {
			l := k.columnGroup(p, 0)
			for i := 1; i < x.n/lanes; i++ {
				l = k.add(l, k.columnGroup(p, i))
			}
			next.l = append(next.l, k.add(k.mul(st.l[e], keep), l))
		}
	}
	return next
}

// valuesWithOnes returns head e's values with ones in the lanes that are free. The matrix
// unit then adds the exponentials up there, in time that it spends anyway. In a pair the
// lanes of the other head are free; where the matrix unit is 256 wide, a second register
// beside the values is.
func (k *kernel) valuesWithOnes(e int, v value) value {
	switch {
	case k.heads > 1:
		return k.keepKeyLanes(e, v, 0x3F80)
	case k.l == nil:
		return k.concatAlong(1, v, k.splatConst(vectorType("bf16", v.dims...), "1.0e+00"))
	}
	return v
}

// maskScores scales the scores, adds the mask, and sets the scores of padding keys to -inf
// whatever stands there.
func (k *kernel) maskScores(x subBlock, at, s value) value {
	rows := s.dims[0]
	if k.spec.scalesInKernel() {
		s = k.mul(s, k.floatConst(k.spec.Scale, s.dims...))
	}
	if k.spec.Mask {
		s = k.add(s, k.broadcast(k.loadColumns(k.mask, at, x.n), s.dims...))
	}
	if !x.hasPadding() {
		return s
	}
	parts := make([]value, x.n/lanes)
	for i := range parts {
		parts[i] = k.columnGroup(s, i)
		if real := x.realColumns(i); !isWholeGroup(real) {
			none := k.splatConst(vectorType("f32", rows, lanes), "0xFF800000")
			parts[i] = k.selectLanes(k.maskInRanges(real, k.iotaAlong(1, rows, lanes)), parts[i], none)
		}
	}
	return k.concatAlong(1, parts...)
}

// loadRealValues loads rows of v and replaces padding by zeros: zero times rubbish may be
// NaN, so a weight of zero alone does not keep padding out of the sum.
func (k *kernel) loadRealValues(x subBlock, at value) value {
	if !x.hasPadding() {
		return k.loadRows(k.v, at, x.n)
	}
	parts := make([]value, x.n/lanes)
	for i := range parts {
		parts[i] = k.loadRows(k.v, k.indexConst(x.from+i*lanes), lanes)
		if real := x.realColumns(i); !isWholeGroup(real) {
			keep := k.maskInRanges(real, k.iotaAlong(0, lanes, lanes))
			parts[i] = k.toBF16(k.selectLanes(keep, k.toF32(parts[i]), k.floatConst(0, lanes, lanes)))
		}
	}
	return k.concatAlong(0, parts...)
}

// maskInRanges is true where at lies in one of the ranges.
func (k *kernel) maskInRanges(real []Range, at value) value {
	var in value
	for i, r := range real {
		number := func(n int) value { return k.splatConst(vectorType("i32", at.dims...), itoa(n)) }
		here := k.compare(less, at, number(r.To))
		if r.From > 0 {
			here = k.writeOp("arith.andi", "", here, k.compare(atLeast, at, number(r.From)), here)
		}
		if i > 0 {
			here = k.writeOp("arith.ori", "", here, in, here)
		}
		in = here
	}
	return in
}

// writeResult divides the weighted sum of values by the sum of exponentials and stores it
// in the window of the result.
func (k *kernel) writeResult() {
	rows := k.blocks.Q
	var out []value
	for e := range k.heads {
		acc := k.loadAll(k.acc[e])
		switch {
		case k.heads > 1:
			out = append(out, k.rotateToKeyLanes(e, k.div(acc, k.rotateLanes(acc, k.int32Const(lanes/2)))))
		case k.l == nil:
			out = append(out, k.div(k.columnGroup(acc, 0), k.columnGroup(acc, 1)))
		default:
			out = append(out, k.div(acc, k.broadcast(k.reduceColumns("add", k.loadAll(k.l[e]), "0.0e+00"), rows, lanes)))
		}
	}
	if k.heads > 1 {
		out[0] = k.selectLanes(k.halfLanesMask(0, rows), out[0], out[1])
	}
	k.storeAll(k.toBF16(out[0]), k.o)
}
