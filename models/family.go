package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"weft/fault"
)

// Family declares a kind of models. C is its configuration: a struct of values that
// encoding/json writes as a config.json of the family.
//
// A declaration is checked before its first use, so what a field lacks or contradicts is an
// error that names the family, the field, and the line of Register.
type Family[C any] struct {
	Name string

	// Detect says whether a config.json is of this family.
	Detect func(config map[string]any) bool
	// Config has the words of each publisher whose config.json is read. The first ones that
	// a file is in read it; the last ones read every file that is left.
	Config []Words[C]
	// Derive derives what the keys do not state, and reports numbers that do not fit each
	// other, whoever the publisher is. It may be nil.
	Derive func(c *C, r *ConfigReader)

	// Presets are configurations by the names that people use.
	Presets map[string]C
	// SamePreset says whether a configuration is a preset's. It is nil where the two have to
	// be equal.
	SamePreset func(preset, c C) bool
	// KindName is the name of a configuration that is no preset. It is nil where that is the
	// family's name.
	KindName func(c C) string

	// FromShapes returns the configuration that tensors of these names and shapes are of, for
	// files that are released without a config.json and are no preset's. What shapes do not
	// tell is as in the family's releases. It is nil where shapes decide too little.
	FromShapes func(shapes map[string][]int) (C, bool)

	// Declare says what a configuration has and does.
	Declare func(name string, c C) Declaration
	// Resolve returns the configuration that a checkpoint with tensors of these official
	// names holds, or an error that names the variant that weft does not run. It is nil where
	// config.json decides everything.
	Resolve func(name string, c C, tensors []string) (C, error)
	// AsRelease returns a generator's configuration with what a release's settings decide.
	// It is nil where they decide nothing.
	AsRelease func(c C, s Settings) (C, error)
}

// Words are the keys in which one publisher writes a family's configurations.
type Words[C any] struct {
	// Of says whose words they are, for errors of registration.
	Of string
	// Recognize says whether a configuration is in these words. It is nil for the last ones.
	Recognize func(r *ConfigReader) bool
	// Within returns the object that has the keys. It is nil where that is the whole file.
	Within func(r *ConfigReader) *ConfigReader
	// Defaults has the values of keys that a configuration may leave out.
	Defaults C
	// Keys lists the keys with the fields that they fill.
	Keys func(c *C) []Key
	// Derive does for these words what Family.Derive does for all, before it. It may be nil.
	Derive func(c *C, r *ConfigReader)
}

// readConfig reads a configuration. The reader has what is wrong with it.
func (f Family[C]) readConfig(r *ConfigReader) C {
	for _, w := range f.Config {
		if w.Recognize != nil && !w.Recognize(r) {
			continue
		}
		if w.Within != nil {
			r = w.Within(r)
		}
		c := w.Defaults
		r.Read(w.Keys(&c)...)
		for _, derive := range []func(*C, *ConfigReader){w.Derive, f.Derive} {
			if derive != nil {
				derive(&c, r)
			}
		}
		return c
	}
	r.Unsupported("family %s reads no configuration in these words", f.Name)
	return *new(C)
}

// nameOf returns the name of the preset that a configuration is, the first by name of
// several, and otherwise that of its kind.
func (f Family[C]) nameOf(c C) string {
	for _, name := range slices.Sorted(maps.Keys(f.Presets)) {
		p := f.Presets[name]
		if f.SamePreset == nil && reflect.DeepEqual(p, c) || f.SamePreset != nil && f.SamePreset(p, c) {
			return name
		}
	}
	if f.KindName == nil {
		return f.Name
	}
	return f.KindName(c)
}

