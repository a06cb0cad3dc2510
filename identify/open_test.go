package identify_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

const wanDir = "../testdata/wan21_t2v"

// copyFixture copies the fixture's config and weights into a new folder.
func copyFixture(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join(wanDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rewritten copies the fixture with its tensors changed by edit.
func rewritten(t testing.TB, edit func(map[string]*tensor.Tensor) map[string]*tensor.Tensor) string {
	t.Helper()
	dir := copyFixture(t)
	ts := edit(modeltest.Tensors(t, dir+"/model.safetensors"))
	if err := weft.WriteTensors(dir+"/model.safetensors", ts, true); err != nil {
		t.Fatal(err)
	}
	return dir
}

func prefixed(ts map[string]*tensor.Tensor, but string) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for name, x := range ts {
		if name != but {
			name = "model.diffusion_model." + name
		}
		out[name] = x
	}
	return out
}

// A prefix is stripped before the model is identified.
func TestPrefixedCheckpoints(t *testing.T) {
	plain := modeltest.Open(t, wanDir)
	in := modeltest.Tensors(t, wanDir+"/inputs.safetensors")
	want := modeltest.Forward(t, plain, in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})

	m := modeltest.Open(t, rewritten(t, func(ts map[string]*tensor.Tensor) map[string]*tensor.Tensor { return prefixed(ts, "") }))
	if m.Checkpoint.Prefix() != "model.diffusion_model." || !strings.Contains(strings.Join(m.Notices, "\n"), "model.diffusion_model.") {
		t.Errorf("prefix %q, notices %q", m.Checkpoint.Prefix(), m.Notices)
	}
	got := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})
	if string(got["out"].Data) != string(want["out"].Data) {
		t.Error("a prefix changed the output")
	}

	// The same behind a prefix that only the model's names tell, between other models,
	// and in wrapped modules.
	for _, rename := range []func(name string) string{
		func(name string) string { return "transformer." + name },
		func(name string) string { return "generator.model." + name },
		func(name string) string {
			return strings.Replace("model._fsdp_wrapped_module."+name, "blocks.1.", "blocks.1._checkpoint_wrapped_module.", 1)
		},
	} {
		m := modeltest.Open(t, rewritten(t, func(ts map[string]*tensor.Tensor) map[string]*tensor.Tensor {
			out := map[string]*tensor.Tensor{"vae.x": tensor.New(dtype.F32, 3), "text_encoders.t5.y": tensor.New(dtype.F32, 2), "model_ema.decay": tensor.New(dtype.F32)}
			for name, x := range ts {
				out[rename(name)] = x
			}
			return out
		}))
		got := modeltest.Forward(t, m, in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})
		if string(got["out"].Data) != string(want["out"].Data) {
			t.Errorf("%s changed the output", rename("x"))
		}
		if notices := strings.Join(m.Notices, "\n"); !strings.Contains(notices, "of an autoencoder (vae.x)") || !strings.Contains(notices, "stripped from 69 of") {
			t.Errorf("%s:\n%s", rename("x"), notices)
		}
	}

	odd := "blocks.1.ffn.0.bias"
	_, err := weft.Open(rewritten(t, func(ts map[string]*tensor.Tensor) map[string]*tensor.Tensor { return prefixed(ts, odd) }))
	if !errors.Is(err, checkpoint.ErrMixedPrefix) || !strings.Contains(err.Error(), odd) {
		t.Errorf("one key without the prefix: %v", err)
	}
	_, err = weft.Open(rewritten(t, func(ts map[string]*tensor.Tensor) map[string]*tensor.Tensor {
		ts["vace_blocks.0.after_proj.bias"] = tensor.New(dtype.F32, 96)
		return prefixed(ts, "")
	}))
	if !errors.Is(err, models.ErrVariant) || !strings.Contains(err.Error(), "VACE") {
		t.Errorf("a VACE checkpoint: %v", err)
	}
}

// Missing, mis-shaped and unexpected tensors are all in one error, before any data is read.
func TestOpenListsEverything(t *testing.T) {
	_, err := weft.Open(rewritten(t, func(ts map[string]*tensor.Tensor) map[string]*tensor.Tensor {
		delete(ts, "blocks.0.ffn.2.bias")
		delete(ts, "head.head.bias")
		ts["blocks.1.self_attn.q.weight"] = tensor.New(dtype.F32, 96, 95)
		ts["blocks.1.modulation"] = tensor.New(dtype.F32, 6, 96)
		ts["blocks.0.extra.weight"] = tensor.New(dtype.F32, 1)
		return ts
	}))
	for _, k := range []error{checkpoint.ErrMissingTensors, checkpoint.ErrShape, checkpoint.ErrUnexpectedTensors} {
		if !errors.Is(err, k) {
			t.Errorf("%v is not in %v", k, err)
		}
	}
	for _, s := range []string{"blocks.0.ffn.2.bias", "head.head.bias", "[96 95]", "[96 96]", "blocks.1.modulation", "blocks.0.extra.weight"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not named in %v", s, err)
		}
	}
	if n := len(fault.Violations(err)); n != 4 {
		t.Errorf("%d violations, want 4", n)
	}
}

// Without config.json a released model is known by its tensors' shapes; another is not guessed.
func TestOpenWithoutConfig(t *testing.T) {
	m, err := models.ByName("wan2.1-t2v-1.3b")
	if err != nil {
		t.Fatal(err)
	}
	var es []checkpoint.Entry
	for _, p := range m.Params(0) {
		es = append(es, checkpoint.Entry{Name: "model.diffusion_model." + p.Name, DType: dtype.BF16, Shape: p.Shape})
	}
	path := filepath.Join(t.TempDir(), "wan.safetensors")
	if err := checkpoint.CreateSparse(path, es...); err != nil {
		t.Fatal(err)
	}
	if got := modeltest.Open(t, path); got.Name() != "wan2.1-t2v-1.3b" {
		t.Errorf("identified as %s", got.Name())
	}
	dir := copyFixture(t)
	if err := os.Remove(dir + "/config.json"); err != nil {
		t.Fatal(err)
	}
	if _, err := weft.Open(dir); !errors.Is(err, models.ErrConfig) || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a model of no known shape: %v", err)
	}
}
