package denoise

import (
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/tensor"
)

// family is what a loop asks of a model. No other place in this package looks for what
// only some generators have.
type family struct{ models.Generator }

// familyOf fails for a model that denoises no latents.
func familyOf(m models.Model) (family, error) {
	g, ok := m.(models.Generator)
	if !ok {
		return family{}, fault.New(models.ErrVariant, nil, "%s does not denoise latents", m.Name())
	}
	return family{g}, nil
}

// readsIDs reports whether the text is token ids, in place of a text encoder's rows.
func (f family) readsIDs() bool {
	_, ok := f.Generator.(models.TokenReader)
	return ok
}

// padsText reports whether the configuration leaves open how long a text is, and the
// model attends to the zeros that pad it.
func (f family) padsText() bool {
	p, ok := f.Generator.(models.PadsText)
	return ok && p.PadsText()
}

// conditionNames lists the conditions that are the same for both texts, and those of
// which each text has its own. eachText reports whether the model has conditions of the
// second kind.
func (f family) conditionNames() (shared, own []string, eachText bool) {
	if c, ok := f.Generator.(models.Conditioned); ok {
		shared = c.Conditions()
	}
	if c, ok := f.Generator.(models.TextConditioned); ok {
		return shared, c.TextConditions(), true
	}
	return shared, nil, false
}

// checkConditions is that of models.Conditioned, for a model that reads no conditions
// too.
func (f family) checkConditions(r models.Request, in map[string]*tensor.Tensor) (models.Request, error) {
	if c, ok := f.Generator.(models.Conditioned); ok {
		return c.CheckConditions(r, in)
	}
	return r, nil
}

// feedConditions is that of models.Conditioned; a model that reads no conditions is fed
// none.
func (f family) feedConditions(g *graph.Graph, r models.Request, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if c, ok := f.Generator.(models.Conditioned); ok {
		return c.FeedConditions(g, r, in)
	}
	return nil, nil
}

// keepsFrames reports whether the model was made for given frames beside noisy ones, each
// with its own timestep.
func (f family) keepsFrames() bool {
	k, ok := f.Generator.(models.FrameKeeper)
	return ok && k.KeepsFrames()
}

// feedFrameTimes is that of models.FrameKeeper, for a model that keeps frames.
func (f family) feedFrameTimes(g *graph.Graph, r models.Request, x *tensor.Tensor, times []float64) (map[string]*tensor.Tensor, error) {
	return f.Generator.(models.FrameKeeper).FeedFrameTimes(g, r, x, times)
}

// velocityOf arranges a step's output as latents are.
func (f family) velocityOf(r models.Request, out *tensor.Tensor) *tensor.Tensor {
	if g, ok := f.Generator.(models.Rearranged); ok {
		return g.Velocity(r, out)
	}
	return out
}
