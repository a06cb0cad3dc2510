package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/numbers"
	"weft/mesh"
)

// ErrDeclaration says that a family is declared wrongly, or that none is registered: a
// fault of the program, not of its input.
var ErrDeclaration = fault.NewKind("declaration")

// DeclarationRefused are the fields of ErrDeclaration.
type DeclarationRefused struct {
	Family string `json:"family"`
	Place  string `json:"place"` // file and line of Register
	Wrong  string `json:"wrong"` // the field and what is wrong with it
}

// checkFamilies reports wrong fields of declarations, and that there are no declarations.
func checkFamilies(families []family) error {
	if len(families) == 0 {
		return fault.New(ErrDeclaration, nil, "no model family is registered: import _ %q in the program", "weft/models/all")
	}
	var l fault.List
	places := map[string]string{} // of a family's or a preset's name
	for _, f := range families {
		wrong := f.checkFields()
		for _, name := range append([]string{"family " + f.name}, f.presets...) {
			if at, taken := places[name]; taken {
				wrong = append(wrong, fmt.Sprintf("%s is registered at %s already", name, at))
			}
			places[name] = f.place
		}
		l.Add(f.declarationErrors(wrong))
	}
	return l.Err()
}

// declarationErrors returns the error of everything that is wrong with a family, nil if nothing is.
func (f family) declarationErrors(wrong []string) error {
	var l fault.List
	for _, w := range wrong {
		l.Add(fault.New(ErrDeclaration, DeclarationRefused{f.name, f.place, w}, "family %q, registered at %s: %s", f.name, f.place, w))
	}
	return l.Err()
}

// findings collects what is wrong with a declaration.
type findings []string

func (l *findings) addFinding(format string, args ...any) {
	*l = append(*l, fmt.Sprintf(format, args...))
}

// addEmptyFields adds the names of fields that have no value. fields alternates names and values.
func (l *findings) addEmptyFields(where string, fields ...any) {
	for pair := range slices.Chunk(fields, 2) {
		if v := reflect.ValueOf(pair[1]); !v.IsValid() || v.IsZero() {
			l.addFinding("%s%s is empty", where, pair[0])
		}
	}
}

// checkFields reports fields that are empty, and words and keys that are declared wrongly.
func (f Family[C]) checkFields() (l []string) {
	found := (*findings)(&l)
	found.addEmptyFields("", "Name", f.Name, "Detect", f.Detect, "Declare", f.Declare, "Config", f.Config, "Presets", f.Presets)
	f.checkWords(found)
	return l
}

// checkPresets reports what is wrong with the models of presets, with one layer or with all,
// and if all also rules that no parameter has. It builds no programs:
// TestProgramsAreTheGoldenOnes does.
func (f Family[C]) checkPresets(allLayers bool) (l []string) {
	found := (*findings)(&l)
	rules := map[string]bool{} // by pattern: whether a parameter of any preset has it
	for _, name := range slices.Sorted(maps.Keys(f.Presets)) {
		f.checkPreset(found, name, allLayers, rules)
	}
	for _, match := range slices.Sorted(maps.Keys(rules)) {
		if allLayers && !rules[match] {
			found.addFinding("Rules: no parameter of a preset has the rule %q", match)
		}
	}
	return l
}

// checkWords reports words without keys, keys that are named twice, and bounds that are none.
func (f Family[C]) checkWords(l *findings) {
	for i, w := range f.Config {
		where := fmt.Sprintf("Config[%d] (%s)", i, w.Of)
		if (w.Recognize == nil) != (i == len(f.Config)-1) {
			l.addFinding("%s: Recognize is there for all but the last words, which read every file that is left", where)
		}
		if w.Keys == nil {
			l.addFinding("%s: Keys is empty", where)
			continue
		}
		c, names := w.Defaults, map[string]bool{}
		for _, k := range w.Keys(&c) {
			for _, name := range k.names {
				if names[name] {
					l.addFinding("%s: key %q is there twice", where, name)
				}
				names[name] = true
			}
			if why := k.wrong(); why != "" {
				l.addFinding("%s: key %q: %s", where, strings.Join(k.names, " or "), why)
			}
		}
	}
}

