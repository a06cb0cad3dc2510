package aot_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weft"
	"weft/aot"
	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/internal/modeltest"
	"weft/mesh"
	"weft/program"
	"weft/request"
	"weft/tensor"
	"weft/topology"
)

const wanDir = "../testdata/wan21_t2v"

// uncompiling is an engine that loads programs and compiles none.
type uncompiling struct {
	engine.Engine
	engine.Loader
}

func (uncompiling) Compile(context.Context, *program.Program) (engine.Executable, error) {
	return nil, errors.New("something was compiled")
}

// bundleOf compiles the fixture's step for virtual CPU devices.
func bundleOf(t *testing.T, m *weft.Model, on, axes string, change func(*aot.Options)) string {
	t.Helper()
	parsed, err := mesh.Parse(axes)
	if err != nil {
		t.Fatal(err)
	}
	slice, err := topology.Lookup(on)
	if err != nil {
		t.Fatal(err)
	}
	o := aot.Options{Install: true, Request: request.Request{Width: 64, Height: 64, Frames: 9, DType: dtype.F32, Mesh: parsed, On: request.Hardware{Slice: slice}}}
	if change != nil {
		change(&o)
	}
	c, err := aot.Compile(context.Background(), m.Model, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := c.Write(dir, false); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Programs compiled ahead of time give the fixture's numbers, and nothing is compiled.
func TestCompiledAhead(t *testing.T) {
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
	m := modeltest.Open(t, wanDir)
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	ctx := context.Background()
	for _, k := range []struct {
		axes   string
		change func(*aot.Options)
	}{
		{"tp=2,sp=2", nil},
		{"dp=2,tp=2", func(o *aot.Options) { o.FSDP, o.SplitResidual = []string{"dp"}, true }},
	} {
		dir := bundleOf(t, m, "cpu:4", k.axes, k.change)
		eng, err := engine.Open(ctx, engine.CPU, 4, engine.Options{NoCache: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Start(ctx, in, weft.Options{Compiled: dir, Running: uncompiling{eng, eng.(engine.Loader)}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.Forward(ctx)
		if err != nil {
			t.Fatal(err)
		}
		modeltest.Close(t, k.axes, out["out"], want["out"], 1e-4)
		if rep := r.Report(); rep.Compiled != dir || rep.Cache != (weft.CacheReport{}) {
			t.Errorf("%s: report %+v", k.axes, rep)
		}
		r.Close()
		eng.Close()
	}
}

// Every line of a bundle that does not agree with a run is named, before a weight is read.
func TestCompiledForAnother(t *testing.T) {
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
	m := modeltest.Open(t, wanDir)
	in := modeltest.Tensors(t, wanDir+"/inputs.safetensors")
	dir := bundleOf(t, m, "cpu:4", "tp=2,sp=2", nil)
	const made = `{"model_type":"t2v","dim":96,"ffn_dim":192,"num_heads":4,"num_layers":2,"freq_dim":256,"text_dim":64,"text_len":16,"in_dim":16,"out_dim":16,"patch_size":[1,2,2],"eps":1e-5}`
	other := modeltest.Open(t, modeltest.MadeUp(t, made))
	half := maps.Clone(in)
	for name, x := range in {
		half[name] = x.Rows(0, 1)
	}
	for _, k := range []struct {
		what string
		m    *weft.Model
		in   map[string]*tensor.Tensor
		o    weft.Options
		want []string
	}{
		{"type and mesh", m, in, weft.Options{Request: request.Must("--dtype bf16 --mesh tp=4")}, []string{"mesh", "dtype", "input context", "input rope_cos", "input rope_sin"}},
		{"batch", m, half, weft.Options{}, []string{"input x", "input time", "input context"}},
		{"layers", m, in, weft.Options{Request: request.Must("--layers 1")}, []string{"layers"}},
		{"shares", m, in, weft.Options{Request: request.Must("--fsdp sp")}, []string{"fsdp axes"}},
		{"split stream", m, in, weft.Options{Request: request.Must("--split-residual")}, []string{"split residual"}},
		{"engine", m, in, weft.Options{Device: "reference"}, []string{"engine"}},
		{"epsilon", other, in, weft.Options{}, []string{"config.json"}},
	} {
		k.o.Compiled = dir
		_, err := k.m.Start(context.Background(), k.in, k.o)
		if !errors.Is(err, aot.ErrMismatch) {
			t.Errorf("%s: %v", k.what, err)
			continue
		}
		var got []string
		for _, v := range fault.Violations(err) {
			f, ok := fault.Fields[aot.Mismatch](v)
			if !ok || f.Compiled == f.Have {
				t.Errorf("%s: no fields in %v", k.what, v)
			}
			got = append(got, f.What)
		}
		if !slices.Equal(got, k.want) {
			t.Errorf("%s: %q, want %q", k.what, got, k.want)
		}
	}
}
