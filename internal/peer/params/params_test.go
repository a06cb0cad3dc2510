package params

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/internal/peer"
	"weft/models"
	"weft/sharding"
)

// Every preset is translated: each path stands once, has no dot left, and no level is empty.
// The tests of the families compare the paths with vidax's own. Those of the autoencoders of
// LTX-Video, LTX-2 and HunyuanVideo-1.5 are not known here, which asking for them says.
func TestEveryPresetHasPaths(t *testing.T) {
	untranslated := []string{"ltx-video-0.9.0-vae", "ltx-video-0.9.1-vae", "ltx-video-vae", "ltx2.5-text-projection", "ltx2.5-vae-conv"}
	for _, name := range models.Presets() {
		m, on := modelOn(t, name)
		list, err := List(m, on, Flax, true)
		if slices.Contains(untranslated, name) {
			if len(list) != 0 || !errors.Is(err, peer.ErrPeer) {
				t.Errorf("%s: %d lines, error %v", name, len(list), err)
			}
			continue
		}
		if err != nil {
			t.Error(err)
		}
		seen := map[string]bool{}
		for _, l := range list {
			if seen[l.Path] || strings.Contains(l.Path, ".") || strings.Contains("/"+l.Path+"/", "//") {
				t.Errorf("%s: path %q of %v", name, l.Path, l.Shape)
			}
			seen[l.Path] = true
		}
		if len(list) < len(m.Params(0)) {
			t.Errorf("%s: %d lines of %d parameters", name, len(list), len(m.Params(0)))
		}
	}
}

// unknown is a model of a family that vidax does not run.
type unknown struct{ models.Model }

func (unknown) Config() any { return struct{}{} }

func TestFamilyThatVidaxDoesNotRun(t *testing.T) {
	known, assigned := modelOn(t, "wan2.1-t2v-1.3b")
	m := unknown{known}
	if list, err := List(m, assigned, Torch, false); err != nil || len(list) != len(assigned) {
		t.Errorf("weft's own list: %d lines, %v", len(list), err)
	}
	for _, c := range []struct {
		layout Layout
		vidax  bool
	}{{Flax, false}, {Flax, true}, {Torch, true}} {
		if _, err := List(m, assigned, c.layout, c.vidax); !errors.Is(err, peer.ErrPeer) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, err := Path(m, known.Params(0)[0]); !errors.Is(err, peer.ErrPeer) {
		t.Error(err)
	}
}

// What decides is the last two names of a path, the leaf and the number of dims.
func TestShardByName(t *testing.T) {
	for _, c := range []struct {
		path string
		rank int
		want string
	}{
		{"blocks_0/self_attn_q/kernel", 2, "[-,tp]"}, {"blocks_0/self_attn_q/bias", 1, "[tp]"}, {"blocks_0/self_attn_norm_q/scale", 1, "[tp]"},
		{"blocks_0/self_attn_o/kernel", 2, "[tp,-]"}, {"blocks_0/self_attn_o/bias", 1, "[-]"}, {"blocks_0/self_attn_q/kernel", 3, "[-,-,-]"},
		{"blocks_0/norm3/scale", 1, "[-]"}, {"kernel", 2, "[-,-]"}, {"patch_embedding/kernel", 5, "[-,-,-,-,-]"},
	} {
		if got := shardByName(c.path, c.rank).String(); got != c.want {
			t.Errorf("%s of %d dims: %s, want %s", c.path, c.rank, got, c.want)
		}
	}
}

func modelOn(t *testing.T, name string) (models.Model, []sharding.Assigned) {
	t.Helper()
	m, err := models.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	on, err := weft.ParseMesh("tp=2")
	if err != nil {
		t.Fatal(err)
	}
	a, err := models.Specs(m, on, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m, a
}
