package triton_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/attention/internal/tritontest"
	"weft/attention/triton"
	"weft/dtype"
	"weft/topology"
)

// problem is one attention with its operands as the kernel has them, by name and in the kernel's
// layout: rounded to its type, and rubbish where keys are not real.
type problem struct {
	kernel triton.Kernel
	data   map[string][]float32
	scale  float64 // of the softmax
}

func newProblem(r *rand.Rand, s triton.Kernel) *problem {
	p := &problem{kernel: s, data: map[string][]float32{}, scale: 1 / math.Sqrt(float64(s.HeadDim))}
	fold := p.scale * math.Log2E
	if s.Scale != 0 {
		fold, p.scale = 1, s.Scale/math.Log2E
	}
	for _, o := range s.Operands() {
		n, std := elements(o.Shape), 1.9
		switch {
		case o.Name == "q":
			std *= fold
		case o.Name == "v" || o.Name == "acc_in":
			std = 1
		case o.Name == "mask":
			std = 2 * math.Log2E
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = tritontest.Round(o.DType.String(), float32(std*r.NormFloat64()))
			switch {
			case o.Name == "mask" && r.IntN(4) == 0:
				x[i] = -1e30
			case o.Name == "l_in":
				x[i] = 1 + float32(r.Float64())
			}
		}
		p.data[o.Name] = x
	}
	bad := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 3e38}
	for b := range s.Batch {
		for j := range s.Keys {
			if p.real(j) {
				continue
			}
			for h := range s.KVHeads {
				for c := range s.HeadDim {
					at := p.index(s.Keys, s.KVHeads, b, j, h, c)
					p.data["k"][at], p.data["v"][at] = bad[j%4], bad[j%4]
				}
			}
			if s.Mask && b < s.MaskBatch {
				p.data["mask"][b*s.Keys+j] = bad[j%4]
			}
		}
	}
	return p
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// index is where an operand of so many tokens and heads has an element.
func (p *problem) index(tokens, heads, b, token, head, channel int) int {
	if p.kernel.HeadsFirst {
		return ((b*heads+head)*tokens+token)*p.kernel.HeadDim + channel
	}
	return ((b*tokens+token)*heads+head)*p.kernel.HeadDim + channel
}

func (p *problem) real(key int) bool {
	if p.kernel.Real == nil {
		return true
	}
	for _, r := range p.kernel.Real {
		if key >= r.From && key < r.To {
			return true
		}
	}
	return false
}

// exact is the definition in f64, by the names of the results. The scores and the state's maxima are to
// the base 2.
func (p *problem) exact() map[string][]float64 {
	s, group := p.kernel, p.kernel.Heads/p.kernel.KVHeads
	out := map[string][]float64{}
	for _, r := range s.Results() {
		out[r.Name] = make([]float64, elements(r.Shape))
	}
	scale := 1.0
	if s.Scale != 0 {
		scale = s.Scale
	}
	acc, scores := make([]float64, s.HeadDim), make([]float64, s.Keys)
	for b := range s.Batch {
		for h := range s.Heads {
			for i := range s.Queries {
				row := (b*s.Heads+h)*s.Queries + i
				most := -3e38
				if s.StateIn {
					most = float64(p.data["m_in"][row])
				}
				for j := range s.Keys {
					if !p.real(j) {
						continue
					}
					x := 0.0
					for c := range s.HeadDim {
						x += float64(p.data["q"][p.index(s.Queries, s.Heads, b, i, h, c)]) * float64(p.data["k"][p.index(s.Keys, s.KVHeads, b, j, h/group, c)])
					}
					x *= scale
					if s.Mask {
						x = float64(float32(x + float64(p.data["mask"][b%s.MaskBatch*s.Keys+j]))) // masked scores are equal, as in f32
					}
					scores[j], most = x, max(most, x)
				}
				sum := 0.0
				clear(acc)
				if s.StateIn {
					keep := math.Exp2(float64(p.data["m_in"][row]) - most)
					sum = keep * float64(p.data["l_in"][row])
					for c := range acc {
						acc[c] = keep * float64(p.data["acc_in"][p.index(s.Queries, s.Heads, b, i, h, c)])
					}
				}
				for j := range s.Keys {
					if !p.real(j) {
						continue
					}
					w := math.Exp2(scores[j] - most)
					sum += w
					for c := range acc {
						acc[c] += w * float64(p.data["v"][p.index(s.Keys, s.KVHeads, b, j, h/group, c)])
					}
				}
				for c := range acc {
					at := p.index(s.Queries, s.Heads, b, i, h, c)
					if s.StateOut {
						out["acc_out"][at] = acc[c]
					} else {
						out["out"][at] = acc[c] / sum
					}
				}
				if s.StateOut {
					out["m_out"][row], out["l_out"][row] = most, sum
				}
			}
		}
	}
	return out
}

