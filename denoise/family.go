package denoise

import (
	"slices"

	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/tensor"
)

// family is what a loop asks of a model. No other place in this package looks for what
// only some generators have.
type family struct{ *models.Generator }

// familyOf fails for a model that denoises no latents.
func familyOf(m models.Model) (family, error) {
	g := m.Features().Generator
	if g == nil {
		return family{}, fault.New(models.ErrVariant, nil, "%s does not denoise latents", m.Name())
	}
	return family{g}, nil
}

// conditionNames lists the conditions that are the same for both texts, and those of
// which each text has its own. eachText reports whether the model has conditions of the
// second kind.
func (f family) conditionNames() (shared, own []string, eachText bool) {
	if c := f.Conditions; c != nil {
		return slices.Concat(c.Names, c.Optional), slices.Clone(c.TextNames), len(c.TextNames) > 0
	}
	return nil, nil, false
}

// checkConditions is Conditions.Check, for a model that reads no conditions too.
func (f family) checkConditions(r models.Request, in map[string]*tensor.Tensor) (models.Request, error) {
	if c := f.Conditions; c != nil {
		return c.Check(r, in)
	}
	return r, nil
}

// feedConditions is Conditions.Feed; a model that reads no conditions is fed none.
func (f family) feedConditions(g *graph.Graph, r models.Request, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if c := f.Conditions; c != nil {
		return c.Feed(g, r, in)
	}
	return nil, nil
}

// keepsFrames reports whether the model was made for given frames beside noisy ones, each
// with its own timestep.
func (f family) keepsFrames() bool { return f.FeedFrameTimes != nil }

// velocityOf arranges a step's output as latents are.
func (f family) velocityOf(r models.Request, out *tensor.Tensor) *tensor.Tensor {
	if f.Velocity != nil {
		return f.Velocity(r, out)
	}
	return out
}
