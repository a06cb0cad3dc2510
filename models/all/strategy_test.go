package all_test

import (
	"errors"
	"slices"
	"testing"

	"weft/mesh"
	"weft/models"
	"weft/sharding"
	"weft/strategy"
)

// Every matrix that tensor parallelism splits by its default rules is split over the same dim
// by its model's rules. Models split more than that: norms over heads, modulations, embedders.
func TestRulesSplitAsTensorParallelismSays(t *testing.T) {
	on, err := mesh.Local(mesh.Axis{Name: mesh.DP, Size: 1}, mesh.Axis{Name: mesh.TP, Size: 2}, mesh.Axis{Name: mesh.SP, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	// The default rules know the names of Megatron, Wan, diffusers and LLaMA, not these. The
	// projection is one matrix.
	otherNames := []string{"hunyuan1.5", "hunyuan1.5-byt5", "hunyuanvideo", "hunyuanvideo-cfgdistill", "hunyuanvideo-i2v", "hunyuanvideo-i2v-33ch", "ltx2.5-text-projection", "t5-v1.1-xxl", "wan2.1-clip-vit-h14"}
	for _, name := range models.Presets() {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if m.Features().Decoder != nil {
			continue // an autoencoder replicates its weights and splits pictures
		}
		assigned, err := models.Specs(m, on, 1)
		if err != nil {
			t.Fatal(err)
		}
		matrices := 0
		for _, a := range assigned {
			dims := map[int][]string{1: {"out"}, 2: {"out", "in"}}[len(a.Shape)]
			got, _, err := strategy.TensorParallel{}.Refine(on, strategy.Tensor{Name: a.Name, Dims: dims, Shape: a.Shape}, sharding.Spec{})
			switch {
			case errors.Is(err, strategy.ErrNoDim): // q, k and v in one matrix, which the rules want viewed by heads
				if a.Layout.IsZero() || a.Spec.IsWhole() {
					t.Errorf("%s: %s has %s and no layout: %v", name, a.Name, a.Spec, err)
				}
			case err != nil:
				t.Error(name, err)
			case !got.IsWhole() && !got.Equal(a.Spec):
				t.Errorf("%s: %s has %s, tensor parallelism says %s", name, a.Name, a.Spec, got)
			case !got.IsWhole() && len(dims) == 2:
				matrices++
			}
		}
		if other := slices.Contains(otherNames, name); other == (matrices >= 3) {
			t.Errorf("%s: the default rules split %d matrices of a layer and what is around; among the other names: %v", name, matrices, other)
		}
	}
}

// Models check meshes by the axes that their dims' names have.
func TestAxesAreThoseOfNames(t *testing.T) {
	if want := []string{mesh.PP, mesh.DP, mesh.FSDP, mesh.TP, mesh.Ring, mesh.SP}; !slices.Equal(models.Axes, want) {
		t.Errorf("models split over %v, want %v", models.Axes, want)
	}
}
