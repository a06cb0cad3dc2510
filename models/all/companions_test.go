package all_test

import (
	"testing"

	"weft/models"
	_ "weft/models/all"
)

// What encodes a generator's text is a model that weft runs, and no generator
// itself.
func TestTextCompanions(t *testing.T) {
	want := map[string]string{"wan2.1-t2v-1.3b": "umt5-xxl", "wan2.2-ti2v-5b": "umt5-xxl", "cogvideox-5b": "t5-v1.1-xxl", "cosmos2.5-2b": "reason1-7b", "ltx-video-2b": "t5-v1.1-xxl", "ltx2.5-22b": "ltx2.5-gemma4-12b"}
	for _, name := range models.Presets() {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		g := m.Features().Generator
		if g == nil || g.Companions.Text == "" {
			if want[name] != "" {
				t.Errorf("%s names no text encoder", name)
			}
			continue
		}
		text := g.Companions.Text
		if w := want[name]; w != "" && w != text {
			t.Errorf("%s: text encoder %s, want %s", name, text, w)
		}
		encoder, err := models.ByName(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if encoder.Features().Generator != nil {
			t.Errorf("%s: %s makes videos", name, text)
		}
	}
}

// What encodes a generator's image is a vision encoder that weft runs, of the width that the
// generator reads.
func TestVisionCompanions(t *testing.T) {
	found := 0
	for _, name := range models.Presets() {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		g := m.Features().Generator
		if g == nil || g.Image.Vision == "" {
			continue
		}
		found++
		encoder, err := models.ByName(g.Image.Vision)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if v := encoder.Features().Vision; v == nil || v.Width != g.Image.FeatureWidth || v.Pixels < 1 || v.Rows < 1 {
			t.Errorf("%s reads features of %d numbers, and %s makes %+v", name, g.Image.FeatureWidth, g.Image.Vision, v)
		}
	}
	if found == 0 {
		t.Error("no preset reads an image's features")
	}
}
