package attention

import (
	"math"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/sharding"
	"weft/spmd"
)

// What can be wrong with a call.
var (
	// ErrOperands: shapes or element types that do not belong together.
	ErrOperands = fault.NewKind("attention-operands")
	// ErrKernelUnavailable: a kernel was asked for by name that the target or the shape does not allow.
	ErrKernelUnavailable = fault.NewKind("kernel-unavailable")
)

// Unavailable is what ErrKernelUnavailable carries.
type Unavailable struct {
	Kernel string `json:"kernel"`
	Target string `json:"target"`
	Reason string `json:"reason"`
}

// Options of one attention.
type Options struct {
	// Scale multiplies the scores; 0 means 1/sqrt(D). A model without scaling passes 1.
	Scale float64
	// Keys is how many keys at the front of k and v are real; the rest is
	// padding that never reaches the result. 0 means all.
	Keys int
	// Bias is added to the scaled scores, shape (B|1, H|1, Sq|1, Sk), f32.
	Bias *spmd.Tensor
	// Mask says which keys a query sees: Bool, of such a shape. A query that
	// sees none averages all values, as a softmax of equal scores does.
	Mask *spmd.Tensor
	// Relative adds a bias that depends on how far apart query and key are; nil adds none.
	Relative *Relative
	// Causal lets the query at place i see the keys at places up to i. There are
	// at least as many queries as keys, whole along their tokens or split as the keys are.
	Causal bool
	// BlockQ and BlockK are the block sizes, HeadBlock how many heads go at a
	// time; 0 means what the program's target wants, or the package's default.
	BlockQ, BlockK, HeadBlock int
}

// Relative is a bias by distance, as T5's: Table (buckets, H), f32, has the bias
// of each bucket of distances for each head. It is split by heads as the scores
// are, and a block of the bias is made where a block of scores is.
type Relative struct {
	Table spmd.Tensor
	// Bucket makes of distances, the key's place less the query's, an i32 of any
	// shape, rows of Table.
	Bucket func(b *spmd.Builder, distance spmd.Local) spmd.Local
}

// Default block sizes: the fastest of those tried through the CPU plugin, see bench.
const (
	DefaultBlockQ = 256
	DefaultBlockK = 512
)

// Attend is softmax(scale q k^T + bias) v.
//
//	q (B, Sq, H, D), k and v (B, Sk, Hkv, D), H a multiple of Hkv; result (B, Sq, H, D), held as q is
//
// Splits of batch and heads are carried through. Tokens split alike in q and k
// go through Ulysses all-to-alls; tokens split in q alone stay as they are. The
// error for heads that do not divide is sharding.ErrHeadsNotDivisible or
// sharding.ErrKVHeads.
func Attend(b *spmd.Builder, q, k, v spmd.Tensor, o Options) spmd.Tensor {
	o = check(b, q, k, v, o)
	p := whole(b, Parts{q, k, v})
	held := p.Q.Spec
	seq := p.K.Spec.Dim(1)
	heads, split := headAxes(b, p, seq), held
	if len(seq) > 0 {
		split = held.WithDim(1).WithDim(2, heads...)
	}
	f := choose(b, operands{q.Shape, k.Shape, q.DType, split}, o)
	p.Q = f.scale(b, o, p.Q)[0]
	if len(seq) > 0 {
		p = f.toHeads(b, p, heads)
	}
	out := local(b, p, f, o)
	return f.reshard(b, out, held, "ulysses: back to split tokens")
}

