package attention_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/attention"
	"weft/attention/internal/mosaictest"
	"weft/dtype"
	"weft/fault"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
	"weft/program/stablehlo"
	"weft/sharding"
	"weft/spmd"
)

var v4 = spmd.Target{Chip: "v4"}

// bf16Calls returns attentions that have a kernel, on 12 or 4 heads of 128 or 64.
func bf16Calls() map[string]call {
	r := rand.New(rand.NewPCG(5, 6))
	qkv := func(b, sq, sk, h, kv, d int) call {
		return call{q: random(r, dtype.BF16, b, sq, h, d), k: random(r, dtype.BF16, b, sk, kv, d), v: random(r, dtype.BF16, b, sk, kv, d), target: v4}
	}
	with := func(c call, f func(*call)) call { f(&c); return c }
	row := func(b, n int) *interp.Array { return random(r, dtype.F32, b, 1, 1, n) }
	some := func(b, n int) *interp.Array {
		return meshtest.Fill(dtype.Bool, func(i int) float64 { return float64(i % 3 % 2) }, b, 1, 1, n)
	}
	return map[string]call{
		"self":         qkv(2, 40, 40, 4, 4, 128),
		"ragged":       with(qkv(1, 48, 48, 4, 4, 128), func(c *call) { c.o.Keys = 37 }),
		"narrow":       with(qkv(1, 48, 48, 4, 4, 64), func(c *call) { c.o.Keys = 47 }),
		"grouped":      qkv(2, 32, 32, 4, 2, 128),
		"grouped, 64":  qkv(2, 32, 32, 8, 4, 64),
		"on v6e":       with(qkv(1, 40, 300, 4, 4, 128), func(c *call) { c.o.Keys, c.target.Chip = 290, "v6e" }),
		"cross":        qkv(1, 32, 226, 4, 4, 128),
		"bias by key":  with(qkv(2, 32, 40, 4, 4, 128), func(c *call) { c.bias = row(2, 40) }),
		"mask by key":  with(qkv(2, 32, 40, 4, 4, 128), func(c *call) { c.mask = some(1, 40) }),
		"both, ragged": with(qkv(2, 32, 40, 4, 4, 128), func(c *call) { c.o.Keys, c.bias, c.mask = 31, row(1, 31), some(2, 31) }),
		"scale of 1":   with(qkv(1, 32, 32, 4, 4, 128), func(c *call) { c.o.Scale = 1 }),
	}
}

// TestKernelOnMeshes: a program with kernels computes what the definition says,
// exchanges what the blocked form does, and names its choice.
func TestKernelOnMeshes(t *testing.T) {
	for name, c := range bf16Calls() {
		for _, on := range []string{"", "tp=2,sp=2", "sp=4"} {
			m := meshtest.Mesh(t, on)
			c := c
			if m.Has("tp") {
				c.qHeads, c.kHeads = tp, tp
			}
			if m.Has("sp") {
				c.qTokens, c.kTokens = sp, sp
				if c.k.Shape[1]%m.Size("sp") != 0 {
					c.kTokens = nil
				}
			}
			p := c.program(t, m)
			if err := program.Validate(p); err != nil {
				t.Fatalf("%s on %s: %v", name, on, err)
			}
			if len(p.Kernels()) != 1 || len(p.Choices) != 1 || p.Choices[0].Taken != attention.Kernel {
				t.Fatalf("%s on %s: %d kernels, choices %v", name, on, len(p.Kernels()), p.Choices)
			}
			compare(t, name+" on "+on, c.on(t, m), naive(c), 1.0/64)
			c.target.Attention = attention.Blocked
			blocked := c.program(t, m)
			if got, want := cost.Collectives(p), cost.Collectives(blocked); !slices.EqualFunc(got, want, func(a, b cost.Traffic) bool {
				return a.Op == b.Op && a.Axis == b.Axis && a.Elements == b.Elements && a.Count == b.Count
			}) {
				t.Errorf("%s on %s: collectives %v, blocked %v", name, on, got, want)
			}
			if blocked.Choices[0].Taken != attention.Blocked || len(blocked.Kernels()) != 0 {
				t.Errorf("%s on %s: blocked asked for, choices %v", name, on, blocked.Choices)
			}
			if a, b := cost.WorkOf(p).Flops, cost.WorkOf(blocked).Flops; a != b {
				t.Errorf("%s on %s: %d FLOPs, blocked %d", name, on, a, b)
			}
		}
	}
}

