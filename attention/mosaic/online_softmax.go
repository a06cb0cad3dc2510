package mosaic

// writeGridStep writes the kernel's body, which runs once for each step of the grid. A step
// folds one block of keys into the running softmax of one block of queries; the first
// step along the keys initialises that state, and the last one writes the result.
func (w *moduleWriter) writeGridStep() {
	steps := w.gridSizes()[3]
	first, last := w.initState, w.writeResult
	if steps == 1 {
		first()
		w.foldSubBlocks(w.spec.stepKinds(w.blocks)[0].subs)
		last()
		return
	}
	w.ifElse(w.compare(equal, w.step, w.int32Const(0)), first, nil)
	w.writeStepKinds(w.spec.stepKinds(w.blocks))
	w.ifElse(w.compare(equal, w.step, w.int32Const(steps-1)), last, nil)
}

// initState sets the running softmax to that of no keys at all. Where a step has two
// heads, it also puts each head's queries into the lanes of its keys.
func (w *moduleWriter) initState() {
	rows := w.blocks.Q
	for e := range w.heads {
		w.storeAll(w.floatConst(lowestMax, rows, lanes), w.m[e])
		if w.l != nil {
			w.storeAll(w.floatConst(0, rows, lanes), w.l[e])
		}
		w.storeAll(w.floatConst(0, w.acc[e].dims...), w.acc[e])
		if w.heads > 1 {
			q := w.rotateToKeyLanes(e, w.toF32(w.loadAll(w.q)))
			w.storeAll(w.toBF16(w.selectLanes(w.keyLanesMask(e, rows), q, w.floatConst(0, rows, lanes))), w.laneQ[e])
		}
	}
}

// writeStepKinds writes the code of every kind of step, each behind a test whether the step
// at hand is of that kind. The last kind is the commonest and needs no test.
func (w *moduleWriter) writeStepKinds(kinds []stepKind) {
	here := kinds[0]
	run := func() { w.foldSubBlocks(here.subs) }
	if len(here.subs) == 0 {
		run = nil
	}
	switch {
	case len(kinds) > 1:
		w.ifElse(w.isStepOfKind(here), run, func() { w.writeStepKinds(kinds[1:]) })
	case run != nil:
		run()
	}
}

// isStepOfKind compares the index of the step with the range of a kind.
func (w *moduleWriter) isStepOfKind(x stepKind) value {
	if x.from == x.to {
		return w.compare(equal, w.step, w.int32Const(x.from))
	}
	return w.writeOp("arith.andi", "", scalarType("i1"), w.compare(atLeast, w.step, w.int32Const(x.from)), w.compare(less, w.step, w.int32Const(x.to+1)))
}

// firstKeyLane computes the first lane of the key head that query head e of a pair uses: 0
// or 64. The other key head in that register starts at 64 minus it.
func (w *moduleWriter) firstKeyLane(e int) value {
	if w.spec.queryHeadsPerKey() == 1 {
		return w.int32Const(e * lanes / 2)
	}
	int32op := func(name string, a, b value) value { return w.writeOp("arith."+name, "", scalarType("i32"), a, b) }
	head := int32op("divsi", int32op("addi", int32op("muli", value{name: "%h", elem: "i32"}, w.int32Const(2)), w.int32Const(e)), w.int32Const(w.spec.queryHeadsPerKey()))
	return int32op("muli", int32op("andi", head, w.int32Const(1)), w.int32Const(lanes/2))
}

// halfLanesMask is true in the lower 64 lanes (upper 0) or in the upper ones (upper 1).
func (w *moduleWriter) halfLanesMask(upper, rows int) value {
	predicate := []int{less, atLeast}[upper]
	return w.compare(predicate, w.iotaAlong(1, rows, lanes), w.splatConst(vectorType("i32", rows, lanes), itoa(lanes/2)))
}

// keyLanesMask is true in the lanes that hold the keys and values of head e.
func (w *moduleWriter) keyLanesMask(e, rows int) value {
	if w.spec.queryHeadsPerKey() == 1 {
		return w.halfLanesMask(e, rows)
	}
	lane, first := w.iotaAlong(1, rows, lanes), w.firstKeyLane(e)
	end := w.writeOp("arith.addi", "", first, first, w.int32Const(lanes/2))
	from := w.compare(atLeast, lane, w.broadcast(first, rows, lanes))
	return w.writeOp("arith.andi", "", from, from, w.compare(less, lane, w.broadcast(end, rows, lanes)))
}

