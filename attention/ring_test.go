package attention_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"weft/attention"
	"weft/dtype"
	"weft/internal/meshtest"
	"weft/internal/numbers"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
	"weft/spmd"
)

// tokenAxes are how tokens are split where there is a ring.
var tokenAxes = []string{"ring", "sp"}

// Keys and values travel along the ring once less than it has devices; Ulysses moves what it moved.
func TestRing(t *testing.T) {
	for _, c := range []struct {
		on           string
		ring, inside int
	}{{"ring=2,sp=1", 2, 1}, {"ring=4,sp=1", 4, 1}, {"ring=3,sp=1", 3, 1}, {"ring=2,sp=2", 2, 2}, {"tp=2,ring=2,sp=2", 2, 2}, {"sp=2,ring=2", 2, 2}, {"ring=2,sp=4", 2, 4}} {
		call, want := ulysses(t)
		call.qTokens, call.kTokens = tokenAxes, tokenAxes
		m := meshtest.Mesh(t, c.on)
		if m.Has("tp") {
			call.qHeads, call.kHeads = tp, tp
		}
		for _, bl := range blocks {
			call.o.BlockQ, call.o.BlockK = bl[0], bl[1]
			compare(t, c.on, call.on(t, m), want, tolerance)
		}
		n := int64(48 * 4 * 16 / m.NumDevices()) // a device's part of q, k, v or the result
		wanted := map[program.Op]cost.Traffic{program.OpPermute: {Count: 2 * (c.ring - 1), Elements: 2 * n * int64(c.ring-1)}}
		if c.inside > 1 {
			wanted[program.OpAllToAll] = cost.Traffic{Count: 4, Elements: 4 * n}
		}
		got := cost.Collectives(call.program(t, m))
		for _, x := range got {
			w := wanted[x.Op]
			if x.Count != w.Count || x.Elements != w.Elements {
				t.Errorf("%s: %v: want %d with %d elements", c.on, x, w.Count, w.Elements)
			}
			if x.Op == program.OpPermute && (x.Axis != "ring" || x.Bytes != 4*w.Elements) {
				t.Errorf("%s: %v", c.on, x)
			}
		}
		if len(got) != len(wanted) {
			t.Errorf("%s: %v", c.on, got)
		}
	}
}

// Any lengths, padding, groups of heads, a bias or a mask of keys, in any blocks: as on one device.
func TestRingOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		on := rapid.SampledFrom([]string{"ring=2,sp=1", "ring=3,sp=1", "ring=5,sp=1", "ring=2,sp=2", "dp=2,ring=2,sp=1", "tp=2,ring=3,sp=1", "ring=3,sp=2"}).Draw(t, "mesh")
		m := meshtest.Mesh(t, on)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		kv := m.Size("tp") * m.Size("sp") * rapid.IntRange(1, 2).Draw(t, "key heads")
		h := kv * rapid.IntRange(1, 3).Draw(t, "group")
		n, batch, d := rapid.IntRange(1, 30).Draw(t, "tokens"), m.Size("dp")*rapid.IntRange(1, 2).Draw(t, "batch"), 4
		of := numbers.RoundUp(n, m.Size(tokenAxes...))
		whole := call{q: random(r, dtype.F32, batch, n, h, d), k: random(r, dtype.F32, batch, n, kv, d), v: random(r, dtype.F32, batch, n, kv, d)}
		switch rapid.IntRange(0, 2).Draw(t, "bias or mask") {
		case 1:
			whole.bias = random(r, dtype.F32, rapid.SampledFrom([]int{1, batch}).Draw(t, "batch of bias"), rapid.SampledFrom([]int{1, h}).Draw(t, "heads of bias"), 1, n)
		case 2:
			whole.mask = meshtest.Fill(dtype.Bool, func(i int) float64 {
				if i%n == 0 || i*i%5 < 2 { // every query sees a key
					return 1
				}
				return 0
			}, batch, 1, 1, n)
		}
		c := whole
		c.q, c.k, c.v = padded(whole.q, 1, of), padded(whole.k, 1, of), padded(whole.v, 1, of)
		c.qTokens, c.kTokens = tokenAxes, tokenAxes
		if m.Has("tp") {
			c.qHeads, c.kHeads = tp, tp
		}
		c.o = attention.Options{Keys: n, BlockQ: rapid.IntRange(0, 9).Draw(t, "bq"), BlockK: rapid.IntRange(0, 9).Draw(t, "bk"), HeadBlock: rapid.IntRange(0, 3).Draw(t, "heads at a time")}
		if n == of && rapid.Bool().Draw(t, "all real") {
			c.o.Keys = 0
		}
		compare(t, on, part(c.on(t, m), 1, 0, n), naive(whole), tolerance)
	})
}

