package main

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	pipelines "weft/pipeline"
)

const tinyPipeline = "../" + pipelineFixture

// shapesIn lists the tensors of a file with their shapes.
func shapesIn(t *testing.T, file string) map[string][]int {
	t.Helper()
	c, err := checkpoint.Open(file, checkpoint.Exact())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out := map[string][]int{}
	for _, e := range c.Entries() {
		out[e.Name] = e.Shape
	}
	return out
}

// A folder that is made without changes has the fixture's tensors; one with more layers has
// theirs too, and weft opens it.
func TestPipelineFolder(t *testing.T) {
	none := []byte(`{}`)
	same := pipelineRecipe{Seed: 1, Transformer: none, TextEncoder: none, VAE: none}
	deeper := pipelineRecipe{Seed: 1, Transformer: []byte(`{"num_layers":4,"text_dim":64}`), TextEncoder: []byte(`{"num_layers":3,"d_model":64}`), VAE: none}
	for _, made := range []struct {
		r      pipelineRecipe
		deeper bool
	}{{same, false}, {deeper, true}} {
		dir := t.TempDir()
		if err := made.r.write(tinyPipeline, dir); err != nil {
			t.Fatal(err)
		}
		for _, p := range made.r.parts() {
			want, got := shapesIn(t, filepath.Join(tinyPipeline, p.folder, p.weights)), shapesIn(t, filepath.Join(dir, p.folder, p.weights))
			if !made.deeper && !maps.EqualFunc(want, got, slices.Equal) {
				t.Errorf("%s: %d tensors, the fixture has %d, or their shapes differ", p.folder, len(got), len(want))
			}
			for name := range want {
				if got[name] == nil {
					t.Errorf("%s has no %s", p.folder, name)
				}
			}
		}
		if made.deeper {
			for file, name := range map[string]string{"transformer/diffusion_pytorch_model": "blocks.3.attn2.to_out.0.weight", "text_encoder/model": "encoder.block.2.layer.1.DenseReluDense.wo.weight"} {
				if shapesIn(t, filepath.Join(dir, file+".safetensors"))[name] == nil {
					t.Errorf("%s has no %s", file, name)
				}
			}
		}
		p, err := weft.OpenPipeline(dir, pipelines.OpenOptions{})
		if err != nil {
			t.Errorf("deeper %v: %v", made.deeper, err)
			continue
		}
		p.Close()
		// The same again leaves the folder as it is.
		weights := filepath.Join(dir, "vae", "diffusion_pytorch_model.safetensors")
		if err := os.WriteFile(weights, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := made.r.write(tinyPipeline, dir); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(weights); err != nil || info.Size() != 0 {
			t.Error("made again although nothing changed")
		}
	}
}

// What weft prints is read with loading and compiling apart, and a report without a phase is refused.
func TestGenerateReads(t *testing.T) {
	text := `{"engine":{"name":"cpu","version":"1"},"phases":[{"name":"text","seconds":3,"compile_seconds":1,"load_seconds":0.5},` +
		`{"name":"denoise","seconds":10,"compile_seconds":2,"load_seconds":1,"peak_rss_bytes":5},{"name":"decode","seconds":4}],"video":{"clamped":7}}`
	r := generateRun{Program: "weft"}
	if err := r.readWeft([]byte(text)); err != nil || r.Phases["text"] != 1.5 || r.Phases["denoise"] != 7 || r.work() != 12.5 || r.Compile != 3 || r.Load != 1.5 ||
		r.Clamped != 7 || r.PhasePeaks["denoise"] != 5 {
		t.Errorf("%+v %v", r, err)
	}
	for _, bad := range []string{"", `{"phases":[]}`, `{"phases":[{"name":"text","seconds":1},{"name":"denoise","seconds":1}]}`} {
		if err := r.readWeft([]byte(bad)); !errors.Is(err, ErrProgram) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	report := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(report, []byte(`{"phases":{"text":1,"denoise":2,"decode":3},"load_seconds":4,"import_seconds":5,"versions":{"torch":"2"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	peer := generateRun{Program: "diffusers"}
	if err := peer.readPeer(report); err != nil || peer.work() != 6 || peer.Load != 4 || peer.Import != 5 {
		t.Errorf("%+v %v", peer, err)
	}
}

// Guidance makes roundings larger, and a wrong result is still seen.
func TestGenerateBounds(t *testing.T) {
	if got, want := guidedRelRMS(30, 1), bf16RelRMS(30); got != want {
		t.Errorf("without guidance %g, want %g", got, want)
	}
	if got, want := guidedRelRMS(30, 5)/bf16RelRMS(30), math.Sqrt(41); math.Abs(got-want) > 1e-9 {
		t.Errorf("guidance 5 makes it %g times as large, want %g", got, want)
	}
	bf16, f32 := generateCase{layers: 30, dtype: "bf16"}, generateCase{layers: 30, dtype: "f32"}
	for _, c := range []struct {
		c    generateCase
		name string
		d    difference
		ok   bool
	}{
		{bf16, "latents", difference{RelRMS: 0.4}, true}, {bf16, "latents", difference{RelRMS: 1}, false}, {bf16, "latents", difference{RelRMS: math.NaN()}, false},
		{f32, "frames", difference{MaxAbs: 9e-4, Peak: 1}, true}, {f32, "frames", difference{MaxAbs: 2e-3, Peak: 1}, false}, {f32, "latents", difference{MaxAbs: math.Inf(1), Peak: 1}, false},
	} {
		if err := c.c.checkDifference(c.name, "a", "b", c.d); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrDisagree) {
			t.Errorf("%s %s %+v: %v", c.c.dtype, c.name, c.d, err)
		}
	}
}

// A table has the least of times, the most of memory, and ratios over the peer's.
func TestGenerateTable(t *testing.T) {
	phases := map[string]float64{"text": 1, "denoise": 2, "decode": 3}
	r := &generateResult{Case: "c", Programs: []string{"weft", "diffusers"}, Rounds: 2, Runs: []generateRun{
		{Program: "weft", WallSeconds: 10, CPUSeconds: 20, PeakRSS: 1e9, Phases: phases},
		{Program: "diffusers", WallSeconds: 20, CPUSeconds: 10, PeakRSS: 4e9, Phases: map[string]float64{"text": 4, "denoise": 4, "decode": 4}},
		{Program: "weft", WallSeconds: 12, CPUSeconds: 18, PeakRSS: 2e9, Phases: phases},
	}}
	if got, want := r.markdown(), "| weft | 10.0 | 0.50 | 18.0 | 1.80 | 1.00 | 2.00 | 3.00 | 6.00 | 0.50 | 0.00 | 0.00 | 2.00 | 0.50 |"; !strings.Contains(got, want) {
		t.Errorf("no line %s in\n%s", want, got)
	}
}
