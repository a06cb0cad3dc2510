package weft_test

import (
	"context"
	"math"
	"os"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/request"
	"weft/tensor"
)

// xla skips where the XLA engine was ruled out on purpose.
func xla(t testing.TB) {
	t.Helper()
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
}

// The fixture's answer on every legal mesh, stream whole and split, through XLA.
func TestXLAOnEveryLegalMesh(t *testing.T) {
	xla(t)
	m := modeltest.Open(t, wanDir)
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	for _, text := range (modeltest.Case{Dir: wanDir}).Meshes(t, 8) {
		out := modeltest.Forward(t, m, in, weft.Options{Device: "cpu", Request: request.Must("--mesh=" + text)})
		modeltest.Close(t, text, out["out"], want["out"], 1e-4)
	}
	for _, text := range []string{"tp=2", "tp=2,sp=2", "dp=2,tp=4"} {
		out := modeltest.Forward(t, m, in, weft.Options{Device: "cpu", Request: request.Must("--split-residual" + " --mesh=" + text)})
		modeltest.Close(t, text+" split stream", out["out"], want["out"], 1e-4)
	}
}

func TestXLAGivesEveryIntermediate(t *testing.T) {
	xla(t)
	m := modeltest.Open(t, wanDir)
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	ctx := context.Background()
	r, err := m.Start(ctx, in, weft.Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seen := 0
	if _, err := r.Trace(ctx, func(name string, x *tensor.Tensor) error {
		seen++
		modeltest.Close(t, name, x, want[name], 1e-4)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if seen != 6 {
		t.Errorf("%d intermediates, want 6", seen)
	}
}

// A diffusers folder, sharded in three, is the same model.
func TestDiffusersFolder(t *testing.T) {
	m := modeltest.Open(t, wanDir+"/diffusers")
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	for _, text := range []string{"", "tp=2,sp=2", "dp=2,tp=4"} {
		out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh=" + text)})
		modeltest.Close(t, text, out["out"], want["out_diffusers"], 1e-4)
	}
}

// A BF16 copy of weights that lie on the bf16 grid is the same model in f32.
func TestBF16CheckpointIsTheSameModel(t *testing.T) {
	m := modeltest.Open(t, copyModel(t, "model_bf16.safetensors"))
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	out := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})
	modeltest.Close(t, "out", out["out"], want["out"], 1e-4)
}

// bf16 compute. Where the error comes from: every matmul operand is rounded to
// bf16, relative error u = 2^-9 (uniform, so rms u/sqrt(3)), and every matmul's
// result once more. An output element sums K products whose errors are
// independent: its relative rms error is about sqrt(2) u/sqrt(3) from the
// operands and u/sqrt(3) from the result, 2^-9. Two layers add 10 such terms to
// the stream and the head one more: sqrt(11) 2^-9 = 6.5e-3 of the output's rms
// (1.2), 7.8e-3. The reference's own figure for a bf16 model is rms 6.6e-3, max
// 2.6e-2. The largest of 24,576 such errors is about 4 sigma: 3.2e-2.
func TestBF16IsAsCloseAsItsRoundingAllows(t *testing.T) {
	m := modeltest.Open(t, wanDir)
	in, want := modeltest.Tensors(t, wanDir+"/inputs.safetensors"), modeltest.Tensors(t, wanDir+"/expected.safetensors")
	w, _ := want["out"].Float32s()
	for _, device := range modeltest.Devices() {
		for _, text := range []string{"", "tp=4", "tp=2,sp=2", "sp=4"} {
			out := modeltest.Forward(t, m, in, weft.Options{Device: device, Request: request.Must("--dtype bf16" + " --mesh=" + text)})
			modeltest.Close(t, device+" "+text, out["out"], want["out"], 3.2e-2)
			g, _ := out["out"].Float32s()
			sum := 0.0
			for i := range g {
				d := float64(g[i]) - float64(w[i])
				sum += d * d
			}
			if rms := math.Sqrt(sum / float64(len(g))); rms > 7.8e-3 || rms == 0 {
				t.Errorf("%s %s: rms error %g, want at most 7.8e-3 and not 0", device, text, rms)
			}
		}
	}
}

// copyModel makes a folder with the fixture's config and one of its checkpoints as model.safetensors.
func copyModel(t testing.TB, file string) string {
	t.Helper()
	dir := t.TempDir()
	for from, to := range map[string]string{"config.json": "config.json", file: "model.safetensors"} {
		b, err := os.ReadFile(wanDir + "/" + from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+to, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
