package cpukernel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"weft/cpukernel/internal/asm"
	"weft/dtype"
	"weft/internal/golden"
)

// The assembly is what its generator writes.
func TestAssemblyIsGenerated(t *testing.T) {
	golden.Compare(t, "routines_amd64.s", asm.Text())
}

// problem is a call with its operands as numbers that its type can hold.
type problem struct {
	Attention
	q, k, v, bias []float32
}

// newProblem makes operands from a seed. Padding keys are NaN: none may reach the result.
func newProblem(a Attention, seed uint64, spread float64) problem {
	r := rand.New(rand.NewPCG(seed, 7))
	random := func(n int, scale float64) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(r.NormFloat64() * scale)
			if a.DType == dtype.BF16 {
				out[i] = math.Float32frombits(uint32(roundToBF16(out[i])) << 16)
			}
		}
		return out
	}
	p := problem{Attention: a}
	kv := a.Batch * a.Keys * a.KVHeads * a.HeadDim
	p.q, p.k, p.v = random(a.Batch*a.Queries*a.Heads*a.HeadDim, spread), random(kv, 1), random(kv, 1)
	row := a.KVHeads * a.HeadDim
	for b := range a.Batch {
		for i := (b*a.Keys + a.Real) * row; i < (b+1)*a.Keys*row; i++ {
			p.k[i], p.v[i] = float32(math.NaN()), float32(math.NaN())
		}
	}
	if a.BiasBatch > 0 {
		p.bias = make([]float32, a.BiasBatch*a.Keys)
		for i := range p.bias {
			switch r.IntN(4) {
			case 0:
				p.bias[i] = -1.4426950408889634e30 // as a mask that does not hold
			case 1:
				p.bias[i] = float32(r.NormFloat64())
			}
		}
	}
	return p
}

// failer is a test or one of rapid's.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// bytes writes numbers as the call's type.
func (p problem) bytes(x []float32) []byte {
	if p.DType == dtype.F32 {
		return asBytes(x)
	}
	out := make([]uint16, len(x))
	for i, v := range x {
		out[i] = roundToBF16(v)
	}
	return asBytes(out)
}

func asBytes[T any](x []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)))
}

// solve runs the kernel at a level.
func (p problem) solve(t failer, level Level) []float32 {
	t.Helper()
	out := make([]byte, len(p.q)*p.DType.Size())
	if err := p.RunAt(level, Operands{Q: p.bytes(p.q), K: p.bytes(p.k), V: p.bytes(p.v), Bias: asBytes(p.bias), Out: out}); err != nil {
		t.Fatalf("%v at %v: %v", p.Attention, level, err)
	}
	if p.DType == dtype.F32 {
		return floatsOf(out)
	}
	wide := make([]float32, len(p.q))
	widen(wide, halves(unsafe.Pointer(&out[0]), len(wide)))
	return wide
}

// reference computes a call as its definition says, in f64.
func (p problem) reference() []float64 {
	out := make([]float64, len(p.q))
	group := p.Heads / p.KVHeads
	scores := make([]float64, p.Real)
	for b := range p.Batch {
		for i := range p.Queries {
			for h := range p.Heads {
				q := ((b*p.Queries+i)*p.Heads + h) * p.HeadDim
				key := func(j int) int { return ((b*p.Keys+j)*p.KVHeads + h/group) * p.HeadDim }
				most := math.Inf(-1)
				for j := range scores {
					s := 0.0
					for d := range p.HeadDim {
						s += float64(p.q[q+d]) * float64(p.k[key(j)+d])
					}
					s *= p.Scale
					if p.BiasBatch > 0 {
						s += float64(p.bias[b%p.BiasBatch*p.Keys+j]) / math.Log2E
					}
					scores[j] = s
					most = max(most, s)
				}
				sum := 0.0
				for j, s := range scores {
					w := math.Exp(s - most)
					sum += w
					for d := range p.HeadDim {
						out[q+d] += w * float64(p.v[key(j)+d])
					}
				}
				for d := range p.HeadDim {
					out[q+d] /= sum
				}
			}
		}
	}
	return out
}

