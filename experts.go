package weft

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"weft/fault"
	"weft/models"
	"weft/tensor"
)

// Experts are two models of one kind that divide the noise levels between them, as in
// Wan2.2's A14B: High denoises from pure noise down to the boundary, Low from there.
// Only the weights of the expert in use are on the devices.
type Experts struct {
	High, Low *Model
	// Settings are how the release that the folder points to is run.
	Settings models.Settings
}

// Sampling can denoise latents: it is a Model or Experts.
type Sampling interface {
	Sample(ctx context.Context, text, negative *tensor.Tensor, o SampleOptions) (*Sampled, error)
	// Files are the files that it is read from.
	Files() []string
	Close() error
}

// expertFolders are the names of the folders that hold the experts: in official
// releases, then in diffusers copies.
var expertFolders = [][2]string{{"high_noise_model", "low_noise_model"}, {"transformer", "transformer_2"}}

// OpenSampling opens the model at path, or both where the folder holds two
// experts in high_noise_model and low_noise_model, or transformer and
// transformer_2. Errors are those of Open, each expert's.
//
// release names whose settings are taken, as models.ReleaseQuery has it; "" is the
// one that the folder points to.
func OpenSampling(path, release string) (Sampling, error) {
	for _, names := range expertFolders {
		high, low := filepath.Join(path, names[0]), filepath.Join(path, names[1])
		if !isDir(high) || !isDir(low) {
			continue
		}
		e := &Experts{}
		var errs [2]error
		e.High, errs[0] = OpenAs(high, release)
		e.Low, errs[1] = OpenAs(low, release)
		if errors.Is(errs[0], models.ErrRelease) {
			errs[1] = nil // the error is the same for both
		}
		err := fault.Join(errs[0], errs[1])
		if err == nil {
			err = e.checkPair(path, release)
		}
		if err != nil {
			_ = e.Close()
			return nil, err
		}
		return e, nil
	}
	return OpenAs(path, release)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() && !errors.Is(err, fs.ErrNotExist)
}

// checkPair checks that both experts are models of one family and shape, and finds the
// settings of their release.
func (e *Experts) checkPair(path, release string) error {
	if e.High.Name() != e.Low.Name() || !slices.EqualFunc(e.High.Params(0), e.Low.Params(0), func(a, b models.Param) bool {
		return a.Name == b.Name && slices.Equal(a.Shape, b.Shape)
	}) {
		return fault.New(models.ErrVariant, nil, "the experts are %s and %s, or differ in shape: want two of one model", e.High.Name(), e.Low.Name())
	}
	var err error
	_, e.Settings, err = models.SettingsOf(e.High.Model, models.ReleaseQuery{Name: release, Folder: path, Experts: true})
	if err == nil && e.Settings.Number("boundary") == 0 {
		err = fault.New(models.ErrVariant, nil, "%s holds two models, and release %s is one, with no noise level to switch at: name a release of two, or one of the folders", path, e.Settings.Release.Name)
	}
	return err
}

// Files are both experts' files.
func (e *Experts) Files() []string { return append(e.High.Files(), e.Low.Files()...) }

// Close closes both checkpoints.
func (e *Experts) Close() error {
	var err error
	for _, m := range []*Model{e.High, e.Low} {
		if m != nil {
			err = fault.Join(err, m.Close())
		}
	}
	return err
}

// Sample is Model.Sample with the expert of each step's timestep.
func (e *Experts) Sample(ctx context.Context, text, negative *tensor.Tensor, o SampleOptions) (*Sampled, error) {
	return sampleLatents(ctx, []expert{{m: e.High, name: "high noise"}, {m: e.Low, name: "low noise"}}, e.Settings, text, negative, o)
}