// Joint attends over two parts of one sequence at once: text, whole along its
// tokens, and video, whose tokens may be split. order says which comes first;
// it matters to the bias only, whose query and key dims cover both without
// padding. Video tokens past videoTokens are padding: as keys they are cut
// away, and as queries they give zeros.
//
//	tq (B, T, H, D), vq (B, Sv, H, D), keys and values likewise
func Joint(b *spmd.Builder, text, video Parts, videoTokens int, textFirst bool, o Options) (textOut, videoOut spmd.Tensor) {
	check(b, text.Q, text.K, text.V, Options{})
	check(b, video.Q, video.K, video.V, Options{Keys: videoTokens})
	if videoTokens < 1 || videoTokens > video.Q.Dim(1) || text.Q.Dim(2) != video.Q.Dim(2) || text.K.Dim(2) != video.K.Dim(2) {
		b.Fail(fault.New(ErrOperands, nil, "joint attention of text q %v, k %v and video q %v, k %v with %d real video tokens: heads are shared, and at least one token is real",
			text.Q.Shape, text.K.Shape, video.Q.Shape, video.K.Shape, videoTokens))
	}
	text, video = whole(b, text), whole(b, video)
	heldText, heldVideo := text.Q.Spec, video.Q.Spec
	seq := video.K.Spec.Dim(1)
	heads := headAxes(b, video, seq)
	joined := func(x, y spmd.Tensor) []int { return []int{x.Dim(0), x.Dim(1) + videoTokens, y.Dim(2), x.Dim(3)} }
	if o.Scale == 0 {
		o.Scale = defaultScale(text.Q.Dim(3))
	}
	f := choose(b, operands{joined(text.Q, video.Q), joined(text.K, video.K), text.Q.DType,
		sharding.Whole(4).WithDim(0, heldVideo.Dim(0)...).WithDim(2, heads...)}, o)
	qs := f.scale(b, o, text.Q, video.Q)
	text.Q, video.Q = qs[0], qs[1]
	if len(seq) > 0 {
		video = f.toHeads(b, video, heads)
	}
	join := func(x, y spmd.Tensor) spmd.Tensor { return f.together(b, x, y, video.Q, videoTokens, textFirst) }
	keys := func(x, y spmd.Tensor) spmd.Tensor {
		return join(shareHeads(b, x, video.Q), shareHeads(b, y, video.Q))
	}
	t, s := text.Q.Dim(1), video.Q.Dim(1)
	p := Parts{join(text.Q, video.Q), keys(text.K, video.K), keys(text.V, video.V)}
	out := local(b, p, f, check(b, p.Q, p.K, p.V, o))
	if textFirst {
		textOut, videoOut = f.cut(b, out, 0, t), f.cut(b, out, t, t+videoTokens)
	} else {
		videoOut, textOut = f.cut(b, out, 0, videoTokens), f.cut(b, out, videoTokens, videoTokens+t)
	}
	videoOut = f.flat(b, func(xs []spmd.Tensor) spmd.Tensor { return b.PadTo(xs[0], 1, s) }, videoOut)
	return f.reshard(b, textOut, heldText, "joint ulysses: text gathered over heads"),
		f.reshard(b, videoOut, heldVideo, "ulysses: back to split tokens")
}

// Prefixed attends from video to keys and values of a text, whole along their
// tokens, and to its own behind them. Video tokens past videoTokens are padding,
// cut away as keys. Bias and mask cover the keys of both, without padding.
//
//	text k and v (B, T, Hkv, D), its q unused; video q (B, Sv, H, D), k and v (B, Sv, Hkv, D); result (B, Sv, H, D)
func Prefixed(b *spmd.Builder, text, video Parts, videoTokens int, o Options) spmd.Tensor {
	check(b, video.Q, text.K, text.V, Options{})
	check(b, video.Q, video.K, video.V, Options{Keys: videoTokens})
	if videoTokens < 1 || text.K.Dim(2) != video.K.Dim(2) || o.Causal || o.Relative != nil {
		b.Fail(fault.New(ErrOperands, nil, "attention of video q %v, k %v to a text's k %v with %d real video tokens: key heads are shared, at least one token is real, and places of text and video are not one order",
			video.Q.Shape, video.K.Shape, text.K.Shape, videoTokens))
	}
	text.K, text.V = b.Reduced(text.K, "attention needs whole sums"), b.Reduced(text.V, "attention needs whole sums")
	video = whole(b, video)
	held, seq := video.Q.Spec, video.K.Spec.Dim(1)
	heads, split := headAxes(b, video, seq), held
	if len(seq) > 0 {
		split = held.WithDim(1).WithDim(2, heads...)
	}
	if o.Scale == 0 {
		o.Scale = defaultScale(video.Q.Dim(3))
	}
	k := slices.Clone(video.K.Shape)
	k[1] = text.K.Dim(1) + videoTokens
	f := choose(b, operands{video.Q.Shape, k, video.Q.DType, split}, o)
	video.Q = f.scale(b, o, video.Q)[0]
	if len(seq) > 0 {
		video = f.toHeads(b, video, heads)
	}
	keys := func(x, y spmd.Tensor) spmd.Tensor {
		return f.together(b, shareHeads(b, x, video.Q), shareHeads(b, y, video.Q), video.Q, videoTokens, true)
	}
	p := Parts{video.Q, keys(text.K, video.K), keys(text.V, video.V)}
	return f.reshard(b, local(b, p, f, check(b, p.Q, p.K, p.V, o)), held, "ulysses: back to split tokens")
}