// checkPreset reports a preset whose config.json does not give it back, or whose model
// lacks something. It enters in rules which of them the parameters have.
func (f Family[C]) checkPreset(l *findings, name string, allLayers bool, rules map[string]bool) {
	defer func() {
		if p := recover(); p != nil { // a pattern that does not compile, an index out of range
			l.addFinding("preset %s: %v", name, p)
		}
	}()
	f.checkPresetConfig(l, name)
	m := f.makeModel(name, f.Presets[name]).(*declared)
	d, where := m.declaration, "preset "+name+": "
	n := len(*l)
	l.addEmptyFields(where, "Params", d.Params, "Rules", d.Rules, "Check", d.Check, "Inputs", d.Inputs,
		"Request", d.Request, "Example", d.Example, "Feed", d.Feed, "Graph", d.Graph)
	f.checkFeatures(l, where, d)
	if len(*l) == n {
		checkParams(l, where, m, allLayers, rules)
	}
}

// checkPresetConfig reports a preset that is not read as it is written.
func (f Family[C]) checkPresetConfig(l *findings, name string) {
	raw, err := json.Marshal(f.Presets[name])
	if err != nil {
		l.addFinding("preset %s is no JSON: %v", name, err)
		return
	}
	r, err := ReadConfig(raw)
	if err != nil {
		l.addFinding("preset %s: %v", name, err)
		return
	}
	if !f.Detect(r.keys) {
		l.addFinding("preset %s: Detect does not know its config.json %s", name, raw)
	}
	c := f.readConfig(r)
	notes, err := r.Finish()
	switch {
	case err != nil:
		l.addFinding("preset %s: %v", name, err)
	case len(notes) > 0:
		l.addFinding("preset %s: %s", name, strings.Join(notes, "; "))
	case string(presetText(c)) != string(raw):
		l.addFinding("preset %s is read as %s, and is %s", name, presetText(c), raw)
	}
}

// checkFeatures reports features that lack what they need.
func (f Family[C]) checkFeatures(l *findings, where string, d Declaration) {
	for i, name := range d.Inputs {
		if slices.Contains(d.Inputs[:i], name) {
			l.addFinding("%sInputs: %q is there twice", where, name)
		}
	}
	for _, names := range d.Tied {
		if len(names) < 2 {
			l.addFinding("%sTied: %q is no group of names", where, names)
		}
	}
	if d.Decoder != nil {
		l.addEmptyFields(where+"Decoder.", "VideoShape", d.Decoder.VideoShape)
	}
	if d.Tiled != nil {
		l.addEmptyFields(where+"Tiled.", "Tile", d.Tiled.Tile, "Finish", d.Tiled.Finish, "Release", d.Tiled.Release)
	}
	if d.Frames != nil {
		l.addEmptyFields(where+"Frames.", "Request", d.Frames.Request, "FeedStatic", d.Frames.FeedStatic)
	}
	if d.Generator != nil {
		f.checkGenerator(l, where, d)
	} else if f.AsRelease != nil {
		l.addFinding("%sGenerator is empty: AsRelease is about the releases of generators", where)
	}
}

