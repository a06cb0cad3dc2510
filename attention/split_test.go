package attention_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/attention"
	"weft/dtype"
	"weft/fault"
	"weft/internal/meshtest"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
	"weft/targets"
)

var (
	tp = []string{"tp"}
	sp = []string{"sp"}
)

// count is how many collectives of an operation a program has.
func count(p *program.Program, op program.Op) int {
	n := 0
	for _, t := range cost.Collectives(p) {
		if t.Op == op {
			n += t.Count
		}
	}
	return n
}

func ulysses(t testing.TB) (call, *interp.Array) {
	f := fixture(t)
	return call{q: f("ulysses.q"), k: f("ulysses.k"), v: f("ulysses.v"), qTokens: sp, kTokens: sp}, f("ulysses.out")
}

// Split tokens go through three all-to-alls in and one out, and nothing else.
func TestUlysses(t *testing.T) {
	for _, on := range []string{"sp=2", "sp=4", "tp=2,sp=2", "sp=2,tp=2"} {
		c, want := ulysses(t)
		m := meshtest.Mesh(t, on)
		if m.Has("tp") {
			c.qHeads, c.kHeads = tp, tp
		}
		for _, bl := range blocks {
			c.o.BlockQ, c.o.BlockK = bl[0], bl[1]
			compare(t, on, c.on(t, m), want, tolerance)
		}
		p := c.program(t, m)
		// One device's part of q, k and v, and of the result, changes hands once.
		n := int64(48 * 4 * 16 / m.NumDevices())
		got := cost.Collectives(p)
		if len(got) != 1 || got[0].Op != program.OpAllToAll || got[0].Axis != "sp" || got[0].Count != 4 || got[0].Elements != 4*n {
			t.Errorf("%s: %v", on, got)
		}
	}
}

// jointCall is an attention over text and video.
type jointCall struct {
	text, video [3]*interp.Array // q, k, v
	tokens      int              // real ones of the video
	textFirst   bool
	bias        *interp.Array
	o           attention.Options

	heads, kvHeads []string // axes of both streams' heads
	textTokens     []string
	videoTokens    []string // sp where nothing is said
}

func (j jointCall) define(b *spmd.Builder) {
	stream := func(name string, xs [3]*interp.Array, tokens []string) attention.Parts {
		in := func(i int, suffix string, heads []string) spmd.Tensor {
			return b.Input(name+suffix, xs[i].DType, xs[i].Shape, sharding.NewSpec(nil, tokens, heads))
		}
		return attention.Parts{Q: in(0, "q", j.heads), K: in(1, "k", j.kvHeads), V: in(2, "v", j.kvHeads)}
	}
	o := j.o
	if j.bias != nil {
		x := b.Input("bias", dtype.F32, j.bias.Shape, sharding.Whole(4))
		o.Bias = &x
	}
	tokens := j.videoTokens
	if tokens == nil {
		tokens = sp
	}
	text, video := stream("t", j.text, j.textTokens), stream("v", j.video, tokens)
	to, vo := attention.Joint(b, text, video, j.tokens, j.textFirst, o)
	b.Output("text", to, "")
	b.Output("video", vo, "")
}

func (j jointCall) values() meshtest.Values {
	in := meshtest.Values{"bias": j.bias}
	for i, s := range []string{"q", "k", "v"} {
		in["t"+s], in["v"+s] = j.text[i], j.video[i]
	}
	return in
}

// want is the one-device answer: a plain attention over the joined parts.
func (j jointCall) want() (text, video *interp.Array) {
	var x [3]*interp.Array
	n := j.text[0].Shape[1]
	for i := range x {
		v := part(j.video[i], 1, 0, j.tokens)
		if j.textFirst {
			x[i] = joined(j.text[i], v)
		} else {
			x[i] = joined(v, j.text[i])
		}
	}
	out := naive(call{q: x[0], k: x[1], v: x[2], bias: j.bias, o: j.o})
	if j.textFirst {
		return part(out, 1, 0, n), part(out, 1, n, n+j.tokens)
	}
	return part(out, 1, j.tokens, j.tokens+n), part(out, 1, 0, j.tokens)
}