// together lays text and the first n tokens of video end to end, heads held as
// those of q are: without traffic, where the text is whole.
func (f form) together(b *spmd.Builder, text, video, q spmd.Tensor, n int, textFirst bool) spmd.Tensor {
	spec := sharding.Whole(4).WithDim(0, q.Spec.Dim(0)...).WithDim(2, q.Spec.Dim(2)...)
	text = f.reshard(b, text, spec, "joint ulysses: text cut by heads")
	video = f.cut(b, f.reshard(b, video, spec, "video held as its heads are"), 0, n)
	parts := []spmd.Tensor{video, text}
	if textFirst {
		parts = []spmd.Tensor{text, video}
	}
	return f.flat(b, func(xs []spmd.Tensor) spmd.Tensor { return b.Concat(1, xs...) }, parts...)
}

// Parts are the projections of one stream.
type Parts struct{ Q, K, V spmd.Tensor }

// whole reduces partial sums: a softmax is not linear.
func whole(b *spmd.Builder, p Parts) Parts {
	const why = "attention needs whole sums"
	return Parts{b.Reduced(p.Q, why), b.Reduced(p.K, why), b.Reduced(p.V, why)}
}

// headAxes is how the heads will be split once tokens split over seq are whole.
func headAxes(b *spmd.Builder, p Parts, seq []string) []string {
	if len(seq) == 0 {
		return p.Q.Spec.Dim(2)
	}
	if !slices.Equal(p.Q.Spec.Dim(1), seq) {
		b.Fail(fault.New(ErrOperands, nil, "query tokens are split over %v and key tokens over %v; both or neither", p.Q.Spec.Dim(1), seq))
	}
	m := b.Mesh()
	if err := sharding.CheckHeads(p.Q.Dim(2), parts(m, p.Q.Spec.Dim(2)), parts(m, seq)); err != nil {
		b.Fail(err)
	}
	return append(p.Q.Spec.Dim(2), seq...)
}

// flat does with several (B, S, H, D) what change does with them as the kernel takes
// them, (B, S, H*D): where D is a dim of its own a TPU changes places in memory before
// the kernel and after it. Other forms have heads as a dim.
func (f form) flat(b *spmd.Builder, change func(xs []spmd.Tensor) spmd.Tensor, xs ...spmd.Tensor) spmd.Tensor {
	h, d := xs[0].Dim(2), xs[0].Dim(3)
	if !f.kernel || slices.ContainsFunc(xs, func(x spmd.Tensor) bool { return len(x.Spec.Dim(3)) > 0 }) {
		return change(xs)
	}
	merged := make([]spmd.Tensor, len(xs))
	for i, x := range xs {
		merged[i] = b.MergeDims(x, 2, 2)
	}
	return b.SplitDim(change(merged), 2, h, d)
}

// reshard is Builder.Reshard of a (B, S, H, D).
func (f form) reshard(b *spmd.Builder, x spmd.Tensor, spec sharding.Spec, why string) spmd.Tensor {
	if spec.Equal(x.Spec) {
		return x
	}
	return f.flat(b, func(xs []spmd.Tensor) spmd.Tensor {
		to := sharding.Whole(xs[0].Rank())
		for d := range xs[0].Rank() {
			to = to.WithDim(d, spec.Dim(d)...)
		}
		return b.Reshard(xs[0], to, why)
	}, x)
}

