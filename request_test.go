package weft_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/models"
	"weft/plan"
	"weft/request"
)

// A mesh of auto is the best plan's, in whatever takes the request, and one device where
// the request names no hardware.
func TestAutoMeansOneThing(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in := modeltest.Tensors(t, wanDir+"/inputs.safetensors")
	for _, on := range []string{"", "cpu:2", "cpu:4"} {
		r, want := request.Must("--size 64x64 --frames 9 --steps 1"), "dp=1,tp=1,sp=1"
		if on != "" {
			r = request.Must(r.String() + " --on " + on)
			doc, err := weft.Plan(t.Context(), m.Model, plan.Options{Request: r})
			if err != nil {
				t.Fatal(err)
			}
			want = doc.Plans[0].Mesh
		}
		o := weft.Options{Request: r, Device: "reference"}
		f, err := m.Forward(t.Context(), in, weft.ForwardOptions{Options: o})
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.Sample(t.Context(), in["context"], nil, weft.SampleOptions{Options: o})
		if err != nil {
			t.Fatal(err)
		}
		if f.Mesh != want || s.Report.Mesh != want {
			t.Errorf("on %q: forward on %s, sample on %s, want %s", on, f.Mesh, s.Report.Mesh, want)
		}
	}
	v, err := m.Verify(t.Context(), weft.VerifyOptions{Options: weft.Options{Request: request.Must("--mesh tp=2 --on cpu:4"), Device: "reference"}})
	if err != nil || len(v.Results) != 1 || v.Results[0].Mesh != "dp=1,tp=2,sp=1" || !v.Results[0].OK {
		t.Errorf("verify of the request's mesh: %+v, %v", v, err)
	}
}

// What is asked must be what the inputs are, and what runs.
func TestRequestsThatDoNotRun(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in := modeltest.Tensors(t, wanDir+"/inputs.safetensors")
	for flags, want := range map[string]struct {
		kind error
		says string
	}{
		"--size 64x64 --frames 13":            {models.ErrInputs, "have latents [16 3 8 8]: 64x64 pixels and 13 frames have [16 4 8 8]"},
		"--size 64x60 --frames 9":             {models.ErrSize, "height 60"},
		"--as vidax":                          {request.ErrOptions, "a peer's is planned only"},
		"--mesh tp=3 --dtype f32 --micro 3":   {models.ErrBatch, "3"},
		"--on cpu:4 --size 64x64 --frames 10": {models.ErrSize, "frames 10"},
	} {
		_, err := m.Forward(t.Context(), in, weft.ForwardOptions{Options: weft.Options{Request: request.Must(flags), Device: "reference"}})
		if !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v, want %v that says %q", flags, err, want.kind, want.says)
		}
	}
}

// A result's JSON is that of its parts: the report's keys stand beside the others, and
// tensors are no part of it.
func TestResultsAsJSON(t *testing.T) {
	s := &weft.Sampled{Report: weft.Report{Mesh: "tp=2"}, Steps: []weft.SampleStep{{Step: 3}}, Settings: map[string]models.Setting{"steps": {Value: 4, From: "flag"}}}
	f := &weft.Forwarded{Report: weft.Report{Mesh: "tp=2"}}
	for _, result := range []any{s, f} {
		b, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(b, &doc); err != nil || doc["mesh"] != "tp=2" || doc["Outputs"] != nil || doc["Latents"] != nil {
			t.Errorf("%s: %v", b, err)
		}
	}
}
