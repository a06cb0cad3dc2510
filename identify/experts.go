package identify

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"weft/fault"
	"weft/models"
)

// expertFolders are the names of the folders that hold two experts, first the one that
// denoises from pure noise: in official releases, then in diffusers copies.
var expertFolders = [][2]string{{"high_noise_model", "low_noise_model"}, {"transformer", "transformer_2"}}

// FindExperts returns the folders of the two experts that a folder holds. found is false
// for any other path.
func FindExperts(path string) (high, low string, found bool) {
	for _, names := range expertFolders {
		high, low = filepath.Join(path, names[0]), filepath.Join(path, names[1])
		if isDir(high) && isDir(low) {
			return high, low, true
		}
	}
	return "", "", false
}

// IsSecondExpert reports whether the model lies in the folder of the second of two
// experts.
func (m *Match) IsSecondExpert() bool {
	return slices.ContainsFunc(expertFolders, func(names [2]string) bool { return filepath.Base(m.dir) == names[1] })
}

// ExpertName is which of two experts the model is, models.HighNoise or models.LowNoise, by the
// folder that it lies in; "" for a model that is no expert.
func (m *Match) ExpertName() string {
	for _, names := range expertFolders {
		switch filepath.Base(m.dir) {
		case names[0]:
			if isDir(filepath.Join(filepath.Dir(m.dir), names[1])) {
				return models.HighNoise
			}
		case names[1]:
			return models.LowNoise
		}
	}
	return ""
}

// CheckExperts checks that both experts of a folder are models of one family and shape,
// and returns the settings of their release, whose name is as in Identify.
func CheckExperts(high, low *Match, path, release string) (models.Settings, error) {
	if high.Name() != low.Name() || !slices.EqualFunc(high.Params(0), low.Params(0), func(a, b models.Param) bool {
		return a.Name == b.Name && slices.Equal(a.Shape, b.Shape)
	}) {
		return models.Settings{}, fault.New(models.ErrVariant, nil, "the experts are %s and %s, or differ in shape: want two of one model", high.Name(), low.Name())
	}
	_, settings, err := models.SettingsOf(high.Model, models.ReleaseQuery{Name: release, Folder: path, Experts: true})
	if err == nil && settings.Number("boundary") == 0 {
		err = fault.New(models.ErrVariant, nil,
			"%s holds two models, and release %s is one, with no noise level to switch at: name a release of two, or one of the folders", path, settings.Release.Name)
	}
	return settings, err
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() && !errors.Is(err, fs.ErrNotExist)
}
