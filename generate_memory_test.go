package weft_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/engine"
	"weft/internal/hostmemory"
	"weft/internal/modeltest"
	"weft/models"
	"weft/pipeline"
	"weft/request"
)

// heavyTextEncoder is a release whose text encoder has 100 MB of weights, all zero.
func heavyTextEncoder(t *testing.T) (dir string, weights int64) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/pipelines/wan21_t2v")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "text_encoder", "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	config["d_ff"], config["num_layers"] = 1<<16, 4
	if raw, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	m, err := models.FromConfig(raw, path)
	if err != nil {
		t.Fatal(err)
	}
	var entries []checkpoint.Entry
	for _, p := range m.Params(0) {
		entries = append(entries, checkpoint.Entry{Name: p.Name, DType: dtype.F32, Shape: p.Shape})
		n := int64(4)
		for _, d := range p.Shape {
			n *= int64(d)
		}
		if p.Name != m.Features().TokenTable {
			weights += n
		}
	}
	weightsPath := filepath.Join(dir, "text_encoder", "model.safetensors")
	if err := os.Remove(weightsPath); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.CreateSparse(weightsPath, entries...); err != nil {
		t.Fatal(err)
	}
	return dir, weights
}

// The text encoder's weights leave the process before the first step: its resident memory falls by
// their bytes, within 5 %. No prompt takes more than the first did, and nothing piles up from one to
// the next. Where weights stay for the next video, they and their programs are the difference.
func TestTextEncoderLeaves(t *testing.T) {
	if hostmemory.Resident() == 0 {
		t.Skip("this system does not tell a process's resident memory")
	}
	dir, weights := heavyTextEncoder(t)
	for _, device := range modeltest.Devices() {
		p, err := weft.OpenPipeline(dir, pipeline.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var text, denoise []int64 // resident memory as phases begin
		out := t.TempDir()
		o := pipeline.Options{Request: request.Must("--size 32x32 --frames 1 --steps 2 --seed 1 --guidance 1 --text-len 24"), Prompt: "A cat", OnProgress: func(pr pipeline.Progress) {
			if pr.Done == 0 {
				time.Sleep(300 * time.Millisecond) // freed memory goes back on other threads
				n := hostmemory.Resident()
				switch pr.Phase {
				case "text":
					text = append(text, n)
				case "denoise":
					denoise = append(denoise, n)
				}
			}
		}}
		var videos []pipeline.Options
		for _, name := range []string{"a.avi", "b.avi", "c.avi"} {
			v := o
			v.Out = filepath.Join(out, name)
			videos = append(videos, v)
		}
		results, err := p.GenerateAll(t.Context(), videos, weft.Options{Device: device})
		if err != nil {
			t.Fatal(err)
		}
		peak := results[0].Phases[0].PeakRSS
		t.Logf("%s: %d MB before the text phase, %d at its peak, %d, %d and %d as the steps begin; weights of %d",
			device, text[0]>>20, peak>>20, denoise[0]>>20, denoise[1]>>20, denoise[2]>>20, weights>>20)
		if peak-text[0] < weights*9/10 {
			t.Errorf("%s: a peak of %d bytes more, with weights of %d", device, peak-text[0], weights)
		}
		if fell := peak - denoise[0]; fell < weights*19/20 {
			t.Errorf("%s: resident memory falls by %d bytes, the weights are %d", device, fell, weights)
		}
		if left := denoise[0] - text[0]; device == engine.RefDevice && left > weights/20 { // XLA's library is in memory from here on
			t.Errorf("%s: %d bytes stay of %d", device, left, weights)
		}
		for i, r := range results[1:] {
			if r.PeakRSS > results[0].PeakRSS {
				t.Errorf("%s: prompt %d has a peak of %d bytes, the first of %d", device, i+2, r.PeakRSS, results[0].PeakRSS)
			}
		}
		if more := denoise[2] - denoise[1]; more > weights/20 {
			t.Errorf("%s: the third prompt takes %d bytes more", device, more)
		}
		if more := denoise[1] - denoise[0]; more > weights/20 && device == engine.RefDevice || more > weights/4 {
			t.Errorf("%s: the second prompt takes %d bytes more", device, more)
		}
	}
}
