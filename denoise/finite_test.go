package denoise_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/denoise"
	"weft/engine"
	"weft/fault"
	"weft/internal/modeltest"
	"weft/nonfinite"
	"weft/request"
)

// poisoned is the pair of experts with a weight of the second that is no number.
func poisoned(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(expertsDir)); err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(dir, "transformer_2", "diffusion_pytorch_model.safetensors")
	ts := modeltest.Tensors(t, weights)
	w := ts[name]
	w.Data[len(w.Data)-1], w.Data[len(w.Data)-2] = 0x7f, 0xc0 // NaN in bf16
	if err := checkpoint.Write(weights, ts, nil, checkpoint.WriteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A weight that is no number stops the loop at the first step that reads it, on every kind of
// mesh: the devices say which tensor it reached, the error where it arose, and the latents are
// those of the step before.
func TestPoisonedWeightStopsTheLoop(t *testing.T) {
	text := modeltest.Tensors(t, expertsDir+"/context.safetensors")["context"]
	negative := modeltest.Tensors(t, expertsDir+"/negative.safetensors")["context"]
	for _, c := range []struct{ weight, arises string }{
		{"blocks.1.ffn.net.2.bias", "block_1"},
		{"blocks.0.attn2.to_v.bias", "block_0"}, // of what runs once a request
		{"proj_out.bias", ""},
	} {
		dir := poisoned(t, c.weight)
		s, err := weft.OpenSampling(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all := []string{"", "--mesh tp=3", "--mesh sp=3", "--mesh dp=2", "--mesh dp=2,tp=3 --dtype bf16", "--mesh pp=2", "--cfg sequential --offload all"}
		if c.arises != "block_1" {
			all = all[2:3]
		}
		for _, flags := range all {
			for _, device := range modeltest.Devices() {
				if device != engine.RefDevice && (c.arises != "block_1" || flags != "--mesh tp=3" && flags != "--mesh sp=3" && flags != "--mesh dp=2") {
					continue // each is compiled
				}
				o := weft.SampleOptions{Options: weft.Options{Device: device, Request: request.Must("--size 48x32 --frames 5 --steps 4 --seed 3 " + flags)}}
				d, err := s.Denoise(text, negative, o)
				if err != nil {
					t.Fatal(err)
				}
				var good []string
				err = d.Run(t.Context(), func(s denoise.Step) error { good = append(good, latentsOf(t, d)); return nil })
				f, ok := fault.Fields[nonfinite.Found](err)
				if !ok || !errors.Is(err, nonfinite.Err) || f.Of != "velocity" || f.Tensor != "out" || f.DType != "f32" || f.Compute != o.ComputeType().String() || f.Count == 0 || f.Step == nil || *f.Step != len(good) || len(good) == 0 {
					t.Fatalf("%s %s on %s: after %d steps %v", c.weight, flags, device, len(good), err)
				}
				if !strings.HasPrefix(f.Arises, c.arises) || (f.Arises == "") != (c.arises == "") {
					t.Errorf("%s %s on %s: arises in %q, want %q", c.weight, flags, device, f.Arises, c.arises)
				}
				if len(f.Devices) == 0 || strings.Contains(flags, "sp=3") && len(f.Devices) != 3 {
					t.Errorf("%s %s on %s: devices %v saw it", c.weight, flags, device, f.Devices)
				}
				if latentsOf(t, d) != good[len(good)-1] {
					t.Errorf("%s %s on %s: the latents are not those of the step before", c.weight, flags, device)
				}
				d.Close()
			}
		}
	}
}

// Sample gives the last good latents beside the error.
func TestSampleKeepsTheLastGoodLatents(t *testing.T) {
	s, err := weft.OpenSampling(poisoned(t, "blocks.1.ffn.net.2.bias"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text := modeltest.Tensors(t, expertsDir+"/context.safetensors")["context"]
	o := weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 48x32 --frames 5 --steps 4 --seed 3 --guidance 1")}}
	out, err := s.Sample(t.Context(), text, nil, o)
	if !errors.Is(err, nonfinite.Err) || out == nil || len(out.Steps) == 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if n, _ := out.Latents.NonFinite(); n > 0 {
		t.Errorf("%d of the latents are not finite", n)
	}
}

// Where it is allowed, it is noted, and the loop goes on.
func TestPoisonedWeightIsNotedWhereAllowed(t *testing.T) {
	s, err := weft.OpenSampling(poisoned(t, "blocks.1.ffn.net.2.bias"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	text := modeltest.Tensors(t, expertsDir+"/context.safetensors")["context"]
	o := weft.SampleOptions{Options: weft.Options{Device: "reference", Request: request.Must("--size 48x32 --frames 5 --steps 4 --seed 3 --guidance 1"), AllowNonFinite: true}}
	out, err := s.Sample(t.Context(), text, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(out.Report.Notes, func(n string) bool { return strings.HasPrefix(n, `velocity "out" f32`) }) {
		t.Errorf("%q", out.Report.Notes)
	}
}