func fixtureJoint(t testing.TB) jointCall {
	f := fixture(t)
	j := jointCall{tokens: 48}
	for i, s := range []string{"q", "k", "v"} {
		j.text[i], j.video[i] = f("joint."+s+"_text"), f("ulysses."+s)
	}
	return j
}

func TestJoint(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, on := range []string{"", "sp=2", "sp=4", "tp=2", "tp=2,sp=2"} {
		m := meshtest.Mesh(t, on)
		for _, textFirst := range []bool{true, false} {
			for _, biased := range []bool{false, true} {
				j := fixtureJoint(t)
				j.textFirst = textFirst
				j.o.BlockQ, j.o.BlockK = 16, 13
				if m.Has("tp") {
					j.heads, j.kvHeads = tp, tp
				}
				if !m.Has("sp") {
					m = meshtest.Mesh(t, strings.TrimPrefix(on+",sp=1", ","))
				}
				if biased { // which tells the orders apart
					j.bias = random(r, dtype.F32, 1, 4, 55, 55)
				}
				what := fmt.Sprint(on, " text first ", textFirst, " bias ", biased)
				p := meshtest.Build(t, m, j.define)
				got := meshtest.Interp(t, p, j.values())
				text, video := j.want()
				compare(t, what, got["text"], text, tolerance)
				compare(t, what, got["video"], video, tolerance)
				if !biased { // [text; visual] in the fixture; without a bias the order is one of names
					out := fixture(t)("joint.out")
					compare(t, what, got["text"], part(out, 1, 0, 7), tolerance)
					compare(t, what, got["video"], part(out, 1, 7, 55), tolerance)
				}
				// The video goes there and back; the text's result is gathered, its operands cut for nothing.
				if m.Size("sp") > 1 && (count(p, program.OpAllToAll) != 4 || count(p, program.OpAllGather) != 1 || len(cost.Instances(p)) != 5) {
					t.Errorf("%s: %v", what, cost.Collectives(p))
				}
				if m.Size("sp") == 1 && len(cost.Instances(p)) > 0 {
					t.Errorf("%s: %v", what, cost.Collectives(p))
				}
			}
		}
	}
}

func TestJointXLA(t *testing.T) {
	e := meshtest.XLA(t)
	j := fixtureJoint(t)
	j.o.BlockQ, j.o.BlockK = 16, 32
	j.heads, j.kvHeads, j.tokens = tp, tp, 45
	got := meshtest.Run(t, e, meshtest.Build(t, meshtest.Mesh(t, "tp=2,sp=2"), j.define), j.values())
	text, video := j.want()
	compare(t, "text", got["text"], text, tolerance)
	compare(t, "video", part(got["video"], 1, 0, 45), video, tolerance)
}

// Text that comes with split tokens is gathered, attended and cut again.
func TestJointSplitText(t *testing.T) {
	j := fixtureJoint(t)
	for i := range j.text {
		j.text[i] = part(j.text[i], 1, 0, 6)
	}
	j.textTokens, j.textFirst = sp, true
	got := meshtest.Interp(t, meshtest.Build(t, meshtest.Mesh(t, "sp=2"), j.define), j.values())
	text, video := j.want()
	compare(t, "text", got["text"], text, tolerance)
	compare(t, "video", got["video"], video, tolerance)
}

