package aot

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"weft/attention"
	"weft/attention/mosaic"
	"weft/dtype"
	"weft/fault"
	"weft/internal/hlo"
	"weft/mesh"
	"weft/models"
	_ "weft/models/all"
	"weft/plan"
	"weft/program/cost"
	"weft/request"
	"weft/topology"
	"weft/xla/plugin"
)

// tiny is a Wan of two layers: the fixture's configuration.
func tiny(t testing.TB) models.Model {
	t.Helper()
	config, err := os.ReadFile("../testdata/wan21_t2v/config.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.FromConfig(config, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func slice(t testing.TB, name string) topology.Slice {
	t.Helper()
	on, err := topology.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return on
}

// options are those of the fixture's step: a batch of two, 48 tokens.
func options(t testing.TB, on string) Options {
	t.Helper()
	axes, err := mesh.Parse(on)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Install: true, Request: request.Request{Width: 64, Height: 64, Frames: 9, DType: dtype.F32, Mesh: axes}}
}

// forSlice are the options for a slice.
func forSlice(o Options, on topology.Slice) Options {
	o.On = request.Hardware{Slice: on}
	return o
}

func needXLA(t testing.TB) {
	t.Helper()
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
}

// needTPU skips where libtpu is not here: it is 460 MB, fetched on demand only.
func needTPU(t testing.TB) {
	t.Helper()
	needXLA(t)
	if _, err := plugin.Get("tpu"); err != nil {
		t.Skipf("libtpu is not here (weft engine install tpu): %v", err)
	}
}

