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

// Experts are two models of one kind that share the noise levels, as Wan2.2's
// A14B: High denoises from pure noise down to the boundary, Low the rest. Only
// the one in use is on the devices.
type Experts struct {
	High, Low *Model
	// Boundary is a share of the timesteps' range of 1000.
	Boundary float64
}

// Sampling is what Sample can be asked of: a Model or Experts.
type Sampling interface {
	Sample(ctx context.Context, text, negative *tensor.Tensor, o SampleOptions) (*Sampled, error)
	// Files are the files that it is read from.
	Files() []string
	Close() error
}

// expertFolders are what releases call the folders of the experts: the official
// ones, then diffusers'.
var expertFolders = [][2]string{{"high_noise_model", "low_noise_model"}, {"transformer", "transformer_2"}}

// OpenSampling opens the model at path, or both where the folder holds two
// experts in high_noise_model and low_noise_model, or transformer and
// transformer_2. Errors are those of Open, each expert's.
func OpenSampling(path string) (Sampling, error) {
	for _, names := range expertFolders {
		high, low := filepath.Join(path, names[0]), filepath.Join(path, names[1])
		if !isDir(high) || !isDir(low) {
			continue
		}
		e := &Experts{}
		var errs [2]error
		e.High, errs[0] = Open(high)
		e.Low, errs[1] = Open(low)
		err := fault.Join(errs[0], errs[1])
		if err == nil {
			err = e.check()
		}
		if err != nil {
			_ = e.Close()
			return nil, err
		}
		return e, nil
	}
	return Open(path)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() && !errors.Is(err, fs.ErrNotExist)
}

// check wants two models of one family and shape.
func (e *Experts) check() error {
	h, ok := e.High.Model.(models.Expert)
	if !ok {
		return fault.New(models.ErrVariant, nil, "%s has no experts to switch between", e.High.Name())
	}
	if e.High.Name() != e.Low.Name() || !slices.EqualFunc(e.High.Params(0), e.Low.Params(0), func(a, b models.Param) bool {
		return a.Name == b.Name && slices.Equal(a.Shape, b.Shape)
	}) {
		return fault.New(models.ErrVariant, nil, "the experts are %s and %s, or differ in shape: want two of one model", e.High.Name(), e.Low.Name())
	}
	e.Boundary = h.Boundary()
	return nil
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
	if !(e.Boundary > 0 && e.Boundary < 1) {
		return nil, fault.New(models.ErrInputs, nil, "boundary %g: want a share of the noise levels between 0 and 1", e.Boundary)
	}
	return sample(ctx, []expert{{e.High, "high noise", 1000 * e.Boundary}, {e.Low, "low noise", 0}}, text, negative, o)
}
