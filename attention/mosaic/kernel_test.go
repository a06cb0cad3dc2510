package mosaic_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/attention/internal/mosaictest"
	"weft/attention/mosaic"
	"weft/tensor"
)

// problem is one attention with its operands: q, k and v as the definition has
// them, in f64, and mask or nil.
type problem struct {
	spec    mosaic.Kernel
	q, k, v []float64
	mask    []float64 // (MaskBatch, keys), natural units
	scale   float64
}

// log2e: the kernel takes scores to the base 2.
const log2e = math.Log2E

func newProblem(r *rand.Rand, s mosaic.Kernel) *problem {
	p := &problem{spec: s, scale: 1 / math.Sqrt(float64(s.HeadDim))}
	normal := func(n int, std float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = std * r.NormFloat64()
		}
		return x
	}
	p.q = normal(s.Batch*s.Queries*s.Heads*s.HeadDim, 1.9)
	p.k = normal(s.Batch*s.Keys*s.KVHeads*s.HeadDim, 1.9)
	p.v = normal(s.Batch*s.Keys*s.KVHeads*s.HeadDim, 1)
	if s.Mask {
		p.mask = normal(s.MaskBatch*s.Keys, 2)
		for i := range p.mask {
			if r.IntN(4) == 0 {
				p.mask[i] = -1e30
			}
		}
	}
	return p
}

// randomOperands are what the kernel is given: q times scale and log2(e) unless the
// kernel scales, all rounded to bf16, and rubbish where keys are not real.
func (p *problem) operands() []*mosaictest.Vec {
	s := p.spec
	fold := p.scale * log2e
	if s.Scale != 0 {
		fold = 1
	}
	make3 := func(x []float64, tokens, heads int, by float64) *mosaictest.Vec {
		v := mosaictest.NewVec("bf16", s.Batch, tokens, heads*s.HeadDim)
		for i := range v.F {
			v.F[i] = mosaictest.Round(float32(x[i] * by))
		}
		return v
	}
	q, k, v := make3(p.q, s.Queries, s.Heads, fold), make3(p.k, s.Keys, s.KVHeads, 1), make3(p.v, s.Keys, s.KVHeads, 1)
	for at := range s.Batch * s.Keys {
		if p.real(at % s.Keys) {
			continue
		}
		bad := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 3e38}[at%4]
		for i := range s.KVHeads * s.HeadDim {
			k.F[at*s.KVHeads*s.HeadDim+i], v.F[at*s.KVHeads*s.HeadDim+i] = bad, bad
		}
	}
	all := []*mosaictest.Vec{q, k, v}
	if s.Mask {
		m := mosaictest.NewVec("f32", s.MaskBatch, 1, s.Keys)
		for i := range m.F {
			m.F[i] = float32(p.mask[i] * log2e)
			if !p.real(i % s.Keys) {
				m.F[i] = float32(math.NaN())
			}
		}
		all = append(all, m)
	}
	return all
}

func (p *problem) real(key int) bool {
	if p.spec.Real == nil {
		return true
	}
	for _, r := range p.spec.Real {
		if key >= r.From && key < r.To {
			return true
		}
	}
	return false
}

// naiveAttention is the definition in f64. rounded takes the operands as the kernel has
// them: then what differs is the kernel's arithmetic alone.
func (p *problem) naive(rounded bool) []float64 {
	s := p.spec
	q, k, v := p.q, p.k, p.v
	scale := p.scale
	if rounded {
		ops := p.operands()
		wide := func(x []float32) []float64 {
			out := make([]float64, len(x))
			for i := range x {
				out[i] = float64(x[i])
			}
			return out
		}
		q, k, v = wide(ops[0].F), wide(ops[1].F), wide(ops[2].F)
		if scale = s.Scale / log2e; s.Scale == 0 {
			scale = 1 / log2e
		}
	}
	d, group := s.HeadDim, s.Heads/s.KVHeads
	out := make([]float64, len(p.q))
	scores := make([]float64, s.Keys)
	for b := range s.Batch {
		for i := range s.Queries {
			for h := range s.Heads {
				row := func(x []float64, tokens, heads, at, head int) []float64 {
					return x[((b*tokens+at)*heads+head)*d:][:d]
				}
				qr, most := row(q, s.Queries, s.Heads, i, h), math.Inf(-1)
				for j := range s.Keys {
					if !p.real(j) {
						continue
					}
					x := 0.0
					for c, y := range row(k, s.Keys, s.KVHeads, j, h/group) {
						x += qr[c] * y
					}
					x *= scale
					if s.Mask {
						x += p.mask[b%s.MaskBatch*s.Keys+j]
						x = max(x, -1e30) // masked scores are equal, as in f32
					}
					scores[j], most = x, max(most, x)
				}
				sum, o := 0.0, row(out, s.Queries, s.Heads, i, h)
				for j := range s.Keys {
					if !p.real(j) {
						continue
					}
					w := math.Exp(scores[j] - most)
					sum += w
					for c, y := range row(v, s.Keys, s.KVHeads, j, h/group) {
						o[c] += w * y
					}
				}
				for c := range o {
					o[c] /= sum
				}
			}
		}
	}
	return out
}

