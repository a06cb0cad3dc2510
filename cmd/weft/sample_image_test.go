package main

import (
	"path/filepath"
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
)

// The latents of an image are given to TI2V as a condition of their name, and to no other model.
func TestSampleKeepsAnImage(t *testing.T) {
	const dir = "../../testdata/pipelines/wan22_ti2v_5b"
	given, out := filepath.Join(t.TempDir(), "features.safetensors"), filepath.Join(t.TempDir(), "latents.safetensors")
	kept := modeltest.Tensors(t, dir+"/image.safetensors")["i2v.condition"]
	if err := weft.WriteTensors(given, map[string]*tensorT{"kept": kept}, false); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := weftRun(t, "sample", "--model", dir+"/transformer", "--context", dir+"/context.safetensors", "--negative", dir+"/negative.safetensors",
		"--noise", dir+"/inputs.safetensors", "--conditions", given, "--size", "64x32", "--frames", "5", "--steps", "4", "--device", "reference", "--out", out)
	if code != 0 {
		t.Fatal(stderr)
	}
	want := modeltest.Tensors(t, dir+"/expected.safetensors")["i2v.latents"].Rows(3, 4)
	got := modeltest.Tensors(t, out)["latents"]
	modeltest.Close(t, "latents behind the image", got.Slice(2, 1, 2), want.Slice(2, 1, 2), 5e-4)
	modeltest.Close(t, "the image's latents", got.Slice(2, 0, 1), kept, 0)

	code, _, stderr = weftRun(t, "sample", "--model", wanDir, "--context", wanDir+"/inputs.safetensors", "--conditions", given,
		"--size", "64x64", "--frames", "9", "--steps", "2", "--device", "reference", "--out", out, "--force")
	if code != 2 || !strings.Contains(stderr, "one timestep for all frames") {
		t.Errorf("a model that keeps no frame: %d, %s", code, stderr)
	}
}
