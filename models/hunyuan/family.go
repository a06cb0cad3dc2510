// Package hunyuan holds the diffusion transformers of HunyuanVideo and HunyuanVideo-1.5.
// Their layers keep a residual stream for the video and one for the text, and attend over
// both at once. In a double layer each stream has weights of its own. HunyuanVideo has
// single layers after them, in which both streams share their weights. README.md says what
// is special about the models and which splits are legal.
package hunyuan

import (
	"slices"

	"weft/graph"
	"weft/models"
	"weft/tensor"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "hunyuan",

		Detect: detectConfig, Config: configWords, Derive: deriveAndCheck,
		Presets: presets, SamePreset: samePreset, KindName: kindName,

		Declare: declareModel, Resolve: resolveVariant, AsRelease: asRelease,
	})
}

// Model is a configuration of the family.
type Model struct {
	name string
	c    Config
}

// declareModel says what a configuration has and does.
func declareModel(name string, c Config) models.Declaration {
	m := &Model{name, c}
	return models.Declaration{
		Params: m.Params, Official: diffusersNames.Official, Rules: m.Rules, Check: m.Check,

		Inputs:  []string{"x", "t", "context", "context_mask", "pooled", "guidance", "byt5", "byt5_mask", "vision", "y"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			CheckSplit: m.CheckSplit,
			Generator: &models.Generator{
				LatentShape: m.LatentShape, FeedStep: m.FeedStep, FeedText: m.FeedText,
				Conditions:     &models.Conditions{Names: m.Conditions(), TextNames: m.TextConditions(), Check: m.CheckConditions, Feed: m.FeedConditions},
				FeedFrameTimes: m.frameTimes(), Image: c.imageUse(), Cuts: c.cuts(),
				Companions: c.companions(), ReleasedPreset: kindName(c),
				GuidanceInput: c.guidanceInput(), Texts: c.texts(),
				ReleaseHints: slices.DeleteFunc([]string{c.Resolution, c.Task}, func(hint string) bool { return hint == "" }),
			},
		},
	}
}

// companions are the text encoder and the autoencoder of the release.
func (c Config) companions() models.Companions {
	switch {
	case c.Glyphs:
		return models.Companions{Text: "hunyuan1.5-qwen-text", Decoder: "hunyuan1.5-vae"}
	case c.ImageCondition != "":
		return models.Companions{Text: "hunyuan-llava-llama3-8b", Decoder: "hunyuan-vae"}
	}
	return models.Companions{Text: "hunyuan-llama3-8b", Decoder: "hunyuan-vae"}
}

// guidanceInput names the condition with the scale of guidance, where the model reads it.
func (c Config) guidanceInput() string {
	if c.Guidance {
		return "guidance"
	}
	return ""
}

// frameTimes is FeedFrameTimes of a model whose first frame is an image's.
func (m *Model) frameTimes() func(*graph.Graph, models.Request, *tensor.Tensor, []float64) (map[string]*tensor.Tensor, error) {
	if m.c.ImageCondition != tokenReplace {
		return nil
	}
	return m.FeedFrameTimes
}
