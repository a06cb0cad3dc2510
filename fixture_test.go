package weft_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weft"
	"weft/engine"
	"weft/internal/modeltest"
	"weft/models"
	"weft/program/interp"
	"weft/request"
	"weft/spmd"
	"weft/tensor"
)

const wanDir = "testdata/wan21_t2v"

// Every value along the way, on one device.
func TestReferenceGivesEveryIntermediate(t *testing.T) {
	m, err := weft.Open(wanDir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	ctx := context.Background()
	r, err := m.Start(ctx, in, weft.Options{Device: "reference"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := r.Trace(ctx, func(name string, x *tensor.Tensor) error {
		modeltest.Close(t, name, x, want[name], 1e-4)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	modeltest.Close(t, "out", out["out"], want["out"], 1e-4)
}

func TestReferenceOnEveryLegalMesh(t *testing.T) {
	m, err := weft.Open(wanDir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	ctx := context.Background()
	for _, text := range (modeltest.Case{Dir: wanDir}).Meshes(t, 8) {
		for _, split := range []bool{false, true} {
			r, err := m.Start(ctx, in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + text + " --split-residual=" + fmt.Sprint(split))})
			if err != nil {
				t.Fatal(err)
			}
			out, err := r.Forward(ctx)
			if err != nil {
				t.Fatal(err)
			}
			modeltest.Close(t, text, out["out"], want["out"], 1e-4)
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
	m, err := weft.Open(wanDir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	ctx := context.Background()
	eng := engine.NewReference(4, interp.Options{})
	for _, multiple := range []int{7, 32} {
		for _, text := range []string{"", "tp=4", "sp=4", "tp=2,sp=2"} {
			for _, o := range []weft.Options{{}, {Request: request.Must("--split-residual")}, {Request: request.Must("--strict")}} {
				o.Mesh, o.Running = request.MustMesh(text), wishing{eng, multiple}
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
				modeltest.Close(t, text, out["out"], want["out"], 1e-4)
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
