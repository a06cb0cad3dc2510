package attention

import (
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
	// Mask says which keys a query sees: Bool, same shapes as Bias. A query that
	// sees none averages all values, as a softmax of equal scores does.
	Mask *spmd.Tensor
	// BlockQ and BlockK are the block sizes; 0 means the package's default.
	BlockQ, BlockK int
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
	held := q.Spec
	seq := k.Spec.Dim(1)
	if len(seq) > 0 {
		q, k, v = toHeads(b, q, k, v, seq)
	}
	out := local(b, q, k, v, o)
	return b.Reshard(out, held, "ulysses: back to split tokens")
}

// Joint attends over two parts of one sequence at once: text, whole along its
// tokens, and video, whose tokens may be split. order says which comes first;
// it matters to the bias only, whose key dim covers both without padding.
// Video tokens past videoTokens are padding: as keys they are cut away.
//
//	tq (B, T, H, D), vq (B, Sv, H, D), keys and values likewise
func Joint(b *spmd.Builder, text, video Parts, videoTokens int, textFirst bool, o Options) (textOut, videoOut spmd.Tensor) {
	heldText, heldVideo := text.Q.Spec, video.Q.Spec
	check(b, text.Q, text.K, text.V, Options{})
	check(b, video.Q, video.K, video.V, Options{Keys: videoTokens})
	if seq := video.K.Spec.Dim(1); len(seq) > 0 {
		video.Q, video.K, video.V = toHeads(b, video.Q, video.K, video.V, seq)
		// Heads of the text are cut to match: each device keeps its own, without traffic.
		text.Q = b.Reshard(text.Q, text.Q.Spec.WithDim(2, video.Q.Spec.Dim(2)...), "joint ulysses: text cut by heads")
		text.K, text.V = matchHeads(b, text.K, video.K), matchHeads(b, text.V, video.V)
	}
	t, s := text.Q.Dim(1), video.Q.Dim(1)
	join := func(x, y spmd.Tensor) spmd.Tensor {
		y = b.Slice(y, 1, 0, videoTokens)
		if textFirst {
			return b.Concat(1, x, y)
		}
		return b.Concat(1, y, x)
	}
	o = check(b, join(text.Q, video.Q), join(text.K, video.K), join(text.V, video.V), o)
	out := local(b, join(text.Q, video.Q), join(text.K, video.K), join(text.V, video.V), o)
	if textFirst {
		textOut, videoOut = b.Slice(out, 1, 0, t), b.Slice(out, 1, t, t+videoTokens)
	} else {
		videoOut, textOut = b.Slice(out, 1, 0, videoTokens), b.Slice(out, 1, videoTokens, videoTokens+t)
	}
	videoOut = b.PadTo(videoOut, 1, s)
	return b.Reshard(textOut, heldText, "joint ulysses: text gathered over heads"),
		b.Reshard(videoOut, heldVideo, "ulysses: back to split tokens")
}

// Parts are the projections of one stream.
type Parts struct{ Q, K, V spmd.Tensor }

// toHeads changes split tokens into split heads.
func toHeads(b *spmd.Builder, q, k, v spmd.Tensor, seq []string) (spmd.Tensor, spmd.Tensor, spmd.Tensor) {
	if !slices.Equal(q.Spec.Dim(1), seq) {
		b.Fail(fault.New(ErrOperands, nil, "query tokens are split over %v and key tokens over %v; both or neither", q.Spec.Dim(1), seq))
	}
	m := b.Mesh()
	heads := append(slices.Clone(q.Spec.Dim(2)), seq...)
	if err := sharding.CheckHeads(q.Dim(2), parts(m, q.Spec.Dim(2)), parts(m, seq)); err != nil {
		b.Fail(err)
	}
	move := func(x spmd.Tensor, why string) spmd.Tensor {
		return b.Reshard(x, x.Spec.WithDim(1).WithDim(2, heads...), why)
	}
	q = move(q, "ulysses: query tokens to heads")
	if kv := k.Dim(2); kv%parts(m, heads) == 0 {
		return q, move(k, "ulysses: key tokens to heads"), move(v, "ulysses: value tokens to heads")
	}
	return q, copyHeads(b, k, q, seq), copyHeads(b, v, q, seq)
}

