package aot

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/models"
	"weft/phases"
)

// The programs of all phases compile on their own meshes, and what the compiler says of them is
// near what the plan counts.
func TestCompilePhases(t *testing.T) {
	needXLA(t)
	config, err := os.ReadFile("../testdata/wan21_i2v/config.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.FromConfig(config, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	o := forSlice(options(t, "dp=2"), slice(t, "cpu:2"))
	o.Frames = 1
	var told []string
	o.Progress = func(program string, _, _ int) { told = append(told, program) }
	c, err := Compile(context.Background(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Report.Phases != nil {
		t.Errorf("phases that nobody asked for: %+v", c.Report.Phases)
	}
	if err := c.CompilePhases(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range c.Report.Phases {
		for _, r := range p.Runs {
			got = append(got, p.Name+" "+r.Model+" "+r.DType)
			if len(r.Programs) == 0 || r.HBMBytesPerDevice == nil || r.PlannedBytes == nil {
				t.Errorf("%s: %+v", p.Name, r)
				continue
			}
			if p.Name == phases.Denoise && (r.Mesh != c.Report.Mesh || *r.HBMBytesPerDevice != *c.Report.HBMBytesPerDevice || len(r.Programs) != len(c.Report.Programs)) {
				t.Errorf("denoise: %+v, the step has %+v", r, c.Report)
			}
			checkExcess(t, p.Name, r, c.Step, o)
			if *r.HBMBytesPerDevice < r.ResidentWeightBytes || r.ResidentWeightBytes <= 0 {
				t.Errorf("%s of %s: %d bytes with %d of weights", p.Name, r.Model, *r.HBMBytesPerDevice, r.ResidentWeightBytes)
			}
		}
	}
	want := []string{"text umt5-xxl f32", "image wan2.1-vae f32", "denoise " + m.Name() + " f32", "decode wan2.1-vae f32"}
	if m.Config() != nil && strings.Contains(strings.Join(got, ","), "clip") {
		want = slices.Insert(want, 1, "image wan2.1-clip-vit-h14 f32")
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, phase := range []string{phases.Text, phases.Image, phases.Decode} {
		if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, phase+": ") }) {
			t.Errorf("nobody was told of a program of %s: %q", phase, told)
		}
	}
}

// checkExcess holds what XLA's CPU compiler says that a run takes against what the plan counts. It
// never takes less. What it takes more is, program by program:
//
//   - of an autoencoder, kernels in the layout that its convolutions read. There are at most two at
//     a time, of the convolution that runs and of the next one, so twice the largest kernel bounds
//     them. (Of the programs that are fullest here, the encoder's takes 18.5 MB more and the
//     decoder's 29.2, with kernels of 15.9.)
//   - of an encoder of texts or images, gaps between the buffers of a block: below 1 % of what is
//     mostly weights.
//   - of the small transformer here, which has fewer weights than values, the text's keys and values
//     once in their own buffers and once as results, where that program is the fullest; and gaps as above.
func checkExcess(t *testing.T, phase string, r PhaseRun, step *Step, o Options) {
	t.Helper()
	planned, compiled := *r.PlannedBytes, *r.HBMBytesPerDevice
	allowed := planned / 100
	switch {
	case phase == phases.Denoise:
		results := int64(0)
		for _, p := range r.Programs {
			results = max(results, p.Outputs)
		}
		allowed += results
	case strings.Contains(r.Model, "vae"):
		runs, err := phases.Of(step.Model, o.Request)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(runs, func(run phases.Run) bool { return run.Phase == phase && run.Name == r.Model })
		s, err := newPhaseStep(runs[i], step, o)
		if err != nil {
			t.Fatal(err)
		}
		largest := int64(0)
		for _, w := range s.Graph.Weights {
			n, err := w.Bytes(s.Graph.Mesh)
			if err != nil {
				t.Fatal(err)
			}
			largest = max(largest, n)
		}
		allowed = 2 * largest
	}
	if compiled < planned || compiled-planned > allowed {
		t.Errorf("%s of %s: %d bytes compiled, %d planned: %d more, at most %d are accounted for", phase, r.Model, compiled, planned, compiled-planned, allowed)
	}
}

// A run that no mesh of the slice takes, and a model that weft does not have, have no programs.
func TestPhaseWithoutPrograms(t *testing.T) {
	s, err := newPhaseStep(phases.Run{Phase: phases.Decode, Name: "no-such-vae"}, &Step{On: slice(t, "cpu:2")}, Options{})
	if s != nil || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
}
