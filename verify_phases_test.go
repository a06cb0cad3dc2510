package weft_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/pipeline"
	"weft/request"
)

// verifyOptions runs on the interpreter, on two devices.
func verifyOptions(flags string) weft.VerifyOptions {
	return weft.VerifyOptions{Devices: 2, Options: weft.Options{Device: "reference", Request: request.Must(flags)}}
}

// comparedPhases lists the phases of a result with the number of meshes, and checks that each
// mesh gives what one device does.
func comparedPhases(t *testing.T, v *weft.Verified) []string {
	t.Helper()
	var got []string
	for _, p := range v.Phases {
		got = append(got, p.Name+" "+p.Model)
		if len(p.Results) == 0 || p.Kernels == nil {
			t.Errorf("%s of %s: nothing was compared", p.Name, p.Model)
		}
		for _, r := range p.Results {
			if !r.OK || r.FirstDiffering != "" || r.MaxRelDiff > r.Tolerance || r.Tolerance <= 0 {
				t.Errorf("%s of %s: %+v", p.Name, p.Model, r)
			}
		}
	}
	return got
}

// Every phase of a release gives on each legal mesh what it gives on one device.
func TestVerifyPhasesOfReleases(t *testing.T) {
	for _, c := range []struct {
		dir  string
		want []string
	}{
		{"wan21_t2v", []string{"text umt5", "denoise wan2.1-t2v", "decode wan-vae"}},
		{"wan21_i2v", []string{"text umt5", "image clip-vision", "image wan-vae", "denoise wan2.1-i2v", "decode wan-vae"}},
		{"wan22_ti2v_5b", []string{"text umt5", "image wan-vae", "denoise wan2.2-ti2v", "decode wan-vae"}},
		{"wan22_t2v_a14b", []string{"text umt5", "denoise wan2.1-t2v", "denoise wan2.1-t2v", "decode wan-vae"}},
	} {
		dir := "testdata/pipelines/" + c.dir
		if !pipeline.IsRelease(dir) {
			t.Fatalf("%s is no release", dir)
		}
		if (c.dir == "wan21_t2v" || c.dir == "wan22_ti2v_5b") && os.Getenv("WEFT_LONG_TESTS") == "" {
			continue // the other two have all their phases
		}
		p, err := weft.OpenPipeline(dir, pipeline.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := p.Verify(context.Background(), verifyOptions("--dtype bf16"))
		p.Close()
		if err != nil {
			t.Fatal(c.dir, err)
		}
		if got := comparedPhases(t, v); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.dir, got, c.want)
		}
		for _, ph := range v.Phases {
			autoencoder := ph.Model == "wan-vae"
			if ph.Name == "denoise" && v.Model != ph.Model || autoencoder && ph.Results[0].Tolerance >= weft.Tolerance(dtype.BF16, 1) {
				t.Errorf("%s: model %s, %s with a tolerance of %g", c.dir, v.Model, ph.Name, ph.Results[0].Tolerance)
			}
		}
	}
}

// A single model has the phases that it has a part in.
func TestVerifyPhasesOfModels(t *testing.T) {
	for dir, want := range map[string][]string{
		"testdata/umt5": {"text"}, "testdata/clip_vit": {"image"}, "testdata/wan21_vae": {"image", "decode"}, wanDir: {"denoise"},
	} {
		if pipeline.IsRelease(dir) {
			t.Errorf("%s is taken for a release", dir)
		}
		m := modeltest.Open(t, dir)
		v, err := m.VerifyPhases(context.Background(), verifyOptions(""))
		if err != nil {
			t.Fatal(dir, err)
		}
		got := comparedPhases(t, v)
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], " ")
		}
		if !slices.Equal(got, want) || len(v.Results) != len(v.Phases[0].Results) {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}

// A split that differs is found in its phase, and a mesh that a phase cannot have is refused
// with the phase's name.
func TestVerifyPhasesFinds(t *testing.T) {
	m := modeltest.Open(t, "testdata/wan21_vae")
	o := verifyOptions("")
	o.Tolerance = -1 // everything is off by more
	v, err := m.VerifyPhases(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range v.Phases {
		for _, r := range p.Results {
			if r.OK || r.FirstDiffering == "" {
				t.Errorf("%s: %+v", p.Name, r)
			}
		}
	}
	o = verifyOptions("")
	o.Meshes = request.MustMeshes("pp=2")
	if _, err := m.VerifyPhases(context.Background(), o); !errors.Is(err, models.ErrAxis) || !strings.Contains(err.Error(), "phase image, ") {
		t.Errorf("%v", err)
	}
}

// An autoencoder decodes and encodes on each mesh. A split that differs is named with the
// direction.
func TestVerifyComparesBothDirections(t *testing.T) {
	m := modeltest.Open(t, "testdata/wan21_vae")
	o := verifyOptions("")
	v, err := m.Verify(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string][]string{}
	for _, r := range v.Results {
		runs[r.Run] = append(runs[r.Run], r.Mesh)
		if !r.OK || r.MaxRelDiff > r.Tolerance {
			t.Errorf("%+v", r)
		}
	}
	if len(runs) != 2 || len(runs["decode"]) < 3 || !slices.Equal(runs["decode"], runs["encode"]) {
		t.Errorf("compared were %v", runs)
	}
	o.Meshes = request.MustMeshes("pp=2")
	if _, err := m.Verify(context.Background(), o); !errors.Is(err, models.ErrAxis) || !strings.Contains(err.Error(), "decode: ") {
		t.Errorf("%v", err)
	}
}
