package attention_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weft/attention"
	"weft/dtype"
	"weft/internal/meshtest"
	"weft/program"
	"weft/program/cost"
)

// placed is a call of n tokens whose scores depend on places.
func placed(seed uint64, n, heads, kv int, causal, relative bool) call {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	c := call{q: random(r, dtype.F32, 2, n, heads, 4), k: random(r, dtype.F32, 2, n, kv, 4), v: random(r, dtype.F32, 2, n, kv, 4)}
	c.o.Causal = causal
	if relative {
		c.o.Scale = 1
		c.table = random(r, dtype.F32, 9, heads)
	}
	return c
}

// Causal attention, a bias by distance, and both, at lengths of a block, one
// more, one less and many, for heads of their own and shared ones.
func TestPlaces(t *testing.T) {
	m := meshtest.Mesh(t, "")
	for _, n := range []int{1, 2, 7, 8, 9, 16, 30, 53} {
		for _, kv := range []int{4, 2} {
			for _, bl := range [][2]int{{0, 0}, {8, 8}, {7, 13}, {16, 4}, {1, 1}} {
				for _, how := range [][2]bool{{true, false}, {false, true}, {true, true}} {
					c := placed(1, n, 4, kv, how[0], how[1])
					c.o.BlockQ, c.o.BlockK = bl[0], bl[1]
					compare(t, fmt.Sprint(n, " tokens, kv heads ", kv, ", blocks ", bl, ", causal and relative ", how), c.on(t, m), naive(c), tolerance)
				}
			}
		}
	}
}

// With a mask besides, and padding behind the keys.
func TestPlacesMasked(t *testing.T) {
	c := placed(2, 21, 4, 4, true, true)
	c.o.BlockQ, c.o.BlockK = 8, 4
	c.mask = meshtest.Fill(dtype.Bool, func(i int) float64 { return float64(min(i%21, 1)) }, 2, 1, 1, 21)
	c.mask.Set(0, 1)
	c.mask.Set(21, 1)
	compare(t, "masked", c.on(t, meshtest.Mesh(t, "")), naive(c), tolerance)
	c.mask = nil
	want := naive(c)
	c.q, c.k, c.v = padded(c.q, 1, 24), padded(c.k, 1, 24), padded(c.v, 1, 24)
	c.o.Keys = 21
	compare(t, "padded", part(c.on(t, meshtest.Mesh(t, "")), 1, 0, 21), want, tolerance)
}

// Every split gives the one answer: places are counted over all tokens, and each
// device reads the columns of its own heads.
func TestPlacesSplit(t *testing.T) {
	for _, kv := range []int{8, 2} {
		for _, on := range []string{"dp=2,tp=2", "tp=4", "sp=4", "tp=2,sp=2", "tp=2,sp=4", "dp=2,tp=2,sp=2"} {
			c := placed(3, 24, 8, kv, true, true)
			c.o.BlockQ, c.o.BlockK = 7, 5
			m := meshtest.Mesh(t, on)
			if m.Has("tp") {
				c.qHeads = tp
				if kv%m.Size("tp") == 0 {
					c.kHeads = tp
				}
			}
			if m.Has("sp") {
				c.qTokens, c.kTokens = sp, sp
			}
			compare(t, fmt.Sprint(on, " kv heads ", kv), c.on(t, m), naive(c), tolerance)
			if p := c.program(t, m); len(cost.Instances(p)) != count(p, program.OpAllToAll) {
				t.Errorf("%s: moves %v beside its all-to-alls", on, cost.Collectives(p))
			}
		}
	}
}

func TestPlacesXLA(t *testing.T) {
	e := meshtest.XLA(t)
	m := meshtest.Mesh(t, "dp=2,tp=2")
	all := map[string]call{}
	for _, how := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		c := placed(4, 37, 4, 2, how[0], how[1])
		c.o.BlockQ, c.o.BlockK, c.qHeads, c.kHeads = 8, 16, tp, tp
		all[fmt.Sprint(how)] = c
	}
	out := runTogether(t, e, m, all)
	for name, c := range all {
		compare(t, name, out[name], naive(c), tolerance)
	}
}

// Blocks above the diagonal are not computed: of n blocks by n, (n+1)/2n are.
// However long the text, a program has so many blocks and no more.
func TestCausalWork(t *testing.T) {
	flops := func(c call) int64 { return cost.WorkOf(c.program(t, meshtest.Mesh(t, ""))).Flops }
	c := placed(5, 64, 2, 2, true, false)
	c.o.BlockQ, c.o.BlockK = 8, 8
	whole := c
	whole.o.Causal = false
	if got, want := flops(c), flops(whole)*9/16; got != want {
		t.Errorf("%d flops, want %d of the whole's %d", got, want, flops(whole))
	}
	dots := func(n int) int {
		c := placed(5, n, 1, 1, true, false)
		c.o = attention.Options{Causal: true, BlockQ: 2, BlockK: 2}
		k := 0
		c.program(t, meshtest.Mesh(t, "")).Walk(func(in *program.Instr, _ int) {
			if in.Op == program.OpDot {
				k++
			}
		})
		return k
	}
	if short, long := dots(64), dots(640); long > 3*short || short < 16 {
		t.Errorf("%d contractions written out for 64 tokens, %d for 640", short, long)
	}
}

// A bias by distance takes memory for a block of scores, not for all.
func TestRelativeMemory(t *testing.T) {
	c := placed(6, 256, 8, 8, false, true)
	c.o.BlockQ, c.o.BlockK = 16, 16
	block := int64(2*8+8+9+4) * 16 * 16 * 4 // scores twice, bias, ones, places
	tokens := int64(2 * 256 * 8 * 4 * 4)    // q, k or v
	if got := cost.MemoryOf(c.program(t, meshtest.Mesh(t, ""))).Peak; got > 10*tokens+2*block {
		t.Errorf("%d bytes live, with %d of tokens and %d a block", got, tokens, block)
	}
}