// TestSum: what a device holds is what its parts say, for every program of the step.
func TestSum(t *testing.T) {
	needXLA(t)
	o := options(t, "tp=2,sp=2")
	done := 0
	o.Progress = func(_ string, n, of int) { done = max(done, n); _ = of }
	c, err := Compile(context.Background(), tiny(t), forSlice(o, slice(t, "cpu:4")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := c.Report
	code := int64(0) // of which XLA's CPU compiler says nothing
	if r.CodeBytes != nil {
		code = *r.CodeBytes
	}
	if got := r.ResidentWeightBytes + r.KeptBytes + r.AliveBytes + code + *r.ProgramBytes; got != r.Bytes() {
		t.Errorf("parts add up to %d, the whole is %d", got, r.Bytes())
	}
	if done != len(r.Programs) || len(r.Programs) != len(c.Step.Graph.Programs) {
		t.Errorf("%d programs reported, %d done, the graph has %d", len(r.Programs), done, len(c.Step.Graph.Programs))
	}
	for _, p := range r.Programs {
		g := c.Step.Graph.Programs[p.Name]
		live := cost.MemoryOf(g)
		// Without tiles on a CPU, the compiler's arguments and results are the Program's,
		// and a table of pointers where there are several results.
		table := int64(0)
		if len(g.Outputs) > 1 {
			table = 8 * int64(len(g.Outputs))
		}
		if p.Arguments != live.Arguments || p.Outputs != live.Outputs+table || p.Alias != live.Aliased {
			t.Errorf("%s: compiler has arguments %d, outputs %d, alias %d; the Program %+v", p.Name, p.Arguments, p.Outputs, p.Alias, live)
		}
		// The compiler's total has a few scalars besides.
		if rest := p.TotalBytes - (p.Arguments + p.Outputs + p.Temp - p.Alias); rest < 0 || rest > 1024 || p.FLOPs != cost.WorkOf(g).Flops {
			t.Errorf("%s: total %d of %+v, FLOPs %d", p.Name, p.TotalBytes, p.Memory, p.FLOPs)
		}
		if p.Name == "block" && (p.Calls != 2 || p.Request) {
			t.Errorf("block: %d calls, request %v; there are two layers", p.Calls, p.Request)
		}
		// The fullest moment is no less than any call's own need beside the weights it does not read.
		if r.Bytes() < p.TotalBytes {
			t.Errorf("%s alone needs %d, the device %d", p.Name, p.TotalBytes, r.Bytes())
		}
	}
}

// TestTPU compiles for v4-8, where padding and device order differ from a CPU's.
func TestTPU(t *testing.T) {
	needTPU(t)
	o := options(t, "tp=4")
	o.DType = dtype.BF16
	c, err := Compile(context.Background(), tiny(t), forSlice(o, slice(t, "v4-8")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := c.Report
	if *r.HBMLimitBytes < 30e9 || r.Fits != plan.Fits || len(r.DeviceIDs) != 4 || r.DeviceOrder != "torus" || *r.CodeBytes <= 0 {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "a multiple of 128 each") {
		t.Errorf("padding is not in the notes: %v", r.Notes)
	}
	for _, p := range r.Programs {
		if p.CompilerFLOPs <= 0 || p.Arguments < cost.MemoryOf(c.Step.Graph.Programs[p.Name]).Arguments {
			t.Errorf("%s: %+v", p.Name, p)
		}
	}
}

// TestRefusals: everything that is wrong is said before anything is compiled.
func TestRefusals(t *testing.T) {
	with := func(o Options, f func(*Options)) Options { f(&o); return o }
	four := options(t, "tp=2,sp=2")
	for _, k := range []struct {
		what, on string
		o        Options
		kind     error
	}{
		{"no mesh", "v4-8", with(four, func(o *Options) { o.Mesh = nil }), ErrOptions},
		{"peer", "v4-8", with(four, func(o *Options) { o.As = plan.AsVidax }), ErrOptions},
		{"weights", "v4-8", with(four, func(o *Options) { o.Weights = dtype.BF16 }), plan.ErrOptions},
		{"devices", "v4-16", four, mesh.ErrDeviceCount},
		{"pipeline", "v4-8", options(t, "pp=2,tp=2"), models.ErrAxis},
		{"fsdp axis", "v4-8", with(four, func(o *Options) { o.FSDP = []string{"zz"} }), mesh.ErrUnknownAxis},
		{"frames", "v4-8", with(four, func(o *Options) { o.Frames = 8 }), models.ErrSize},
		{"type", "v4-8", with(four, func(o *Options) { o.DType = dtype.F16 }), plan.ErrOptions},
		{"an AMD GPU", "mi300xx4", four, ErrSlice},
	} {
		_, err := Compile(context.Background(), tiny(t), forSlice(k.o, slice(t, k.on)))
		if !errors.Is(err, k.kind) {
			t.Errorf("%s: %v, want %v", k.what, err, k.kind)
		}
		if err != nil && len(fault.Violations(err)) == 0 {
			t.Errorf("%s: no violation in %v", k.what, err)
		}
	}
}

// wide is a Wan of two layers and four heads of 128, which have a kernel.
func wide(t testing.TB) models.Model {
	t.Helper()
	m, err := models.FromConfig([]byte(`{"_class_name":"WanModel","model_type":"t2v","dim":512,"ffn_dim":1024,"num_heads":4,"num_layers":2,"in_dim":16,"out_dim":16,"freq_dim":256,"text_dim":512,"text_len":512,"patch_size":[1,2,2],"eps":1e-6}`), "config.json")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestKernelInPlace: attention by kernel needs no more memory than blocked, and
// nothing stands between it and what makes q, k and v: no copy, no transpose. Under sp
// what makes them is an all-to-all, of one video: it has to change places of two.
func TestKernelInPlace(t *testing.T) {
	needTPU(t)
	for _, c := range []struct{ mesh, cfg string }{{"dp=2,tp=2", plan.CFGBatch}, {"tp=4", plan.CFGSequential}, {"tp=2,sp=2", plan.CFGSequential}} {
		t.Run(c.mesh, func(t *testing.T) { kernelInPlace(t, c.mesh, c.cfg) })
	}
}

func kernelInPlace(t *testing.T, mesh, cfg string) {
	peak := map[string]int64{}
	for _, form := range []string{attention.Kernel, attention.Blocked} {
		o := options(t, mesh)
		o.CFG = cfg
		o.DType, o.Attention, o.Width, o.Height, o.Frames = dtype.BF16, form, 320, 192, 33
		c, err := Compile(context.Background(), wide(t), forSlice(o, slice(t, "v4-8")))
		if err != nil {
			t.Fatal(err)
		}
		peak[form] = c.Report.Bytes() - *c.Report.CodeBytes // libtpu gives both
		if len(c.Report.Attention) != 2 || c.Report.Attention[0].Taken != form || c.Report.Attention[1].Taken != form {
			t.Errorf("%s: %v", form, c.Report.Attention)
		}
		code, _, err := c.Compiled["block"].Optimized()
		c.Close()
		if err != nil {
			t.Fatal(err)
		}
		calls, err := hlo.Calls(code, mosaic.Call)
		if err != nil {
			t.Fatal(err)
		}
		if form == attention.Blocked {
			if len(calls) != 0 {
				t.Errorf("blocked, and %v", calls)
			}
			continue
		}
		if len(calls) != 2 {
			t.Fatalf("%d calls of the kernel, the block has two attentions", len(calls))
		}
		for _, call := range calls {
			for i, op := range call.Made {
				if op == "copy" || op == "transpose" {
					t.Errorf("%s: operand %d comes through a %s", call.Name, i, op)
				}
			}
		}
		t.Logf("%+v", calls)
	}
	if peak[attention.Kernel] > peak[attention.Blocked] {
		t.Errorf("with the kernel a device holds %d, blocked %d", peak[attention.Kernel], peak[attention.Blocked])
	}
}