// A token count that sp does not divide: padding holds
// numbers that would show, and the real tokens come out as on one device.
func TestPaddedTokens(t *testing.T) {
	for _, c := range []struct {
		on     string
		tokens int
	}{{"sp=2", 47}, {"sp=4", 45}, {"sp=4", 46}, {"tp=2,sp=2", 47}, {"sp=4", 1}} {
		m := meshtest.Mesh(t, c.on)
		u, _ := ulysses(t)
		whole := u
		whole.q, whole.k, whole.v = part(u.q, 1, 0, c.tokens), part(u.k, 1, 0, c.tokens), part(u.v, 1, 0, c.tokens)
		want := naive(whole)
		n := numbers.RoundUp(c.tokens, m.Size("sp"))
		u.q, u.k, u.v = padded(whole.q, 1, n), padded(whole.k, 1, n), padded(whole.v, 1, n)
		u.o = attention.Options{Keys: c.tokens, BlockQ: 7, BlockK: 13}
		if m.Has("tp") {
			u.qHeads, u.kHeads = tp, tp
		}
		compare(t, fmt.Sprint(c), part(u.on(t, m), 1, 0, c.tokens), want, tolerance)

		for _, first := range []bool{true, false} {
			j := fixtureJoint(t)
			j.video, j.tokens, j.textFirst = [3]*interp.Array{u.q, u.k, u.v}, c.tokens, first
			j.heads, j.kvHeads = u.qHeads, u.kHeads
			got := meshtest.Interp(t, meshtest.Build(t, m, j.define), j.values())
			text, video := j.want()
			compare(t, fmt.Sprint("joint ", c), got["text"], text, tolerance)
			compare(t, fmt.Sprint("joint ", c), part(got["video"], 1, 0, c.tokens), video, tolerance)
		}
	}
}

// Fewer kv heads than devices: each is copied to the
// neighbouring devices that use it, however the operands are held.
func TestCopiedHeads(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, c := range []struct {
		on         string
		h, kv      int
		kHeads     []string
		alltoall   int64 // elements a device puts into all-to-alls for k alone
		collective int
	}{
		{"tp=8", 32, 4, nil, 0, 0}, // the report's own case: 2 copies
		{"tp=4", 8, 2, nil, 0, 0},
		{"tp=4", 4, 1, nil, 0, 0},
		{"sp=4", 8, 2, nil, 24 / 4 * 2 * 2 * 4, 4}, // two heads of a quarter of the tokens, each twice
		{"sp=8", 8, 4, nil, 24 / 8 * 4 * 2 * 4, 4},
		{"tp=2,sp=4", 8, 4, tp, 24 / 4 * 2 * 2 * 4, 4},
		{"tp=2,sp=2", 8, 2, tp, 24 / 2 * 1 * 2 * 4, 4}, // one head a device, copied inside tp
		{"tp=2,sp=2", 8, 1, nil, 24 / 2 * 2 * 4, 4},    // held whole over tp: two of its four copies go from here
		{"tp=4,sp=2", 8, 2, nil, 24 / 2 * 2 * 4, 4},
	} {
		m := meshtest.Mesh(t, c.on)
		a := call{q: random(r, dtype.F32, 1, 24, c.h, 4), k: random(r, dtype.F32, 1, 24, c.kv, 4), v: random(r, dtype.F32, 1, 24, c.kv, 4), kHeads: c.kHeads}
		if m.Has("tp") {
			a.qHeads = tp
		}
		if m.Has("sp") {
			a.qTokens, a.kTokens = sp, sp
		}
		compare(t, fmt.Sprint(c), a.on(t, m), naive(a), tolerance)
		p := a.program(t, m)
		if len(cost.Instances(p)) != c.collective || count(p, program.OpAllToAll) != c.collective {
			t.Errorf("%v: %v", c, cost.Collectives(p))
		}
		if c.collective > 0 {
			q := int64(24 * c.h * 4 / m.NumDevices())
			if got := cost.Collectives(p)[0].Elements; got != 2*q+2*c.alltoall {
				t.Errorf("%v: %d elements in all-to-alls, want %d for q and the result and %d for k and v", c, got, 2*q, 2*c.alltoall)
			}
		}

		if !m.Has("sp") {
			continue
		}
		j := jointCall{tokens: 23, textFirst: true, heads: a.qHeads, kvHeads: c.kHeads, video: [3]*interp.Array{a.q, a.k, a.v}}
		j.text = [3]*interp.Array{random(r, dtype.F32, 1, 5, c.h, 4), random(r, dtype.F32, 1, 5, c.kv, 4), random(r, dtype.F32, 1, 5, c.kv, 4)}
		got := meshtest.Interp(t, meshtest.Build(t, m, j.define), j.values())
		text, video := j.want()
		compare(t, fmt.Sprint("joint ", c), got["text"], text, tolerance)
		compare(t, fmt.Sprint("joint ", c), part(got["video"], 1, 0, 23), video, tolerance)
	}
}