// checkGenerator reports a generator that lacks what it needs, and its conditions.
func (f Family[C]) checkGenerator(l *findings, where string, d Declaration) {
	g := d.Generator
	l.addEmptyFields(where+"Generator.", "LatentShape", g.LatentShape, "FeedStep", g.FeedStep, "FeedText", g.FeedText, "Companions.Decoder", g.Companions.Decoder)
	if g.ReadsTokens != (g.Companions.Text == "") {
		l.addFinding("%sGenerator: ReadsTokens is %t and Companions.Text %q: a model reads ids or what a text encoder makes", where, g.ReadsTokens, g.Companions.Text)
	}
	if _, ok := f.Presets[g.ReleasedPreset]; !ok {
		l.addFinding("%sGenerator.ReleasedPreset: %q is no preset of the family", where, g.ReleasedPreset)
	}
	for name := range g.OwnSettings {
		if !slices.Contains(SettingNames, name) {
			l.addFinding("%sGenerator.OwnSettings: %q is no setting", where, name)
		}
	}
	if len(g.OwnSettings) > 0 && f.AsRelease == nil {
		l.addFinding("%sGenerator.OwnSettings: AsRelease is empty, so no release could contradict them", where)
	}
	if c := g.Conditions; c != nil {
		l.addEmptyFields(where+"Generator.Conditions.", "Check", c.Check, "Feed", c.Feed)
		for _, name := range slices.Concat(c.Names, c.Optional, c.TextNames) {
			if !slices.Contains(d.Inputs, name) {
				l.addFinding("%sGenerator.Conditions: %q is not among Inputs %q", where, name, d.Inputs)
			}
		}
	}
	checkTexts(l, where+"Generator.Texts", g)
	checkImageUse(l, where+"Generator.Image: ", g)
	checkControlUse(l, where+"Generator.Control", g)
}

// checkTexts reports texts that lack what is needed, or that the generator does not read.
func checkTexts(l *findings, where string, g *Generator) {
	var own []string
	if g.Conditions != nil {
		own = g.Conditions.TextNames
	}
	for i, t := range g.Texts {
		if (i == 0) != (t.Feature == ContextFeature) {
			l.addFinding("%s[%d].Feature is %q: want %q for the first, and for no other", where, i, t.Feature, ContextFeature)
		}
		if i > 0 && !slices.Contains(own, t.Feature) {
			l.addFinding("%s[%d].Feature: %q is not among Conditions.TextNames %q", where, i, t.Feature, own)
		}
		if t.MaskFeature != "" && !slices.Contains(own, t.MaskFeature) {
			l.addFinding("%s[%d].MaskFeature: %q is not among Conditions.TextNames %q", where, i, t.MaskFeature, own)
		}
		if !g.ReadsTokens && (t.Pad == "" || t.Output == "") {
			l.addFinding("%s[%d]: Pad is %q and Output %q: want both", where, i, t.Pad, t.Output)
		}
		if t.PresetOf(g) == "" && !g.ReadsTokens {
			l.addFinding("%s[%d].Encoder is empty, and so is Companions.Text", where, i)
		}
	}
}

// checkImageUse reports an image that is read without the inputs which bring it.
func checkImageUse(l *findings, where string, g *Generator) {
	u := g.Image
	var read []string
	if g.Conditions != nil {
		read = g.Conditions.Names
	}
	for _, c := range []struct {
		channels int
		name     string
	}{{u.LatentChannels, "y"}, {u.FeatureWidth, u.FeatureCondition()}} {
		if c.channels > 0 && !slices.Contains(read, c.name) {
			l.addFinding("%s%d channels of %q, which is not among the conditions %q", where, c.channels, c.name, read)
		}
	}
	if (u.FeatureWidth > 0) != (u.Vision != "") {
		l.addFinding("%sFeatureWidth is %d and Vision %q: features are a vision encoder's", where, u.FeatureWidth, u.Vision)
	}
	if u.Offset != 0 && !slices.Contains(read, "ofs") {
		l.addFinding("%sOffset is %g, and \"ofs\" is not among the conditions %q", where, u.Offset, read)
	}
	if u.Alone && (u.LatentChannels == 0 || u.MaskChannels > 1) {
		l.addFinding("%sAlone with %d channels of latents and %d of a mask: want latents, and one channel of a mask at most", where, u.LatentChannels, u.MaskChannels)
	}
	if u.KeepsFirst && g.FeedFrameTimes == nil {
		l.addFinding("%sKeepsFirst, but FeedFrameTimes is empty", where)
	}
	if r := u.Replaced; r != nil && (!u.KeepsFirst || u.Mixed != nil || !(r.Level >= 0 && r.Level <= 1) || r.Latents < 1 || r.MostLatents < r.Latents) {
		l.addFinding("%sReplaced is %+v with KeepsFirst %t and Mixed %v: want it with KeepsFirst alone, a level from 0 to 1, and 1 latent frame or more", where, *r, u.KeepsFirst, u.Mixed)
	}
	if u.ReadsImages() && (u.StepWidth < 1 || u.StepHeight < 1) {
		l.addFinding("%sStepWidth is %d and StepHeight %d: want the pixels of which sizes are multiples", where, u.StepWidth, u.StepHeight)
	}
}

