package wanvae_test

import (
	"reflect"
	"testing"

	"weft/internal/modeltest"
	"weft/models"
)

// Autoencoders are told by the shapes of their tensors: both releases, and small ones.
func TestConfigsOfShapes(t *testing.T) {
	small := modeltest.Open(t, "../../testdata/pipelines/wan22_ti2v_5b/vae")
	all := []models.Model{small.Model}
	for _, preset := range []string{"wan2.1-vae", "wan2.2-vae"} {
		m, err := models.ByName(preset)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	for _, m := range all {
		shapes := map[string][]int{}
		for _, p := range m.Params(0) {
			shapes[p.Name] = p.Shape
		}
		found, err := models.FromShapes(shapes)
		if err != nil || len(found) != 1 || !reflect.DeepEqual(found[0].Config(), m.Config()) {
			t.Errorf("%s: %v %v", m.Name(), found, err)
		}
	}
	for name, shapes := range map[string]map[string][]int{
		"other latents":   {"encoder.conv1.weight": {4, 3, 3, 3, 3}, "conv2.weight": {8, 8, 1, 1, 1}, "decoder.conv1.weight": {16, 8, 3, 3, 3}},
		"an odd width":    {"encoder.conv1.weight": {4, 3, 3, 3, 3}, "conv2.weight": {16, 16, 1, 1, 1}, "decoder.conv1.weight": {17, 16, 3, 3, 3}},
		"other dims":      {"encoder.conv1.weight": {4, 3}, "conv2.weight": {16, 16}, "decoder.conv1.weight": {16, 16}},
		"nothing of this": {"x": {1}},
	} {
		if found, err := models.FromShapes(shapes); err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v", name, found, err)
		}
	}
}