// rotateToKeyLanes rotates head e of a (rows, 128) from its own lanes to those of its keys. The
// same rotation by 64 lanes or by none leads back.
func (w *moduleWriter) rotateToKeyLanes(e int, x value) value {
	if w.spec.queryHeadsPerKey() == 1 {
		return x
	}
	by := w.firstKeyLane(e)
	if e == 1 {
		by = w.writeOp("arith.subi", "", by, w.int32Const(lanes/2), by)
	}
	return w.rotateLanes(x, by)
}

// keepKeyLanes keeps the keys or values x in the lanes of head e and replaces the other
// lanes by the bf16 that has the bits other. It works on words of 32 bits, because two
// rows of bf16 share one word of a register.
func (w *moduleWriter) keepKeyLanes(e int, x value, other uint32) value {
	words := w.bitcast(x, "i32", x.dims[0]/2)
	rest := w.splatConst(vectorType("i32", words.dims...), itoa(int(other<<16|other)))
	return w.bitcast(w.selectLanes(w.keyLanesMask(e, words.dims[0]), words, rest), "bf16", x.dims[0])
}

// state is the running softmax of a block of queries, by head: the queries q, the maximum
// m so far, the sums l of exponentials by lane, and the weighted sum acc of values. There is
// no l where the matrix unit adds the exponentials up beside the values.
type state struct{ q, m, l, acc []value }

// loadState reads the running softmax from scratch memory.
func (w *moduleWriter) loadState() state {
	var st state
	for e := range w.heads {
		q := w.q
		if w.heads > 1 {
			q = w.laneQ[e]
		}
		st.q, st.m, st.acc = append(st.q, w.loadAll(q)), append(st.m, w.loadAll(w.m[e])), append(st.acc, w.loadAll(w.acc[e]))
		if w.l != nil {
			st.l = append(st.l, w.loadAll(w.l[e]))
		}
	}
	return st
}

// storeState writes the running softmax back to scratch memory; the queries do not change.
func (w *moduleWriter) storeState(st state) {
	for e := range w.heads {
		w.storeAll(st.m[e], w.m[e])
		w.storeAll(st.acc[e], w.acc[e])
		if w.l != nil {
			w.storeAll(st.l[e], w.l[e])
		}
	}
}