// run interprets the kernel's text. What it does not write stays NaN.
func (p *problem) run() (map[string][]float32, error) {
	text, err := p.kernel.Text()
	if err != nil {
		return nil, err
	}
	m, err := tritontest.Load(text)
	if err != nil {
		return nil, err
	}
	var arrays []*tritontest.Array
	for _, o := range p.kernel.Operands() {
		arrays = append(arrays, &tritontest.Array{Elem: o.DType.String(), Data: p.data[o.Name]})
	}
	out := map[string][]float32{}
	for _, r := range p.kernel.Results() {
		x := make([]float32, elements(r.Shape))
		for i := range x {
			x[i] = float32(math.NaN())
		}
		out[r.Name] = x
		arrays = append(arrays, &tritontest.Array{Elem: r.DType.String(), Data: x})
	}
	return out, m.Run(p.kernel.Grid(), arrays)
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

// The bounds on the relative error against f64 on the same rounded operands: the rounding of the weights
// p and of the result, each by half a unit of the type's last place.
var bounds = map[dtype.DType]float64{dtype.BF16: 2.5e-3, dtype.F16: 4e-4}

type tb interface {
	Helper()
	Fatalf(string, ...any)
}

func (p *problem) check(t tb) {
	t.Helper()
	got, err := p.run()
	if err != nil {
		t.Fatalf("%+v: %v", p.kernel, err)
	}
	for name, want := range p.exact() {
		if e := relative(got[name], want); !(e <= bounds[p.kernel.DType]) {
			t.Fatalf("%+v: %s is off by %.2g of f64 on the rounded operands, want %g", p.kernel, name, e, bounds[p.kernel.DType])
		}
	}
}

// small are blocks that make several of small problems.
var small = topology.GPUTile{Queries: 16, Keys: 32, Warps: 4, Stages: 2}

func TestKernel(t *testing.T) {
	to := func(n int) []triton.Range { return []triton.Range{{From: 0, To: n}} }
	for name, s := range map[string]triton.Kernel{
		"one block":        {Queries: 16, Keys: 32, Heads: 1, KVHeads: 1, HeadDim: 64},
		"blocks":           {Batch: 2, Queries: 48, Keys: 96, Heads: 2, KVHeads: 2, HeadDim: 64},
		"f16":              {DType: dtype.F16, Batch: 2, Queries: 48, Keys: 96, Heads: 2, KVHeads: 1, HeadDim: 64},
		"heads of 128":     {Queries: 32, Keys: 64, Heads: 2, KVHeads: 2, HeadDim: 128},
		"heads of 256":     {Queries: 16, Keys: 40, Heads: 1, KVHeads: 1, HeadDim: 256},
		"heads of 96":      {Queries: 33, Keys: 65, Heads: 2, KVHeads: 2, HeadDim: 96},
		"heads of 72":      {Queries: 16, Keys: 33, Heads: 3, KVHeads: 3, HeadDim: 72},
		"heads of 5":       {Queries: 7, Keys: 31, Heads: 3, KVHeads: 3, HeadDim: 5},
		"uneven":           {Queries: 17, Keys: 65, Heads: 1, KVHeads: 1, HeadDim: 64},
		"one query":        {Queries: 1, Keys: 70, Heads: 2, KVHeads: 2, HeadDim: 64},
		"one key":          {Queries: 33, Keys: 1, Heads: 1, KVHeads: 1, HeadDim: 64},
		"ragged":           {Queries: 32, Keys: 128, Heads: 1, KVHeads: 1, HeadDim: 64, Real: to(100)},
		"ragged by blocks": {Queries: 32, Keys: 128, Heads: 1, KVHeads: 1, HeadDim: 64, Real: to(64)},
		"interior":         {Queries: 32, Keys: 200, Heads: 1, KVHeads: 1, HeadDim: 64, Real: []triton.Range{{From: 3, To: 77}, {From: 90, To: 199}}},
		"grouped":          {Batch: 2, Queries: 32, Keys: 60, Heads: 6, KVHeads: 2, HeadDim: 64},
		"masked":           {Batch: 2, Queries: 32, Keys: 70, Heads: 2, KVHeads: 1, HeadDim: 64, Mask: true, MaskBatch: 2},
		"masked alike":     {Batch: 2, Queries: 32, Keys: 70, Heads: 1, KVHeads: 1, HeadDim: 64, Mask: true, MaskBatch: 1, Real: []triton.Range{{From: 5, To: 66}}},
		"scaled":           {Queries: 32, Keys: 64, Heads: 1, KVHeads: 1, HeadDim: 64, Scale: math.Log2E / 8},
		"heads first":      {Batch: 2, Queries: 33, Keys: 65, Heads: 4, KVHeads: 2, HeadDim: 64, HeadsFirst: true, Real: to(60)},
		"to a state":       {Batch: 2, Queries: 33, Keys: 65, Heads: 2, KVHeads: 2, HeadDim: 48, StateOut: true},
		"from a state":     {Batch: 2, Queries: 33, Keys: 65, Heads: 2, KVHeads: 1, HeadDim: 48, StateIn: true},
		"between states":   {Batch: 2, Queries: 33, Keys: 65, Heads: 2, KVHeads: 2, HeadDim: 64, HeadsFirst: true, StateIn: true, StateOut: true, Mask: true, MaskBatch: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s.Chip, s.Tile, s.Batch = "h100", small, max(1, s.Batch)
			if s.DType == dtype.Invalid {
				s.DType = dtype.BF16
			}
			newProblem(rand.New(rand.NewPCG(1, uint64(len(name)))), s).check(t)
		})
	}
}

