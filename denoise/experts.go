package denoise

import (
	"context"
	"slices"

	"weft/fault"
	"weft/models"
)

// Expert is one of the models that divide the noise levels between them. Most releases
// have a single one.
type Expert struct {
	// Name is how the steps that it takes call it; "" where there is one.
	Name    string
	Model   models.Model
	Devices Devices
	// Second says that it is the second of a release's two experts, and runs alone.
	Second bool
}

// setBoundary decides at which timestep the second of two experts takes over.
func (l *Loop) setBoundary() error {
	b := l.settings.Number("boundary")
	switch {
	case len(l.experts) == 2 && !(b > 0 && b < 1):
		return fault.New(models.ErrInputs, nil, "boundary %g: want a share of the noise levels between 0 and 1", b)
	case len(l.experts) == 2:
		l.switchAt = 1000 * b
	case l.o.Boundary != 0 || slices.Contains(l.o.Asked, "boundary"):
		return fault.New(models.ErrInputs, nil, "boundary %g: there is one model, not two experts", l.o.Boundary)
	}
	return nil
}

// useExpert puts the expert for timestep t on the devices, and frees those of the one
// before it: only the weights of the expert in use are on devices. fresh reports whether
// the expert has changed.
func (l *Loop) useExpert(ctx context.Context, t float64) (fresh bool, err error) {
	at := 0
	if len(l.experts) == 2 && t < l.switchAt {
		at = 1
	}
	if at == l.at {
		return false, nil
	}
	if l.run != nil {
		l.run.Close()
		l.run = nil
	}
	f, err := familyOf(l.experts[at].Model)
	if err != nil {
		return false, err
	}
	if l.run, err = l.experts[at].Devices.Start(ctx, l.req); err != nil {
		l.run = nil // an interface around a nil pointer is not nil
		return false, err
	}
	l.at, l.family = at, f
	return true, nil
}
