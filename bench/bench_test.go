package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/tensor"
)

const tiny = `{"dim":16,"ffn_dim":24,"num_heads":2,"num_layers":1,"freq_dim":8,"text_dim":8,"text_len":4}`

func TestMakeModel(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--config", tiny, "--size", "32x16", "--frames", "5", "--prefix", "net.", "--out", dir}
	if err := makeModel(context.Background(), args); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "diffusion_pytorch_model.safetensors")
	shape, w, err := readTensor(file, "net.blocks.0.ffn.2.weight")
	if err != nil || !slices.Equal(shape, []int{16, 24}) {
		t.Fatal(shape, err)
	}
	want := make([]float32, len(w))
	fill(1, "blocks.0.ffn.2.weight", 0, 1/math.Sqrt(24), want)
	for i := range w {
		if d := math.Abs(float64(w[i] - want[i])); d > math.Abs(float64(want[i]))/256 {
			t.Fatalf("element %d is %v, want %v on the bfloat16 grid", i, w[i], want[i])
		}
		if math.Float32bits(w[i])&0xffff != 0 {
			t.Fatalf("%v is not on the bfloat16 grid", w[i])
		}
	}
	for name, rms := range map[string]float64{"net.blocks.0.norm3.weight": 1.02, "net.blocks.0.norm3.bias": 0.1, "net.blocks.0.modulation": 0.3} {
		_, v, err := readTensor(file, name)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(v, make([]float32, len(v))); d.Peak == 0 || d.Peak > 5*rms {
			t.Errorf("%s reaches %g, want values of about %g", name, d.Peak, rms)
		}
	}
	if shape, _, err := readTensor(filepath.Join(dir, "inputs.safetensors"), "x"); err != nil || !slices.Equal(shape, []int{1, 16, 2, 2, 4}) {
		t.Errorf("x: %v %v", shape, err)
	}
	// The same again leaves the model as it is; another seed makes it anew.
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := makeModel(context.Background(), args); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != 0 {
		t.Error("made again although nothing changed")
	}
	if err := makeModel(context.Background(), append(args, "--seed", "2")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Error("another seed did not make another model")
	}
}

