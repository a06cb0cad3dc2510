package weft

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"weft/engine"
	"weft/models"
	"weft/spmd"
	"weft/spmd/interp"
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

// wishing is an engine whose programs want tokens by the multiple.
type wishing struct {
	engine.Engine
	multiple int
}

func (w wishing) Target() spmd.Target { return spmd.Target{TokenMultiple: w.multiple} }

// Tokens padded beyond what the split needs give the same numbers, are announced,
// and are not there where padding is refused.
func TestPaddedTokens(t *testing.T) {
	m, err := Open(wanDir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, want := mustTensors(t, wanDir+"/inputs.safetensors"), mustTensors(t, wanDir+"/expected.safetensors")
	ctx := context.Background()
	eng := engine.NewReference(4, interp.Options{})
	for _, multiple := range []int{7, 32} {
		for _, text := range []string{"", "tp=4", "sp=4", "tp=2,sp=2"} {
			for _, o := range []Options{{}, {SplitResidual: true}, {Strict: true}} {
				o.Mesh, o.On = text, wishing{eng, multiple}
				r, err := m.Start(ctx, in, o)
				if o.Strict && errors.Is(err, models.ErrSeq) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				out, err := r.Forward(ctx)
				if err != nil {
					t.Fatal(err)
				}
				compareTo(t, text, out["out"], want["out"], 1e-4)
				rows := r.Graph().Input("rope_cos")
				local, err := rows.Spec.Local(r.Graph().Mesh, rows.Shape)
				if err != nil {
					t.Fatal(err)
				}
				note := strings.Contains(strings.Join(r.Graph().Notes, "\n"), fmt.Sprintf("a multiple of %d each", multiple))
				if !o.Strict != (local[0]%multiple == 0) || note == o.Strict {
					t.Errorf("%s %+v: a device holds %d tokens, wanted by the %d; notes %v", text, o.Strict, local[0], multiple, r.Graph().Notes)
				}
				r.Close()
			}
		}
	}
}