// Cross-attention with split query tokens and whole keys moves nothing; partial
// queries are reduced before the softmax.
func TestCrossAndPartial(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	m := meshtest.Mesh(t, "tp=2,sp=2")
	c := call{q: random(r, dtype.F32, 2, 10, 4, 4), k: random(r, dtype.F32, 2, 7, 4, 4), v: random(r, dtype.F32, 2, 7, 4, 4), qTokens: sp, qHeads: tp, kHeads: tp}
	c.bias = random(r, dtype.F32, 1, 4, 10, 7)
	compare(t, "cross", c.on(t, m), naive(c), tolerance)
	if got := cost.Collectives(c.program(t, m)); len(got) != 0 {
		t.Errorf("cross-attention moves %v", got)
	}
	c.qTokens, c.partial = nil, sp
	c.q = meshtest.Fill(dtype.F32, func(i int) float64 { return float64(i%7-3) / 2 }, c.q.Shape...)
	compare(t, "partial", c.on(t, m), naive(c), tolerance)
	if p := c.program(t, m); count(p, program.OpAllReduce) != 1 || len(cost.Instances(p)) != 1 {
		t.Errorf("partial queries: %v", cost.Collectives(p))
	}
}

func TestRefuses(t *testing.T) {
	f32 := func(shape ...int) *interp.Array { return interp.NewArray(dtype.F32, shape...) }
	bf16 := func(shape ...int) *interp.Array { return interp.NewArray(dtype.BF16, shape...) }
	base := call{q: f32(2, 8, 4, 6), k: f32(2, 8, 4, 6), v: f32(2, 8, 4, 6)}
	for _, c := range []struct {
		what, on string
		change   func(c *call)
		kind     error
		says     []string
	}{
		{"12 heads over sp=8", "tp=1,sp=8", func(c *call) {
			c.q, c.k, c.v = f32(2, 8, 12, 6), f32(2, 8, 12, 6), f32(2, 8, 12, 6)
			c.qTokens, c.kTokens = sp, sp
		}, sharding.ErrHeadsNotDivisible, []string{"12 heads", "tp=1", "sp=8", "1 2 3 4 6 12"}},
		{"12 heads over tp=4, sp=2", "tp=4,sp=2", func(c *call) {
			c.q, c.k, c.v = f32(2, 8, 12, 6), f32(2, 8, 12, 6), f32(2, 8, 12, 6)
			c.qTokens, c.kTokens, c.qHeads, c.kHeads = sp, sp, tp, tp
		}, sharding.ErrHeadsNotDivisible, []string{"12 heads", "tp=4", "sp=2", "1 3"}},
		{"3 kv heads over sp=2", "sp=2", func(c *call) {
			c.q, c.k, c.v = f32(2, 8, 6, 6), f32(2, 8, 3, 6), f32(2, 8, 3, 6)
			c.qTokens, c.kTokens = sp, sp
		}, sharding.ErrKVHeads, []string{"3 kv heads", "2 devices"}},
		{"3 kv heads over tp=2", "tp=2", func(c *call) {
			c.q, c.k, c.v, c.qHeads = f32(2, 8, 6, 6), f32(2, 8, 3, 6), f32(2, 8, 3, 6), tp
		}, sharding.ErrKVHeads, []string{"3 kv heads", "2 devices"}},
		{"4 q heads over 3", "", func(c *call) { c.k, c.v = f32(2, 8, 3, 6), f32(2, 8, 3, 6) }, sharding.ErrKVHeads, []string{"4 q heads", "3 kv heads"}},
		{"causal with fewer queries", "", func(c *call) { c.q, c.o.Causal = f32(2, 7, 4, 6), true }, attention.ErrOperands, []string{"causal", "8 keys"}},
		{"causal with split queries", "sp=2", func(c *call) { c.qTokens, c.o.Causal = sp, true }, attention.ErrOperands, []string{"[sp]", "causal"}},
		{"a bias by distance with split queries", "sp=2", func(c *call) { c.qTokens, c.table = sp, f32(5, 4) }, attention.ErrOperands, []string{"[sp]", "distance"}},
		{"a bias by distance for other heads", "", func(c *call) { c.table = f32(5, 3) }, attention.ErrOperands, []string{"[5 3]", "4 heads"}},
		{"keys split alone", "sp=2", func(c *call) { c.kTokens = sp }, attention.ErrOperands, []string{"both or neither", "sp"}},
		{"rank", "", func(c *call) { c.q = f32(2, 8, 24, 1); c.k = f32(2, 8, 24, 2); c.v = c.k }, attention.ErrOperands, []string{"head dim"}},
		{"batch", "", func(c *call) { c.k, c.v = f32(1, 8, 4, 6), f32(1, 8, 4, 6) }, attention.ErrOperands, []string{"[2 8 4 6]", "[1 8 4 6]", "batch"}},
		{"k and v", "", func(c *call) { c.v = f32(2, 9, 4, 6) }, attention.ErrOperands, []string{"one shape"}},
		{"types", "", func(c *call) { c.v = bf16(2, 8, 4, 6) }, attention.ErrOperands, []string{"bf16", "one element type"}},
		{"no queries", "", func(c *call) { c.q = f32(2, 0, 4, 6) }, attention.ErrOperands, []string{"at least one query"}},
		{"no keys", "", func(c *call) { c.k, c.v = f32(2, 0, 4, 6), f32(2, 0, 4, 6) }, attention.ErrOperands, []string{"at least one"}},
		{"more real keys than keys", "", func(c *call) { c.o.Keys = 9 }, attention.ErrOperands, []string{"9 real keys of 8"}},
		{"negative keys", "", func(c *call) { c.o.Keys = -1 }, attention.ErrOperands, []string{"-1 real keys"}},
		{"bias too short", "", func(c *call) { c.bias = f32(1, 4, 8, 7) }, attention.ErrOperands, []string{"bias", "[1 4 8 7]", "8)"}},
		{"bias not cut to the real keys", "", func(c *call) { c.o.Keys = 7; c.bias = f32(1, 4, 8, 8) }, attention.ErrOperands, []string{"7)"}},
		{"bias in bf16", "", func(c *call) { c.bias = bf16(1, 4, 8, 8) }, attention.ErrOperands, []string{"bias", "bf16", "f32"}},
		{"mask of numbers", "", func(c *call) { c.mask = f32(2, 1, 8, 8) }, attention.ErrOperands, []string{"mask", "i1"}},
		{"mask of 3 heads", "", func(c *call) { c.mask = interp.NewArray(dtype.Bool, 1, 3, 1, 8) }, attention.ErrOperands, []string{"mask"}},
		{"negative scale", "", func(c *call) { c.o.Scale = -1 }, attention.ErrOperands, []string{"scale -1"}},
	} {
		k := base
		c.change(&k)
		_, err := spmd.Build("p", meshtest.Mesh(t, c.on), k.define)
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.what, err, c.kind)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", c.what, err, s)
			}
		}
	}
	k := base
	k.q, k.k, k.v = f32(2, 8, 12, 6), f32(2, 8, 12, 6), f32(2, 8, 12, 6)
	k.qTokens, k.kTokens = sp, sp
	_, err := spmd.Build("p", meshtest.Mesh(t, "tp=1,sp=8"), k.define)
	if f, ok := fault.Fields[sharding.HeadsNotDivisible](err); !ok || f.Heads != 12 || f.TP != 1 || f.SP != 8 {
		t.Errorf("fields %+v of %v", f, err)
	}
	for what, change := range map[string]func(j *jointCall){
		"no real video tokens":  func(j *jointCall) { j.tokens = 0 },
		"more than there are":   func(j *jointCall) { j.tokens = 49 },
		"text of other heads":   func(j *jointCall) { j.text[0] = f32(1, 7, 8, 16) },
		"text of fewer kv":      func(j *jointCall) { j.text[1] = f32(1, 7, 2, 16); j.text[2] = j.text[1] },
		"a bias for video only": func(j *jointCall) { j.bias = f32(1, 1, 48, 48) },
	} {
		j := fixtureJoint(t)
		change(&j)
		if _, err := spmd.Build("p", meshtest.Mesh(t, "sp=2"), j.define); !errors.Is(err, attention.ErrOperands) {
			t.Errorf("joint, %s: %v", what, err)
		}
	}
}