// Text and video together: the text's queries have one result on all devices, and padding gives zeros.
func TestJointRing(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 2))
	for _, on := range []string{"ring=2,sp=1", "ring=4,sp=1", "ring=2,sp=2", "tp=2,ring=2,sp=1"} {
		m := meshtest.Mesh(t, on)
		for _, first := range []bool{true, false} {
			for _, tokens := range []int{48, 45, 23, 1} {
				for _, biased := range []bool{false, true} {
					j := fixtureJoint(t)
					j.textFirst, j.tokens, j.videoTokens = first, tokens, tokenAxes
					j.o.BlockQ, j.o.BlockK = 16, 13
					if m.Has("tp") {
						j.heads, j.kvHeads = tp, tp
					}
					if biased {
						j.bias = random(r, dtype.F32, 1, 4, 1, 7+tokens)
					}
					what := fmt.Sprint(on, " text first ", first, " tokens ", tokens, " bias ", biased)
					p := meshtest.Build(t, m, j.define)
					got := meshtest.Interp(t, p, j.values())
					text, video := j.want()
					compare(t, what, got["text"], text, tolerance)
					compare(t, what, part(got["video"], 1, 0, tokens), video, tolerance)
					for i, x := range part(got["video"], 1, tokens, 48).F {
						if x != 0 {
							t.Fatalf("%s: padding %d is %v", what, i, x)
						}
					}
					ring := m.Size("ring")
					permutes := 2 * (ring - 1)
					if biased {
						permutes += ring - 1
					}
					if count(p, program.OpPermute) != permutes || count(p, program.OpAllReduce) != 2 {
						t.Errorf("%s: %v", what, cost.Collectives(p))
					}
				}
			}
		}
	}
}

// The same through XLA, where a permute is the compiler's.
func TestRingXLA(t *testing.T) {
	e := meshtest.XLA(t)
	c, want := ulysses(t)
	c.qTokens, c.kTokens = tokenAxes, tokenAxes
	c.o.BlockQ, c.o.BlockK = 7, 5
	m := meshtest.Mesh(t, "ring=2,sp=2")
	got := meshtest.Run(t, e, c.program(t, m), c.values())
	compare(t, "ring", got["out"], want, tolerance)
	j := fixtureJoint(t)
	j.tokens, j.videoTokens, j.textFirst = 45, tokenAxes, true
	out := meshtest.Run(t, e, meshtest.Build(t, m, j.define), j.values())
	text, video := j.want()
	compare(t, "text", out["text"], text, tolerance)
	compare(t, "video", part(out["video"], 1, 0, 45), video, tolerance)
}

// What counts the places of queries is refused, and so is a form that cannot hand on its state.
func TestRingRefuses(t *testing.T) {
	m := meshtest.Mesh(t, "ring=2,sp=1")
	for what, change := range map[string]func(*call){
		"causal":     func(c *call) { c.o.Causal = true },
		"by query":   func(c *call) { c.bias = interp.NewArray(dtype.F32, 1, 1, 48, 48) },
		"sp outside": func(c *call) { c.qTokens, c.kTokens = []string{"sp", "ring"}, []string{"sp", "ring"} },
	} {
		c, _ := ulysses(t)
		c.qTokens, c.kTokens = tokenAxes, tokenAxes
		change(&c)
		on := m
		if what == "sp outside" {
			on = meshtest.Mesh(t, "ring=2,sp=2")
		}
		if _, err := spmd.Build(what, on, c.define); !errors.Is(err, attention.ErrOperands) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
