package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft"
)

// Every output that the inputs allow on the mesh: a further step of one text does
// not divide over dp=2 and is left out, in words.
func TestForwardWritesEveryOutput(t *testing.T) {
	const dir = "../../testdata/umt5"
	for _, c := range []struct {
		on   string
		want []string
		note string
	}{
		{"tp=2", []string{"out", "out_long", "out_nomask", "out_zeroed_pads"}, "out_long: a step of its own"},
		{"dp=2", []string{"out", "out_nomask", "out_zeroed_pads"}, "out_long is left out: batch 1 does not divide over dp=2"},
	} {
		out := filepath.Join(t.TempDir(), "out.safetensors")
		code, stdout, stderr := weftRun(t, "forward", "--model", dir, "--inputs", dir+"/inputs.safetensors", "--out", out, "--mesh", c.on, "--device", "reference", "--json")
		if code != 0 {
			t.Fatal(stdout, stderr)
		}
		if rep := decode[weft.Report](t, stdout); !strings.Contains(strings.Join(rep.Notes, "\n"), c.note) {
			t.Errorf("%s: notes %q do not say %q", c.on, rep.Notes, c.note)
		}
		got, err := weft.ReadTensors(out)
		if err != nil {
			t.Fatal(err)
		}
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, c.want) {
			t.Errorf("%s: %v, want %v", c.on, names, c.want)
		}
	}
}
