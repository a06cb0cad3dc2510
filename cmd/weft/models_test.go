package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"weft/models"
)

// The list has every preset in lines of at most 80 columns, and the document says the same.
func TestModelsList(t *testing.T) {
	code, stdout, stderr := weftRun(t, "models")
	if code != 0 || stderr != "" {
		t.Fatal(code, stderr)
	}
	code, document, stderr := weftRun(t, "models", "--json")
	if code != 0 || stderr != "" {
		t.Fatal(code, stderr)
	}
	doc := decode[modelsDoc](t, document)
	for _, preset := range models.Presets() {
		if !strings.Contains(stdout, "  "+preset+" ") {
			t.Errorf("the list lacks %s", preset)
		}
		if !slices.ContainsFunc(doc.Models, func(d modelDoc) bool { return d.Name == preset }) {
			t.Errorf("the document lacks %s", preset)
		}
	}
	for line := range strings.Lines(stdout) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("wider than 80 columns: %q", line)
		}
	}
	for _, d := range doc.Models {
		generates := slices.Contains(d.Commands, "generate")
		if d.Kind == models.KindDenoiser && generates == (d.NoVideo != "") || d.Kind != models.KindDenoiser && generates {
			t.Errorf("%s, a %s: commands %v, no video because %q", d.Name, d.Kind, d.Commands, d.NoVideo)
		}
	}
}

// One model tells its settings with their sources, by the name of a preset or of a release.
func TestModelsOfOneName(t *testing.T) {
	code, stdout, _ := weftRun(t, "models", "Wan-AI/Wan2.1-T2V-14B-Diffusers")
	for _, want := range []string{"wan2.1-t2v-14b: denoiser of family wan, 14.3 B parameters", "generate", "umt5-xxl, wan2.1-vae", "in steps of 16", "frames (4k+1)",
		"video: diffusers 0.42.1 (testdata/pipelines/wan21_t2v)", "1280x720 (Wan2.1 generate.py", "Release wan2.1-t2v-14b"} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, %q is not in\n%s", code, want, stdout)
		}
	}
	code, stdout, _ = weftRun(t, "models", "ltx-video-0.9.5")
	if code != 0 || strings.Count(stdout, "Release ") != 1 || !strings.Contains(stdout, "Release ltx-video-0.9.5") {
		t.Errorf("exit code %d, want the settings of one release:\n%s", code, stdout)
	}
	code, _, stderr := weftRun(t, "models", "wan2.1-t2v-15b")
	if code != 2 || !strings.Contains(stderr, "wan2.1-t2v-14b") {
		t.Errorf("exit code %d, the nearest name is not in %q", code, stderr)
	}
}
