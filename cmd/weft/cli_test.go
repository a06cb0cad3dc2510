package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft"
)

const wanDir = "../../testdata/wan21_t2v"

// weftRun runs the command as a shell would and returns what it printed.
func weftRun(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	files := [2]*os.File{}
	for i, name := range []string{"out", "err"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	code = runCommandLine(context.Background(), args, files[0], files[1])
	texts := [2]string{}
	for i, f := range files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(b)
	}
	return code, texts[0], texts[1]
}

// decode reads one JSON document and demands that nothing follows it.
func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if d.More() {
		t.Fatalf("more than one document: %q", text)
	}
	return v
}

type failure struct {
	Error struct {
		Kind       string
		Message    string
		Fields     map[string]any
		Violations []struct {
			Kind    string
			Message string
			Fields  map[string]any
		}
	}
}

// Illegal splits and wrong use: kind, numbers, exit code, nothing written.
func TestRefusals(t *testing.T) {
	in := wanDir + "/inputs.safetensors"
	fwd := func(extra ...string) []string {
		return append([]string{"forward", "--model", wanDir, "--inputs", in, "--device", "reference"}, extra...)
	}
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		kind   string
		says   []string
		fields map[string]any
	}{
		{"heads", fwd("--mesh", "tp=4,sp=2"), 2, "heads-not-divisible", []string{"4 heads", "tp=4", "sp=2"}, map[string]any{"heads": 4., "tp": 4., "sp": 2.}},
		{"heads, tp alone", fwd("--mesh", "tp=3"), 2, "heads-not-divisible", []string{"1 2 4"}, nil},
		{"batch", fwd("--mesh", "dp=4"), 2, "batch-not-divisible", []string{"batch 2", "dp=4"}, nil},
		{"axis the model does not use", fwd("--mesh", "qq=2"), 2, "axis-unsupported", []string{"qq=2", "dp, tp and sp"}, nil},
		{"axis twice", fwd("--mesh", "tp=2,tp=2"), 2, "duplicate-axis-name", []string{"tp"}, nil},
		{"axis twice by its other name", fwd("--mesh", "tp=2,model=2"), 2, "duplicate-axis-name", nil, nil},
		{"zero", fwd("--mesh", "tp=0"), 2, "axis-size", nil, nil},
		{"negative", fwd("--mesh", "tp=-2"), 2, "axis-size", nil, nil},
		{"no number", fwd("--mesh", "tp=two"), 2, "mesh-syntax", nil, nil},
		{"strict padding", fwd("--mesh", "sp=4", "--strict", "--split-residual"), 0, "", nil, nil},
		{"kernel", fwd("--attention", "kernel"), 2, "kernel-unavailable", []string{"kernel"}, map[string]any{"kernel": "kernel"}},
		{"attention", fwd("--attention", "magic"), 2, "usage", []string{"attention magic: want auto, "}, nil},
		{"dtype", fwd("--dtype", "int4"), 2, "usage", []string{"bf16 or f32"}, nil},
		{"device", fwd("--device", "quantum"), 2, "unknown-device", []string{"auto, cpu, cuda, reference or tpu"}, nil},
		{"repeat", fwd("--repeat", "0"), 2, "usage", []string{"--repeat 0"}, nil},
		{"flag", fwd("--tensor_parallel_size", "4"), 2, "usage", []string{"unknown flag"}, nil},
		{"command", []string{"froward"}, 2, "usage", []string{"froward"}, nil},
		{"missing flag", []string{"forward", "--model", wanDir}, 2, "usage", []string{"inputs"}, nil},
		{"no model", []string{"forward", "--model", "/no/such", "--inputs", in, "--out", "x"}, 1, "", []string{"/no/such"}, nil},
		{"model name", []string{"specs", "--model", "wan9", "--mesh", "tp=2"}, 2, "unknown-model", []string{"wan2.1-t2v-14b"}, nil},
		{"layout", []string{"specs", "--model", "wan2.1-t2v-14b", "--layout", "jax"}, 2, "usage", []string{"torch or flax"}, nil},
		{"specs, heads", []string{"specs", "--model", "wan2.1-t2v-14b", "--mesh", "tp=3"}, 2, "heads-not-divisible", []string{"40 heads"}, nil},
		{"inspect, heads", []string{"inspect", wanDir, "--mesh", "tp=8"}, 2, "heads-not-divisible", nil, nil},
		{"engine name", []string{"engine", "path", "npu"}, 1, "unknown-engine", []string{"cpu"}, nil},
		{"size", []string{"sample", "--model", wanDir, "--context", in, "--size", "64by64", "--out", "x"}, 2, "size", []string{"WIDTHxHEIGHT"}, nil},
		{"size, frames, steps", []string{"sample", "--model", wanDir, "--context", in, "--size", "60x64", "--frames", "10", "--steps", "0", "--out", "/tmp/never.safetensors"}, 2, "size", []string{"48 or 64", "9 or 13", "steps"}, nil},
		{"guidance alone", []string{"sample", "--model", wanDir, "--context", in, "--size", "64x64", "--frames", "9", "--steps", "2", "--guidance", "5", "--out", "/tmp/never.safetensors"}, 2, "inputs", []string{"negative"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.safetensors")
			args := c.args
			if args[0] == "forward" && !strings.Contains(strings.Join(args, " "), "--out") {
				args = append(append([]string{}, args...), "--out", out)
			}
			code, stdout, stderr := weftRun(t, args...)
			if code != c.code {
				t.Errorf("exit %d, want %d: %s%s", code, c.code, stdout, stderr)
			}
			if c.code == 0 {
				return
			}
			if !strings.HasPrefix(stderr, "weft: ") || stdout != "" {
				t.Errorf("stderr %q, stdout %q", stderr, stdout)
			}
			for _, s := range c.says {
				if !strings.Contains(stderr, s) {
					t.Errorf("stderr %q does not say %q", stderr, s)
				}
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("an output was written")
			}
			code, stdout, _ = weftRun(t, append(args, "--json")...)
			doc := decode[failure](t, stdout)
			if code != c.code || (c.kind != "" && doc.Error.Kind != c.kind) || doc.Error.Message == "" || len(doc.Error.Violations) == 0 {
				t.Errorf("exit %d, %+v; want kind %s", code, doc, c.kind)
			}
			for k, v := range c.fields {
				if doc.Error.Fields[k] != v {
					t.Errorf("field %s is %v, want %v", k, doc.Error.Fields[k], v)
				}
			}
		})
	}
}

