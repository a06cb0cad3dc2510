package attention_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"weft/attention"
	"weft/dtype"
	"weft/internal/meshtest"
	"weft/program/interp"
)

// tolerance is what the fixtures ask for: float32 against float32 or float64.
const tolerance = 1e-5

func boolean(x *interp.Array) *interp.Array {
	return meshtest.Fill(dtype.Bool, x.At, x.Shape...)
}

// fixtureCalls returns the fixture's plain calls and their results.
func fixtureCalls(t testing.TB) map[string]struct {
	call
	want *interp.Array
} {
	f := fixture(t)
	base := call{q: f("att.q"), k: f("att.k"), v: f("att.v")}
	all := map[string]struct {
		call
		want *interp.Array
	}{}
	add := func(name string, c call) {
		all[name] = struct {
			call
			want *interp.Array
		}{c, f("att.out_" + name)}
	}
	add("plain", base)
	c := base
	c.bias = f("att.bias")
	add("bias", c)
	c.o.Scale = 1
	add("bias_scale1", c)
	c = base
	c.mask = boolean(f("att.mask"))
	add("mask", c)
	c = base
	c.k, c.v = part(base.k, 2, 0, 2), part(base.v, 2, 0, 2)
	add("gqa2", c)
	return all
}

// blocks are the block sizes tried: the package's own (0), a power of two, and
// one that divides nothing.
var blocks = [][2]int{{0, 0}, {16, 32}, {7, 13}}

func TestFixture(t *testing.T) {
	for name, c := range fixtureCalls(t) {
		for _, on := range []string{"", "tp=2", "tp=4", "dp=2,tp=2"} {
			for _, bl := range blocks {
				m := meshtest.Mesh(t, on)
				k := c.call
				k.o.BlockQ, k.o.BlockK = bl[0], bl[1]
				if m.Has("tp") {
					k.qHeads = []string{"tp"}
					if k.k.Shape[2]%m.Size("tp") == 0 {
						k.kHeads = k.qHeads
					}
				}
				compare(t, fmt.Sprint(name, " on ", on, " blocks ", bl), k.on(t, m), c.want, tolerance)
			}
		}
	}
}

func TestFixtureXLA(t *testing.T) {
	e := meshtest.XLA(t)
	m := meshtest.Mesh(t, "dp=2,tp=4")
	all := map[string]call{}
	for name, c := range fixtureCalls(t) {
		k := c.call
		k.o.BlockQ, k.o.BlockK = 16, 32
		k.qHeads = []string{"tp"}
		if name != "gqa2" { // whose two heads are copied
			k.kHeads = k.qHeads
		}
		all[name] = k
	}
	out := runTogether(t, e, m, all)
	for name, c := range fixtureCalls(t) {
		compare(t, name, out[name], c.want, tolerance)
	}
}

var flashLengths = [][2]int{{1, 1}, {1, 130}, {64, 64}, {127, 127}, {128, 128}, {129, 129}, {200, 77}, {257, 257}, {300, 512}}

func flash(t testing.TB, n [2]int) (call, *interp.Array) {
	f := fixture(t)
	name := fmt.Sprintf("flash.%dx%d", n[0], n[1])
	return call{q: f(name + ".q"), k: f(name + ".k"), v: f(name + ".v")}, f(name + ".out")
}

// Ragged lengths: shorter than a block, equal, one more, one less, many blocks
// and a rest, in queries and in keys.
func TestFlashLengths(t *testing.T) {
	m := meshtest.Mesh(t, "")
	for _, n := range flashLengths {
		c, want := flash(t, n)
		for _, bl := range [][2]int{{0, 0}, {16, 32}, {64, 64}, {7, 13}, {128, 128}} {
			c.o.BlockQ, c.o.BlockK = bl[0], bl[1]
			compare(t, fmt.Sprint(n, " blocks ", bl), c.on(t, m), want, tolerance)
		}
	}
}

// Through XLA with blocks small enough that most lengths loop: one query, one
// more than a block, few keys; with WEFT_LONG all lengths.
func TestFlashLengthsXLA(t *testing.T) {
	e := meshtest.XLA(t)
	all := map[string]call{}
	lengths := [][2]int{{1, 130}, {129, 129}, {200, 77}}
	if os.Getenv("WEFT_LONG") != "" {
		lengths = flashLengths
	}
	for i, n := range lengths {
		c, _ := flash(t, n)
		bl := [][2]int{{64, 64}, {0, 0}, {16, 32}, {7, 13}}[i%4]
		c.o.BlockQ, c.o.BlockK = bl[0], bl[1]
		all[fmt.Sprint(n)] = c
	}
	out := runTogether(t, e, meshtest.Mesh(t, ""), all)
	for _, n := range lengths {
		_, want := flash(t, n)
		compare(t, fmt.Sprint(n), out[fmt.Sprint(n)], want, tolerance)
	}
}

