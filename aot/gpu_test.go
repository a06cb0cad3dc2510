//go:build !weft_noxla

package aot_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/aot"
	"weft/attention"
	"weft/graph"
	"weft/internal/modeltest"
	"weft/request"
	"weft/topology"
	"weft/xla/plugin"
)

// needCUDA skips where XLA's CUDA plugin is not here: it is 450 MB, fetched on demand only.
func needCUDA(t *testing.T) {
	t.Helper()
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set: nothing is compiled for GPUs")
	}
	if _, err := plugin.Get("cuda"); err != nil {
		t.Skipf("XLA's CUDA plugin is not here (weft engine install cuda), and nothing is compiled for GPUs: %v", err)
	}
}

// gpuRequest is the small video of the fixture on GPUs.
func gpuRequest(t *testing.T, on, mesh, form string) request.Request {
	t.Helper()
	r, err := request.Parse(request.Text{"size": "64x64", "frames": "9", "on": on, "mesh": mesh, "dtype": "bf16", "attention": form})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A step compiles for GPUs that are absent, of one host and of two, and for a GPU that the plugin does not
// know; the report says what is left out.
func TestStepOnGPUs(t *testing.T) {
	needCUDA(t)
	m := modeltest.Open(t, wanDir)
	for i, c := range []struct{ on, mesh, form, note string }{
		{"h100x2", "tp=2", attention.Kernel, "NVIDIA H100 80GB HBM3"},
		{"gb200x2x2", "tp=2,sp=2", attention.Auto, "NVIDIA GB200"},
		{"rtx4090x2", "sp=2", attention.Kernel, "8.9"},
	} {
		if i > 0 && os.Getenv("WEFT_LONG_TESTS") != "1" {
			break
		}
		x, err := aot.Compile(t.Context(), m.Model, aot.Options{Request: gpuRequest(t, c.on, c.mesh, c.form)})
		if err != nil {
			t.Errorf("%s: %v", c.on, err)
			continue
		}
		r := x.Report
		taken := func(k string) bool {
			return slices.ContainsFunc(r.Attention, func(a graph.Choice) bool { return a.Taken == k })
		}
		if r.Bytes() <= 0 || r.CodeBytes != nil || len(r.LeftOut) < 3 || !taken(attention.Kernel) || !strings.Contains(strings.Join(r.Notes, "\n"), c.note) || r.Engine.Name != "cuda" {
			t.Errorf("%s: %d bytes, code %v, left out %q, %+v, notes %q", c.on, r.Bytes(), r.CodeBytes, r.LeftOut, r.Attention, r.Notes)
		}
		for _, text := range x.Texts {
			if strings.Contains(text, "xla.gpu.triton") && !strings.Contains(text, "api_version = 4 : i32, backend_config = {debug = false, grid_x = ") {
				t.Errorf("%s: a kernel's call is not typed", c.on)
			}
		}
		dir := filepath.Join(t.TempDir(), "bundle")
		if err := x.Write(dir, false); err != nil {
			t.Error(err)
		}
		if b, err := aot.OpenBundle(dir); err != nil || b.Kind != topology.GPUBox || !strings.HasPrefix(b.DeviceKind, "NVIDIA") {
			t.Errorf("%s: %v, made for %q", c.on, err, b.DeviceKind)
		}
		x.Close()
	}
}

// Somebody's StableHLO compiles for GPUs too, over several hosts.
func TestTextOnGPUs(t *testing.T) {
	needCUDA(t)
	on, err := topology.Lookup("h100x2x2")
	if err != nil {
		t.Fatal(err)
	}
	const text = `func.func @main(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %0 = "stablehlo.all_reduce"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<256x256xf32>) -> tensor<256x256xf32>
  return %0 : tensor<256x256xf32>
}`
	r, err := aot.CompileText(t.Context(), []byte(text), on, aot.TextOptions{Name: "sum.mlir", Replicas: 4})
	if err != nil {
		t.Fatal(err)
	}
	if r.Programs[0].Arguments != 256*256*4 || r.Bytes() < 256*256*4 || len(r.LeftOut) != 3 {
		t.Errorf("%+v", r)
	}
}

// What nothing here compiles for is refused by name, before any plugin is looked for.
func TestNoCompilerForAMD(t *testing.T) {
	on, err := topology.Lookup("8xmi300x")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := aot.OpenGPUs(t.Context(), on, aot.Options{}); !errors.Is(err, aot.ErrSlice) || !strings.Contains(err.Error(), "ROCm's libraries") || !strings.Contains(err.Error(), "weft plan --on mi300xx8") {
		t.Error(err)
	}
	tpu, err := topology.Lookup("v4-8")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := aot.OpenGPUs(t.Context(), tpu, aot.Options{}); !errors.Is(err, aot.ErrSlice) {
		t.Error(err)
	}
}