// All violations of a split come at once.
func TestEveryViolationAtOnce(t *testing.T) {
	code, stdout, _ := weftRun(t, "forward", "--model", wanDir, "--inputs", wanDir+"/inputs.safetensors", "--out", filepath.Join(t.TempDir(), "o"), "--mesh", "dp=3,tp=5,zz=2", "--json")
	doc := decode[failure](t, stdout)
	kinds := []string{}
	for _, v := range doc.Error.Violations {
		kinds = append(kinds, v.Kind)
	}
	if got := strings.Join(kinds, " "); code != 2 || got != "axis-unsupported heads-not-divisible ffn-not-divisible batch-not-divisible" {
		t.Errorf("exit %d, %s", code, got)
	}
}

func TestForwardReports(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.safetensors")
	args := []string{"forward", "--model", wanDir, "--inputs", wanDir + "/inputs.safetensors", "--out", out, "--mesh", "tp=2,sp=2", "--device", "reference", "--intermediates", "--json"}
	code, stdout, stderr := weftRun(t, args...)
	if code != 0 {
		t.Fatal(stdout, stderr)
	}
	rep := decode[weft.Report](t, stdout)
	if rep.Engine.Name != "reference" || rep.Mesh != "dp=1,tp=2,sp=2" || rep.Seconds <= 0 || rep.BytesRead == 0 || rep.Resident == 0 || rep.PeakRSS == 0 || len(rep.Collectives) == 0 {
		t.Errorf("%+v", rep)
	}
	got, err := weft.ReadTensors(out)
	if err != nil {
		t.Fatal(err)
	}
	want, err := weft.ReadTensors(wanDir + "/expected.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out", "block_0", "block_1", "patch_embed", "context_embed", "time_embed", "time_proj"} {
		g, _ := got[name].Float32s()
		w, _ := want[name].Float32s()
		if abs, _ := weft.Difference(g, w); !(abs <= 1e-4) {
			t.Errorf("%s differs by %g", name, abs)
		}
	}
	// The output is not replaced unless asked.
	before, _ := os.ReadFile(out)
	code, stdout, _ = weftRun(t, args...)
	if doc := decode[failure](t, stdout); code == 0 || doc.Error.Kind != "exists" {
		t.Errorf("exit %d, %+v", code, doc)
	}
	after, _ := os.ReadFile(out)
	if string(before) != string(after) {
		t.Error("the output changed")
	}
	if code, stdout, _ = weftRun(t, append(args, "--force")...); code != 0 {
		t.Error(stdout)
	}
}