// bf16 operands. Each rounding of an operand is 2^-9 relative at most, the
// probabilities are rounded once more before they meet the values, and the
// result once: of numbers of size 1 to 2, some 2^-7 at the worst.
func TestFlashBF16(t *testing.T) {
	c, _ := flash(t, [2]int{129, 129})
	narrow := func(x *interp.Array) *interp.Array { return meshtest.Fill(dtype.BF16, x.At, x.Shape...) }
	c.q, c.k, c.v = narrow(c.q), narrow(c.k), narrow(c.v)
	c.o.BlockQ, c.o.BlockK = 64, 64
	want := naive(c) // of the rounded operands, in float64, rounded once
	compare(t, "bf16", c.on(t, meshtest.Mesh(t, "")), want, 0x1p-7)
	c.qHeads, c.kHeads = []string{"tp"}, []string{"tp"}
	compare(t, "bf16 tp=2", c.on(t, meshtest.Mesh(t, "tp=2")), want, 0x1p-7)
}

// The test's own reference agrees with the fixtures'.
func TestNaive(t *testing.T) {
	for name, c := range fixtureCalls(t) {
		compare(t, name, naive(c.call), c.want, tolerance)
	}
	c, want := flash(t, [2]int{200, 77})
	compare(t, "flash", naive(c), want, tolerance)
}

// Logits that break a careless softmax.
func TestExtremeLogits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	m := meshtest.Mesh(t, "tp=2")
	base := func() call {
		return call{q: random(r, dtype.F32, 1, 21, 2, 4), k: random(r, dtype.F32, 1, 19, 2, 4), v: random(r, dtype.F32, 1, 19, 2, 4),
			qHeads: []string{"tp"}, kHeads: []string{"tp"}, o: attention.Options{BlockQ: 8, BlockK: 4}}
	}
	finite := func(what string, x *interp.Array) {
		for i := range x.Len() {
			if v := x.At(i); math.IsNaN(v) || math.IsInf(v, 0) {
				t.Fatalf("%s: element %d is %v", what, i, v)
			}
		}
	}
	within := func(what string, c call, tolerance float64) {
		got := c.on(t, m)
		finite(what, got)
		compare(t, what, got, naive(c), tolerance)
	}
	try := func(what string, c call) { within(what, c, tolerance) }

	c := base()
	c.k = meshtest.Fill(dtype.F32, func(i int) float64 { return 0.5 }, c.k.Shape...)
	try("all equal: an average", c)

	for _, at := range []int{0, 3, 4, 18} { // first and last of a block, and in the rest
		c = base()
		for x := range 8 {
			c.k.Set(at*8+x, 5e3*c.q.At(x)) // huge for query 0, large of either sign for the others
		}
		try(fmt.Sprint("one huge key at ", at), c)
	}
	c = base()
	c.o.Scale = 1
	c.q = meshtest.Fill(dtype.F32, func(i int) float64 { return 100 * c.q.At(i) }, c.q.Shape...)
	c.k = meshtest.Fill(dtype.F32, func(i int) float64 { return 100 }, c.k.Shape...)
	try("scores of 1e4, all equal in a row", c)

	c = base()
	c.bias = meshtest.Fill(dtype.F32, func(i int) float64 { return -1e4 + float64(i%3) }, 1, 1, 21, 19)
	within("everything far below zero", c, 0x1p-10) // how far apart f32 scores of 1e4 lie

	c = base()
	c.mask = meshtest.Fill(dtype.Bool, func(i int) float64 { return float64((i / 19) % 2 * (i % 2)) }, 1, 2, 21, 19)
	try("every other query sees nothing", c)
	c.bias = random(r, dtype.F32, 1, 1, 1, 19)
	try("and has a bias", c)
	c = base()
	c.mask = meshtest.Fill(dtype.Bool, func(i int) float64 { return 0 }, 1, 1, 1, 19)
	try("nobody sees anything", c)
	c = base() // whole blocks of keys masked, first, middle and last
	c.mask = meshtest.Fill(dtype.Bool, func(i int) float64 { return [5]float64{0, 1, 0, 1, 0}[i%19/4] }, 1, 1, 21, 19)
	try("whole blocks masked", c)
}
