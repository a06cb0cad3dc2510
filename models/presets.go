package models

import (
	"encoding/json"
	"maps"
	"slices"
)

// Preset writes a family's own configuration as a config.json.
func Preset(config any) json.RawMessage {
	raw, err := json.Marshal(config)
	if err != nil {
		panic(err) // a configuration that is no JSON is a fault of the family's code
	}
	return raw
}

// PresetName is the preset, the first by name of equal ones, whose configuration
// is the one that same means, or "".
func PresetName[C any](presets map[string]json.RawMessage, parse func(*ConfigReader) C, same func(C) bool) string {
	for _, name := range slices.Sorted(maps.Keys(presets)) {
		if r, err := ReadConfig(presets[name]); err == nil && same(parse(r)) && r.OK() {
			return name
		}
	}
	return ""
}