// A cancelled run writes nothing and says so.
func TestInterrupted(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.safetensors")
	dir := t.TempDir()
	f, _ := os.Create(filepath.Join(dir, "x"))
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	code := runCommandLine(ctx, []string{"forward", "--model", wanDir, "--inputs", wanDir + "/inputs.safetensors", "--out", out, "--device", "reference"}, f, f)
	if _, err := os.Stat(out); code != 130 || err == nil {
		t.Errorf("exit %d, output %v", code, err)
	}
}

func TestInspectPlaces(t *testing.T) {
	code, stdout, stderr := weftRun(t, "inspect", wanDir, "--mesh", "dp=1,tp=4,sp=1", "--json")
	if code != 0 {
		t.Fatal(stderr)
	}
	doc := decode[inspection](t, stdout)
	if len(doc.BytesPerDevice) != 4 || doc.TotalBytes != doc.TotalAsF32 || doc.TotalAsBF16*2 != doc.TotalAsF32 {
		t.Errorf("%+v", doc)
	}
	var local int64
	for _, x := range doc.Tensors {
		if x.Spec == nil || x.LocalBytes == nil {
			t.Fatalf("%s has no place", x.Name)
		}
		local += *x.LocalBytes
		if x.Name == "blocks.0.self_attn.q.weight" {
			if b, _ := json.Marshal(x.Spec); string(b) != `["tp",null]` || *x.LocalBytes != x.Bytes/4 || x.LocalShape[0] != 24 {
				t.Errorf("%+v", x)
			}
		}
	}
	if local != doc.BytesPerDevice[0] {
		t.Errorf("tensors add up to %d, the device to %d", local, doc.BytesPerDevice[0])
	}
}

func TestSampleEqualsStepsByHand(t *testing.T) {
	dir := t.TempDir()
	args := func(out string, extra ...string) []string {
		return append([]string{"sample", "--model", wanDir, "--context", wanDir + "/inputs.safetensors", "--size", "64x64", "--frames", "9",
			"--steps", "3", "--shift", "5", "--seed", "7", "--device", "reference", "--json", "--out", filepath.Join(dir, out)}, extra...)
	}
	neg := filepath.Join(dir, "neg.safetensors")
	in, err := weft.ReadTensors(wanDir + "/inputs.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	half := *in["context"]
	if err := weft.WriteTensors(neg, map[string]*tensorT{"context": scaled(t, &half, -0.5)}, false); err != nil {
		t.Fatal(err)
	}
	latents := map[string][]float32{}
	for _, c := range []struct {
		name  string
		extra []string
	}{
		{"plain", nil}, {"tp", []string{"--mesh", "tp=2,sp=2"}},
		{"batch", []string{"--negative", neg, "--guidance", "3"}},
		{"sequential", []string{"--negative", neg, "--guidance", "3", "--cfg", "sequential"}},
		{"cfg parallel", []string{"--negative", neg, "--guidance", "3", "--mesh", "dp=2"}},
	} {
		code, stdout, stderr := weftRun(t, args(c.name, c.extra...)...)
		if code != 0 {
			t.Fatal(c.name, stdout, stderr)
		}
		doc := decode[struct{ Steps []weft.SampleStep }](t, stdout)
		if len(doc.Steps) != 3 || doc.Steps[0].Timestep < doc.Steps[2].Timestep {
			t.Errorf("%s: steps %+v", c.name, doc.Steps)
		}
		ts, err := weft.ReadTensors(filepath.Join(dir, c.name))
		if err != nil {
			t.Fatal(err)
		}
		latents[c.name], _ = ts["latents"].Float32s()
	}
	near := func(a, b string, tolerance float64) {
		if abs, _ := weft.Difference(latents[a], latents[b]); !(abs <= tolerance) {
			t.Errorf("%s and %s differ by %g", a, b, abs)
		}
	}
	near("plain", "tp", 1e-4)
	near("batch", "sequential", 1e-4)
	near("batch", "cfg parallel", 1e-4)
	if abs, _ := weft.Difference(latents["plain"], latents["batch"]); abs < 1e-2 {
		t.Errorf("guidance changed the latents by %g only", abs)
	}
}

func TestHelpHasAnExampleEverywhere(t *testing.T) {
	a := &app{}
	for _, c := range a.rootCommand().Commands() {
		if c.Example == "" && c.Name() != "help" && c.Name() != "completion" {
			t.Errorf("weft %s has no example", c.Name())
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, stdout, _ := weftRun(t, "completion", shell); code != 0 || !strings.Contains(stdout, "weft") {
			t.Errorf("completion %s: exit %d", shell, code)
		}
	}
}