// What scores can be at their worst.
func TestExtremeScores(t *testing.T) {
	s := triton.Kernel{Chip: "a100", DType: dtype.BF16, Batch: 1, Queries: 32, Keys: 70, Heads: 1, KVHeads: 1, HeadDim: 64, Tile: small, Real: []triton.Range{{From: 0, To: 66}}}
	for name, change := range map[string]func(p *problem){
		"all equal": func(p *problem) { clear(p.data["q"]) },
		"the last huge": func(p *problem) {
			for i := range 64 {
				p.data["k"][65*64+i] = tritontest.Round("bf16", p.data["q"][i]*1e4)
			}
		},
		"all very negative": func(p *problem) {
			for i := range 66 * 64 {
				p.data["k"][i] = -100
			}
			for i := range p.data["q"] {
				p.data["q"][i] = 100
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProblem(rand.New(rand.NewPCG(3, 4)), s)
			change(p)
			p.check(t)
		})
	}
	t.Run("all masked", func(t *testing.T) {
		s.Mask, s.MaskBatch = true, 1
		p := newProblem(rand.New(rand.NewPCG(3, 4)), s)
		for i := range 66 {
			p.data["mask"][i] = -1e30
		}
		p.check(t)
	})
}

// A NaN in a score comes out; it does not vanish in the maximum.
func TestNaNStaysOne(t *testing.T) {
	s := triton.Kernel{Chip: "h100", DType: dtype.BF16, Batch: 1, Queries: 16, Keys: 40, Heads: 1, KVHeads: 1, HeadDim: 64, Tile: small}
	p := newProblem(rand.New(rand.NewPCG(5, 6)), s)
	p.data["q"][3*64] = float32(math.NaN())
	got, err := p.run()
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range got["out"] {
		if (x != x) != (i/64 == 3) {
			t.Fatalf("row %d has %v", i/64, x)
		}
	}
}

// A state that one kernel hands to the next gives what one kernel over all keys gives, as a
// ring needs it.
func TestStateGoesOn(t *testing.T) {
	whole := triton.Kernel{Chip: "h100", DType: dtype.BF16, Batch: 2, Queries: 33, Keys: 100, Heads: 4, KVHeads: 2, HeadDim: 64, Tile: small}
	p := newProblem(rand.New(rand.NewPCG(7, 8)), whole)
	first, last := *p, *p
	first.kernel.Real, first.kernel.StateOut = []triton.Range{{From: 0, To: 41}}, true
	state, err := first.run()
	if err != nil {
		t.Fatal(err)
	}
	last.kernel.Real, last.kernel.StateIn = []triton.Range{{From: 41, To: 100}}, true
	last.data = map[string][]float32{"q": p.data["q"], "k": p.data["k"], "v": p.data["v"], "m_in": state["m_out"], "l_in": state["l_out"], "acc_in": state["acc_out"]}
	got, err := last.run()
	if err != nil {
		t.Fatal(err)
	}
	if e := relative(got["out"], p.exact()["out"]); !(e <= bounds[dtype.BF16]) {
		t.Errorf("off by %.2g", e)
	}
}