// check compares a level's result with the reference. In f32 the error is some rounding of sums over
// the head dim and the keys; in bf16 the powers and the result are rounded to 8 bits.
func (p problem) check(t failer, level Level, want []float64) {
	t.Helper()
	tolerance := 4e-6
	if p.DType == dtype.BF16 {
		tolerance = 1.0 / 128
	}
	have := p.solve(t, level)
	worst, largest := 0.0, 0.0
	for i, w := range want {
		largest = max(largest, math.Abs(w))
		if d := math.Abs(float64(have[i]) - w); !(d <= worst) {
			worst = d
		}
	}
	if !(worst <= tolerance*max(largest, 0.05)) {
		t.Errorf("%v, bias of %d, at %v: off by %.3g of %.3g", p.Attention, p.BiasBatch, level, worst, largest)
	}
}

// needKernel skips a test where the processor has no level.
func needKernel(t testing.TB) {
	if len(Levels()) == 0 {
		t.Skip("the kernel is for x86-64 with AVX2 and FMA")
	}
}

func TestKernelAgainstReference(t *testing.T) {
	needKernel(t)
	for _, x := range []struct{ batch, queries, keys, real, heads, kv, dim, bias int }{
		{1, 1, 1, 1, 1, 1, 2, 0},
		{1, 6, 16, 16, 1, 1, 16, 0},
		{1, 7, 17, 17, 2, 1, 64, 0},
		{2, 33, 65, 60, 3, 3, 64, 2},
		{1, 97, 300, 290, 2, 2, 128, 1},
		{1, 95, 512, 512, 4, 2, 128, 0},
		{1, 200, 257, 257, 1, 1, 96, 0},
		{1, 64, 77, 70, 2, 2, 80, 1},
		{2, 5, 40, 1, 2, 1, 6, 1},
		{1, 31, 1023, 1000, 1, 1, 256, 0},
		{1, 192, 192, 192, 5, 5, 34, 0},
	} {
		for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
			a := Attention{DType: d, Batch: x.batch, Queries: x.queries, Keys: x.keys, Real: x.real, Heads: x.heads, KVHeads: x.kv, HeadDim: x.dim,
				Scale: 1 / math.Sqrt(float64(x.dim)), BiasBatch: x.bias}
			p := newProblem(a, 1, 1)
			want := p.reference()
			for _, level := range Levels() {
				p.check(t, level, want)
			}
		}
	}
}

func TestKernelOnAnyShape(t *testing.T) {
	needKernel(t)
	rapid.Check(t, func(t *rapid.T) {
		n := func(lo, hi int, what string) int { return rapid.IntRange(lo, hi).Draw(t, what) }
		a := Attention{DType: rapid.SampledFrom([]dtype.DType{dtype.F32, dtype.BF16}).Draw(t, "type"), Batch: n(1, 2, "batch"),
			Queries: n(1, 130, "queries"), Keys: n(1, 300, "keys"), KVHeads: n(1, 2, "key heads"), HeadDim: 2 * n(1, 40, "half of head dim")}
		a.Real = n(1, a.Keys, "real keys")
		a.Heads = a.KVHeads * n(1, 2, "group")
		a.Scale = rapid.SampledFrom([]float64{1, 0.125, 1 / math.Sqrt(float64(a.HeadDim))}).Draw(t, "scale")
		a.BiasBatch = rapid.SampledFrom([]int{0, 1, a.Batch}).Draw(t, "bias")
		// Scores without a scale would be so large that a softmax is one key.
		p := newProblem(a, rapid.Uint64().Draw(t, "seed"), 1/(a.Scale*math.Sqrt(float64(a.HeadDim))))
		p.check(t, rapid.SampledFrom(Levels()).Draw(t, "level"), p.reference())
	})
}

