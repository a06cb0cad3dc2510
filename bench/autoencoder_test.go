package main

import (
	"cmp"
	"path/filepath"
	"slices"
	"testing"

	"weft/models"
)

// Cases are chosen by how their names begin, each name is one case's, and each model and size is one that
// an autoencoder has.
func TestChooseVAE(t *testing.T) {
	all, err := chooseVAE("")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range all {
		if names[c.name()] {
			t.Errorf("two cases are named %s", c.name())
		}
		names[c.name()] = true
		m, err := models.ByName(c.model)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Features().Frames.Request("video", []int{1, 3, c.frames, c.height, c.width}); err != nil {
			t.Errorf("%s: %v", c.name(), err)
		}
		if n, want := c.blocks(), map[string]int{"cogvideox-vae": 18, "ltx-video-0.9.0-vae": 19, "ltx2.5-vae-conv": 18, "hunyuan1.5-vae": 17}[c.model]; n != cmp.Or(want, 14) {
			t.Errorf("%s: %d blocks", c.name(), n)
		}
	}
	for only, want := range map[string]int{"vae-wan2.1-decode": 3, "vae-wan2.1-decode-832x480x5-f32,vae-wan2.2": 3} {
		if got, err := chooseVAE(only); err != nil || len(got) != want {
			t.Errorf("%s: %d cases, want %d: %v", only, len(got), want, err)
		}
	}
	if _, err := chooseVAE("wan2.1"); err == nil {
		t.Error("no case begins like wan2.1")
	}
}

// The input of a case is what the half reads.
func TestVAEInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := (recipe{Model: "nothing"}).writeNew(filepath.Join(work, "x")); err == nil {
		t.Error("a recipe of an unknown model is written")
	}
	for _, c := range []struct {
		of    vaeCase
		name  string
		shape []int
	}{
		{vaeCase{"wan2.1-vae", "decode", 32, 16, 5, "f32"}, "z", []int{1, 16, 2, 2, 4}},
		{vaeCase{"wan2.2-vae", "encode", 32, 16, 5, "bf16"}, "video", []int{1, 3, 5, 16, 32}},
	} {
		file, err := c.of.makeInputs()
		if err != nil {
			t.Fatal(err)
		}
		shape, values, err := readTensor(file, c.name)
		if err != nil || !slices.Equal(shape, c.shape) {
			t.Errorf("%s: %v %v", c.of.name(), shape, err)
			continue
		}
		if c.name == "video" && (slices.Max(values) > 1 || slices.Min(values) < -1) {
			t.Errorf("%s: pixels from %v to %v", c.of.name(), slices.Min(values), slices.Max(values))
		}
	}
}
