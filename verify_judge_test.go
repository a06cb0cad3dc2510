package weft

import (
	"math"
	"testing"

	"weft/dtype"
	"weft/models"
)

// A value may be off by the tolerance, or by twice as much as bf16 moves it on one device, but by
// half of it at most. A tolerance that is given stands.
func TestSensitiveModelsAreJudgedByThemselves(t *testing.T) {
	moved := map[string]float64{"steady": 0.001, "lively": 0.03, "chaotic": 0.9, "lost": math.NaN()}
	for _, c := range []struct {
		value string
		off   float64
		ok    bool
	}{
		{"steady", 0.009, true}, {"steady", 0.011, false}, {"lively", 0.059, true}, {"lively", 0.061, false}, {"chaotic", 0.49, true}, {"chaotic", 0.51, false},
		{"lost", 0.02, false}, {"steady", math.NaN(), false}, {"lively", math.NaN(), false}, {"lively", math.Inf(1), false},
	} {
		for _, given := range []bool{false, true} {
			j := &splitJudge{req: models.Request{DType: dtype.BF16}, tolerance: 0.01, given: given, moved: moved}
			r, err := j.judgeSplit(t.Context(), &comparer{names: []string{"first", c.value}, off: map[string]float64{c.value: c.off}, rel: c.off})
			if err != nil {
				t.Fatal(err)
			}
			ok := c.ok && (!given || c.off <= 0.01)
			if r.OK != ok || (r.FirstDiffering == "") != ok || !ok && r.FirstDiffering != c.value {
				t.Errorf("%s off by %g, given %v: %+v", c.value, c.off, given, r)
			}
			if asked := r.BF16Moves != 0; asked != (!given && !(c.off <= 0.01)) && c.value != "lost" {
				t.Errorf("%s off by %g, given %v: %+v", c.value, c.off, given, r)
			}
		}
	}
}