// No value of the program is as large as one head's matrix of scores, whatever
// the split, in blocks of the package's choice and of the CPU engine's. Nothing
// is run.
func TestNoMatrixOfScores(t *testing.T) {
	const s = 4096
	check := func(what string, p *program.Program, inputs bool) {
		t.Helper()
		for id, v := range p.Values {
			if v.Elements() >= s*s && (inputs || !isInput(p, program.ID(id))) {
				t.Errorf("%s: value %d is %v, %d elements, as large as %d x %d scores", what, id, v, v.Elements(), s, s)
			}
		}
	}
	big := func(d dtype.DType, n, h int) *interp.Array {
		return &interp.Array{DType: d, Shape: []int{1, n, h, 32}}
	}
	for _, on := range []string{"tp=1,sp=1", "tp=4,sp=1", "tp=1,sp=4", "tp=2,sp=2"} {
		m := meshtest.Mesh(t, on)
		for _, tokens := range []int{s, s - 3} {
			for _, mask := range []*interp.Array{nil, {DType: dtype.Bool, Shape: []int{1, 1, 1, tokens}}, {DType: dtype.Bool, Shape: []int{1, 1, s, tokens}}} {
				c := call{q: big(dtype.BF16, s, 4), k: big(dtype.BF16, s, 2), v: big(dtype.BF16, s, 2), mask: mask,
					qTokens: sp, kTokens: sp, qHeads: tp, o: attention.Options{Keys: tokens}}
				for _, target := range []spmd.Target{{}, targets.CPU()} {
					p, err := spmd.Build("p", m, c.define, spmd.WithTarget(target))
					if err != nil {
						t.Fatal(err)
					}
					check(fmt.Sprint(on, tokens, target), p, false)
				}
			}
			j := jointCall{tokens: tokens, textFirst: true, heads: tp, kvHeads: tp}
			for i := range j.video {
				j.video[i], j.text[i] = big(dtype.BF16, s, 4), big(dtype.BF16, 512, 4)
			}
			p, err := spmd.Build("p", m, j.define)
			if err != nil {
				t.Fatal(err)
			}
			check("joint "+on, p, true)
		}
	}
}

