package strategy

import (
	"regexp"
	"strconv"
	"strings"

	"weft/fault"
)

// layerNumber finds the first number that follows "layer", "block" or "h" in a
// name: blocks.3, layers.3, layer_3, encoder_layer_7, transformer_blocks.3.
var layerNumber = regexp.MustCompile(`(?:^|[._/])(?:layers?|blocks?|h)[._/](\d+)(?:[._/]|$)`)

// Words in the names of parameters after the layers and before them. The last words are
// looked for first, because "unembed" has "emb" in it.
var (
	lastWords  = []string{"unembed", "head", "logits", "output", "proj_out", "norm_out", "final", "ln_f"}
	firstWords = []string{"emb", "position", "patch", "time", "wte", "wpe"}
)

// Of is the stage of a parameter by its name. The number of a layer is read before
// any word, so that layer_3.attention.output.weight belongs to layer 3. Without one,
// a name of the head or the final norm is on the last stage, a name of an
// embedding on the first. Error: ErrStage for any other name, for a number that is
// no layer, and for a second list of layers (single_blocks.3), whose first layer
// a name does not tell; OfLayer serves those.
func (s Stages) Of(name string) (int, error) {
	if at := layerNumber.FindStringSubmatchIndex(name); at != nil {
		layer, err := strconv.Atoi(name[at[2]:at[3]])
		if err != nil || strings.Contains(name[:at[2]], "single_") {
			return 0, s.unknownStageError(name)
		}
		return s.ofLayer(layer, name)
	}
	lower := strings.ToLower(name)
	for _, w := range lastWords {
		if strings.Contains(lower, w) {
			return s.Len() - 1, s.someStage(name)
		}
	}
	for _, w := range firstWords {
		if strings.Contains(lower, w) {
			return 0, s.someStage(name)
		}
	}
	if strings.Contains(lower, "norm") {
		return s.Len() - 1, s.someStage(name)
	}
	return 0, s.unknownStageError(name)
}

// OfLayer is the stage of a layer. Error: ErrStage.
func (s Stages) OfLayer(layer int) (int, error) {
	return s.ofLayer(layer, "layer "+strconv.Itoa(layer))
}

func (s Stages) ofLayer(layer int, name string) (int, error) {
	for i, r := range s.Ranges() {
		if layer >= r.Lo && layer < r.Hi {
			return i, nil
		}
	}
	return 0, s.unknownStageError(name)
}

func (s Stages) someStage(name string) error {
	if s.Len() == 0 {
		return s.unknownStageError(name)
	}
	return nil
}

func (s Stages) unknownStageError(name string) error {
	return fault.New(ErrStage, UnknownStage{name, s.Layers()},
		"%s belongs to no stage that its name tells; names of a layer have its number, 0 to %d, after layer or block, and others speak of an embedding, the final norm or the head", name, s.Layers()-1)
}
