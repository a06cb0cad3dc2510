package attention

import (
	"weft/dtype"
	"weft/program"
	"weft/spmd"
)

// blockedFolder is the blocked form of an attention whose keys come in parts. Between parts, the
// states of all queries are kept, in f32.
type blockedFolder struct {
	a     *blockedCall
	q     spmd.Local // heads before tokens, as queryShape has it
	heads int
}

// newBlockedFolder takes queries (B, Sq, H, D) that share so many key heads.
func newBlockedFolder(b *spmd.Builder, q spmd.Local, kv int, o Options) *blockedFolder {
	batch, sq, heads, d := q.Shape[0], q.Shape[1], q.Shape[2], q.Shape[3]
	a := &blockedCall{b: b, o: o, batch: batch, kv: kv, group: heads / kv, d: d, out: q.DType}
	q = b.LTranspose(b.LReshape(q, batch, sq, kv, a.group, d), 0, 2, 3, 1, 4) // B Hkv G Sq D
	return &blockedFolder{a, b.LReshape(q, a.queryShape(sq)...), heads}
}

func (f *blockedFolder) empty() runningSoftmax { return f.a.emptySoftmax(f.q) }

func (f *blockedFolder) order(keys spmd.Local) spmd.Local {
	n, d := keys.Shape[1], keys.Shape[3]
	return f.a.b.LReshape(f.a.b.LTranspose(keys, 0, 2, 1, 3), f.a.batch*f.a.kv, n, d)
}

func (f *blockedFolder) fold(s runningSoftmax, k, v spmd.Local, bias, mask, valid *spmd.Local) runningSoftmax {
	a := *f.a
	a.bias, a.mask, a.valid = bias, mask, valid
	b, n, few := a.b, f.q.Shape[0], a.o.HeadBlock
	for few > 0 && n%few != 0 {
		few--
	}
	if few < 1 || few >= n || bias != nil || mask != nil {
		return a.foldAllQueries(f.q, k, v, s)
	}
	c := b.LLoop(n/few, []spmd.Local{s.m, s.l, s.acc}, func(i spmd.Local, c []spmd.Local) []spmd.Local {
		at := b.LMul(i, b.LConst(dtype.I32, float64(few)))
		part := func(x spmd.Local) spmd.Local { return b.LDynSlice(x, 0, at, few) }
		s := a.foldAllQueries(part(f.q), part(k), part(v), runningSoftmax{part(c[0]), part(c[1]), part(c[2])})
		return []spmd.Local{b.LDynUpdate(c[0], s.m, 0, at), b.LDynUpdate(c[1], s.l, 0, at), b.LDynUpdate(c[2], s.acc, 0, at)}
	})
	return runningSoftmax{c[0], c[1], c[2]}
}

// foldAllQueries folds keys into the states of all queries, block by block.
func (a *blockedCall) foldAllQueries(q, k, v spmd.Local, s runningSoftmax) runningSoftmax {
	b, token := a.b, len(q.Shape)-2
	sq, sk := q.Shape[token], k.Shape[1]
	a.k, a.v = k, v
	bq := queryBlock(sq, a.o)
	if sq == bq {
		return a.foldKeyRange(q, b.LConst(dtype.I32, 0), sq, 0, sk, false, s)
	}
	full := sq / bq
	c := b.LLoop(full, []spmd.Local{s.m, s.l, s.acc}, func(i spmd.Local, c []spmd.Local) []spmd.Local {
		start := b.LMul(i, b.LConst(dtype.I32, float64(bq)))
		part := func(x spmd.Local) spmd.Local { return b.LDynSlice(x, token, start, bq) }
		s := a.foldKeyRange(part(q), start, bq, 0, sk, false, runningSoftmax{part(c[0]), part(c[1]), part(c[2])})
		return []spmd.Local{b.LDynUpdate(c[0], s.m, token, start), b.LDynUpdate(c[1], s.l, token, start), b.LDynUpdate(c[2], s.acc, token, start)}
	})
	s = runningSoftmax{c[0], c[1], c[2]}
	if from := full * bq; from < sq {
		start := b.LConst(dtype.I32, float64(from))
		part := func(x spmd.Local) spmd.Local { return b.LSlice(x, token, from, sq) }
		rest := a.foldKeyRange(part(q), start, sq-from, 0, sk, false, runningSoftmax{part(s.m), part(s.l), part(s.acc)})
		s = runningSoftmax{b.LDynUpdate(s.m, rest.m, token, start), b.LDynUpdate(s.l, rest.l, token, start), b.LDynUpdate(s.acc, rest.acc, token, start)}
	}
	return s
}

func (f *blockedFolder) joined(s runningSoftmax, axes []string) runningSoftmax {
	b, scale := f.a.b, f.a.o.Scale
	if f.a.o.Bias != nil || f.a.o.Mask != nil { // scores were scaled before either was added
		scale = 1
	}
	most := b.LAllReduce(program.Maximum, s.m, axes, "ring: maximum of the text's scores")
	keep := b.LUnary(program.OpExp, b.LScale(b.LSub(s.m, most), scale))
	last := len(s.acc.Shape) - 1
	sums := b.LConcat(last, b.LMul(s.acc, keep), b.LMul(s.l, keep))
	sums = b.LAllReduce(program.Sum, sums, axes, "ring: the text's sums over all keys")
	d := s.acc.Shape[last]
	return runningSoftmax{most, b.LSlice(sums, last, d, d+1), b.LSlice(sums, last, 0, d)}
}

func (f *blockedFolder) result(s runningSoftmax) spmd.Local {
	a, b := f.a, f.a.b
	sq := f.q.Shape[len(f.q.Shape)-2]
	out := b.LConvert(b.LDiv(s.acc, s.l), a.out)
	out = b.LReshape(out, a.batch, a.kv, a.group, sq, a.d)
	return b.LReshape(b.LTranspose(out, 0, 3, 1, 2, 4), a.batch, sq, f.heads, a.d)
}
