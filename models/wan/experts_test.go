package wan_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weft"
	"weft/graph"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

const smallExpert = `{"model_type":"i2v","in_dim":9,"out_dim":4,"dim":32,"ffn_dim":32,"num_heads":2,"num_layers":1,"freq_dim":32,"text_dim":24,"text_len":16}`

// expertsFolder has two experts; of the low one every bias is moved by shift.
func expertsFolder(t *testing.T, shift float32) string {
	t.Helper()
	high := modeltest.MadeUp(t, smallExpert)
	ts := modeltest.Tensors(t, high+"/model.safetensors")
	fs, err := ts["head.head.bias"].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	for i := range fs {
		fs[i] += shift
	}
	if ts["head.head.bias"], err = tensor.FromFloat32s(ts["head.head.bias"].DType, fs, len(fs)); err != nil {
		t.Fatal(err)
	}
	low := modeltest.Folder(t, smallExpert, ts)
	root := t.TempDir()
	for name, dir := range map[string]string{"high_noise_model": high, "low_noise_model": low} {
		if err := os.Rename(dir, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func sampleOf(t *testing.T, path string, boundary float64, mesh string) *weft.Sampled {
	t.Helper()
	s, err := weft.OpenSampling(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in, err := modeltest.Open(t, filepath.Join(path, "high_noise_model")).Example(1, []int{4, 3, 4, 6}, 3)
	if err != nil {
		t.Fatal(err)
	}
	negative := tensor.New(in["context"].DType, in["context"].Shape...)
	asked := "--size 48x32 --frames 9 --steps 4 --seed 5 --mesh=" + mesh
	if boundary != 0 { // 0 is the release's own
		asked += " --boundary=" + fmt.Sprint(boundary)
	}
	o := weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must(asked)}, Conditions: map[string]*tensor.Tensor{"y": in["y"]}}
	out, err := s.Sample(context.Background(), in["context"], negative, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Timesteps of 4 steps at shift 5 are about 999, 937, 833 and 624: at a boundary
// of 0.9 two steps are of high noise. Both experts' answers are told apart by a
// bias; the velocity it adds is a step's own.
func TestExpertsSwitchAtTheBoundary(t *testing.T) {
	same, other := expertsFolder(t, 0), expertsFolder(t, 1)
	out := sampleOf(t, other, 0, "")
	experts := []string{}
	for _, s := range out.Steps {
		experts = append(experts, s.Expert)
		if want := s.Timestep >= 900; want != (s.Expert == "high noise") {
			t.Errorf("t=%g ran on %q", s.Timestep, s.Expert)
		}
	}
	if want := []string{"high noise", "high noise", "low noise", "low noise"}; !slices.Equal(experts, want) {
		t.Errorf("experts %v, want %v", experts, want)
	}
	one := sampleOf(t, same, 0, "")
	alone, err := weft.OpenSampling(filepath.Join(same, "high_noise_model"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	onlyHigh := sampleOf(t, other, 1e-6, "")
	modeltest.Close(t, "a boundary below every step", onlyHigh.Latents, one.Latents, 0)
	got, _ := out.Latents.Float32s()
	without, _ := one.Latents.Float32s()
	if d, _ := weft.Difference(got, without); d < 0.5 {
		t.Errorf("the low-noise expert moved the latents by %g: its bias of 1 was not used", d)
	}
	modeltest.Close(t, "dp=2: both texts at once", sampleOf(t, other, 0, "dp=2").Latents, out.Latents, 1e-4)
	// One expert's weights are on the device, and each expert's bytes were read once.
	held, err := modeltest.Open(t, filepath.Join(other, "low_noise_model")).Hold(weft.Options{})
	if err != nil {
		t.Fatal(err)
	}
	memory, err := held.Graph.WeightMemory(graph.Offload{})
	if err != nil {
		t.Fatal(err)
	}
	if r := out.Report; r.Resident != memory[0].Most() || r.BytesRead != 2*held.Bytes[0] {
		t.Errorf("%d bytes resident and %d read of two experts of %d, of which at most %d are there together", r.Resident, r.BytesRead, held.Bytes[0], memory[0].Most())
	}
}

func TestExpertsRefusals(t *testing.T) {
	root := expertsFolder(t, 0)
	in, err := modeltest.Open(t, filepath.Join(root, "low_noise_model")).Example(1, []int{4, 3, 4, 6}, 3)
	if err != nil {
		t.Fatal(err)
	}
	s, err := weft.OpenSampling(root, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o := weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 48x32 --frames 9 --steps 2")}}
	if _, err := s.Sample(context.Background(), in["context"], nil, o); !errors.Is(err, models.ErrInputs) {
		t.Errorf("no y: %v", err)
	}
	o.Conditions = map[string]*tensor.Tensor{"y": in["y"], "clip_fea": in["y"]}
	if _, err := s.Sample(context.Background(), in["context"], nil, o); !errors.Is(err, models.ErrInputs) {
		t.Errorf("clip_fea without an image branch: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(root, "low_noise_model")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(modeltest.MadeUp(t, `{"model_type":"t2v","in_dim":4,"out_dim":4,"dim":32,"ffn_dim":32,"num_heads":2,"num_layers":1,"freq_dim":32,"text_dim":24,"text_len":16}`),
		filepath.Join(root, "low_noise_model")); err != nil {
		t.Fatal(err)
	}
	if _, err := weft.OpenSampling(root, ""); !errors.Is(err, models.ErrVariant) {
		t.Errorf("experts of two kinds: %v", err)
	}
}
