package models

import (
	"fmt"
	"strings"
	"testing"
)

// What a folder's guider says is taken where every step is guided by it, and is named otherwise.
func TestGuiders(t *testing.T) {
	for text, want := range map[string]string{
		`{"_class_name": "ClassifierFreeGuidance", "guidance_scale": 6.0, "guidance_rescale": 0.0, "start": 0.0, "stop": 1.0, "enabled": true, "use_original_formulation": false}`: "map[guidance:[6] passes:2]",
		`{"_class_name": "ClassifierFreeGuidance", "guidance_scale": 1.0}`:                                   "map[guidance:[1] passes:1]",
		`{"_class_name": "ClassifierFreeGuidance", "guidance_scale": 6.0, "enabled": false}`:                 "map[guidance:[1] passes:1]",
		`{"_class_name": "ClassifierFreeGuidance"}`:                                                          "map[guidance:[7.5] passes:2]",
		`{"_class_name": "ClassifierFreeGuidance", "guidance_scale": 6.0, "start": 0.2}`:                     "in some of the steps",
		`{"_class_name": "ClassifierFreeGuidance", "guidance_scale": 6.0, "stop": 0.5}`:                      "in some of the steps",
		`{"_class_name": "ClassifierFreeGuidance", "guidance_scale": 6.0, "guidance_rescale": 0.7}`:          "in some of the steps",
		`{"_class_name": "ClassifierFreeGuidance", "guidance_scale": 5.0, "use_original_formulation": true}`: "in some of the steps",
		`{"_class_name": "AdaptiveProjectedGuidance", "guidance_scale": 6.0}`:                                `"AdaptiveProjectedGuidance" is not run`,
	} {
		r, err := ReadConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		values, notes := readGuider(r)
		got := fmt.Sprint(values)
		if len(notes) > 0 {
			got = notes[0]
		}
		if !r.OK() || !strings.Contains(got, want) || (len(values) > 0) == (len(notes) > 0) {
			t.Errorf("%s: %v, notes %q, want %s", text, values, notes, want)
		}
	}
	for _, text := range []string{`{"_class_name": "ClassifierFreeGuidance", "guidance_scale": "6"}`, `{"_class_name": "ClassifierFreeGuidance", "guidance_scale": -1}`} {
		r, err := ReadConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if readGuider(r); r.OK() {
			t.Errorf("%s is accepted", text)
		}
	}
}