// cut is tokens [from, to) of a (B, S, H, D).
func (f form) cut(b *spmd.Builder, x spmd.Tensor, from, to int) spmd.Tensor {
	return f.flat(b, func(xs []spmd.Tensor) spmd.Tensor { return b.Slice(xs[0], 1, from, to) }, x)
}

// toHeads changes split tokens into split heads.
func (f form) toHeads(b *spmd.Builder, p Parts, heads []string) Parts {
	move := func(x spmd.Tensor, why string) spmd.Tensor {
		return f.reshard(b, x, x.Spec.WithDim(1).WithDim(2, heads...), why)
	}
	p.Q = move(p.Q, "ulysses: query tokens to heads")
	p.K = move(shareHeads(b, p.K, p.Q), "ulysses: key tokens to heads")
	p.V = move(shareHeads(b, p.V, p.Q), "ulysses: value tokens to heads")
	return p
}

// shareHeads gives k, keys or values, at least as many heads as there are
// devices that share the heads of q. Where it has fewer, each head is repeated
// for the neighbouring devices that use it (field report A02): from there on
// the copies are heads like any other, and travel once each.
func shareHeads(b *spmd.Builder, k, q spmd.Tensor) spmd.Tensor {
	_, copies, err := sharding.KVHeads(q.Dim(2), k.Dim(2), parts(b.Mesh(), q.Spec.Dim(2)))
	if err != nil {
		b.Fail(err)
	}
	if copies == 1 {
		return k
	}
	x := b.Local(k)
	n, s, h, d := x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]
	x = b.LReshape(b.LBroadcast(b.LReshape(x, n, s, h, 1, d), n, s, h, copies, d), n, s, h*copies, d)
	shape := slices.Clone(k.Shape)
	shape[2] *= copies
	return b.Global(x, shape, k.Spec)
}

// local runs the chosen form on what each device holds: whole tokens of k, and
// batch and heads split alike.
func local(b *spmd.Builder, p Parts, f form, o Options) spmd.Tensor {
	spec := sharding.Whole(4).WithDim(0, p.Q.Spec.Dim(0)...).WithDim(2, p.Q.Spec.Dim(2)...)
	q := b.Reshard(p.Q, spec.WithDim(1, p.Q.Spec.Dim(1)...), "queries whole along the head dim: scores sum over it")
	k := b.Reshard(shareHeads(b, p.K, q), spec, "keys held as the queries are")
	v := b.Reshard(shareHeads(b, p.V, q), spec, "values held as the queries are")
	if o.Keys > 0 && !f.kernel { // the kernel passes over the others itself
		k, v = b.Slice(k, 1, 0, o.Keys), b.Slice(v, 1, 0, o.Keys)
	}
	// Bias and mask are cut as the scores are; a block of them is read where a block of scores is made.
	cutAs := func(x *spmd.Tensor, what string) *spmd.Local {
		if x == nil {
			return nil
		}
		want := sharding.Whole(4)
		for d, axes := range [][]string{q.Spec.Dim(0), q.Spec.Dim(2), q.Spec.Dim(1)} {
			if x.Shape[d] > 1 {
				want = want.WithDim(d, axes...)
			}
		}
		l := b.Local(b.Reshard(*x, want, what+" held as the scores are"))
		return &l
	}
	if (o.Causal || o.Relative != nil) && len(q.Spec.Dim(1)) > 0 {
		b.Fail(fault.New(ErrOperands, nil, "queries split over %v beside whole keys: a causal attention and a bias by distance count places from the first token", q.Spec.Dim(1)))
	}
	var table *spmd.Local
	if o.Relative != nil {
		t := b.Local(b.Reshard(o.Relative.Table, sharding.Whole(2).WithDim(1, q.Spec.Dim(2)...), "bias by distance held as the heads are"))
		table = &t
	}
	if f.kernel {
		return b.Global(f.run(b, b.Local(q), b.Local(k), b.Local(v), cutAs(o.Bias, "bias"), cutAs(o.Mask, "mask"), o), q.Shape, q.Spec)
	}
	out := blocked(b, b.Local(q), b.Local(k), b.Local(v), cutAs(o.Bias, "bias"), cutAs(o.Mask, "mask"), table, o)
	return b.Global(out, q.Shape, q.Spec)
}