// kernelText is the module in a kernel's configuration.
func kernelText(t testing.TB, in *program.Instr) string {
	t.Helper()
	var c struct {
		Call struct {
			Body   string `json:"body"`
			Format int    `json:"serialization_format"`
			Layout bool   `json:"needs_layout_passes"`
		} `json:"custom_call_config"`
	}
	if err := json.Unmarshal([]byte(in.Kernel.Config()), &c); err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(c.Call.Body)
	if err != nil || c.Call.Format != 1 || !c.Call.Layout || in.Kernel.Call != "tpu_custom_call" || in.Kernel.Platform != "tpu" {
		t.Fatalf("%v: %+v", err, c.Call)
	}
	return string(text)
}

// shipped is what the text of a call's kernel gives, run as it stands, and a program of what it
// means on the same operands.
func shipped(t *testing.T, name string, c call, r *rand.Rand) (got *interp.Array, meaning *program.Program, operands meshtest.Values) {
	t.Helper()
	p := c.program(t, meshtest.Mesh(t, ""))
	in := p.Kernels()[0]
	both, err := p.Compared(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Validate(both); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	operands = meshtest.Values{}
	var given []*mosaictest.Vec
	for _, port := range both.Inputs {
		x := random(r, port.DType, port.Shape...)
		operands[port.Name] = x
		v := mosaictest.NewVec(port.DType.String(), port.Shape...)
		copy(v.F, x.F)
		given = append(given, v)
	}
	outs := meshtest.Interp(t, both, operands)
	compare(t, name+": the kernel's instruction by the interpreter", outs[program.ByKernel], outs[program.ByMeaning], 0)
	m, err := mosaictest.Load(kernelText(t, in))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	out, err := m.Run(given, both.Outputs[0].Shape)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got = interp.NewArray(dtype.BF16, both.Outputs[0].Shape...)
	copy(got.F, out.F)
	alone := *both
	alone.Body, alone.Outputs = both.Body[1:], both.Outputs[1:]
	return got, &alone, operands
}

// TestKernelText: the text that a program ships gives what the program says it means, that is
// the blocked form, on the same operands.
func TestKernelText(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for name, c := range bf16Calls() {
		got, meaning, operands := shipped(t, name, c, r)
		compare(t, name+": the kernel's text", got, meshtest.Interp(t, meaning, operands)[program.ByMeaning], 1.0/64)
	}
}

// TestKernelTextXLA: the blocked form as XLA compiles it for the CPU gives the same.
func TestKernelTextXLA(t *testing.T) {
	e := meshtest.XLA(t)
	r := rand.New(rand.NewPCG(7, 8))
	for name, c := range bf16Calls() {
		got, meaning, operands := shipped(t, name, c, r)
		compare(t, name+": the kernel's text", got, meshtest.Run(t, e, meaning, operands)[program.ByMeaning], 1.0/64)
	}
}

// TestKernelScale: where q is rounded from f32, the scale goes in before; the
// kernel multiplies scores only where it must.
func TestKernelScale(t *testing.T) {
	m := meshtest.Mesh(t, "sp=2")
	build := func(rounded bool) *program.Program {
		return meshtest.Build(t, m, func(b *spmd.Builder) {
			d := dtype.BF16
			if rounded {
				d = dtype.F32
			}
			spec := sharding.NewSpec(nil, sp)
			in := func(n string, d dtype.DType) spmd.Tensor { return b.Input(n, d, []int{1, 32, 2, 128}, spec) }
			q := b.Convert(in("q", d), dtype.BF16)
			b.Output("out", attention.Attend(b, q, in("k", dtype.BF16), in("v", dtype.BF16), attention.Options{}), "")
		}, spmd.WithTarget(v4))
	}
	before, after := kernelText(t, build(true).Kernels()[0]), kernelText(t, build(false).Kernels()[0])
	// Products with c and of the state: two for a sub-block. The scale is a third.
	if a, b := strings.Count(before, "arith.mulf"), strings.Count(after, "arith.mulf"); a != 2 || b != 3 {
		t.Errorf("%d products where q is rounded from f32 and %d where it is not, want 2 and 3", a, b)
	}
	if n := len(cost.Collectives(build(true))); n != len(cost.Collectives(build(false))) {
		t.Errorf("%d kinds of collectives", n)
	}
}

// TestJointByKernel: text and video, whichever first, over sp and tp.
func TestJointByKernel(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	stream := func(tokens int) (x [3]*interp.Array) {
		for i := range x {
			x[i] = random(r, dtype.BF16, 1, tokens, 4, 128)
		}
		return x
	}
	for _, on := range []string{"sp=1", "sp=2", "tp=2,sp=2", "sp=4"} {
		for _, textFirst := range []bool{true, false} {
			j := jointCall{text: stream(7), video: stream(16), tokens: 13, textFirst: textFirst}
			m := meshtest.Mesh(t, on)
			if m.Has("tp") {
				j.heads, j.kvHeads = tp, tp
			}
			p := meshtest.Build(t, m, j.define, spmd.WithTarget(v4))
			if len(p.Kernels()) != 1 || len(p.Choices) != 1 {
				t.Fatalf("%s: %v", on, p.Choices)
			}
			out := meshtest.Interp(t, p, j.values())
			text, video := j.want()
			compare(t, "text on "+on, out["text"], text, 1.0/64)
			compare(t, "video on "+on, part(out["video"], 1, 0, j.tokens), video, 1.0/64)
		}
	}
}

// TestKernelUnavailable: asked for by name where it is not, the kernel is an error
// with every reason; left open, the choice says them.
func TestKernelUnavailable(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	base := func(d dtype.DType, dim int) call {
		x := func() *interp.Array { return random(r, d, 1, 8, 2, dim) }
		return call{q: x(), k: x(), v: x(), target: v4}
	}
	causal, biased, none, old := base(dtype.BF16, 128), base(dtype.BF16, 128), base(dtype.BF16, 128), base(dtype.BF16, 128)
	causal.o.Causal = true
	biased.bias = random(r, dtype.F32, 1, 1, 8, 8)
	none.target = spmd.Target{}
	old.target.Chip = "v3"
	for name, k := range map[string]struct {
		c    call
		want []string
	}{
		"f32 and head dim 96": {base(dtype.F32, 96), []string{"operands are f32", "head dim 96"}},
		"causal":              {causal, []string{"causal"}},
		"bias by query":       {biased, []string{"a bias by head or query"}},
		"no TPU":              {none, []string{"kernels are for TPUs, GPUs, and processors"}},
		"an old TPU":          {old, []string{`chip "v3"`}},
	} {
		t.Run(name, func(t *testing.T) {
			p := k.c.program(t, meshtest.Mesh(t, ""))
			if len(p.Kernels()) != 0 || p.Choices[0].Taken != attention.Blocked {
				t.Errorf("auto took %v", p.Choices)
			}
			k.c.target.Attention = attention.Kernel
			_, err := build(k.c)
			var f *fault.Error
			if !errors.Is(err, attention.ErrKernelUnavailable) || !errors.As(err, &f) {
				t.Fatalf("%v", err)
			}
			for _, w := range k.want {
				if !strings.Contains(err.Error(), w) || !strings.Contains(p.Choices[0].Why, w) {
					t.Errorf("%v and %q do not say %q", err, p.Choices[0].Why, w)
				}
			}
		})
	}
	c := base(dtype.BF16, 128)
	c.target.Attention = "flash"
	if _, err := build(c); !errors.Is(err, attention.ErrForm) {
		t.Error(err)
	}
}

func build(c call) (*program.Program, error) {
	m, err := mesh.Local()
	if err != nil {
		return nil, err
	}
	return spmd.Build("attention", m, c.define, spmd.WithTarget(c.target))
}

// TestKernelElsewhere: what is no TPU says so, and the interpreter is none the less for it.
func TestKernelElsewhere(t *testing.T) {
	p := bf16Calls()["self"].program(t, meshtest.Mesh(t, ""))
	if err := p.RunsOn("tpu"); err != nil {
		t.Error(err)
	}
	err := p.RunsOn("cpu")
	if !errors.Is(err, program.ErrPlatform) || !strings.Contains(err.Error(), "for tpu and was given to cpu") {
		t.Error(err)
	}
	if text := stablehlo.Text(p); strings.Count(text, "stablehlo.custom_call @tpu_custom_call(") != 1 || strings.Contains(text, "stablehlo.while") ||
		!strings.Contains(text, "operand_layouts = [dense<[2, 1, 0]> : tensor<3xindex>, ") {
		t.Error("the text is not a call with layouts, or has the blocked form beside it")
	}
	if !strings.Contains(p.String(), "kernel") || !strings.Contains(p.String(), "attention by tpu_custom_call on tpu") {
		t.Error("the listing does not show the kernel")
	}
	if cost.MemoryOf(p).Peak <= cost.MemoryOf(p).Arguments {
		t.Errorf("%+v", cost.MemoryOf(p))
	}
}