// checkControlUse reports a control video that is read without the inputs which bring it.
func checkControlUse(l *findings, where string, g *Generator) {
	u := g.Control
	if u == nil {
		return
	}
	l.addEmptyFields(where+".", "Context", u.Context, "Scale", u.Scale, "Scales", u.Scales, "LatentChannels", u.LatentChannels, "MaskRows", u.MaskRows,
		"MaskCols", u.MaskCols, "FramesPerLatent", u.FramesPerLatent, "StepWidth", u.StepWidth, "StepHeight", u.StepHeight)
	c := g.Conditions
	if c == nil || !slices.Contains(c.Names, u.Context) || !slices.Contains(c.Optional, u.Scale) {
		l.addFinding("%s: %q is not among the conditions that are needed, or %q not among those that may be left out", where, u.Context, u.Scale)
	}
}

// checkParams reports parameters that are named twice, have no rule, or whose shape, view
// or pieces do not agree, and rules over axes that no mesh of a model has. It enters in
// rules which of them the parameters have.
func checkParams(l *findings, where string, m *declared, allLayers bool, rules map[string]bool) {
	layers := 1
	if allLayers {
		layers = 0
	}
	params := m.Params(layers)
	if len(params) == 0 {
		l.addFinding("%sParams: there are none", where)
		return
	}
	for _, p := range params {
		if wrong := p.wrong(); wrong != "" {
			l.addFinding("%sParams: %s", where, wrong)
		}
		if allLayers && m.Official(p.Name) != p.Name {
			l.addFinding("%sOfficial: it renames %s, which is a parameter, to %s", where, p.Name, m.Official(p.Name))
		}
	}
	for _, r := range m.Rules() {
		if !rules[r.Match] {
			rules[r.Match] = false
		}
	}
	var axes []mesh.Axis
	for _, name := range Axes {
		axes = append(axes, mesh.Axis{Name: name, Size: 1})
	}
	one, err := mesh.Local(axes...)
	if err != nil {
		l.addFinding("%v", err)
		return
	}
	assigned, err := AssignRules(m.Rules(), one, params)
	for _, v := range fault.Violations(err) {
		l.addFinding("%sRules: %v", where, v)
	}
	for _, a := range assigned {
		rules[a.Rule] = true
	}
}

// wrong says what of a parameter does not agree, or "".
func (p Param) wrong() string {
	rows := 0
	for _, piece := range p.Pieces {
		rows += piece.Rows
	}
	switch {
	case p.Name == "" || len(p.Shape) == 0 || slices.Min(p.Shape) < 1:
		return fmt.Sprintf("%q of shape %v", p.Name, p.Shape)
	case p.View != nil && numbers.Product(p.View) != numbers.Product(p.Shape):
		return fmt.Sprintf("%s of shape %v has a view %v, with another number of elements", p.Name, p.Shape, p.View)
	case p.Pieces != nil && rows != p.Shape[0]:
		return fmt.Sprintf("the pieces of %s have %d rows, and its shape is %v", p.Name, rows, p.Shape)
	}
	return ""
}

// presetText returns a configuration as JSON, or nil where it is none.
func presetText(config any) json.RawMessage {
	raw, err := json.Marshal(config)
	if err != nil {
		return nil
	}
	return raw
}