// check refuses operands that do not belong together and fills in defaults.
func check(b *spmd.Builder, q, k, v spmd.Tensor, o Options) Options {
	bad := func(format string, args ...any) {
		b.Fail(fault.New(ErrOperands, nil, "attention of q %v%v, k %v%v, v %v%v: "+format,
			append([]any{q.DType, q.Shape, k.DType, k.Shape, v.DType, v.Shape}, args...)...))
	}
	if q.Rank() != 4 || k.Rank() != 4 || v.Rank() != 4 {
		bad("want (batch, tokens, heads, head dim) each")
	}
	if !slices.Equal(k.Shape, v.Shape) || q.Dim(0) != k.Dim(0) || q.Dim(3) != k.Dim(3) {
		bad("batch and head dim are shared, k and v have one shape")
	}
	if q.DType != k.DType || k.DType != v.DType {
		bad("one element type")
	}
	if slices.Min(q.Shape) < 1 || k.Dim(1) < 1 || o.Keys < 0 || o.Keys > k.Dim(1) {
		bad("at least one query and one key; %d real keys of %d", o.Keys, k.Dim(1))
	}
	if _, _, err := sharding.KVHeads(q.Dim(2), k.Dim(2), 1); err != nil {
		b.Fail(err)
	}
	sk := k.Dim(1)
	if o.Keys > 0 {
		sk = o.Keys
	}
	for _, x := range []struct {
		what string
		t    *spmd.Tensor
		d    dtype.DType
	}{{"bias", o.Bias, dtype.F32}, {"mask", o.Mask, dtype.Bool}} {
		if x.t == nil {
			continue
		}
		ok := x.t.Rank() == 4 && x.t.Shape[3] == sk && x.t.DType == x.d
		for d, n := range []int{q.Dim(0), q.Dim(2), q.Dim(1)} {
			ok = ok && (x.t.Shape[d] == 1 || x.t.Shape[d] == n)
		}
		if !ok {
			bad("%s %v%v must be %v (batch|1, heads|1, queries|1, %d)", x.what, x.t.DType, x.t.Shape, x.d, sk)
		}
	}
	if o.Causal && q.Dim(1) < sk {
		bad("causal, with fewer queries than the %d keys", sk)
	}
	if r := o.Relative; r != nil && (r.Table.Rank() != 2 || r.Table.DType != dtype.F32 || r.Table.Shape[0] < 1 || r.Table.Shape[1] != q.Dim(2)) {
		bad("bias by distance %v%v must be f32 (buckets, %d heads)", r.Table.DType, r.Table.Shape, q.Dim(2))
	}
	if !(o.Scale >= 0) || math.IsInf(o.Scale, 0) {
		bad("scale %g must be a positive number, or 0 for 1/sqrt(head dim)", o.Scale)
	}
	if o.Scale == 0 {
		o.Scale = defaultScale(q.Dim(3))
	}
	t := b.Target()
	o.BlockQ = first(o.BlockQ, t.QueryBlock, DefaultBlockQ)
	o.BlockK = first(o.BlockK, t.KeyBlock, DefaultBlockK)
	o.HeadBlock = first(o.HeadBlock, t.HeadBlock)
	return o
}

// parts is how many ways axes split a dim; none do not split it.
func parts(m *mesh.Mesh, axes []string) int {
	n := 1
	for _, a := range axes {
		n *= m.Size(a)
	}
	return n
}

// first is the first positive number, or 0.
func first(ns ...int) int {
	for _, n := range ns {
		if n > 0 {
			return n
		}
	}
	return 0
}