// makeModel makes the model of a configuration.
func (f Family[C]) makeModel(name string, c C) Model {
	m := &declared{name: name, config: c, declaration: f.Declare(name, c)}
	d := &m.declaration
	if d.Generator != nil {
		d.Generator.Model = m
	}
	changed := func(to C, err error) (Model, error) {
		if err != nil || reflect.DeepEqual(to, c) {
			return m, err
		}
		return f.makeModel(f.nameOf(to), to), nil
	}
	if f.Resolve != nil {
		d.Resolve = func(names []string) (Model, error) { return changed(f.Resolve(name, c, names)) }
	}
	if f.AsRelease != nil {
		d.AsRelease = func(s Settings) (Model, error) { return changed(f.AsRelease(c, s)) }
	}
	return m
}

// family is a registered Family, whatever its configuration is.
type family struct {
	name, place string // place is the line of Register
	presets     []string
	detect      func(config map[string]any) bool
	config      func(preset string) any
	preset      func(name string) Model
	readModel   func(config *ConfigReader) Model // nil where the reader has violations
	fromShapes  func(shapes map[string][]int) (Model, bool)
	// What is wrong with the declaration: with its fields, and with its presets, of which
	// all layers are looked at, or the first.
	checkFields  func() []string
	checkPresets func(allLayers bool) []string
	// usable is checkPresets for the first use of the family.
	usable func() error
}

// registrations are the families of a program. They are checked once, at the first look-up.
type registrations struct {
	families []family
	once     sync.Once
	err      error
}

var registry = new(registrations)

// Register adds a family; families call it from an init function. What is wrong with the
// declaration is the error of the functions that look a model up: wrong fields of any
// family at the first look-up, wrong presets when one of the family's models is looked up.
// Register itself does not panic, because the error has all mistakes at once, and because
// a program that only prints its help needs no model and shall not wait for the checks.
func Register[C any](f Family[C]) {
	place := "an unknown line"
	if _, file, line, ok := runtime.Caller(1); ok {
		place = fmt.Sprintf("%s:%d", file, line)
	}
	added := family{
		name: f.Name, place: place, presets: slices.Sorted(maps.Keys(f.Presets)), detect: f.Detect,
		config: func(preset string) any { return f.Presets[preset] },
		preset: func(name string) Model { return f.makeModel(name, f.Presets[name]) },
		readModel: func(r *ConfigReader) Model {
			c := f.readConfig(r)
			if !r.OK() {
				return nil
			}
			return f.makeModel(f.nameOf(c), c)
		},
		fromShapes: func(shapes map[string][]int) (Model, bool) {
			if f.FromShapes == nil {
				return nil, false
			}
			c, ok := f.FromShapes(shapes)
			if !ok {
				return nil, false
			}
			return f.makeModel(f.nameOf(c), c), true
		},
		checkFields: f.checkFields, checkPresets: f.checkPresets,
	}
	added.usable = sync.OnceValue(func() error { return added.declarationErrors(added.checkPresets(false)) })
	registry.families = append(registry.families, added)
}

// checkRegistered reports wrong fields of the families that are registered, and that there
// is no family. Every function that looks a model up calls it.
func checkRegistered() error {
	registry.once.Do(func() { registry.err = checkFamilies(registry.families) })
	return registry.err
}

// CheckFamilies reports everything that is wrong with the families that are registered, for
// tests: also what the first use does not look at, because it takes some milliseconds.
// Error: ErrDeclaration.
func CheckFamilies() error {
	l := fault.Violations(checkFamilies(registry.families))
	for _, f := range registry.families {
		l = append(l, fault.Violations(f.declarationErrors(f.checkPresets(true)))...)
	}
	return fault.Join(l...)
}

// Presets lists the names of presets.
func Presets() []string {
	names := []string{}
	for _, f := range registry.families {
		names = append(names, f.presets...)
	}
	slices.Sort(names)
	return names
}

// familyOf returns the family that has a preset, or nil.
func familyOf(preset string) *family {
	for i := range registry.families {
		if f := &registry.families[i]; slices.Contains(f.presets, preset) {
			return f
		}
	}
	return nil
}