func isInput(p *program.Program, id program.ID) bool {
	return slices.ContainsFunc(p.Inputs, func(in program.Port) bool { return in.Value == id })
}

// A mask or bias is read where a block of scores is made: none is copied whole.
func TestMaskIsReadInBlocks(t *testing.T) {
	c := call{q: &interp.Array{DType: dtype.F32, Shape: []int{1, 2048, 1, 8}}, k: &interp.Array{DType: dtype.F32, Shape: []int{1, 2048, 1, 8}},
		v:    &interp.Array{DType: dtype.F32, Shape: []int{1, 2048, 1, 8}},
		mask: &interp.Array{DType: dtype.Bool, Shape: []int{1, 1, 2048, 2048}}, bias: &interp.Array{DType: dtype.F32, Shape: []int{1, 1, 2048, 2048}}}
	p, err := spmd.Build("p", meshtest.Mesh(t, ""), c.define)
	if err != nil {
		t.Fatal(err)
	}
	for id, v := range p.Values {
		if v.Elements() >= 2048*2048 && !isInput(p, program.ID(id)) {
			t.Errorf("value %d is %v", id, v)
		}
	}
}

// Random shapes, heads, blocks, splits, masks and paddings: the sharded program
// gives what one device gives and what the definition gives in float64.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := func(lo, hi int, what string) int { return rapid.IntRange(lo, hi).Draw(rt, what) }
		pick := func(what string, from ...int) int { return rapid.SampledFrom(from).Draw(rt, what) }
		dpN, tpN, spN := pick("dp", 1, 1, 2), pick("tp", 1, 2, 4, 3), pick("sp", 1, 2, 4, 3)
		if dpN*tpN*spN > 8 {
			dpN = 1
		}
		if tpN*spN > 8 {
			spN = 1
		}
		axes := rapid.Permutation([]mesh.Axis{{Name: "dp", Size: dpN}, {Name: "tp", Size: tpN}, {Name: "sp", Size: spN}}).Draw(rt, "axes")
		m, err := mesh.Local(axes...)
		if err != nil {
			rt.Fatal(err)
		}
		ulysses := rapid.Bool().Draw(rt, "ulysses")
		parts := tpN
		if ulysses {
			parts *= spN
		}
		// kv heads divide the parts or are divided by them; q heads are a multiple of both.
		kv := pick("kv per part", 1, 2, 3) * parts
		copies := 1
		for _, c := range rapid.Permutation([]int{2, 3, 4}).Draw(rt, "copies") {
			if parts%c == 0 && rapid.Bool().Draw(rt, "copy") {
				kv, copies = parts/c, c
				break
			}
		}
		h := kv * copies * pick("group", 1, 2)
		d := n(1, 9, "D")
		sk := n(1, 40, "keys")
		sq := n(1, 40, "queries")
		keys := sk
		c := call{qHeads: tp}
		if kv%tpN == 0 && rapid.Bool().Draw(rt, "kv heads split") {
			c.kHeads = tp
		}
		if spN > 1 {
			c.qTokens = sp
			sq = numbers.RoundUp(sq, spN)
		}
		if ulysses && spN > 1 {
			c.kTokens = sp
			sk = numbers.RoundUp(sk, spN)
		}
		if keys < sk || rapid.Bool().Draw(rt, "fewer keys") {
			c.o.Keys = n(1, keys, "real keys")
			keys = c.o.Keys
		} else {
			keys = sk
		}
		c.o.BlockQ, c.o.BlockK, c.o.HeadBlock = n(1, 20, "block q"), n(1, 20, "block k"), n(0, 5, "block of heads")
		if rapid.Bool().Draw(rt, "as the target wants") {
			c.target = spmd.Target{QueryBlock: c.o.BlockQ, KeyBlock: c.o.BlockK, HeadBlock: c.o.HeadBlock}
			c.o.BlockQ, c.o.BlockK, c.o.HeadBlock = 0, 0, 0
		}
		if rapid.Bool().Draw(rt, "scaled") {
			c.o.Scale = 0.7
		}
		batch := dpN * n(1, 2, "batch")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		c.q, c.k, c.v = random(r, dtype.F32, batch, sq, h, d), random(r, dtype.F32, batch, sk, kv, d), random(r, dtype.F32, batch, sk, kv, d)
		shape := func() []int {
			return []int{pick("batch dim", 1, batch), pick("head dim", 1, h), pick("query dim", 1, sq), keys}
		}
		if rapid.Bool().Draw(rt, "bias") {
			c.bias = random(r, dtype.F32, shape()...)
		}
		if rapid.Bool().Draw(rt, "mask") {
			p := pick("percent masked", 30, 95)
			c.mask = meshtest.Fill(dtype.Bool, func(int) float64 {
				if r.IntN(100) < p {
					return 0
				}
				return 1
			}, shape()...)
		}
		want := naive(c)
		compare(rt, "one device", c.on(rt, meshtest.One(rt, m)), want, tolerance)
		compare(rt, m.String(), c.on(rt, m), want, tolerance)
	})
}
