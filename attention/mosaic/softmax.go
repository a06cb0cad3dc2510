package mosaic

// body is one step of the grid: a block of keys folded into what the blocks
// before it made of a block of queries.
func (k *kernel) body() {
	steps := k.grid()[3]
	first, last := k.start, k.finish
	if steps == 1 {
		first()
		k.keys(k.s.steps(k.b)[0].subs)
		last()
		return
	}
	k.when(k.compare(equal, k.step, k.i32(0)), first, nil)
	k.ofKind(k.s.steps(k.b))
	k.when(k.compare(equal, k.step, k.i32(steps-1)), last, nil)
}

// start empties the state.
func (k *kernel) start() {
	rows := k.b.Q
	for e := range k.n {
		k.store(k.floats(least, rows, lanes), k.m[e])
		if k.l != nil {
			k.store(k.floats(0, rows, lanes), k.l[e])
		}
		k.store(k.floats(0, k.acc[e].dims...), k.acc[e])
		if k.n > 1 {
			q := k.toKeys(e, k.widen(k.all(k.q)))
			k.store(k.narrow(k.choose(k.lanesOf(e, rows), q, k.floats(0, rows, lanes))), k.one[e])
		}
	}
}

// ofKind runs the sub-blocks of the step at hand.
func (k *kernel) ofKind(kinds []kind) {
	here := kinds[0]
	run := func() { k.keys(here.subs) }
	if len(here.subs) == 0 {
		run = nil
	}
	switch {
	case len(kinds) > 1:
		k.when(k.isIn(here), run, func() { k.ofKind(kinds[1:]) })
	case run != nil:
		run()
	}
}

// isIn holds for a kind's steps.
func (k *kernel) isIn(x kind) value {
	if x.from == x.to {
		return k.compare(equal, k.step, k.i32(x.from))
	}
	return k.op("arith.andi", "", scalar("i1"), k.compare(atLeast, k.step, k.i32(x.from)), k.compare(less, k.step, k.i32(x.to+1)))
}

// half is the first lane of a pair's key head that the pair's query head e uses, 0 or
// 64, and 64 - it is the other one's.
func (k *kernel) half(e int) value {
	if k.s.group() == 1 {
		return k.i32(e * lanes / 2)
	}
	int32op := func(name string, a, b value) value { return k.op("arith."+name, "", scalar("i32"), a, b) }
	head := int32op("divsi", int32op("addi", int32op("muli", value{name: "%h", elem: "i32"}, k.i32(2)), k.i32(e)), k.i32(k.s.group()))
	return int32op("muli", int32op("andi", head, k.i32(1)), k.i32(lanes/2))
}

// ofHalf holds in the lower lanes, or the upper.
func (k *kernel) ofHalf(upper, rows int) value {
	predicate := []int{less, atLeast}[upper]
	return k.compare(predicate, k.iota(1, rows, lanes), k.constant(vector("i32", rows, lanes), itoa(lanes/2)))
}

// lanesOf holds in the lanes of head e's keys and values.
func (k *kernel) lanesOf(e, rows int) value {
	if k.s.group() == 1 {
		return k.ofHalf(e, rows)
	}
	lane, first := k.iota(1, rows, lanes), k.half(e)
	end := k.op("arith.addi", "", first, first, k.i32(lanes/2))
	from := k.compare(atLeast, lane, k.broadcast(first, rows, lanes))
	return k.op("arith.andi", "", from, from, k.compare(less, lane, k.broadcast(end, rows, lanes)))
}

// toKeys moves head e's lanes of a (rows, 128) to those of its keys, or back.
func (k *kernel) toKeys(e int, x value) value {
	if k.s.group() == 1 {
		return x
	}
	by := k.half(e)
	if e == 1 {
		by = k.op("arith.subi", "", by, k.i32(lanes/2), by)
	}
	return k.rotate(x, by)
}

// only has a pair's keys or values in the lanes of head e, and in the others a bf16
// that is given by its bits. Rows of bf16 lie two to a register's word.
func (k *kernel) only(e int, x value, other uint32) value {
	words := k.bitcast(x, "i32", x.dims[0]/2)
	rest := k.constant(vector("i32", words.dims...), itoa(int(other<<16|other)))
	return k.bitcast(k.choose(k.lanesOf(e, words.dims[0]), words, rest), "bf16", x.dims[0])
}

// state is a block of queries and its running softmax, by head: q, the maximum so far,
// and the weighted sum of values; and the sums of exponentials by lane, unless they are
// made with the values.
type state struct{ q, m, l, acc []value }

// held is the state as it is in scratch.
func (k *kernel) held() state {
	var st state
	for e := range k.n {
		q := k.q
		if k.n > 1 {
			q = k.one[e]
		}
		st.q, st.m, st.acc = append(st.q, k.all(q)), append(st.m, k.all(k.m[e])), append(st.acc, k.all(k.acc[e]))
		if k.l != nil {
			st.l = append(st.l, k.all(k.l[e]))
		}
	}
	return st
}

func (k *kernel) hold(st state) {
	for e := range k.n {
		k.store(st.m[e], k.m[e])
		k.store(st.acc[e], k.acc[e])
		if k.l != nil {
			k.store(st.l[e], k.l[e])
		}
	}
}