// foldSubBlocks folds sub-blocks of keys into the running softmax, one after another. The
// state stays in values between them where Blocks.Kept says so, and goes through scratch
// memory elsewhere and around a loop.
func (w *moduleWriter) foldSubBlocks(subs []subBlock) {
	var st state
	held := false
	hold := func() {
		if held {
			w.storeState(st)
		}
		held = false
	}
	for _, x := range subs {
		if x.times > 1 {
			hold()
			w.forLoop(x.times, x.from, x.n, func(at value) { w.storeState(w.foldSubBlock(x, at, w.loadState())) })
			continue
		}
		if !held {
			st, held = w.loadState(), true
		}
		st = w.foldSubBlock(x, w.indexConst(x.from), st)
		if !w.blocks.Kept {
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
func (w *moduleWriter) foldSubBlock(x subBlock, at value, st state) state {
	rows := w.blocks.Q
	kk, vv := w.loadRows(w.k, at, x.n), w.loadRealValues(x, at)
	next := state{q: st.q}
	for e := range w.heads {
		ke := kk
		if w.spec.KVHeads%w.heads != 0 { // lanes beyond the last head hold anything
			ke = w.keepKeyLanes(e, kk, 0)
		}
		s := w.maskScores(x, at, w.matmulAdd(st.q[e], ke, true, w.floatConst(0, rows, x.n)))
		m := w.max(st.m[e], w.broadcast(w.reduceColumns("maximumf", s, "0xFF800000"), rows, lanes))
		p := w.exp2(w.minus(s, w.repeatColumns(m, x.n/lanes)))
		keep := w.exp2(w.minus(st.m[e], m))
		acc := w.matmulAdd(w.toBF16(p), w.valuesWithOnes(e, vv), false, w.floatConst(0, w.acc[e].dims...))
		next.m = append(next.m, m)
		next.acc = append(next.acc, w.add(w.mul(st.acc[e], w.repeatColumns(keep, acc.dims[1]/lanes)), acc))
		if w.l != nil {
			l := w.columnGroup(p, 0)
			for i := 1; i < x.n/lanes; i++ {
				l = w.add(l, w.columnGroup(p, i))
			}
			next.l = append(next.l, w.add(w.mul(st.l[e], keep), l))
		}
	}
	return next
}

// valuesWithOnes returns head e's values with ones in the lanes that are free. The matrix
// unit then adds the exponentials up there, in time that it spends anyway. In a pair the
// lanes of the other head are free; where the matrix unit is 256 wide, a second register
// beside the values is.
func (w *moduleWriter) valuesWithOnes(e int, v value) value {
	switch {
	case w.heads > 1:
		return w.keepKeyLanes(e, v, 0x3F80)
	case w.l == nil:
		return w.concatAlong(1, v, w.splatConst(vectorType("bf16", v.dims...), "1.0e+00"))
	}
	return v
}

// maskScores scales the scores, adds the mask, and sets the scores of padding keys to -inf
// whatever stands there.
func (w *moduleWriter) maskScores(x subBlock, at, s value) value {
	rows := s.dims[0]
	if w.spec.scalesInKernel() {
		s = w.mul(s, w.floatConst(w.spec.Scale, s.dims...))
	}
	if w.spec.Mask {
		s = w.add(s, w.broadcast(w.loadColumns(w.mask, at, x.n), s.dims...))
	}
	if !x.hasPadding() {
		return s
	}
	parts := make([]value, x.n/lanes)
	for i := range parts {
		parts[i] = w.columnGroup(s, i)
		if real := x.realColumns(i); !isWholeGroup(real) {
			none := w.splatConst(vectorType("f32", rows, lanes), "0xFF800000")
			parts[i] = w.selectLanes(w.maskInRanges(real, w.iotaAlong(1, rows, lanes)), parts[i], none)
		}
	}
	return w.concatAlong(1, parts...)
}

// loadRealValues loads rows of v and replaces padding by zeros: zero times rubbish may be
// NaN, so a weight of zero alone does not keep padding out of the sum.
func (w *moduleWriter) loadRealValues(x subBlock, at value) value {
	if !x.hasPadding() {
		return w.loadRows(w.v, at, x.n)
	}
	parts := make([]value, x.n/lanes)
	for i := range parts {
		parts[i] = w.loadRows(w.v, w.indexConst(x.from+i*lanes), lanes)
		if real := x.realColumns(i); !isWholeGroup(real) {
			keep := w.maskInRanges(real, w.iotaAlong(0, lanes, lanes))
			parts[i] = w.toBF16(w.selectLanes(keep, w.toF32(parts[i]), w.floatConst(0, lanes, lanes)))
		}
	}
	return w.concatAlong(0, parts...)
}

// maskInRanges is true where at lies in one of the ranges.
func (w *moduleWriter) maskInRanges(real []Range, at value) value {
	var in value
	for i, r := range real {
		number := func(n int) value { return w.splatConst(vectorType("i32", at.dims...), itoa(n)) }
		here := w.compare(less, at, number(r.To))
		if r.From > 0 {
			here = w.writeOp("arith.andi", "", here, w.compare(atLeast, at, number(r.From)), here)
		}
		if i > 0 {
			here = w.writeOp("arith.ori", "", here, in, here)
		}
		in = here
	}
	return in
}

// writeResult divides the weighted sum of values by the sum of exponentials and stores it
// in the window of the result.
func (w *moduleWriter) writeResult() {
	rows := w.blocks.Q
	var out []value
	for e := range w.heads {
		acc := w.loadAll(w.acc[e])
		switch {
		case w.heads > 1:
			out = append(out, w.rotateToKeyLanes(e, w.div(acc, w.rotateLanes(acc, w.int32Const(lanes/2)))))
		case w.l == nil:
			out = append(out, w.div(w.columnGroup(acc, 0), w.columnGroup(acc, 1)))
		default:
			out = append(out, w.div(acc, w.broadcast(w.reduceColumns("add", w.loadAll(w.l[e]), "0.0e+00"), rows, lanes)))
		}
	}
	if w.heads > 1 {
		out[0] = w.selectLanes(w.halfLanesMask(0, rows), out[0], out[1])
	}
	w.storeAll(w.toBF16(out[0]), w.o)
}