// PresetConfig returns a preset's config.json. Error: ErrUnknownModel, ErrDeclaration.
func PresetConfig(name string) (json.RawMessage, error) {
	if err := checkRegistered(); err != nil {
		return nil, err
	}
	if raw := presetConfig(name); raw != nil {
		return raw, nil
	}
	return nil, unknownModel(name, name)
}

// presetConfig returns a preset's config.json, or nil if no preset has the name.
func presetConfig(name string) json.RawMessage {
	f := familyOf(name)
	if f == nil {
		return nil
	}
	return presetText(f.config(name)) // nil for what is no JSON, which checkFamilies reports
}

// samePresetConfig says whether two presets have the same configuration.
func samePresetConfig(a, b string) bool {
	f, g := familyOf(a), familyOf(b)
	return f == g && (f == nil || reflect.DeepEqual(f.config(a), g.config(b)))
}

// ByName makes the model that a name stands for. FindPreset says what names there are.
// Error: ErrUnknownModel, ErrDeclaration.
func ByName(name string) (Model, error) {
	preset, release, err := FindPreset(name)
	if err != nil {
		return nil, err
	}
	f := familyOf(preset)
	if f == nil { // a release of a family that is not registered
		return nil, unknownModel(name, preset)
	}
	if err := f.usable(); err != nil {
		return nil, err
	}
	m, _, err := SettingsOf(f.preset(preset), ReleaseQuery{Name: release})
	return m, err
}

// FromConfig makes the model that a config.json describes. Errors begin with where.
// Error: ErrConfig, ErrVariant, ErrUnknownModel, with all violations at once, and
// ErrDeclaration.
func FromConfig(raw []byte, where string) (Model, error) {
	m, _, err := Describe(raw, where)
	return m, err
}

// Describe is FromConfig, and returns notes about keys that nothing reads.
func Describe(raw []byte, where string) (m Model, notes []string, err error) {
	if err := checkRegistered(); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil && where != "" {
			err = prefixViolations(where, err)
		}
	}()
	config, err := ReadConfig(raw)
	if err != nil {
		return nil, nil, err
	}
	names := []string{}
	for _, f := range registry.families {
		if f.detect(config.keys) {
			if err := f.usable(); err != nil {
				return nil, nil, err
			}
			return f.buildModel(config)
		}
		names = append(names, f.name)
	}
	class, _ := config.keys["_class_name"].(string)
	kind, _ := config.keys["model_type"].(string)
	return nil, nil, fault.New(ErrUnknownModel, struct {
		Class string   `json:"class_name"`
		Type  string   `json:"model_type"`
		Known []string `json:"known"`
	}{class, kind, names}, "_class_name %q with model_type %q is no model weft knows; known families: %s", class, kind, strings.Join(names, ", "))
}

// maxElements bounds one parameter: 4 TB of f32.
const maxElements = 1 << 40

// buildModel makes a model from a configuration and checks that the number of elements
// of every parameter is small enough to be counted.
func (f family) buildModel(config *ConfigReader) (Model, []string, error) {
	m := f.readModel(config)
	if m != nil {
		for _, p := range m.Params(0) {
			n := 1
			for _, d := range p.Shape {
				if d > 0 && n > maxElements/d {
					config.Refuse("the sizes make %s of shape %v: want at most %d elements", p.Name, p.Shape, int64(maxElements))
					break
				}
				n *= d
			}
		}
	}
	notes, err := config.Finish()
	if err != nil {
		return nil, nil, err
	}
	return m, notes, nil
}

// FromShapes returns the models that tensors of these names and shapes may be, one of a
// family at most. Whether all of a model's tensors are there is for its caller to check.
// Error: ErrDeclaration.
func FromShapes(shapes map[string][]int) ([]Model, error) {
	if err := checkRegistered(); err != nil {
		return nil, err
	}
	var out []Model
	for _, f := range registry.families {
		if m, ok := f.fromShapes(shapes); ok {
			out = append(out, m)
		}
	}
	return out, nil
}