// Scores that are far apart, a maximum that rises with every block, and queries all of whose keys are
// masked, which then count alike.
func TestKernelAtTheEdges(t *testing.T) {
	needKernel(t)
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
		a := Attention{DType: d, Batch: 1, Queries: 13, Keys: 700, Real: 700, Heads: 1, KVHeads: 1, HeadDim: 64, Scale: 1}
		rising := newProblem(a, 3, 1)
		for j := range a.Keys {
			for c := range a.HeadDim {
				rising.k[j*a.HeadDim+c] = float32(j / 4)
			}
		}
		for i := range rising.q {
			rising.q[i] = 1
		}
		masked := newProblem(a, 4, 0.1)
		masked.BiasBatch, masked.bias = 1, make([]float32, a.Keys)
		for i := range masked.bias {
			masked.bias[i] = -1.4426950408889634e30
		}
		for _, level := range Levels() {
			rising.check(t, level, rising.reference())
			masked.check(t, level, masked.reference())
		}
	}
}

// A NaN or an infinity among the operands is not hidden: a step's result is looked at for it.
func TestKernelKeepsNaN(t *testing.T) {
	needKernel(t)
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
		for _, where := range []string{"q", "k", "v"} {
			for _, bad := range []float64{math.NaN(), math.Inf(1)} {
				p := newProblem(Attention{DType: d, Batch: 1, Queries: 20, Keys: 600, Real: 600, Heads: 1, KVHeads: 1, HeadDim: 64, Scale: 0.125}, 5, 1)
				const row = 9
				map[string][]float32{"q": p.q, "k": p.k, "v": p.v}[where][row*p.HeadDim+5] = float32(bad)
				at := row*p.HeadDim + 5
				want := p.reference()[at]
				for _, level := range Levels() {
					have := float64(p.solve(t, level)[at])
					if math.IsNaN(have-have) != math.IsNaN(want-want) { // one is finite, the other is not
						t.Errorf("%v at %v, %v in %s: the result is %g, want %g", d, level, bad, where, have, want)
					}
				}
			}
		}
	}
}

// The result does not depend on the number of calls at a time, nor on what the memory held before.
func TestKernelFromSeveralGoroutines(t *testing.T) {
	needKernel(t)
	a := Attention{DType: dtype.F32, Batch: 1, Queries: 100, Keys: 500, Real: 500, Heads: 3, KVHeads: 3, HeadDim: 64, Scale: 0.125}
	p := newProblem(a, 6, 1)
	want := p.solve(t, Best(a.DType))
	failed := make(chan error, 8)
	for range cap(failed) {
		go func() {
			for range 5 {
				have := make([]float32, len(p.q))
				if err := p.Run(Operands{Q: asBytes(p.q), K: asBytes(p.k), V: asBytes(p.v), Out: asBytes(have)}); err != nil {
					failed <- err
					return
				}
				for i := range have {
					if have[i] != want[i] {
						failed <- fmt.Errorf("number %d is %g, alone it is %g", i, have[i], want[i])
						return
					}
				}
			}
			failed <- nil
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

func TestRefusals(t *testing.T) {
	good := Attention{DType: dtype.F32, Batch: 1, Queries: 2, Keys: 3, Real: 3, Heads: 2, KVHeads: 1, HeadDim: 4, Scale: 1}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Attention){
		"type": func(a *Attention) { a.DType = dtype.F16 }, "head dim": func(a *Attention) { a.HeadDim = 3 },
		"wide": func(a *Attention) { a.HeadDim = 258 }, "heads": func(a *Attention) { a.KVHeads = 3 },
		"no keys": func(a *Attention) { a.Real = 0 }, "more real keys than keys": func(a *Attention) { a.Real = 4 },
		"scale": func(a *Attention) { a.Scale = -1 }, "scale that is no number": func(a *Attention) { a.Scale = math.NaN() },
		"bias": func(a *Attention) { a.BiasBatch = 3 },
	} {
		a := good
		change(&a)
		if err := a.Check(); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		if err := a.Run(Operands{}); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s, run: %v", name, err)
		}
	}
	if err := good.Run(Operands{Q: make([]byte, 1)}); !errors.Is(err, ErrOperand) {
		t.Errorf("operands that are too short: %v", err)
	}
}

func TestLevelNames(t *testing.T) {
	for l := None; l <= AMX; l++ {
		if have, err := ParseLevel(l.String()); err != nil || have != l {
			t.Errorf("%v: %v, %v", l, have, err)
		}
	}
	if _, err := ParseLevel("sse"); err == nil {
		t.Error("sse is a level")
	}
}