// copyHeads gathers the tokens of k, whose heads are fewer than the devices
// that share them, and lets each device keep the one head its queries use.
func copyHeads(b *spmd.Builder, k, q spmd.Tensor, seq []string) spmd.Tensor {
	m := b.Mesh()
	tp, sp := parts(m, k.Spec.Dim(2)), parts(m, seq)
	if _, _, err := sharding.KVHeads(q.Dim(2), k.Dim(2), tp*sp); err != nil {
		b.Fail(err)
	}
	k = b.Reshard(k, k.Spec.WithDim(1), "ulysses: key tokens gathered, heads are shared by several devices")
	local := b.Local(k)
	perDevice := k.Dim(2) / tp // kv heads here; the sp devices share them
	copies := sp / perDevice
	idx := b.LAxisIndex(seq...)
	if copies > 1 {
		idx = b.LDiv(idx, b.LConst(dtype.I32, float64(copies)))
	}
	one := b.LDynSlice(local, 2, idx, 1)
	// From here on the tensor has one head a device: as many heads as devices.
	shape := slices.Clone(k.Shape)
	shape[2] = tp * sp
	return b.Global(one, shape, k.Spec.WithDim(2, q.Spec.Dim(2)...))
}

// matchHeads holds the heads of text as those of video are held.
func matchHeads(b *spmd.Builder, text, video spmd.Tensor) spmd.Tensor {
	if text.Dim(2) == video.Dim(2) {
		return b.Reshard(text, text.Spec.WithDim(2, video.Spec.Dim(2)...), "joint ulysses: text cut by heads")
	}
	b.Fail(fault.New(ErrOperands, nil, "text has %d key heads where video has %d after sharing", text.Dim(2), video.Dim(2)))
	return text
}

// local runs the blocked form on what each device holds: whole tokens of k, and
// batch and heads split alike.
func local(b *spmd.Builder, q, k, v spmd.Tensor, o Options) spmd.Tensor {
	spec := sharding.Whole(4).WithDim(0, q.Spec.Dim(0)...).WithDim(2, q.Spec.Dim(2)...)
	k = b.Reshard(k, spec, "keys held as the queries are")
	v = b.Reshard(v, spec, "values held as the queries are")
	if o.Keys > 0 {
		k, v = b.Slice(k, 1, 0, o.Keys), b.Slice(v, 1, 0, o.Keys)
	}
	bias := o.Bias
	if o.Mask != nil {
		f := b.Select(*o.Mask, b.Constant(dtype.F32, 0, 1, 1, 1, 1), b.Constant(dtype.F32, spmd.NegInf, 1, 1, 1, 1))
		if bias != nil {
			f = b.Add(f, *bias)
		}
		bias = &f
	}
	var lb *spmd.Local
	if bias != nil {
		want := sharding.Whole(4)
		for d, axes := range [][]string{q.Spec.Dim(0), q.Spec.Dim(2), q.Spec.Dim(1), nil} {
			if bias.Shape[d] > 1 {
				want = want.WithDim(d, axes...)
			}
		}
		x := b.Local(b.Reshard(*bias, want, "bias held as the scores are"))
		lb = &x
	}
	out := blocked(b, b.Local(q), b.Local(k), b.Local(v), lb, o)
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
	if q.Dim(1) < 1 || k.Dim(1) < 1 || o.Keys < 0 || o.Keys > k.Dim(1) {
		bad("at least one query and one key; %d real keys of %d", o.Keys, k.Dim(1))
	}
	if k.Dim(2) < 1 || q.Dim(2)%k.Dim(2) != 0 {
		b.Fail(fault.New(sharding.ErrKVHeads, nil, "%d query heads over %d kv heads: query heads must be a multiple of kv heads", q.Dim(2), k.Dim(2)))
	}
	sk := k.Dim(1)
	if o.Keys > 0 {
		sk = o.Keys
	}
	for _, x := range []*spmd.Tensor{o.Bias, o.Mask} {
		if x == nil {
			continue
		}
		ok := x.Rank() == 4 && x.Shape[3] == sk
		for d, n := range []int{q.Dim(0), q.Dim(2), q.Dim(1)} {
			ok = ok && (x.Shape[d] == 1 || x.Shape[d] == n)
		}
		if !ok {
			bad("bias or mask %v must be (batch|1, heads|1, queries|1, %d)", x.Shape, sk)
		}
	}
	if o.Scale == 0 {
		o.Scale = defaultScale(q.Dim(3))
	}
	if o.BlockQ <= 0 {
		o.BlockQ = DefaultBlockQ
	}
	if o.BlockK <= 0 {
		o.BlockK = DefaultBlockK
	}
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
