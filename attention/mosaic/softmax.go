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
		k.store(k.floats(least, rows, lanes), k.m[e], 0)
		k.store(k.floats(0, rows, lanes), k.l[e], 0)
		if k.n > 1 {
			k.store(k.ofHead(e, k.load(k.q, 0, rows)), k.one[e], 0)
		}
	}
	k.store(k.floats(0, rows, lanes), k.acc, 0)
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

// ofHead zeroes the lanes of a (rows, 128) bf16 that are not head e's.
func (k *kernel) ofHead(e int, x value) value {
	zero := k.floats(0, x.dims...)
	a, b := k.widen(x), zero
	if e == 1 {
		a, b = b, a
	}
	return k.narrow(k.choose(k.low(x.dims[0]), a, b))
}

// low holds in the lanes of a pair's first head.
func (k *kernel) low(rows int) value {
	lane := k.iota(1, rows, lanes)
	return k.compare(less, lane, k.constant(vector("i32", rows, lanes), "64"))
}

// byHead takes each head's lanes from its own value.
func (k *kernel) byHead(vs []value) value {
	if len(vs) == 1 {
		return vs[0]
	}
	return k.choose(k.low(vs[0].dims[0]), vs[0], vs[1])
}

// state is a block of queries and its running softmax: by head q, the maximum so far
// and the sums of exponentials by lane; and the weighted sum of values.
type state struct {
	q, m, l []value
	acc     value
}

// held is the state as it is in scratch.
func (k *kernel) held() state {
	var st state
	for e := range k.n {
		q := k.q
		if k.n > 1 {
			q = k.one[e]
		}
		st.q = append(st.q, k.load(q, 0, k.b.Q))
		st.m, st.l = append(st.m, k.load(k.m[e], 0, k.b.Q)), append(st.l, k.load(k.l[e], 0, k.b.Q))
	}
	st.acc = k.load(k.acc, 0, k.b.Q)
	return st
}

func (k *kernel) hold(st state) {
	for e := range k.n {
		k.store(st.m[e], k.m[e], 0)
		k.store(st.l[e], k.l[e], 0)
	}
	k.store(st.acc, k.acc, 0)
}

// keys folds sub-blocks of keys into the state.
func (k *kernel) keys(subs []sub) {
	st := k.held()
	for i, x := range subs {
		if i > 0 && !k.b.Kept {
			k.hold(st)
			st = k.held()
		}
		st = k.sub(x, st)
	}
	k.hold(st)
}

// sub makes the scores of some keys and folds them in:
//
//	s = q k^T + mask              m' = max(m, max_j s_j)
//	p = 2^(s - m')                c = 2^(m - m')
//	l' = c l + p by lane          acc' = c acc + p v
//
// Sums of p stay apart by lane until the end, and nothing is divided until then.
func (k *kernel) sub(x sub, st state) state {
	rows := k.b.Q
	kk, vv := k.load(k.k, x.from, x.n), k.values(x)
	next := state{q: st.q}
	var keeps, pvs []value
	for e := range k.n {
		ke := kk
		if k.s.Heads%k.n != 0 { // lanes beyond the last head hold anything
			ke = k.ofHead(e, kk)
		}
		s := k.scores(x, k.matmul(st.q[e], ke, true, k.floats(0, rows, x.n)))
		m := k.max(st.m[e], k.broadcast(k.reduce("maximumf", s, "0xFF800000"), rows, lanes))
		wide := make([]value, x.n/lanes)
		for i := range wide {
			wide[i] = m
		}
		p := k.exp2(k.minus(s, k.concat(1, wide...)))
		l := k.columns(p, 0)
		for i := 1; i < len(wide); i++ {
			l = k.add(l, k.columns(p, i))
		}
		pvs = append(pvs, k.matmul(k.narrow(p), vv, false, k.floats(0, rows, lanes)))
		keep := k.exp2(k.minus(st.m[e], m))
		next.m, next.l, keeps = append(next.m, m), append(next.l, k.add(k.mul(st.l[e], keep), l)), append(keeps, keep)
	}
	next.acc = k.add(k.mul(st.acc, k.byHead(keeps)), k.byHead(pvs))
	return next
}

// scores scales and masks: what is not real is -inf, whatever it was.
func (k *kernel) scores(x sub, s value) value {
	rows := s.dims[0]
	if k.s.scaled() {
		s = k.mul(s, k.floats(k.s.Scale, s.dims...))
	}
	if k.s.Mask {
		s = k.add(s, k.broadcast(k.row(k.mask, x.from, x.n), s.dims...))
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
func (k *kernel) values(x sub) value {
	if !x.partial() {
		return k.load(k.v, x.from, x.n)
	}
	parts := make([]value, x.n/lanes)
	for i := range parts {
		parts[i] = k.load(k.v, x.from+i*lanes, lanes)
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
	var sums []value
	for e := range k.n {
		sums = append(sums, k.broadcast(k.reduce("add", k.load(k.l[e], 0, rows), "0.0e+00"), rows, lanes))
	}
	k.store(k.narrow(k.div(k.load(k.acc, 0, rows), k.byHead(sums))), k.o, 0)
}