func TestMakeRefuses(t *testing.T) {
	for want, args := range map[*fault.Kind][]string{
		ErrUsage:               {"--size", "832", "--out", t.TempDir()},
		models.ErrSize:         {"--size", "832x481", "--out", t.TempDir()},
		models.ErrUnknownModel: {"--model", "wan9", "--out", t.TempDir()},
		models.ErrConfig:       {"--config", `{"num_heads":7}`, "--out", t.TempDir()},
	} {
		if err := makeModel(context.Background(), args); !errors.Is(err, want) {
			t.Errorf("%v: %v", args, err)
		}
	}
	for _, args := range [][]string{{}, {"--config", "[1]", "--out", t.TempDir()}} {
		if err := makeModel(context.Background(), args); !errors.Is(err, ErrUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Every case's checkpoint has the layers it says.
func TestCasesHaveTheirLayers(t *testing.T) {
	for _, c := range cases {
		r := recipe{Model: c.model, Config: json.RawMessage(c.config)}
		_, m, err := r.config()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, want := len(m.Params(0)), len(m.Params(c.layers)); got != want {
			t.Errorf("%s: %d parameters, %d in its %d layers", c.name, got, want, c.layers)
		}
		if _, err := latentShape(m, c.size, c.frames); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAgree(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, values ...float64) string {
		path := filepath.Join(dir, name)
		fs := make([]float32, len(values))
		for i, v := range values {
			fs[i] = float32(v)
		}
		out, err := tensor.FromFloat32s(dtype.F32, fs, len(fs))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.Write(path, map[string]*tensor.Tensor{"out": out}, nil, checkpoint.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		return path
	}
	four, near, far, nan := file("four", 4), file("near", 4.003), file("far", 4.2), file("nan", math.NaN())
	f32, bf16 := bcase{dtype: "f32", layers: 2}, bcase{dtype: "bf16", layers: 2}
	for _, c := range []struct {
		c    bcase
		file string
		ok   bool
	}{
		{f32, four, true}, {f32, near, true}, {f32, file("off", 4.005), false}, {f32, nan, false},
		{bf16, file("close", 4.05), true}, {bf16, far, false}, {bf16, nan, false}, {f32, file("two", 4, 4), false},
	} {
		if _, err := agree(c.c, "a", four, "b", c.file); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrDisagree) {
			t.Errorf("%s against %s: %v", c.c.dtype, c.file, err)
		}
	}
}

func TestBF16ToleranceFitsTheFixture(t *testing.T) {
	// One program against float32, as meta.json has it for two layers: the bound for two programs must leave room, and not much.
	const measured = 6.6e-3 / 1.215
	if b := bf16RelRMS(2); b < 2*math.Sqrt2*measured || b > 6*measured {
		t.Errorf("bound %.3g, measured %.3g", b, measured)
	}
}

func TestMeasureReadsPrograms(t *testing.T) {
	dir := t.TempDir()
	report := filepath.Join(dir, "r.json")
	text := `{"step_seconds":[3,2],"compile_seconds":1,"load_seconds":0.5,"peak_rss_bytes":77,"versions":{"vidax":"0.1.0"}}`
	if err := os.WriteFile(report, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f := figures{Program: "vidax", PeakRSS: 99}
	if err := f.read(nil, report); err != nil || !slices.Equal(f.StepSeconds, []float64{3, 2}) || f.PeakRSS != 99 || f.OwnPeakRSS != 77 || f.CompileSeconds != 1 {
		t.Errorf("%+v %v", f, err)
	}
	f = figures{Program: "weft", PeakRSS: 99}
	text = `{"engine":{"name":"cpu","version":"0.11.2","sha256":"00"},"seconds":2.5,"first_seconds":2.75,"compile_seconds":0.1,"load_seconds":0.2,"peak_rss_bytes":88,"x":1}`
	if err := f.read([]byte(text), ""); err != nil || f.StepSeconds[0] != 2.5 || f.FirstSeconds != 2.75 || f.OwnPeakRSS != 88 || f.Versions["cpu"] != "0.11.2" {
		t.Errorf("%+v %v", f, err)
	}
	for _, bad := range []string{"", "{}", `{"seconds":0}`, "not JSON"} {
		f = figures{Program: "weft"}
		if err := f.read([]byte(bad), ""); !errors.Is(err, ErrProgram) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	text = `{"step_seconds":[],"compile_seconds":1,"needs_bytes":31000000000,"peak_rss_bytes":77}`
	if err := os.WriteFile(report, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f = figures{Program: "vidax"}
	if err := f.read(nil, report); err != nil || !f.tooBig() {
		t.Errorf("a peer that does not fit: %+v %v", f, err)
	}
	r := newResult(cases[0], 1, []string{"vidax"})
	r.Runs = []figures{f}
	if got := r.markdown(); !strings.Contains(got, "| vidax | does not fit: needs 31.0 GB | - | 1.00 |") {
		t.Errorf("%s", got)
	}
	f = figures{Program: "vidax"}
	if err := f.read(nil, filepath.Join(dir, "none")); !errors.Is(err, ErrProgram) {
		t.Errorf("%v", err)
	}
}

func TestResult(t *testing.T) {
	r := newResult(cases[0], 2, []string{"weft", "vidax"})
	r.Date = "2000-01-02"
	r.Runs = []figures{
		{Program: "weft", StepSeconds: []float64{2}, CompileSeconds: 0.5, PeakRSS: 1e9},
		{Program: "vidax", StepSeconds: []float64{9, 6}, CompileSeconds: 4, PeakRSS: 3e9, Versions: map[string]string{"vidax": "0.1.0"}},
		{Program: "weft", StepSeconds: []float64{3}, CompileSeconds: 0.4, PeakRSS: 2e9},
		{Program: "vidax", StepSeconds: []float64{5, 7}, CompileSeconds: 5, PeakRSS: 1e9},
	}
	for _, want := range []string{"| weft | 2.000 | 1.00 | 0.40 | 1.00 | 0.00 | 2.00 | 1.00 |", "| vidax | 5.000 | 2.50 | 4.00 | 10.00 | 0.00 | 3.00 | 1.50 |"} {
		if got := r.markdown(); !strings.Contains(got, want) {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
	if r.Runs[1].StepSeconds[0] != 9 {
		t.Error("best changed a run")
	}
	dir := t.TempDir()
	if err := r.save(dir); err != nil {
		t.Fatal(err)
	}
	for _, ext := range []string{".json", ".md"} {
		if _, err := os.Stat(filepath.Join(dir, "2000-01-02-step-f32"+ext)); err != nil {
			t.Error(err)
		}
	}
}

func TestChoose(t *testing.T) {
	if all, err := choose(""); err != nil || len(all) != len(cases) {
		t.Errorf("%v %v", all, err)
	}
	if two, err := choose("tp4-bf16,step-f32"); err != nil || len(two) != 2 || two[1].name != "step-f32" {
		t.Errorf("%v %v", two, err)
	}
	if _, err := choose("nothing"); !errors.Is(err, ErrUsage) {
		t.Errorf("%v", err)
	}
}
