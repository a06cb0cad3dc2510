package strategy

import (
	"slices"

	"weft/fault"
	"weft/sharding"
)

// Stages says which layers each stage of a pipeline holds: contiguous ranges that cover
// all layers, none of them empty. It is immutable.
type Stages struct{ counts []int }

// maxStages bounds layers and stages, so that a mistyped number is an error and
// no wait.
const maxStages = 1 << 10

// Even gives every stage the same number of layers, and one more to each of the first
// stages where layers are left over: 30 over 4 is 8 8 7 7. Most frameworks split layers so.
// Errors: ErrSplit, ErrNoLayers, ErrEmptyStage.
func Even(layers, stages int) (Stages, error) {
	if err := checkSplit(layers, stages); err != nil {
		return Stages{}, err
	}
	counts := make([]int, stages)
	for i := range counts {
		counts[i] = layers / stages
		if i < layers%stages {
			counts[i]++
		}
	}
	return Stages{counts}, nil
}

func checkSplit(layers, stages int) error {
	switch {
	case layers == 0 && stages >= 1 && stages <= maxStages:
		return fault.New(ErrNoLayers, BadSplit{layers, stages}, "0 layers over %d stages: a model without layers fills no stage; the fewest layers that do are %d", stages, stages)
	case layers < 0 || stages < 1 || layers > maxStages || stages > maxStages:
		return fault.New(ErrSplit, BadSplit{layers, stages},
			"%d layers over %d stages do not exist; both are at least 1 and at most %d", layers, stages, maxStages)
	case layers < stages:
		return emptyStage(layers, stages)
	}
	return nil
}

func emptyStage(layers, stages int) error {
	return fault.NewChoice(ErrEmptyStage, EmptyStage{Layers: layers, Stages: stages, Stage: layers, Most: layers},
		"%d layers over %d stages leave stage %d without a layer", layers, stages, layers)
}

// Len is the number of stages.
func (s Stages) Len() int { return len(s.counts) }

// Counts gives the number of layers of each stage.
func (s Stages) Counts() []int { return slices.Clone(s.counts) }

// Ranges are the layers of each stage, half-open.
func (s Stages) Ranges() []sharding.Range {
	out := make([]sharding.Range, len(s.counts))
	lo := 0
	for i, n := range s.counts {
		out[i] = sharding.Range{Lo: lo, Hi: lo + n}
		lo += n
	}
	return out
}

// Layers is the number of layers of all stages.
func (s Stages) Layers() int {
	n := 0
	for _, c := range s.counts {
		n += c
	}
	return n
}

// Peak is the most layers of live activations that a stage holds under 1F1B with
// so many microbatches: the largest of min(stages-i, micro) times the layers of
// stage i.
func (s Stages) Peak(micro int) int {
	peak := 0
	for i, n := range s.counts {
		peak = max(peak, min(len(s.counts)-i, micro)*n)
	}
	return peak
}
