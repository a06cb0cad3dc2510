package denoise_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// A pipeline's folder is sampled as diffusers samples it, by what the folder and the
// release say alone: the noise levels, the experts' boundary and scales of guidance,
// the length of the text, and how time is counted.
func TestPipelinesAreSampledAsReleased(t *testing.T) {
	for _, c := range []struct {
		folder, part  string
		width, height int
		settings      map[string][2]string // some of them: value and a part of the source
	}{
		{"wan22_t2v_a14b", ".", 48, 32, map[string][2]string{"release": {"wan2.2-t2v-a14b", ""}, "sampler": {"unipc-flow", "scheduler_config.json"}, "shift": {"3", "scheduler_config.json"},
			"boundary": {"0.875", "model_index.json"}, "guidance": {"[4 3]", "wan_t2v_A14B.py"}, "text_len": {"512", "wan_t2v_A14B.py"}, "steps": {"4", "flag"}}},
		{"ltx_090", "transformer", 96, 32, map[string][2]string{"sampler": {"ltx-shifted", "scheduler_config.json"}, "time": {"uniform", "model_index.json"}, "guidance": {"[3]", "LTXPipeline"}}},
	} {
		dir := filepath.Join("../testdata/pipelines", c.folder)
		s, err := weft.OpenSampling(filepath.Join(dir, c.part), "")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		read := func(file, name string) *tensor.Tensor { return modeltest.Tensors(t, filepath.Join(dir, file))[name] }
		got, err := s.Sample(t.Context(), read("context.safetensors", "context"), read("negative.safetensors", "context"), weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--frames 9 --steps 4" + fmt.Sprintf(" --size %dx%d", c.width, c.height))}, Noise: read("inputs.safetensors", "latents")})
		if err != nil {
			t.Fatal(err)
		}
		modeltest.Close(t, c.folder, got.Latents, read("expected.safetensors", "latents"), 1e-4)
		for name, want := range c.settings {
			if v := got.Settings[name]; fmt.Sprint(v.Value) != want[0] || !strings.Contains(v.From, want[1]) {
				t.Errorf("%s: %s is %v, want %s", c.folder, name, v, want)
			}
		}
	}
}

// The official layout of A14B is run as its release: of 40 steps 26 are the first expert's.
func TestExpertsRunAsReleased(t *testing.T) {
	root := t.TempDir()
	for from, to := range map[string]string{"transformer": "high_noise_model", "transformer_2": "low_noise_model"} {
		if err := os.CopyFS(filepath.Join(root, to), os.DirFS(filepath.Join("../testdata/pipelines/wan22_t2v_a14b", from))); err != nil {
			t.Fatal(err)
		}
	}
	s, err := weft.OpenSampling(root, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text := modeltest.Tensors(t, "../testdata/pipelines/wan22_t2v_a14b/context.safetensors")["context"]
	o := weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 32x32 --frames 1 --text-len 48")}}
	got, err := s.Sample(t.Context(), text, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	high := 0
	for _, step := range got.Steps {
		if step.Expert == "high noise" {
			high++
		}
		if step.Timestep != math.Trunc(step.Timestep) {
			t.Errorf("timestep %g: the release truncates it", step.Timestep)
		}
	}
	if len(got.Steps) != 40 || high != 26 {
		t.Errorf("%d steps, of which %d are of high noise", len(got.Steps), high)
	}
	if p := got.Settings["passes"]; p != (models.Setting{Value: 1, From: "no negative text"}) {
		t.Errorf("passes %v", p)
	}
	// A pair of scales is one for each expert, and one scale is both's.
	o.Steps = 10
	run := func(scales ...float64) *tensor.Tensor {
		o.Guidance = scales
		got, err := s.Sample(t.Context(), text, tensor.New(text.DType, text.Shape...), o)
		if err != nil {
			t.Fatal(err)
		}
		return got.Latents
	}
	pair, one := run(4, 4), run(4)
	modeltest.Close(t, "one scale for both", one, pair, 0)
	a, _ := run(4, 3).Float32s()
	b, _ := pair.Float32s()
	if d, _ := weft.Difference(a, b); d < 1e-6 {
		t.Errorf("the second scale moved the latents by %g", d)
	}
	for _, c := range []struct {
		change func(*weft.SampleOptions)
		says   string
	}{
		{func(o *weft.SampleOptions) { o.Guidance = []float64{math.NaN()} }, "finite"},
		{func(o *weft.SampleOptions) { o.Guidance = []float64{1, 2, 3} }, "one scale or two"},
		{func(o *weft.SampleOptions) { o.Guidance = []float64{3} }, "needs a negative"},
		{func(o *weft.SampleOptions) { o.Boundary = 1.5 }, "boundary 1.5"},
		{func(o *weft.SampleOptions) { o.CFG = "both" }, "batch, sequential or none"},
		{func(o *weft.SampleOptions) { o.CFG, o.Guidance = "none", []float64{3} }, "cfg none"},
	} {
		o := o
		o.Guidance = nil
		c.change(&o)
		if _, err := s.Sample(t.Context(), text, nil, o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v does not say %q", err, c.says)
		}
	}
}