func (p *problem) run() ([]float32, error) {
	text, err := p.spec.Text()
	if err != nil {
		return nil, err
	}
	m, err := mosaictest.Load(text)
	if err != nil {
		return nil, err
	}
	s := p.spec
	out, err := m.Run(p.operands(), []int{s.Batch, s.Queries, s.Heads * s.HeadDim})
	if err != nil {
		return nil, err
	}
	return out.F, nil
}

// relative is the root of the mean square of the error over that of want.
func relative(got []float32, want []float64) float64 {
	e, n := 0.0, 0.0
	for i := range want {
		d := float64(got[i]) - want[i]
		e, n = e+d*d, n+want[i]*want[i]
	}
	return math.Sqrt(e / n)
}

type tb interface {
	Helper()
	Fatalf(string, ...any)
}

// The bounds on the relative error. Against the definition on what the inputs
// were before they were rounded: bf16's 2^-9 for each of q, k and v, through
// scores of a standard deviation of 3.6. On the rounded inputs: p's and the
// result's own rounding.
const (
	ofRounding   = 6e-3
	ofArithmetic = 2e-3
	// The same at the very worst, where a result hangs on few elements: 2^-9 in each
	// weight, and 2^-9 in the result.
	atWorst = 1.0 / 256
)

func (p *problem) check(t tb, bound float64) {
	t.Helper()
	got, err := p.run()
	if err != nil {
		t.Fatalf("%+v: %v", p.spec, err)
	}
	if e := relative(got, p.naive(true)); !(e <= bound) {
		t.Fatalf("%+v: error %.2g against f64 on the rounded inputs, want %g", p.spec, e, bound)
	}
}

// small are blocks that make several steps of small problems.
var small = mosaic.Blocks{Q: 16, K: 256, Sub: 128}

