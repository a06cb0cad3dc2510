package weft

import (
	"context"
	"os"
	"testing"

	"weft/models"
	"weft/tensor"
)

const wanDir = "testdata/wan21_t2v"

// testDevices are the interpreter and, unless it was ruled out on purpose, XLA.
func testDevices() []string {
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		return []string{"reference"}
	}
	return []string{"reference", "cpu"}
}

func mustTensors(t testing.TB, path string) map[string]*tensor.Tensor {
	t.Helper()
	ts, err := ReadTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

func compareTo(t testing.TB, what string, got, want *tensor.Tensor, tolerance float64) {
	t.Helper()
	if got == nil || want == nil {
		t.Errorf("%s is missing (got %v, want %v)", what, got, want)
		return
	}
	g, err := got.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	w, err := want.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	if abs, _ := Difference(g, w); !(abs <= tolerance) {
		t.Errorf("%s differs by %g, more than %g", what, abs, tolerance)
	} else {
		t.Logf("%s differs by %g", what, abs)
	}
}

// Every value along the way, on one device.
func TestReferenceGivesEveryIntermediate(t *testing.T) {
	m, err := Open(wanDir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, want := mustTensors(t, wanDir+"/inputs.safetensors"), mustTensors(t, wanDir+"/expected.safetensors")
	ctx := context.Background()
	r, err := m.Start(ctx, in, Options{Device: "reference"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := r.Trace(ctx, func(name string, x *tensor.Tensor) error {
		compareTo(t, name, x, want[name], 1e-4)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	compareTo(t, "out", out["out"], want["out"], 1e-4)
}

func legalTexts(t testing.TB, m models.Model, in map[string]*tensor.Tensor, devices int) []string {
	t.Helper()
	req, err := m.Request(in)
	if err != nil {
		t.Fatal(err)
	}
	mm := m.(*Model)
	if _, req, _, err = mm.settle(req, Options{}); err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, on := range LegalMeshes(m, req, devices) {
		out = append(out, on.String())
	}
	return out
}

func TestReferenceOnEveryLegalMesh(t *testing.T) {
	m, err := Open(wanDir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, want := mustTensors(t, wanDir+"/inputs.safetensors"), mustTensors(t, wanDir+"/expected.safetensors")
	ctx := context.Background()
	for _, text := range legalTexts(t, m, in, 8) {
		for _, split := range []bool{false, true} {
			r, err := m.Start(ctx, in, Options{Device: "reference", Mesh: text, SplitResidual: split})
			if err != nil {
				t.Fatal(err)
			}
			out, err := r.Forward(ctx)
			if err != nil {
				t.Fatal(err)
			}
			compareTo(t, text, out["out"], want["out"], 1e-4)
			r.Close()
		}
	}
}
