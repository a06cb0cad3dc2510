package conditions

import (
	"slices"
	"strings"

	"weft/fault"
	"weft/models"
)

// What can be wrong with a request.
var (
	// ErrImage: an image for a model that takes none, or none for one that needs it. The
	// fields are ImageRefused.
	ErrImage = fault.NewKind("image-refused")
	// ErrPart: a model of the phase is missing, or does not belong to the generator. The
	// fields are WrongPart.
	ErrPart = fault.NewKind("image-part")
)

// ImageRefused is the flag that an image was given with or is missing from, and the models that
// do what was asked.
type ImageRefused struct {
	Flag   string   `json:"flag"`
	Model  string   `json:"model"`
	Models []string `json:"models,omitempty"`
}

// WrongPart is a model that is missing, with Is empty, or that does not belong to the generator,
// and the one that does.
type WrongPart struct {
	Part string `json:"part"` // "autoencoder" or "image encoder"
	Is   string `json:"is"`
	Want string `json:"want"`
}

// The parts, as messages call them.
const (
	autoencoderPart = "autoencoder"
	visionPart      = "image encoder"
)

// presetsThat lists the presets of models whose use of images is as asked.
func presetsThat(as func(models.ImageUse) bool) []string {
	var names []string
	for _, name := range models.Presets() {
		if m, err := models.ByName(name); err == nil && as(useOf(m)) {
			names = append(names, name)
		}
	}
	return names
}

// refuseImage makes the error for an image that the model does not take.
func refuseImage(flag, model, why string, names []string) error {
	message := flag + ": " + why
	if len(names) > 0 {
		message += "; of the models known by name these do: " + strings.Join(names, ", ")
	}
	return fault.New(ErrImage, ImageRefused{flag, model, slices.Clone(names)}, "%s", message)
}