func TestKernel(t *testing.T) {
	to := func(n int) []mosaic.Range { return []mosaic.Range{{From: 0, To: n}} }
	for name, s := range map[string]mosaic.Kernel{
		"one block":         {Batch: 1, Queries: 32, Keys: 256, Heads: 1, KVHeads: 1, HeadDim: 128},
		"blocks":            {Batch: 2, Queries: 96, Keys: 768, Heads: 2, KVHeads: 2, HeadDim: 128},
		"wide":              {Batch: 1, Queries: 32, Keys: 1024, Heads: 1, KVHeads: 1, HeadDim: 128, Blocks: mosaic.Blocks{Q: 16, K: 512, Sub: 512}},
		"uneven":            {Batch: 1, Queries: 17, Keys: 513, Heads: 1, KVHeads: 1, HeadDim: 128},
		"one query":         {Batch: 1, Queries: 1, Keys: 300, Heads: 2, KVHeads: 2, HeadDim: 128},
		"one key":           {Batch: 1, Queries: 33, Keys: 1, Heads: 1, KVHeads: 1, HeadDim: 128},
		"ragged":            {Batch: 1, Queries: 32, Keys: 768, Heads: 1, KVHeads: 1, HeadDim: 128, Real: to(700)},
		"ragged by a block": {Batch: 1, Queries: 32, Keys: 768, Heads: 1, KVHeads: 1, HeadDim: 128, Real: to(250)},
		"interior":          {Batch: 1, Queries: 32, Keys: 1024, Heads: 1, KVHeads: 1, HeadDim: 128, Real: []mosaic.Range{{From: 0, To: 77}, {From: 900, To: 1000}}},
		"interior in one":   {Batch: 1, Queries: 32, Keys: 512, Heads: 1, KVHeads: 1, HeadDim: 128, Real: []mosaic.Range{{From: 3, To: 20}, {From: 40, To: 400}}},
		"text of 226":       {Batch: 1, Queries: 30, Keys: 226, Heads: 2, KVHeads: 2, HeadDim: 128, Blocks: mosaic.Blocks{Q: 1024, K: 2048, Sub: 256}},
		"image of 257":      {Batch: 2, Queries: 33, Keys: 257, Heads: 1, KVHeads: 1, HeadDim: 128, Blocks: mosaic.Blocks{Q: 1024, K: 2048, Sub: 1024}},
		"grouped":           {Batch: 2, Queries: 32, Keys: 300, Heads: 6, KVHeads: 2, HeadDim: 128},
		"masked":            {Batch: 2, Queries: 32, Keys: 300, Heads: 2, KVHeads: 1, HeadDim: 128, Mask: true, MaskBatch: 2},
		"masked alike":      {Batch: 2, Queries: 32, Keys: 300, Heads: 1, KVHeads: 1, HeadDim: 128, Mask: true, MaskBatch: 1, Real: to(290)},
		"scaled":            {Batch: 1, Queries: 32, Keys: 300, Heads: 1, KVHeads: 1, HeadDim: 128, Scale: log2e / math.Sqrt(128)},
		"pairs":             {Batch: 2, Queries: 33, Keys: 700, Heads: 4, KVHeads: 4, HeadDim: 64, Real: to(690)},
		"odd heads":         {Batch: 2, Queries: 33, Keys: 700, Heads: 3, KVHeads: 3, HeadDim: 64, Real: to(600)},
		"grouped pairs":     {Batch: 2, Queries: 33, Keys: 500, Heads: 8, KVHeads: 4, HeadDim: 64, Real: to(450)},
		"pairs by three":    {Batch: 1, Queries: 33, Keys: 500, Heads: 9, KVHeads: 3, HeadDim: 64, Real: to(450)},
		"five on one":       {Batch: 1, Queries: 33, Keys: 300, Heads: 5, KVHeads: 1, HeadDim: 64},
		"ones": {Batch: 1, Queries: 33, Keys: 900, Heads: 2, KVHeads: 1, HeadDim: 128, Real: to(450),
			Blocks: mosaic.Blocks{Q: 16, K: 256, Sub: 128, Kept: true, Ones: true}},
		"loops": {Batch: 1, Queries: 33, Keys: 6000, Heads: 2, KVHeads: 1, HeadDim: 128,
			Real: []mosaic.Range{{From: 0, To: 3500}, {From: 3600, To: 5500}}, Blocks: mosaic.Blocks{Q: 16, K: 2048, Sub: 1024, Kept: true}},
		"one narrow head": {Batch: 1, Queries: 32, Keys: 100, Heads: 1, KVHeads: 1, HeadDim: 64, Mask: true, MaskBatch: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s.Chip = "v4"
			if s.Blocks == (mosaic.Blocks{}) {
				s.Blocks = small
			}
			p := newProblem(rand.New(rand.NewPCG(1, uint64(len(name)))), s)
			p.check(t, ofArithmetic)
			got, err := p.run()
			if err != nil {
				t.Fatal(err)
			}
			// What rounding the inputs explains, and the kernel's own beside it.
			exact := p.naive(false)
			rounded := make([]float32, len(exact))
			for i, x := range p.naive(true) {
				rounded[i] = float32(x)
			}
			explained := relative(rounded, exact)
			if e := relative(got, exact); !(e <= explained+ofArithmetic) || name == "blocks" && !(e <= ofRounding) {
				t.Errorf("error %.2g against f64 on the inputs before rounding, which explains %.2g", e, explained)
			}
		})
	}
}

// What scores can be at their worst.
func TestExtremeScores(t *testing.T) {
	s := mosaic.Kernel{Chip: "v4", Batch: 1, Queries: 32, Keys: 400, Heads: 1, KVHeads: 1, HeadDim: 128, Blocks: small, Real: []mosaic.Range{{From: 0, To: 390}}}
	for name, change := range map[string]func(p *problem){
		"all equal": func(p *problem) { clear(p.q) },
		"one huge": func(p *problem) {
			for i := range p.k[:128] {
				p.k[i] = p.q[i] * 1e4
			}
		},
		"the last huge": func(p *problem) {
			for i := range p.k[:128] {
				p.k[389*128+i] = p.q[i] * 1e4
			}
		},
		"all very negative": func(p *problem) {
			for i := range p.q {
				p.q[i], p.k[i] = 100, -100
			}
			for i := range p.k {
				p.k[i] = -100
			}
		},
		"ascending": func(p *problem) {
			for i := range p.q {
				p.q[i] = 1
			}
			for i := range p.k {
				p.k[i] = float64(i/128) / 8
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProblem(rand.New(rand.NewPCG(3, 4)), s)
			change(p)
			p.check(t, ofArithmetic)
		})
	}
	t.Run("all masked", func(t *testing.T) {
		s.Mask, s.MaskBatch = true, 1
		p := newProblem(rand.New(rand.NewPCG(3, 4)), s)
		for i := range p.mask {
			p.mask[i] = -1e30
		}
		p.check(t, ofArithmetic)
	})
}

