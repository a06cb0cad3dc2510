package weft

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/models"
	"weft/tensor"
)

// ForwardOptions of Forward. With the request's Tiles an autoencoder's pictures are computed in
// tiles (ForwardTiled), once and without the values along the way.
type ForwardOptions struct {
	Options
	Repeat        int  // runs of the step, of which the fastest is reported; 0 is 1
	Intermediates bool // keep the values along the way too: block_0, ...
	// Profile runs one step more, call by call, and reports where its time goes.
	Profile bool
}

// Forwarded is the result of Forward. Its JSON is what weft forward prints.
type Forwarded struct {
	Report
	// Outputs are every output that the inputs allow ("out" for Wan: the velocity, shaped
	// as x), and with Intermediates the values along the way.
	Outputs map[string]*tensor.Tensor `json:"-"`
}

// Forward runs one step on inputs in the names of the model (for Wan: x, t, context). Where
// they allow more than one step (models.Runs), each runs, and its outputs have its suffix; a
// further step whose batch the mesh does not divide is left out with a note. An illegal
// split is refused before any weight is read.
func (m *Model) Forward(ctx context.Context, inputs map[string]*tensor.Tensor, o ForwardOptions) (*Forwarded, error) {
	out := &Forwarded{Outputs: map[string]*tensor.Tensor{}}
	for i, v := range models.Runs(m.Model, inputs) {
		outs := map[string]*tensor.Tensor{}
		one, err := m.forwardVariant(ctx, v, o, i == 0, outs)
		maps.Copy(out.Outputs, outs)
		switch {
		case i > 0 && errors.Is(err, models.ErrBatch): // a further step with a batch of its own
			out.Notes = append(out.Notes, fmt.Sprintf("%s is left out: %v", nameFurtherStep(v, outs), err))
		case err != nil:
			return nil, err
		case i == 0:
			out.Report = one
		default:
			out.Notes = append(out.Notes, fmt.Sprintf("%s: a step of its own, %.3f s", nameFurtherStep(v, outs), one.Seconds))
		}
	}
	return out, nil
}

// nameFurtherStep names a step behind the first one: by its first output, or where it has none,
// as the output with its suffix would be called, or by what it reads.
func nameFurtherStep(v models.Variant, outs map[string]*tensor.Tensor) string {
	name := "out" + v.Suffix
	switch {
	case outs[name] != nil || len(outs) == 0 && v.Suffix != "":
		return name
	case len(outs) == 0:
		return "the step of " + strings.Join(slices.Sorted(maps.Keys(v.Inputs)), ", ")
	}
	return slices.Min(slices.Collect(maps.Keys(outs)))
}

// forwardVariant runs one of the steps that inputs allow into result, and reports on it.
func (m *Model) forwardVariant(ctx context.Context, v models.Variant, o ForwardOptions, first bool, result map[string]*tensor.Tensor) (Report, error) {
	if o.Tiles != nil {
		outs, report, err := m.ForwardTiled(ctx, v.Inputs, *o.Tiles, o.Options)
		for name, t := range outs {
			result[name+v.Suffix] = t
		}
		return report, err
	}
	r, err := m.Start(ctx, v.Inputs, o.Options)
	if err != nil {
		return Report{}, err
	}
	defer r.Close()
	for i := range max(1, o.Repeat) {
		var visit func(string, *tensor.Tensor) error
		if o.Intermediates && first && i == 0 {
			visit = func(name string, t *tensor.Tensor) error { result[name] = t; return nil }
		}
		outs, err := r.Trace(ctx, visit)
		if err != nil {
			return Report{}, err
		}
		for name, t := range outs {
			result[name+v.Suffix] = t
		}
	}
	report := r.Report()
	if o.Profile && first {
		if report.Profile, err = r.Profile(ctx); err != nil {
			return Report{}, err
		}
	}
	return report, nil
}
