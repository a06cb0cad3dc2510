package models

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/sharding"
	"weft/tensor"
)

// tiny is the configuration of a family of the tests: one linear layer for each layer.
type tiny struct {
	Width  int `json:"width"`
	Layers int `json:"layers"`
	Extra  int `json:"extra,omitempty"`
}

func tinyKeys(c *tiny) []Key {
	return []Key{Int("width", &c.Width, WidthBound), Int("layers", &c.Layers, LayerBound), OptionalInt("extra", &c.Extra, WidthBound), Fixed("bias", false, "every release")}
}

func tinyDeclaration(_ string, c tiny) Declaration {
	type tensors = map[string]*tensor.Tensor
	return Declaration{
		Params: func(layers int) []Param {
			var ps []Param
			for i := range (Request{Layers: layers}).Run(c.Layers) {
				ps = append(ps, LinearParams(fmt.Sprintf("layers.%d", i), c.Width, c.Width, false)...)
			}
			return ps
		},
		Rules: func() sharding.Rules {
			return sharding.Rules{{Match: "layers.*.weight", Spec: sharding.NewSpec([]string{mesh.TP})}}
		},
		Check:   func(*mesh.Mesh, Request) error { return nil },
		Inputs:  []string{"x", "t", "context", "y"},
		Request: func(tensors) (Request, error) { return Request{}, nil },
		Example: func(int, []int, uint64) (tensors, error) { return nil, nil },
		Feed:    func(*graph.Graph, Request, tensors) (tensors, error) { return nil, nil },
		Graph:   func(*mesh.Mesh, Request) (*graph.Graph, error) { return nil, nil },
		Features: Features{Generator: &Generator{
			LatentShape: func(int, int, int) ([]int, error) { return nil, nil },
			FeedStep:    func(Request, *tensor.Tensor, float64) (tensors, error) { return nil, nil },
			FeedText:    func(*graph.Graph, Request, *tensor.Tensor) (tensors, error) { return nil, nil },
			Conditions: &Conditions{Names: []string{"y"}, Check: func(r Request, _ tensors) (Request, error) { return r, nil },
				Feed: func(*graph.Graph, Request, tensors) (tensors, error) { return nil, nil }},
			Companions: Companions{Text: "a", Decoder: "b"}, ReleasedPreset: "tiny-8",
		}},
	}
}

func tinyFamily() Family[tiny] {
	return Family[tiny]{
		Name:   "tiny",
		Detect: func(c map[string]any) bool { return c["width"] != nil },
		Config: []Words[tiny]{
			{Of: "others", Recognize: func(r *ConfigReader) bool { return r.Has("dim") }, Keys: func(c *tiny) []Key { return []Key{Int("dim", &c.Width, WidthBound)} }},
			{Of: "us", Keys: tinyKeys},
		},
		Presets: map[string]tiny{"tiny-8": {Width: 8, Layers: 2}},
		Declare: tinyDeclaration,
	}
}

// alone runs a test with no family registered but the given ones.
func alone(t *testing.T, families ...Family[tiny]) {
	t.Helper()
	old := registry
	registry = new(registrations)
	t.Cleanup(func() { registry = old })
	for _, f := range families {
		Register(f)
	}
}

// checkAll is CheckFamilies, as violations.
func checkAll() []string {
	var out []string
	for _, v := range fault.Violations(CheckFamilies()) {
		out = append(out, v.Error())
	}
	return out
}

// A program that imports no family is told which import is missing, and not that a model
// is unknown.
func TestNoFamilyIsRegistered(t *testing.T) {
	alone(t)
	_, byName := ByName("wan2.1-t2v-14b")
	_, _, described := Describe([]byte(`{"dim": 5120}`), "config.json")
	_, preset := PresetConfig("wan2.1-t2v-14b")
	for _, err := range []error{byName, described, preset, checkFamilies(nil)} {
		if !errors.Is(err, ErrDeclaration) || !strings.Contains(err.Error(), `import _ "weft/models/all"`) {
			t.Errorf("%v", err)
		}
	}
}