// Any shape, real keys, mask and blocks.
func TestKernelOnAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
		s := mosaic.Kernel{Chip: "v5e", Batch: n("batch", 1, 2), Queries: n("queries", 1, 20), Keys: n("keys", 1, 400), KVHeads: n("kv heads", 1, 3), HeadDim: 128,
			Blocks: mosaic.Blocks{Q: 16, K: 128 * n("K", 1, 3), Sub: 128 * n("sub", 1, 3), Kept: rapid.Bool().Draw(t, "kept"), Ones: rapid.Bool().Draw(t, "ones")}}
		s.Heads = s.KVHeads * n("group", 1, 4)
		if rapid.Bool().Draw(t, "narrow") {
			s.HeadDim = 64
		}
		if rapid.Bool().Draw(t, "masked") {
			s.Mask, s.MaskBatch = true, []int{1, s.Batch}[n("mask batch", 0, 1)]
		}
		for at := n("from", 0, s.Keys-1); at < s.Keys && len(s.Real) < 3; {
			to := n("to", at+1, s.Keys)
			s.Real = append(s.Real, mosaic.Range{From: at, To: to})
			at = to + n("gap", 1, 300)
		}
		newProblem(rand.New(rand.NewPCG(uint64(n("seed", 0, 1<<20)), 0)), s).check(t, atWorst)
	})
}

// A spec without a kernel says every reason.
func TestUnsupported(t *testing.T) {
	for want, s := range map[string]mosaic.Kernel{
		"head dim 96":            {Chip: "v4", Batch: 1, Queries: 1, Keys: 1, Heads: 1, KVHeads: 1, HeadDim: 96},
		"chip \"v3\"":            {Chip: "v3", Batch: 1, Queries: 1, Keys: 1, Heads: 1, KVHeads: 1, HeadDim: 128},
		"k's heads divide q's":   {Chip: "v4", Batch: 1, Queries: 1, Keys: 1, Heads: 3, KVHeads: 2, HeadDim: 128},
		"want ascending ranges":  {Chip: "v4", Batch: 1, Queries: 1, Keys: 9, Heads: 1, KVHeads: 1, HeadDim: 128, Real: []mosaic.Range{{From: 0, To: 10}}},
		"none of 9 keys is real": {Chip: "v4", Batch: 1, Queries: 1, Keys: 9, Heads: 1, KVHeads: 1, HeadDim: 128, Real: []mosaic.Range{}},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}

// TestPallas: JAX's interpreter on the same algorithm as a Pallas kernel gives the
// same to a unit in bf16's last place. bench/peers/flash_golden.py made the data.
func TestPallas(t *testing.T) {
	text, err := os.ReadFile("testdata/pallas.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Queries, Keys, Real int
		HeadDim             int    `json:"head_dim"`
		BlockQ              int    `json:"block_q"`
		BlockK              int    `json:"block_k"`
		Sub                 int    `json:"sub"`
		Out                 []byte `json:"out_bf16"`
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	values := func(rows int, seed uint64, by float32) *mosaictest.Vec {
		v := mosaictest.NewVec("bf16", 1, rows, g.HeadDim)
		for i := range v.F {
			n := (uint64(i) + seed*1_000_003) * 2654435761 % (1 << 32) >> 24
			v.F[i] = mosaictest.Round((float32(n)/64 - 2) * by)
		}
		return v
	}
	s := mosaic.Kernel{Chip: "v4", Batch: 1, Queries: g.Queries, Keys: g.Keys, Heads: 1, KVHeads: 1, HeadDim: g.HeadDim,
		Real: []mosaic.Range{{From: 0, To: g.Real}}, Blocks: mosaic.Blocks{Q: g.BlockQ, K: g.BlockK, Sub: g.Sub}}
	module, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	m, err := mosaictest.Load(module)
	if err != nil {
		t.Fatal(err)
	}
	fold := float32(log2e / math.Sqrt(float64(g.HeadDim)))
	got, err := m.Run([]*mosaictest.Vec{values(g.Queries, 1, fold), values(g.Keys, 2, 1), values(g.Keys, 3, 1)}, []int{1, g.Queries, g.HeadDim})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Out) != 2*len(got.F) {
		t.Fatalf("%d bytes for %d elements", len(g.Out), len(got.F))
	}
	differ := 0
	for i, x := range got.F {
		want := int(binary.LittleEndian.Uint16(g.Out[2*i:]))
		have := int(tensor.BF16(x))
		if have != want {
			differ++
		}
		if d := have - want; d < -1 || d > 1 {
			t.Fatalf("element %d is %g, JAX has %g", i, x, tensor.FromBF16(uint16(want)))
		}
	}
	if differ > len(got.F)/50 {
		t.Errorf("%d of %d elements are a unit apart", differ, len(got.F))
	}
}
