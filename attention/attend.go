package attention

import (
	"slices"

	"weft/fault"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// Options of one attention.
type Options struct {
	// Scale multiplies the scores; 0 means 1/sqrt(D). A model without scaling passes 1.
	Scale float64
	// Keys is how many keys at the front of k and v are real. The others are padding
	// that never reaches the result. 0 means that all keys are real.
	Keys int
	// Bias is added to the scaled scores, shape (B|1, H|1, Sq|1, Sk), f32.
	Bias *spmd.Tensor
	// Mask says which keys a query sees: Bool, shape (B|1, H|1, Sq|1, Sk). A query
	// that sees none averages all values, as a softmax of equal scores does.
	Mask *spmd.Tensor
	// Relative adds a bias that depends on the distance from query to key; nil adds none.
	Relative *Relative
	// Causal lets the query at place i see the keys at places up to i. There are at
	// least as many queries as keys. The queries are whole along their tokens, or
	// split as the keys are.
	Causal bool
	// BlockQ and BlockK are the sizes of the blocked form's blocks, in tokens, and
	// HeadBlock is how many heads it computes at a time. 0 takes what the program's
	// target wants, or the package's default.
	BlockQ, BlockK, HeadBlock int
}

// Relative is a bias by distance, as in T5. Table (buckets, H), f32, has the bias of each
// bucket of distances for each head. It is split by heads as the scores are, and each
// block of scores computes its own block of the bias.
type Relative struct {
	Table spmd.Tensor
	// Bucket maps distances to rows of Table. A distance is the key's place minus the
	// query's; distances and rows are i32 and have one shape.
	Bucket func(b *spmd.Builder, distance spmd.Local) spmd.Local
}

// Parts are the projections of one stream of tokens.
type Parts struct{ Q, K, V spmd.Tensor }

// Attend computes softmax(scale q k^T + bias) v.
//
//	q (B, Sq, H, D), k and v (B, Sk, Hkv, D), H a multiple of Hkv; result (B, Sq, H, D), laid out as q is
//
// Batch and heads keep their splits. Where q and k are split alike over tokens, they go
// through Ulysses all-to-alls, and along the axis of a ring keys and values are passed on; where q
// alone is split, it stays as it is. Heads that do not
// divide are an error: sharding.ErrHeadsNotDivisible or sharding.ErrKVHeads.
func Attend(b *spmd.Builder, q, k, v spmd.Tensor, o Options) spmd.Tensor {
	s := sequence{video: Parts{q, k, v}}
	_, out := s.attend(b, o)
	return out
}

// Joint attends over a text and a video together: every token of either sees all tokens of
// both. The text is whole along its tokens; the video's tokens may be split. Video tokens
// from videoTokens on are padding: as keys they are left out, and as queries they give
// zeros. textFirst says which stream comes first in the bias, whose query and key dims
// cover the tokens of both without padding.
//
//	text.Q (B, T, H, D), video.Q (B, Sv, H, D), keys and values likewise; results like the queries
func Joint(b *spmd.Builder, text, video Parts, videoTokens int, textFirst bool, o Options) (textOut, videoOut spmd.Tensor) {
	checkStream(b, text.Q, text.K, text.V, 0)
	checkStream(b, video.Q, video.K, video.V, videoTokens)
	if videoTokens < 1 || videoTokens > video.Q.Dim(1) || text.Q.Dim(2) != video.Q.Dim(2) || text.K.Dim(2) != video.K.Dim(2) {
		b.Fail(fault.New(ErrOperands, nil, "joint attention of text q %v, k %v and video q %v, k %v with %d real video tokens: "+
			"heads are shared, and at least one token is real",
			text.Q.Shape, text.K.Shape, video.Q.Shape, video.K.Shape, videoTokens))
	}
	s := sequence{video: video, text: &text, realVideo: videoTokens, textAttends: true, textFirst: textFirst}
	return s.attend(b, o)
}

// Prefixed attends from a video to the keys and values of a text, which are whole along
// their tokens, and to the video's own behind them. Video tokens from videoTokens on are
// padding and left out as keys. Bias and mask cover the keys of both without padding.
//
//	text.K and text.V (B, T, Hkv, D), text.Q unused; video.Q (B, Sv, H, D), video.K and video.V (B, Sv, Hkv, D); result (B, Sv, H, D)
func Prefixed(b *spmd.Builder, text, video Parts, videoTokens int, o Options) spmd.Tensor {
	checkStream(b, video.Q, text.K, text.V, 0)
	checkStream(b, video.Q, video.K, video.V, videoTokens)
	if videoTokens < 1 || text.K.Dim(2) != video.K.Dim(2) || o.Causal || o.Relative != nil {
		b.Fail(fault.New(ErrOperands, nil, "attention of video q %v, k %v to a text's k %v with %d real video tokens: "+
			"key heads are shared, at least one token is real, and places of text and video are not one order",
			video.Q.Shape, video.K.Shape, text.K.Shape, videoTokens))
	}
	s := sequence{video: video, text: &text, realVideo: videoTokens, textFirst: true}
	_, out := s.attend(b, o)
	return out
}

// sequence is the tokens of one attention. Attend, Joint and Prefixed differ only in what
// stands here.
type sequence struct {
	video Parts // the tokens may be split over axes
	// text is whole along its tokens; nil where there is none. With a text, video tokens
	// from realVideo on are padding.
	text        *Parts
	realVideo   int
	textAttends bool // the text has queries as well as keys
	textFirst   bool
}

// attend is the one path of every attention: check the operands, choose a form, move split
// tokens to split heads, compute what each device holds, and move the result back. The
// first result is the text's, where the text attends.
func (s sequence) attend(b *spmd.Builder, o Options) (textOut, videoOut spmd.Tensor) {
	q, k, v := s.operandTypes()
	o = checkOperands(b, q, k, v, o)
	s = s.reducePartials(b)
	held, heads := s.video.Q.Spec, headAxes(b, s.video)
	tokensSplit := len(s.video.K.Spec.Dim(1)) > 0
	ring := ringAxes(s.video)
	computed := held.WithDim(2, heads...)
	if tokensSplit || s.textAttends {
		computed = computed.WithDim(1, ring...)
	}
	f := chooseForm(b, q, k, computed, o)
	m := tokenMover{b, f.mergesHeads}
	scaled := s.scaleQueries(b, f.queryScale)
	if tokensSplit {
		s.video = m.splitHeads(s.video, heads)
	}
	if len(ring) > 0 {
		textOut, videoOut = s.attendInRing(b, m, f, ring, o)
		if s.textAttends {
			textOut = m.reshard(textOut, s.text.Q.Spec, "joint ulysses: text gathered over heads")
		}
		return textOut, m.reshard(videoOut, held, "ulysses: back to split tokens")
	}
	out := computeLocally(b, s.joinStreams(m), f, scaled, o)
	if !s.textAttends {
		return spmd.Tensor{}, m.reshard(out, held, "ulysses: back to split tokens")
	}
	textOut, videoOut = s.separateStreams(m, out)
	return m.reshard(textOut, s.text.Q.Spec, "joint ulysses: text gathered over heads"),
		m.reshard(videoOut, held, "ulysses: back to split tokens")
}

// operandTypes returns the types of the operands, over the tokens of both streams.
func (s sequence) operandTypes() (q, k, v program.Type) {
	join := func(video spmd.Tensor, textTokens int) program.Type {
		shape := slices.Clone(video.Shape)
		if s.text != nil {
			shape[1] = textTokens + s.realVideo
		}
		return program.Type{DType: video.DType, Shape: shape}
	}
	text := 0
	if s.text != nil {
		text = s.text.K.Dim(1)
	}
	q, k, v = typeOf(s.video.Q), join(s.video.K, text), join(s.video.V, text)
	if s.textAttends {
		q = join(s.video.Q, s.text.Q.Dim(1))
	}
	return q, k, v
}

// reducePartials sums operands that are partial: a softmax is not linear, so it needs whole sums.
func (s sequence) reducePartials(b *spmd.Builder) sequence {
	reduce := func(x spmd.Tensor) spmd.Tensor { return b.Reduced(x, "attention needs whole sums") }
	if s.text != nil {
		text := *s.text
		if s.textAttends {
			text.Q = reduce(text.Q)
		}
		text.K, text.V = reduce(text.K), reduce(text.V)
		s.text = &text
	}
	s.video = Parts{reduce(s.video.Q), reduce(s.video.K), reduce(s.video.V)}
	return s
}

// scaleQueries multiplies the queries by what the form wants scores multiplied by, before
// they are rounded from f32, which costs no accuracy. It reports false and changes
// nothing where the form wants no factor or a query was not rounded from f32.
func (s *sequence) scaleQueries(b *spmd.Builder, factor float64) bool {
	if factor == 0 {
		return false
	}
	queries := []*spmd.Tensor{&s.video.Q}
	if s.textAttends {
		queries = []*spmd.Tensor{&s.text.Q, &s.video.Q}
	}
	scaled := make([]spmd.Tensor, len(queries))
	for i, q := range queries {
		unrounded, ok := b.Unrounded(*q)
		if !ok {
			return false
		}
		scaled[i] = b.Convert(b.Scale(unrounded, factor), q.DType)
	}
	for i, q := range queries {
		*q = scaled[i]
	}
	return true
}

// joinStreams returns the operands over the tokens of both streams, without padding, with
// heads laid out as those of the video's queries are.
func (s sequence) joinStreams(m tokenMover) Parts {
	if s.text == nil {
		return s.video
	}
	join := func(text, video spmd.Tensor) spmd.Tensor {
		spec := sharding.Whole(4).WithDim(0, s.video.Q.Spec.Dim(0)...).WithDim(2, s.video.Q.Spec.Dim(2)...)
		text = m.reshard(text, spec, "joint ulysses: text cut by heads")
		video = m.slice(m.reshard(video, spec, "video held as its heads are"), 0, s.realVideo)
		if s.textFirst {
			return m.concat(text, video)
		}
		return m.concat(video, text)
	}
	joinKeys := func(text, video spmd.Tensor) spmd.Tensor {
		text = copyKeyHeads(m.b, text, s.video.Q)
		return join(text, copyKeyHeads(m.b, video, s.video.Q))
	}
	q := s.video.Q
	if s.textAttends {
		q = join(s.text.Q, s.video.Q)
	}
	return Parts{q, joinKeys(s.text.K, s.video.K), joinKeys(s.text.V, s.video.V)}
}

// separateStreams cuts a result over both streams apart, and pads the video's with zeros.
func (s sequence) separateStreams(m tokenMover, out spmd.Tensor) (text, video spmd.Tensor) {
	n := s.text.Q.Dim(1)
	if s.textFirst {
		text, video = m.slice(out, 0, n), m.slice(out, n, n+s.realVideo)
	} else {
		video, text = m.slice(out, 0, s.realVideo), m.slice(out, s.realVideo, s.realVideo+n)
	}
	return text, m.padTo(video, s.video.Q.Dim(1))
}

// computeLocally runs the chosen form on what each device holds: all keys of some heads, and
// queries whose batch and heads are split as the keys' are.
func computeLocally(b *spmd.Builder, p Parts, f formPlan, scaled bool, o Options) spmd.Tensor {
	spec := sharding.Whole(4).WithDim(0, p.Q.Spec.Dim(0)...).WithDim(2, p.Q.Spec.Dim(2)...)
	q := b.Reshard(p.Q, spec.WithDim(1, p.Q.Spec.Dim(1)...), "queries whole along the head dim: scores sum over it")
	k := b.Reshard(copyKeyHeads(b, p.K, q), spec, "keys held as the queries are")
	v := b.Reshard(copyKeyHeads(b, p.V, q), spec, "values held as the queries are")
	if o.Keys > 0 && !f.skipsPadding {
		k, v = b.Slice(k, 1, 0, o.Keys), b.Slice(v, 1, 0, o.Keys)
	}
	if (o.Causal || o.Relative != nil) && len(q.Spec.Dim(1)) > 0 {
		b.Fail(fault.New(ErrOperands, nil, "queries split over %v beside whole keys: "+
			"a causal attention and a bias by distance count places from the first token", q.Spec.Dim(1)))
	}
	in := localOperands{q: b.Local(q), k: b.Local(k), v: b.Local(v), scaled: scaled}
	if o.Relative != nil {
		table := b.Local(b.Reshard(o.Relative.Table, sharding.Whole(2).WithDim(1, q.Spec.Dim(2)...), "bias by distance held as the heads are"))
		in.table = &table
	}
	in.bias, in.mask = splitAsScores(b, o.Bias, q.Spec, "bias"), splitAsScores(b, o.Mask, q.Spec, "mask")
	return b.Global(f.emit(b, in), q.Shape, q.Spec)
}

// splitAsScores returns each device's part of a bias or mask (B|1, H|1, Sq|1, Sk), split as
// the scores of the queries are; nil where there is none. The forms read a block of it
// where they compute a block of scores.
func splitAsScores(b *spmd.Builder, x *spmd.Tensor, queries sharding.Spec, what string) *spmd.Local {
	if x == nil {
		return nil
	}
	spec := sharding.Whole(4)
	for d, axes := range [][]string{queries.Dim(0), queries.Dim(2), queries.Dim(1)} {
		if x.Shape[d] > 1 {
			spec = spec.WithDim(d, axes...)
		}
	}
	part := b.Local(b.Reshard(*x, spec, what+" held as the scores are"))
	return &part
}