// Any shape, real keys, mask, state, layout and blocks.
func TestKernelOnAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, name) }
		yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
		s := triton.Kernel{Chip: "b200", DType: []dtype.DType{dtype.BF16, dtype.F16}[n("type", 0, 1)], Batch: n("batch", 1, 2), Queries: n("queries", 1, 40), Keys: n("keys", 1, 90),
			KVHeads: n("kv heads", 1, 3), HeadDim: n("head dim", 1, 70), HeadsFirst: yes("heads first"), StateIn: yes("from a state"), StateOut: yes("to a state"),
			Tile: topology.GPUTile{Queries: 16 << n("Q", 0, 1), Keys: 16 << n("K", 0, 2), Warps: 4, Stages: 1}}
		s.Heads = s.KVHeads * n("group", 1, 3)
		if yes("masked") {
			s.Mask, s.MaskBatch = true, []int{1, s.Batch}[n("mask batch", 0, 1)]
		}
		for at := n("from", 0, s.Keys-1); at < s.Keys && len(s.Real) < 3; {
			to := n("to", at+1, s.Keys)
			s.Real = append(s.Real, triton.Range{From: at, To: to})
			at = to + n("gap", 1, 60)
		}
		p := newProblem(rand.New(rand.NewPCG(uint64(n("seed", 0, 1<<20)), 0)), s)
		got, err := p.run()
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		for name, want := range p.exact() {
			// A result that hangs on few elements may be off by twice what many average to.
			if e := relative(got[name], want); !(e <= 2*bounds[s.DType]) {
				t.Fatalf("%+v: %s is off by %.2g of f64", s, name, e)
			}
		}
	})
}

// A spec without a kernel says every reason.
func TestUnsupported(t *testing.T) {
	ok := triton.Kernel{Chip: "h100", DType: dtype.BF16, Batch: 1, Queries: 1, Keys: 9, Heads: 1, KVHeads: 1, HeadDim: 128}
	if err := ok.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(s *triton.Kernel){
		"head dim 129":           func(s *triton.Kernel) { s.Chip, s.HeadDim = "a100", 129 },
		"head dim 257":           func(s *triton.Kernel) { s.HeadDim = 257 },
		"operands are f32":       func(s *triton.Kernel) { s.DType = dtype.F32 },
		`chip "v4"`:              func(s *triton.Kernel) { s.Chip = "v4" },
		`chip "mi300x"`:          func(s *triton.Kernel) { s.Chip = "mi300x" },
		"k's heads divide q's":   func(s *triton.Kernel) { s.Heads, s.KVHeads = 3, 2 },
		"want ascending ranges":  func(s *triton.Kernel) { s.Real = []triton.Range{{From: 0, To: 10}} },
		"none of 9 keys is real": func(s *triton.Kernel) { s.Real = []triton.Range{} },
		"3 warps":                func(s *triton.Kernel) { s.Tile = topology.GPUTile{Queries: 64, Keys: 64, Warps: 3, Stages: 1} },
		"0 stages":               func(s *triton.Kernel) { s.Tile = topology.GPUTile{Queries: 64, Keys: 64, Warps: 4} },
		"a mask for 2 of 1":      func(s *triton.Kernel) { s.Mask, s.MaskBatch = true, 2 },
		"70000 heads":            func(s *triton.Kernel) { s.Heads, s.KVHeads = 70000, 70000 },
	} {
		s := ok
		change(&s)
		err := s.Check()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
		if _, terr := s.Text(); terr == nil {
			t.Errorf("%+v has a text", s)
		}
	}
}

// What the call says and what the text says is one thing: the name, the parameters in order, and a
// grid that covers every query.
func TestCallAndTextAgree(t *testing.T) {
	for _, s := range []triton.Kernel{
		{Chip: "h100", DType: dtype.BF16, Batch: 3, Queries: 4681, Keys: 226, Heads: 12, KVHeads: 12, HeadDim: 128, Mask: true, MaskBatch: 1},
		{Chip: "a100", DType: dtype.F16, Batch: 1, Queries: 128, Keys: 128, Heads: 4, KVHeads: 2, HeadDim: 96, StateIn: true, StateOut: true},
		{Chip: "b200", DType: dtype.BF16, Batch: 1, Queries: 129, Keys: 33, Heads: 1, KVHeads: 1, HeadDim: 256},
	} {
		text, err := s.Text()
		if err != nil {
			t.Fatal(err)
		}
		m, err := tritontest.Load(text)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, p := range append(s.Operands(), s.Results()...) {
			want = append(want, p.Name)
		}
		grid, tile := s.Grid(), s.Tiles()
		if m.Name != s.Name() || strings.Join(m.Params(), " ") != strings.Join(want, " ") || grid[0]*tile.Queries < s.Queries || (grid[0]-1)*tile.Queries >= s.Queries ||
			grid[1] != s.Heads || grid[2] != s.Batch {
			t.Errorf("%v: %s %v, grid %v", s, m.Name, m.Params(), grid)
		}
		config := s.Config()
		for _, part := range []string{`name = "` + s.Name() + `"`, "grid_z = ", "num_stages = ", "num_warps = ", `ir = "module {\0A`} {
			if strings.Count(config, part) != 1 {
				t.Errorf("%q stands %d times in the configuration", part, strings.Count(config, part))
			}
		}
	}
}
