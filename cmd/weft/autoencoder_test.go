package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft"
)

const vaeDir = "../../testdata/wan21_vae"

// A file with latents and a video gives both runs' outputs; in tiles they are other values, and
// the report says so.
func TestForwardOfAnAutoencoder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.safetensors")
	args := []string{"forward", "--model", vaeDir, "--inputs", vaeDir + "/inputs.safetensors", "--device", "reference", "--force", "--json", "--out", out}
	want, err := weft.ReadTensors(vaeDir + "/expected.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		more []string
		note string
	}{
		{nil, ""},
		{[]string{"--tile", "release"}, "computed whole: the pictures are no larger than a tile of 256 x 256 pixels"},
		{[]string{"--tile", "16x16,8x8"}, "computed in 4 x 3 tiles of 16 x 16 pixels that lie 8 x 8 apart and are blended where they overlap: other values than the whole gives"},
	} {
		code, stdout, stderr := weftRun(t, append(slices.Clone(args), c.more...)...)
		if code != 0 {
			t.Fatal(stdout, stderr)
		}
		notes := strings.Join(decode[weft.Report](t, stdout).Notes, "\n")
		if strings.Contains(notes, "computed") != (c.note != "") || !strings.Contains(notes, c.note) {
			t.Errorf("%q: notes %s", c.more, notes)
		}
		got, err := weft.ReadTensors(out)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(notes, "encode: a step of its own") || strings.Contains(notes, "out: a step") {
			t.Errorf("%q: notes %s", c.more, notes)
		}
		if names := fmt.Sprint(slices.Sorted(maps.Keys(got))); names != "[decode encode encode_logvar encode_mean out]" {
			t.Errorf("%q: outputs %s", c.more, names)
		}
		for name, peer := range map[string]string{"out": "decode_diffusers", "decode": "decode_diffusers", "encode": "encode_diffusers"} {
			g, _ := got[name].Float32s()
			w, _ := want[peer].Float32s()
			abs, _ := weft.Difference(g, w)
			if tiled := strings.Contains(c.note, "tiles of 16"); tiled != (abs > 1e-2) || !tiled && !(abs <= 1e-4) {
				t.Errorf("%q: %s differs by %g", c.more, name, abs)
			}
		}
	}
	for _, c := range []struct {
		more []string
		want string
	}{
		{[]string{"--tile", "256"}, `tiles \"256\": want`},
		{[]string{"--tile", "release", "--intermediates"}, "--tile with --intermediates"},
	} {
		if code, stdout, _ := weftRun(t, append(slices.Clone(args), c.more...)...); code == 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%q: exit %d, %s", c.more, code, stdout)
		}
	}
}
