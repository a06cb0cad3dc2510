package models

import (
	"path/filepath"
	"strings"
)

// HighNoise and LowNoise name the two experts that divide the noise levels of a video between
// them, where something is for one of the two.
const (
	HighNoise = "high"
	LowNoise  = "low"
)

// adapter is a published LoRA with which a release is run in another way.
type adapter struct {
	// named is in the name of the file, or of the folder that it lies in, in lower case and
	// with _ in place of - and blanks.
	named  string
	source string
	values map[string]any
}

// distilled are the settings of adapters that replace guidance: one pass a step.
func distilled(steps int, shift float64, sampler string) map[string]any {
	v := map[string]any{"steps": steps, "guidance": []float64{1}, "passes": 1}
	if shift > 0 {
		v["shift"] = shift
	}
	if sampler != "" {
		v["sampler"] = sampler
	}
	return v
}

// adapters lists what is known by name, the more special names first. Files are not looked
// into for this: their publishers write no settings into them.
var adapters = []adapter{
	{"wan2.2_lightning", "Wan2.2-Lightning's generate.py (euler)", distilled(4, 5, "euler")},
	{"4steps_lora", "Wan2.2-Lightning's generate.py (euler)", distilled(4, 5, "euler")},
	{"cfg_step_distill", "lightx2v's release of step-distilled Wan2.1 (its sampler is lcm; euler stands for it)", distilled(4, 5, "euler")},
	{"causvid", "ComfyUI's template for Wan2.1 with CausVid (its scale of 0.3 to 0.7 is not taken)", distilled(4, 0, "")},
	{"fusionx", "InfiniteTalk's README for FusionX", distilled(8, 2, "")},
}

// AdapterSettings gives the settings with which a release is run when a LoRA is merged into
// it, found by the name of its file or folder; known is false for a name that is in no table.
func AdapterSettings(path string) (said Said, known bool) {
	name := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)))
	for _, a := range adapters {
		if strings.Contains(name, a.named) {
			return Said{From: "LoRA " + filepath.Base(path) + ": " + a.source, Values: a.values}, true
		}
	}
	return Said{}, false
}
