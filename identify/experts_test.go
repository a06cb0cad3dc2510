package identify_test

import (
	"os"
	"path/filepath"
	"testing"

	"weft/checkpoint"
	"weft/identify"
)

// Two experts are found in either layout, and only where both are there; one that is
// opened alone still tells which of the two it is.
func TestExpertsByTheirFolders(t *testing.T) {
	for _, names := range [][2]string{{"high_noise_model", "low_noise_model"}, {"transformer", "transformer_2"}} {
		root := t.TempDir()
		for i, name := range names {
			if _, _, found := identify.FindExperts(root); found {
				t.Errorf("%v: found with %d of them", names, i)
			}
			if err := os.Rename(copyFixture(t), filepath.Join(root, name)); err != nil {
				t.Fatal(err)
			}
		}
		high, low, found := identify.FindExperts(root)
		if !found || high != filepath.Join(root, names[0]) || low != filepath.Join(root, names[1]) {
			t.Errorf("%v: %v, %s and %s", names, found, high, low)
		}
		for _, path := range []string{high, filepath.Join(high, "model.safetensors"), low, filepath.Join(low, "model.safetensors")} {
			c, err := checkpoint.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			m, err := identify.Identify(c, "")
			if err != nil {
				t.Fatal(err)
			}
			if second := path == low || filepath.Dir(path) == low; m.IsSecondExpert() != second {
				t.Errorf("%s: second is %v", path, !second)
			}
			m.Close()
		}
	}
	if _, _, found := identify.FindExperts(wanDir); found {
		t.Error("experts in a model's folder")
	}
}
