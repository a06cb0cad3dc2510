package all_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"weft/models"
)

// Every preset is listed, every folder that a comparison names is there, and the rules of sizes
// are what the generator itself takes.
func TestCatalogue(t *testing.T) {
	entries, err := models.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(entries), len(models.Presets()); got != want {
		t.Errorf("%d entries, %d presets", got, want)
	}
	frames := map[string][2]int{"wan2.1-t2v-14b": {4, 1}, "ltx-video-2b": {8, 1}, "hunyuanvideo": {4, 1}, "cosmos2.5-2b": {4, 1}}
	for _, e := range entries {
		if e.Params <= 0 {
			t.Errorf("%s has %d parameters", e.Name, e.Params)
		}
		for _, h := range e.Held {
			if info, err := os.Stat(filepath.Join("../../testdata", h.Where)); err != nil || !info.IsDir() {
				t.Errorf("%s was held against %s in testdata/%s, which is no folder: %v", e.Name, h.Against, h.Where, err)
			}
		}
		if e.Kind != models.KindDenoiser {
			continue
		}
		if len(e.Held) == 0 || len(e.Releases) == 0 {
			t.Errorf("%s: %d comparisons, %d releases", e.Name, len(e.Held), len(e.Releases))
		}
		if want, ok := frames[e.Name]; ok && want != [2]int{e.FrameStep, e.FrameRest} {
			t.Errorf("%s takes %d k + %d frames, want %v", e.Name, e.FrameStep, e.FrameRest, want)
		}
		checkSizeRules(t, e)
	}
}

// checkSizeRules tries sizes that an entry allows, from its release's own on, and some between.
func checkSizeRules(t *testing.T, e models.CatalogueEntry) {
	t.Helper()
	m, err := models.ByName(e.Name)
	if err != nil {
		t.Fatal(err)
	}
	g := m.Features().Generator
	var w, h int
	if _, err := fmt.Sscanf(e.Releases[0].Settings["size"].Value.(string), "%dx%d", &w, &h); err != nil {
		t.Fatal(err)
	}
	f := e.Releases[0].Settings["frames"].Value.(int)
	takes := func(w, h, f int) bool {
		_, err := g.LatentShape(w, h, f)
		return err == nil
	}
	for k := range 4 {
		if w, h, f := w+k*e.WidthStep, h+k*e.HeightStep, f+k*e.FrameStep; !takes(w, h, f) {
			t.Errorf("%s refuses %dx%d, %d frames, which its rules allow", e.Name, w, h, f)
		}
	}
	for n := 1; n <= 256; n++ {
		for what, got := range map[string][2]bool{
			"width":  {takes(w+n, h, f), e.WidthStep > 0 && n%e.WidthStep == 0},
			"height": {takes(w, h+n, f), e.HeightStep > 0 && n%e.HeightStep == 0},
			"frames": {takes(w, h, f+n), e.FrameStep > 0 && n%e.FrameStep == 0},
		} {
			if got[0] != got[1] {
				t.Errorf("%s, %s %d more than the release's: taken %v, by its rule %v", e.Name, what, n, got[0], got[1])
			}
		}
	}
}
