package attention_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"weft/attention"
	"weft/cpukernel"
	"weft/dtype"
	"weft/internal/meshtest"
	"weft/program/interp"
	"weft/program/stablehlo"
	"weft/sharding"
	"weft/spmd"
)

// hostCalls are the calls that a TPU has a kernel for, in bf16 and in f32, on a processor.
func hostCalls(kernels spmd.HostKernels) map[string]call {
	out := map[string]call{}
	for name, c := range bf16Calls() {
		c.target = spmd.Target{HostKernels: kernels, Attention: attention.Kernel}
		out[name+" bf16"] = c
		wide := func(x *interp.Array) *interp.Array {
			return meshtest.Fill(dtype.F32, func(i int) float64 { return x.At(i) }, x.Shape...)
		}
		c.q, c.k, c.v = wide(c.q), wide(c.k), wide(c.v)
		out[name+" f32"] = c
	}
	return out
}

// A program with the processors' kernel computes on XLA what the definition says, and so does its
// meaning on the interpreter.
func TestHostKernelOnMeshes(t *testing.T) {
	if len(cpukernel.Levels()) == 0 {
		t.Skip("no kernel for this processor")
	}
	e := meshtest.XLA(t)
	kernels := e.Target().HostKernels
	if !kernels.Available {
		t.Fatalf("the default plugin calls no kernels: %s", kernels.Why)
	}
	calls := hostCalls(kernels)
	for _, on := range []string{"", "tp=2,sp=2"} {
		m := meshtest.Mesh(t, on)
		for name, c := range calls {
			if m.Has("tp") {
				c.qHeads, c.kHeads, c.qTokens, c.kTokens = tp, tp, sp, sp
			}
			calls[name] = c
		}
		in := meshtest.Values{}
		p := meshtest.Build(t, m, func(b *spmd.Builder) { // one program: XLA is slow to compile, not to run
			for _, name := range slices.Sorted(maps.Keys(calls)) {
				calls[name].into(b, name+".", name)
				for port, x := range calls[name].values() {
					in[name+"."+port] = x
				}
			}
		}, spmd.WithTarget(spmd.Target{HostKernels: kernels, Attention: attention.Kernel}))
		if len(p.Kernels()) != len(calls) {
			t.Fatalf("on %s: %d kernels of %d calls, choices %v", on, len(p.Kernels()), len(calls), p.Choices)
		}
		for by, got := range map[string]meshtest.Values{"XLA": meshtest.Run(t, e, p, in), "the interpreter": meshtest.Interp(t, p, in)} {
			for name, c := range calls {
				tolerance := 1.0 / 64
				if c.q.DType == dtype.F32 {
					tolerance = 1e-5
				}
				compare(t, name+" on "+on+" by "+by, got[name], naive(c), tolerance)
			}
		}
	}
}

// Where there is no kernel for processors, asking for it by name is an error that says why, and auto
// takes the loops.
func TestHostKernelUnavailable(t *testing.T) {
	c := hostCalls(spmd.HostKernels{Why: "the plugin has no foreign function interface"})["self bf16"]
	_, err := build(c)
	if !errors.Is(err, attention.ErrKernelUnavailable) || !strings.Contains(err.Error(), "no foreign function interface") {
		t.Error(err)
	}
	c.target.Attention = attention.Auto
	p := c.program(t, meshtest.Mesh(t, ""))
	if p.Choices[0].Taken != attention.Blocked || !strings.Contains(p.Choices[0].Why, "no foreign function interface") {
		t.Errorf("%v", p.Choices)
	}
}

// The call's text has the configuration as a dictionary, which XLA's typed calls want, and no loops.
func TestHostKernelText(t *testing.T) {
	c := hostCalls(spmd.HostKernels{Available: true})["ragged f32"]
	p := c.program(t, meshtest.Mesh(t, ""))
	text := stablehlo.Text(p)
	for _, want := range []string{"stablehlo.custom_call @weft_attention(", "api_version = 4 : i32", `backend_config = {config = "`, "operand_layouts"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %s", want)
		}
	}
	if strings.Contains(text, "stablehlo.while") {
		t.Error("the loops stand beside the call")
	}
	if err := p.RunsOn("tpu"); err == nil {
		t.Error("a TPU runs a processor's kernel")
	}
	a, err := cpukernel.ParseConfig(p.Kernels()[0].Kernel.Config())
	if err != nil || a.Real != 37 || a.Keys != 48 || a.DType != dtype.F32 || a.Heads != 4 {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := cpukernel.ParseConfig("{"); !errors.Is(err, cpukernel.ErrUnsupported) {
		t.Error(err)
	}
}

// Queries that are split while the keys of a text are whole: four devices call the kernel at a time.
func TestHostKernelOnSplitQueries(t *testing.T) {
	if len(cpukernel.Levels()) == 0 {
		t.Skip("no kernel for this processor")
	}
	e := meshtest.XLA(t)
	m := meshtest.Mesh(t, "sp=4")
	c := hostCalls(e.Target().HostKernels)["cross f32"]
	p := meshtest.Build(t, m, func(b *spmd.Builder) {
		q := b.Input("q", dtype.F32, c.q.Shape, sharding.NewSpec(nil, sp))
		k, v := b.Input("k", dtype.F32, c.k.Shape, sharding.Whole(4)), b.Input("v", dtype.F32, c.v.Shape, sharding.Whole(4))
		b.Output("out", attention.Attend(b, q, k, v, attention.Options{}), "")
	}, spmd.WithTarget(c.target))
	compare(t, "queries over four devices", meshtest.Run(t, e, p, c.values())["out"], naive(c), 1e-5)
}
