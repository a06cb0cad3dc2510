package attention

import (
	"fmt"
	"strings"
	"testing"

	"weft/dtype"
	"weft/internal/meshtest"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// planOf asks a form about self-attention of n tokens on one device, and builds it.
func planOf(t *testing.T, f form, target spmd.Target, d dtype.DType, n, heads, kvHeads, headDim int, o Options) (formPlan, *program.Program, error) {
	t.Helper()
	var plan formPlan
	var refused error
	p := meshtest.Build(t, meshtest.Mesh(t, ""), func(b *spmd.Builder) {
		in := func(name string, h int) spmd.Tensor {
			return b.Input(name, d, []int{1, n, h, headDim}, sharding.Whole(4))
		}
		q, k, v := in("q", heads), in("k", kvHeads), in("v", kvHeads)
		o := checkOperands(b, typeOf(q), typeOf(k), typeOf(v), o)
		plan, refused = f.plan(newCall(b, typeOf(q), typeOf(k), q.Spec, o))
		b.Output("out", Attend(b, q, k, v, o), "")
	}, spmd.WithTarget(target))
	return plan, p, refused
}

// Every form says what it is called, what it takes and what it needs; the last one takes
// every call, which chooseForm relies on.
func TestForms(t *testing.T) {
	v4, host := spmd.Target{Chip: "v4"}, spmd.Target{HostKernels: spmd.HostKernels{Available: true}}
	for _, c := range []struct {
		what   string
		target spmd.Target
		d      dtype.DType
		dim    int
		o      Options
		kernel bool
	}{
		{"bf16 on v4", v4, dtype.BF16, 128, Options{}, true},
		{"padding on v4", v4, dtype.BF16, 64, Options{Keys: 17}, true},
		{"f32 on v4", v4, dtype.F32, 128, Options{}, false},
		{"head dim 96", v4, dtype.BF16, 96, Options{}, false},
		{"causal", v4, dtype.BF16, 128, Options{Causal: true}, false},
		{"no TPU", spmd.Target{}, dtype.BF16, 128, Options{}, false},
		{"bf16 on an H100", spmd.Target{Chip: "h100"}, dtype.BF16, 128, Options{}, true},
		{"f16 on an A100", spmd.Target{Chip: "a100"}, dtype.F16, 64, Options{Keys: 17}, true},
		{"head dim 96 on an RTX 4090", spmd.Target{Chip: "rtx4090"}, dtype.BF16, 96, Options{}, true},
		{"f32 on an H100", spmd.Target{Chip: "h100"}, dtype.F32, 128, Options{}, false},
		{"causal on a B200", spmd.Target{Chip: "b200"}, dtype.BF16, 128, Options{Causal: true}, false},
		{"an MI300X", spmd.Target{Chip: "mi300x"}, dtype.BF16, 128, Options{}, false},
		{"bf16 on a processor", host, dtype.BF16, 128, Options{Keys: 17}, true},
		{"f32 on a processor", host, dtype.F32, 96, Options{}, true},
		{"head dim 7 on a processor", host, dtype.F32, 7, Options{}, false},
		{"causal on a processor", host, dtype.F32, 64, Options{Causal: true}, false},
		{"a processor without kernels", spmd.Target{HostKernels: spmd.HostKernels{Why: "too old"}}, dtype.F32, 64, Options{}, false},
	} {
		for i, f := range forms {
			p, _, refused := planOf(t, f, c.target, c.d, 32, 4, 2, c.dim, c.o)
			takes := f.name() == Blocked || c.kernel
			if (refused == nil) != takes || (p.emit != nil) != takes {
				t.Errorf("%s: the %s form says %v, want it to take the call: %v", c.what, f.name(), refused, takes)
			}
			if i == len(forms)-1 && refused != nil {
				t.Errorf("%s: the last form refuses: %v", c.what, refused)
			}
			if takes && p.handsOnState != (f.name() == Blocked || isGPU(c.target.Chip)) {
				t.Errorf("%s: the %s form hands on its state: %v", c.what, f.name(), p.handsOnState)
			}
		}
	}
	for _, f := range forms {
		if want := f.name() + " (" + f.help() + ")"; f.help() == "" || !strings.Contains(FormsHelp(), want) {
			t.Errorf("the help %q lacks %q", FormsHelp(), want)
		}
	}
	if got := fmt.Sprint(Forms()); got != "[auto blocked kernel]" {
		t.Error(got)
	}
}

// The reason of a choice: the form's own, that it was asked for, or what is against the
// forms before it.
func TestReasonFor(t *testing.T) {
	for _, c := range []struct {
		p       formPlan
		byName  bool
		against []string
		want    string
	}{
		{formPlan{why: "fast"}, false, nil, "fast"},
		{formPlan{why: "fast"}, true, nil, "fast"},
		{formPlan{}, true, nil, "asked for"},
		{formPlan{}, false, []string{"no TPU", "too wide"}, "no TPU; too wide"},
	} {
		if got := reasonFor(c.p, c.byName, c.against); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// The blocked form says at most about twice what its program holds beside operands and
// result, and no less than it holds.
func TestBlockedScratchBytes(t *testing.T) {
	for _, n := range []int{1024, 4096} {
		for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
			for _, kv := range []int{8, 2, 1} {
				for _, o := range []Options{{}, {Causal: true}, {HeadBlock: 2}, {Keys: n - 100}, {BlockQ: 64, BlockK: 64}} {
					f, p, _ := planOf(t, blockedForm{}, spmd.Target{}, d, n, 8, kv, 64, o)
					live := cost.MemoryOf(p)
					held := live.Peak - live.Arguments - live.Outputs
					if held > f.scratchBytes || f.scratchBytes > 2*held {
						t.Errorf("%d tokens of %v, %d key heads, %+v: %d bytes said, %d held", n, d, kv, o, f.scratchBytes, held)
					}
				}
			}
		}
	}
}

// A ring's keys arrive in turns. The blocked form's state after some keys, taken up
// again with the others, gives what all keys at once give.
func TestBlockedHandsOnState(t *testing.T) {
	const queries, keys, heads, dim = 5, 12, 2, 4
	p := meshtest.Build(t, meshtest.Mesh(t, ""), func(b *spmd.Builder) {
		in := func(name string, tokens int) spmd.Local {
			return b.Local(b.Input(name, dtype.F32, []int{heads, tokens, dim}, sharding.Whole(3)))
		}
		q, start := in("q", queries), b.LConst(dtype.I32, 0)
		a := &blockedCall{b: b, o: Options{Scale: 0.5, BlockQ: 8, BlockK: 4}, batch: 1, kv: heads, group: 1, d: dim, out: dtype.F32, k: in("k", keys), v: in("v", keys)}
		output := func(name string, x spmd.Local) { b.Output(name, b.Global(x, x.Shape, sharding.Whole(3)), "") }
		output("whole", a.attendQueryBlock(q, start, queries))
		for _, cut := range []int{1, 5, 8} {
			// The later keys come first, as they do for some devices of a ring.
			s := a.foldKeyRange(q, start, queries, cut, keys, false, a.emptySoftmax(q))
			s = a.foldKeyRange(q, start, queries, 0, cut, false, s)
			output(fmt.Sprint("cut at ", cut), b.LDiv(s.acc, s.l))
		}
	})
	wave := func(tokens int, by float64) *interp.Array {
		return meshtest.Fill(dtype.F32, func(i int) float64 { return by * float64(i*7%13-6) }, heads, tokens, dim)
	}
	out := meshtest.Interp(t, p, meshtest.Values{"q": wave(queries, 0.3), "k": wave(keys, 0.7), "v": wave(keys, 1)})
	for name, got := range out {
		if d := meshtest.Differ(got, out["whole"], 1e-6); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if len(out) != 4 {
		t.Errorf("%d results, want 4", len(out))
	}
}
