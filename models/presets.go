package models

import (
	"encoding/json"
	"maps"
	"slices"
)

// Preset returns a family's own configuration as a config.json.
func Preset(config any) json.RawMessage {
	raw, err := json.Marshal(config)
	if err != nil {
		panic(err) // a configuration that is no JSON is a fault of the family's code
	}
	return raw
}

// PresetName returns the name of the preset for whose configuration same is true, the
// first by name if there are several, or "".
func PresetName[C any](presets map[string]json.RawMessage, parse func(*ConfigReader) C, same func(C) bool) string {
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		if r, err := ReadConfig(presets[name]); err == nil && same(parse(r)) && r.OK() {
			return name
		}
	}
	return ""
}
