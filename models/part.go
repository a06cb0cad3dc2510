package models

import "slices"

// DescribeAs is Describe for the family of a preset, whatever kind of model the config says it is:
// the configuration of a file that holds several models describes one of them.
func DescribeAs(preset string, raw []byte, where string) (m Model, notes []string, err error) {
	f, config, err := partOf(preset, raw)
	if err == nil {
		m, notes, err = f.buildModel(config)
	}
	if err != nil && where != "" {
		err = prefixViolations(where, err)
	}
	return m, notes, err
}

// partOf finds the family of a preset and reads a configuration.
func partOf(preset string, raw []byte) (*family, *ConfigReader, error) {
	f, err := usableFamilyOf(preset)
	if err != nil {
		return nil, nil, err
	}
	config, err := ReadConfig(raw)
	return f, config, err
}

// usableFamilyOf is the family of a preset, which can be used.
func usableFamilyOf(preset string) (*family, error) {
	if err := checkRegistered(); err != nil {
		return nil, err
	}
	f := familyOf(preset)
	if f == nil {
		return nil, unknownModel(preset, preset)
	}
	return f, f.usable()
}

// SiblingPresets lists the presets of the family that has one, itself among them.
func SiblingPresets(preset string) []string {
	f := familyOf(preset)
	if f == nil {
		return nil
	}
	return slices.Clone(f.presets)
}

// FromShapesAs is FromShapes for the family of a preset alone.
func FromShapesAs(preset string, shapes map[string][]int) (Model, bool, error) {
	f, err := usableFamilyOf(preset)
	if err != nil {
		return nil, false, err
	}
	m, ok := f.fromShapes(shapes)
	return m, ok, nil
}
