package weft

import (
	"context"

	"weft/fault"
	"weft/lora"
	"weft/models"
	"weft/request"
)

// openAdapters opens the adapters that are merged into the model, nil where there are none.
func (m *Model) openAdapters(ctx context.Context, o Options) (*lora.Set, error) {
	if len(o.LoRA) > 0 && m.Features().Generator == nil {
		return nil, fault.New(request.ErrOptions, request.Refused{Flag: "lora", Value: o.LoRANames()}, "lora %s for %s, which denoises no latents: adapters are merged into models that do", o.LoRANames(), m.Name())
	}
	return lora.Open(ctx, m.Model, o.LoRA, m.ExpertName())
}

// checkAdapters reports everything of the adapters that does not fit the model.
func (m *Model) checkAdapters(o Options) error {
	set, err := m.openAdapters(context.Background(), o)
	set.Close()
	return err
}

// Adapters says what the adapters of a request add to a model of which only the configuration is
// known, whose settings tell whether it is one of two experts. Only headers are read. Errors: those of
// lora.Open.
func Adapters(ctx context.Context, m models.Model, r request.Request, settings models.Settings) ([]lora.Report, error) {
	expert := ""
	if settings.Number("boundary") > 0 {
		expert = lora.AnyExpert
	}
	set, err := lora.Open(ctx, m, r.LoRA, expert)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	return set.Reports(), nil
}
