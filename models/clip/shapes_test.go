package clip

import (
	"fmt"
	"maps"
	"testing"

	"weft/models"
)

// shapesOf are the shapes of a tower's tensors with a number of layers.
func shapesOf(c Config, layers int) map[string][]int {
	c.Layers = layers
	m := &Model{c: c, n: namesOf(c)}
	shapes := map[string][]int{}
	for _, p := range m.Params(0) {
		shapes[p.Name] = p.Shape
	}
	return shapes
}

func TestConfigOfShapes(t *testing.T) {
	for _, c := range []Config{
		presets["wan2.1-clip-vit-h14"],
		{Tower: vision, Dim: 80, FFNDim: 320, Heads: 1, Layers: 1, Eps: 1e-5, Act: "gelu", Names: "wan", ImageSize: 56, PatchSize: 14},
		{Tower: vision, Dim: 160, FFNDim: 100, Heads: 2, Layers: 3, Eps: 1e-5, Act: "gelu", Names: "transformers", ImageSize: 30, PatchSize: 10},
	} {
		shapes := shapesOf(c, c.Layers+1) // the last one is in the file, and not run
		shapes["visual.post_norm.weight"], shapes["textual.token_embedding.weight"] = []int{c.Dim}, []int{8, 16}
		if got, ok := configOfShapes(shapes); !ok || got != c {
			t.Errorf("%+v, %t; want %+v", got, ok, c)
		}
	}
	small := Config{Tower: vision, Dim: 80, FFNDim: 320, Heads: 1, Names: "wan", ImageSize: 56, PatchSize: 14}
	n := namesOf(small)
	for what, change := range map[string]func(map[string][]int){
		"one layer":                    func(s map[string][]int) { delete(s, "visual.transformer.1."+n.up+".weight") },
		"tokens that are no square":    func(s map[string][]int) { s[n.places] = []int{1, 18, 80} },
		"a class token alone":          func(s map[string][]int) { s[n.places] = []int{1, 1, 80} },
		"no tokens":                    func(s map[string][]int) { s[n.places] = []int{1, 0, 80} },
		"a width that is of no heads":  func(s map[string][]int) { s[n.patch+".weight"] = []int{81, 3, 14, 14} },
		"patches that are no squares":  func(s map[string][]int) { s[n.patch+".weight"] = []int{80, 3, 14, 7} },
		"patches of four colours":      func(s map[string][]int) { s[n.patch+".weight"] = []int{80, 4, 14, 14} },
		"positions that are no matrix": func(s map[string][]int) { s[n.places] = []int{17} },
		"nothing":                      func(s map[string][]int) { clear(s) },
	} {
		shapes := maps.Clone(shapesOf(small, 2))
		change(shapes)
		if c, ok := configOfShapes(shapes); ok {
			t.Errorf("%s: %+v", what, c)
		}
	}
	for _, preset := range []string{"hunyuan-clip-l-text"} {
		if c, ok := configOfShapes(shapesOf(presets[preset], 2)); ok {
			t.Errorf("%s: %+v", preset, c)
		}
	}
}

// Shapes tell the model that the whole file is of.
func TestModelOfShapes(t *testing.T) {
	c, ok := configOfShapes(shapesOf(presets["wan2.1-clip-vit-h14"], 32))
	m, err := models.ByName("wan2.1-clip-vit-h14")
	if err != nil || !ok || fmt.Sprint(m.Config()) != fmt.Sprint(c) {
		t.Errorf("%v: %+v", err, c)
	}
}