func TestASoundFamilyIsTaken(t *testing.T) {
	alone(t, tinyFamily())
	if found := checkAll(); len(found) > 0 {
		t.Fatal(found)
	}
	m, _, err := registry.families[0].buildModel(mustRead(t, `{"width": 8, "layers": 2}`))
	if err != nil || m.Name() != "tiny-8" || m.Config() != (tiny{Width: 8, Layers: 2}) || m.Features().Generator.Model != m || m.Official("a") != "a" {
		t.Errorf("%v %v", m, err)
	}
	m, _, err = registry.families[0].buildModel(mustRead(t, `{"dim": 8, "width": 9}`))
	if err != nil || m.Name() != "tiny" {
		t.Errorf("%v %v", m, err)
	}
}

func mustRead(t *testing.T, text string) *ConfigReader {
	t.Helper()
	r, err := ReadConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// declares returns a family whose declaration has a change.
func declares(change func(d *Declaration)) func(f *Family[tiny]) {
	return func(f *Family[tiny]) {
		f.Declare = func(name string, c tiny) Declaration {
			d := tinyDeclaration(name, c)
			change(&d)
			return d
		}
	}
}

// keys returns a family whose last words have one more key.
func keys(more func(c *tiny) Key) func(f *Family[tiny]) {
	return func(f *Family[tiny]) {
		f.Config[1].Keys = func(c *tiny) []Key { return append(tinyKeys(c), more(c)) }
	}
}

// Whatever a declaration lacks or contradicts is found, by family, field and line.
func TestWrongDeclarationsAreRefused(t *testing.T) {
	one := Bound{1, 1, "one"}
	for _, c := range []struct {
		what   string
		change func(f *Family[tiny])
		says   string
	}{
		{"no name", func(f *Family[tiny]) { f.Name = "" }, "Name is empty"},
		{"no Detect", func(f *Family[tiny]) { f.Detect = nil }, "Detect is empty"},
		{"no Declare", func(f *Family[tiny]) { f.Declare = nil }, "Declare is empty"},
		{"no presets", func(f *Family[tiny]) { f.Presets = nil }, "Presets is empty"},
		{"no words", func(f *Family[tiny]) { f.Config = nil }, "Config is empty"},
		{"words without keys", func(f *Family[tiny]) { f.Config[1].Keys = nil }, "Config[1] (us): Keys is empty"},
		{"words behind those that read every file", func(f *Family[tiny]) { f.Config[0].Recognize = nil }, "Config[0] (others): Recognize is there for all but the last words"},
		{"last words that do not read every file", func(f *Family[tiny]) { f.Config[1].Recognize = f.Config[0].Recognize }, "Config[1] (us): Recognize is there"},
		{"a key twice", keys(func(c *tiny) Key { return Int("width", &c.Width, WidthBound) }), `key "width" is there twice`},
		{"another name that is a key", keys(func(c *tiny) Key { return Int("breadth", &c.Width, WidthBound).Also("width") }), `key "width" is there twice`},
		{"a bound without a reason", keys(func(c *tiny) Key { return Int("k", &c.Extra, Bound{1, 2, ""}) }), `key "k": its bound has no reason`},
		{"an empty bound", keys(func(c *tiny) Key { return Int("k", &c.Extra, Bound{2, 1, "why"}) }), `key "k": its bound from 2 to 1 holds no number`},
		{"a span without a reason", keys(func(*tiny) Key { return Float("k", new(float64), Span{0, 1, ""}) }), `key "k": its span has no reason`},
		{"an empty span", keys(func(*tiny) Key { return Floats("k", make([]float64, 2), Span{1, 1, "why"}) }), `key "k": its span above 1 and up to 1 holds no number`},
		{"a default outside of its bound", func(f *Family[tiny]) {
			f.Config[1].Defaults.Extra = 2
			f.Config[1].Keys = func(c *tiny) []Key {
				return []Key{Int("width", &c.Width, WidthBound), Int("layers", &c.Layers, LayerBound), Int("extra", &c.Extra, one)}
			}
		}, `key "extra": its default 2 is outside of its bound from 1 to 1`},
		{"a value that JSON does not have", keys(func(*tiny) Key { return Fixed("k", []int{1}, "all") }), `key "k": a value of type []int is never equal to one of JSON`},
		{"a fixed value of nobody", keys(func(*tiny) Key { return Fixed("k", 1, "") }), `key "k": nothing says which models have the value`},

		{"a preset that Detect does not know", func(f *Family[tiny]) { f.Detect = func(map[string]any) bool { return false } }, "preset tiny-8: Detect does not know its config.json"},
		{"a preset outside of a bound", func(f *Family[tiny]) { f.Presets["tiny-0"] = tiny{Layers: 1} }, "preset tiny-0: width is 0: want a whole number"},
		{"a preset with a key that nobody reads", func(f *Family[tiny]) {
			f.Presets["tiny-9"] = tiny{Width: 9, Layers: 1, Extra: 3}
			f.Config[1].Keys = func(c *tiny) []Key { return tinyKeys(c)[:2] }
		}, "preset tiny-9: keys of the config that are not read: extra"},
		{"a preset that is read as another", func(f *Family[tiny]) { f.Derive = func(c *tiny, _ *ConfigReader) { c.Width++ } }, `preset tiny-8 is read as {"width":9,"layers":2}, and is {"width":8,"layers":2}`},

		{"no Params", declares(func(d *Declaration) { d.Params = nil }), "preset tiny-8: Params is empty"},
		{"no Rules", declares(func(d *Declaration) { d.Rules = nil }), "preset tiny-8: Rules is empty"},
		{"no Check", declares(func(d *Declaration) { d.Check = nil }), "preset tiny-8: Check is empty"},
		{"no Inputs", declares(func(d *Declaration) { d.Inputs = nil }), "preset tiny-8: Inputs is empty"},
		{"no Request", declares(func(d *Declaration) { d.Request = nil }), "preset tiny-8: Request is empty"},
		{"no Example", declares(func(d *Declaration) { d.Example = nil }), "preset tiny-8: Example is empty"},
		{"no Feed", declares(func(d *Declaration) { d.Feed = nil }), "preset tiny-8: Feed is empty"},
		{"no Graph", declares(func(d *Declaration) { d.Graph = nil }), "preset tiny-8: Graph is empty"},
		{"an input twice", declares(func(d *Declaration) { d.Inputs = append(d.Inputs, "x") }), `preset tiny-8: Inputs: "x" is there twice`},
		{"one name tied", declares(func(d *Declaration) { d.Tied = [][]string{{"a"}} }), `preset tiny-8: Tied: ["a"] is no group of names`},
		{"a decoder without a shape", declares(func(d *Declaration) { d.Decoder = &Decoder{} }), "preset tiny-8: Decoder.VideoShape is empty"},
		{"tiles that are not finished", declares(func(d *Declaration) { d.Tiled = &Tiled{} }), "preset tiny-8: Tiled.Finish is empty"},
		{"frames without a request", declares(func(d *Declaration) { d.Frames = &FrameReader{} }), "preset tiny-8: Frames.Request is empty"},
		{"a generator without a shape", declares(func(d *Declaration) { d.Generator.LatentShape = nil }), "preset tiny-8: Generator.LatentShape is empty"},
		{"a generator without FeedStep", declares(func(d *Declaration) { d.Generator.FeedStep = nil }), "preset tiny-8: Generator.FeedStep is empty"},
		{"a generator without FeedText", declares(func(d *Declaration) { d.Generator.FeedText = nil }), "preset tiny-8: Generator.FeedText is empty"},
		{"a generator without a decoder", declares(func(d *Declaration) { d.Generator.Companions.Decoder = "" }), "preset tiny-8: Generator.Companions.Decoder is empty"},
		{"a generator without a text", declares(func(d *Declaration) { d.Generator.Companions.Text = "" }), `ReadsTokens is false and Companions.Text ""`},
		{"a generator with two texts", declares(func(d *Declaration) { d.Generator.ReadsTokens = true }), `ReadsTokens is true and Companions.Text "a"`},
		{"a generator like none", declares(func(d *Declaration) { d.Generator.ReleasedPreset = "tinny-8" }), `preset tiny-8: Generator.ReleasedPreset: "tinny-8" is no preset of the family`},
		{"a setting that is none", func(f *Family[tiny]) {
			declares(func(d *Declaration) { d.Generator.OwnSettings = map[string]any{"tme": "causal"} })(f)
			f.AsRelease = func(c tiny, _ Settings) (tiny, error) { return c, nil }
		}, `Generator.OwnSettings: "tme" is no setting`},
		{"settings that no release can contradict", declares(func(d *Declaration) { d.Generator.OwnSettings = map[string]any{"time": "causal"} }), "Generator.OwnSettings: AsRelease is empty"},
		{"a release of no generator", func(f *Family[tiny]) {
			declares(func(d *Declaration) { d.Generator = nil })(f)
			f.AsRelease = func(c tiny, _ Settings) (tiny, error) { return c, nil }
		}, "Generator is empty: AsRelease is about the releases of generators"},
		{"conditions without Feed", declares(func(d *Declaration) { d.Generator.Conditions.Feed = nil }), "preset tiny-8: Generator.Conditions.Feed is empty"},
		{"conditions without Check", declares(func(d *Declaration) { d.Generator.Conditions.Check = nil }), "preset tiny-8: Generator.Conditions.Check is empty"},
		{"a condition that is no input", declares(func(d *Declaration) { d.Generator.Conditions.TextNames = []string{"pooled"} }), `Generator.Conditions: "pooled" is not among Inputs ["x" "t" "context" "y"]`},
		{"features of an image that are no input", declares(func(d *Declaration) {
			d.Generator.Image = ImageUse{FeatureWidth: 8, Vision: "v", StepWidth: 1, StepHeight: 1}
		}), `Generator.Image: 8 channels of "clip_fea", which is not among the conditions ["y"]`},
		{"features of no encoder", declares(func(d *Declaration) { d.Generator.Image.FeatureWidth = 8 }), `Generator.Image: FeatureWidth is 8 and Vision ""`},
		{"frames that replace the loop's own, which keeps none", declares(func(d *Declaration) { d.Generator.Image.Replaced = &ReplacedFrames{Latents: 1, MostLatents: 1} }), "Generator.Image: Replaced is"},
		{"a kept image without timesteps of frames", declares(func(d *Declaration) { d.Generator.Image.KeepsFirst = true }), "Generator.Image: KeepsFirst, but FeedFrameTimes is empty"},
		{"an image of any size", declares(func(d *Declaration) { d.Generator.Image.LatentChannels = 4 }), "Generator.Image: StepWidth is 0 and StepHeight 0"},

		{"no parameters", declares(func(d *Declaration) { d.Params = func(int) []Param { return nil } }), "Params: there are none"},
		{"a parameter twice", declares(params(func(p []Param) []Param { return append(p, p[0]) })), "parameter layers.0.weight is listed twice"},
		{"a dim of 0", declares(params(func(p []Param) []Param { p[0].Shape = []int{8, 0}; return p })), `Params: "layers.0.weight" of shape [8 0]`},
		{"a parameter without a name", declares(params(func(p []Param) []Param { p[0].Name = ""; return p })), `Params: "" of shape [8 8]`},
		{"a view of other elements", declares(params(func(p []Param) []Param { p[0].View = []int{8, 9}; return p })), "has a view [8 9], with another number of elements"},
		{"pieces that do not fill a parameter", declares(params(func(p []Param) []Param { p[0].Pieces = []graph.Piece{{Name: "q", Of: 4, Rows: 4}}; return p })), "the pieces of layers.0.weight have 4 rows"},
		{"a parameter without a rule", declares(params(func(p []Param) []Param { return append(p, Param{Name: "norm", Shape: []int{8}}) })), "no rule speaks of 1 of 3 parameters: norm"},
		{"a rule without a parameter", declares(rules(sharding.Rule{Match: "layer.*.bias"})), `Rules: no parameter of a preset has the rule "layer.*.bias"`},
		{"a rule over an axis that is none", func(f *Family[tiny]) {
			declares(func(d *Declaration) {
				d.Rules = func() sharding.Rules {
					return sharding.Rules{{Match: "layers.*.weight", Spec: sharding.NewSpec([]string{"pt"})}}
				}
			})(f)
		}, "axis pt is not in mesh"},
		{"a parameter that is renamed", declares(func(d *Declaration) { d.Official = func(string) string { return "other" } }), "Official: it renames layers.0.weight, which is a parameter, to other"},
		{"a pattern that is none", declares(func(d *Declaration) { d.Official = NewRenames([2]string{"(", ""}).Official }), "preset tiny-8: regexp: Compile"},
	} {
		f := tinyFamily()
		c.change(&f)
		alone(t, f)
		found := checkAll()
		if !slices.ContainsFunc(found, func(v string) bool { return strings.Contains(v, c.says) }) {
			t.Errorf("%s: %q do not say %q", c.what, found, c.says)
		}
		place := regexp.MustCompile(`^family "(tiny)?", registered at .*models/family_test\.go:\d+: `)
		for _, v := range found {
			if !place.MatchString(v) {
				t.Errorf("%s: %q names no family and line", c.what, v)
			}
		}
	}
}

// params changes the parameters of a declaration.
func params(change func(p []Param) []Param) func(d *Declaration) {
	return func(d *Declaration) {
		own := d.Params
		d.Params = func(layers int) []Param { return change(own(layers)) }
	}
}

// rules adds a rule to a declaration.
func rules(more sharding.Rule) func(d *Declaration) {
	return func(d *Declaration) {
		own := d.Rules
		d.Rules = func() sharding.Rules { return append(own(), more) }
	}
}

// A name that two families have is the error of the second one, which names both lines.
func TestNamesAreRegisteredOnce(t *testing.T) {
	alone(t, tinyFamily(), tinyFamily())
	found := checkAll()
	if len(found) != 2 || !strings.Contains(found[0], "family tiny is registered at") || !strings.Contains(found[1], "tiny-8 is registered at") {
		t.Errorf("%q", found)
	}
}

// The first look-up of a family's model gives what is wrong with its presets, all at once;
// another family's models can be looked up.
func TestWrongPresetsAreTheErrorOfALookUp(t *testing.T) {
	wrong, right := tinyFamily(), tinyFamily()
	declares(func(d *Declaration) { d.Graph, d.Feed = nil, nil })(&wrong)
	right.Name, right.Presets = "other", map[string]tiny{"other-8": {Width: 8, Layers: 2}}
	right.Declare = func(name string, c tiny) Declaration {
		d := tinyDeclaration(name, c)
		d.Generator = nil
		return d
	}
	alone(t, wrong, right)
	_, err := ByName("tiny-8")
	if got := fault.Violations(err); len(got) != 2 || !errors.Is(err, ErrDeclaration) {
		t.Errorf("%v", err)
	}
	for _, v := range fault.Violations(err) {
		if fields := string(fault.Describe(v).Fields); !strings.Contains(fields, `"family":"tiny"`) || !strings.Contains(fields, "family_test.go:") {
			t.Errorf("%s", fields)
		}
	}
	if _, err := ByName("other-8"); err != nil {
		t.Error(err)
	}
}

// A key that is read under another name, and what absent keys leave.
func TestKeysFillFields(t *testing.T) {
	type config struct {
		N, Optional int
		X           float64
		Pair        [2]int
		List        []int
		On          bool
		Text        string
	}
	for _, c := range []struct {
		text string
		want string
		err  string
	}{
		{`{}`, "{3 0 0.5 [1 2] [] false a}", ""},
		{`{"n": 4, "optional": 5, "x": 0.25, "pair": [3, 4], "list": [7], "on": true, "text": "b"}`, "{4 5 0.25 [3 4] [7] true b}", ""},
		{`{"m": 4}`, "{4 0 0.5 [1 2] [] false a}", ""},
		{`{"n": 5, "m": 4}`, "{5 0 0.5 [1 2] [] false a}", ""},
		{`{"optional": null}`, "{3 0 0.5 [1 2] [] false a}", ""},
		{`{"m": 10}`, "", "m is 10: want a whole number from 1 to 9 (why); nearest: 9"},
		{`{"pair": [1]}`, "", "pair is [1]: want an array of 2 whole numbers"},
		{`{"x": 2}`, "", "x is 2: want a number above 0 and up to 1 (why)"},
		{`{"other": 2}`, "", ""},
	} {
		got := config{N: 3, X: 0.5, Pair: [2]int{1, 2}, Text: "a"}
		r := mustRead(t, c.text)
		r.Read(Int("n", &got.N, Bound{1, 9, "why"}).Also("m"), OptionalInt("optional", &got.Optional, WidthBound), Float("x", &got.X, Span{0, 1, "why"}),
			Ints("pair", got.Pair[:], WidthBound), IntList("list", &got.List, WidthBound), Bool("on", &got.On), String("text", &got.Text), Fixed("fixed", dtype.F32.Size(), "all"))
		notes, err := r.Finish()
		switch {
		case c.err != "":
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v, want %s", c.text, err, c.err)
			}
		case err != nil || c.want != "" && fmt.Sprint(got) != c.want:
			t.Errorf("%s: %v %v, want %s", c.text, got, err, c.want)
		case (len(notes) > 0) != strings.Contains(c.text, "other"):
			t.Errorf("%s: %v", c.text, notes)
		}
	}
}