// keys folds sub-blocks of keys into the state.
func (k *kernel) keys(subs []sub) {
	var st state
	held := false
	hold := func() {
		if held {
			k.hold(st)
		}
		held = false
	}
	for _, x := range subs {
		if x.times > 1 {
			hold()
			k.times(x.times, x.from, x.n, func(at value) { k.hold(k.sub(x, at, k.held())) })
			continue
		}
		if !held {
			st, held = k.held(), true
		}
		st = k.sub(x, k.index(x.from), st)
		if !k.b.Kept {
			hold()
		}
	}
	hold()
}

// sub makes the scores of some keys and folds them in:
//
//	s = q k^T + mask              m' = max(m, max_j s_j)
//	p = 2^(s - m')                c = 2^(m - m')
//	l' = c l + p by lane          acc' = c acc + p v
//
// Sums of p stay apart by lane until the end, or come with the values, and nothing is
// divided until then.
// The keys start at an index of the window.
func (k *kernel) sub(x sub, at value, st state) state {
	rows := k.b.Q
	kk, vv := k.load(k.k, at, x.n), k.values(x, at)
	next := state{q: st.q}
	for e := range k.n {
		ke := kk
		if k.s.KVHeads%k.n != 0 { // lanes beyond the last head hold anything
			ke = k.only(e, kk, 0)
		}
		s := k.scores(x, at, k.matmul(st.q[e], ke, true, k.floats(0, rows, x.n)))
		m := k.max(st.m[e], k.broadcast(k.reduce("maximumf", s, "0xFF800000"), rows, lanes))
		p := k.exp2(k.minus(s, k.repeat(m, x.n/lanes)))
		keep := k.exp2(k.minus(st.m[e], m))
		acc := k.matmul(k.narrow(p), k.summing(e, vv), false, k.floats(0, k.acc[e].dims...))
		next.m = append(next.m, m)
		next.acc = append(next.acc, k.add(k.mul(st.acc[e], k.repeat(keep, acc.dims[1]/lanes)), acc))
		if k.l != nil {
			l := k.columns(p, 0)
			for i := 1; i < x.n/lanes; i++ {
				l = k.add(l, k.columns(p, i))
			}
			next.l = append(next.l, k.add(k.mul(st.l[e], keep), l))
		}
	}
	return next
}

// summing is head e's values, with ones in lanes where there is room: a matrix unit adds
// up the exponentials there in the time that it takes anyway. Of a pair there is room
// in the other head's lanes; where the unit is 256 wide, beside all 128.
func (k *kernel) summing(e int, v value) value {
	switch {
	case k.n > 1:
		return k.only(e, v, 0x3F80)
	case k.l == nil:
		return k.concat(1, v, k.constant(vector("bf16", v.dims...), "1.0e+00"))
	}
	return v
}

// scores scales and masks: what is not real is -inf, whatever it was.
func (k *kernel) scores(x sub, at, s value) value {
	rows := s.dims[0]
	if k.s.scaled() {
		s = k.mul(s, k.floats(k.s.Scale, s.dims...))
	}
	if k.s.Mask {
		s = k.add(s, k.broadcast(k.row(k.mask, at, x.n), s.dims...))
	}
	if !x.partial() {
		return s
	}
	parts := make([]value, x.n/lanes)
	for i := range parts {
		parts[i] = k.columns(s, i)
		if real := x.within(i); !whole(real) {
			none := k.constant(vector("f32", rows, lanes), "0xFF800000")
			parts[i] = k.choose(k.among(real, k.iota(1, rows, lanes)), parts[i], none)
		}
	}
	return k.concat(1, parts...)
}

// values are v's rows, zero where they are not real: a weight of zero times
// rubbish may be no number.
func (k *kernel) values(x sub, at value) value {
	if !x.partial() {
		return k.load(k.v, at, x.n)
	}
	parts := make([]value, x.n/lanes)
	for i := range parts {
		parts[i] = k.load(k.v, k.index(x.from+i*lanes), lanes)
		if real := x.within(i); !whole(real) {
			keep := k.among(real, k.iota(0, lanes, lanes))
			parts[i] = k.narrow(k.choose(keep, k.widen(parts[i]), k.floats(0, lanes, lanes)))
		}
	}
	return k.concat(0, parts...)
}

// among holds where at is in one of the ranges.
func (k *kernel) among(real []Range, at value) value {
	var in value
	for i, r := range real {
		number := func(n int) value { return k.constant(vector("i32", at.dims...), itoa(n)) }
		here := k.compare(less, at, number(r.To))
		if r.From > 0 {
			here = k.op("arith.andi", "", here, k.compare(atLeast, at, number(r.From)), here)
		}
		if i > 0 {
			here = k.op("arith.ori", "", here, in, here)
		}
		in = here
	}
	return in
}

// finish divides by the sums and writes the result.
func (k *kernel) finish() {
	rows := k.b.Q
	var out []value
	for e := range k.n {
		acc := k.all(k.acc[e])
		switch {
		case k.n > 1:
			out = append(out, k.toKeys(e, k.div(acc, k.rotate(acc, k.i32(lanes/2)))))
		case k.l == nil:
			out = append(out, k.div(k.columns(acc, 0), k.columns(acc, 1)))
		default:
			out = append(out, k.div(acc, k.broadcast(k.reduce("add", k.all(k.l[e]), "0.0e+00"), rows, lanes)))
		}
	}
	if k.n > 1 {
		out[0] = k.choose(k.ofHalf(0, rows), out[0], out[1])
	}
	k.store(k.narrow(out[0]), k.o)
}
