package weft

import (
	"context"

	"weft/aot"
	"weft/models"
	"weft/plan"
)

// Plan says, by arithmetic alone, how a model's step would run on the hardware that o.On
// names: what every split holds and takes, best first, and why the others are refused. A
// document without plans is no error. m is a preset (models.ByName) or Model.Model. Its
// JSON is what weft plan prints. Errors: those of plan.Search.
func Plan(ctx context.Context, m models.Model, o plan.Options) (*plan.Document, error) {
	res, err := plan.Search(ctx, m, o)
	if err != nil {
		return nil, err
	}
	return &plan.Document{Result: res, Assertions: []plan.Assertion{}}, nil
}

// Compile compiles a model's step for the slice that o.On names, which need not be there. A
// mesh of auto is the best split that Plan finds. Its JSON is what weft compile prints, the
// report; Write keeps the programs in a folder, for Options.Compiled. Close frees them.
// Errors: those of plan.Best and aot.Compile.
func Compile(ctx context.Context, m models.Model, o aot.Options) (*aot.Compilation, error) {
	var err error
	if o.Request, err = plan.Best(ctx, m, plan.Options{Request: o.Request, Machine: o.Machine}); err != nil {
		return nil, err
	}
	return aot.Compile(ctx, m, o)
}
