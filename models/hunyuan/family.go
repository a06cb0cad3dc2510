// Package hunyuan holds the diffusion transformers of HunyuanVideo and HunyuanVideo-1.5.
// Their layers keep a residual stream for the video and one for the text, and attend over
// both at once. In a double layer each stream has weights of its own. HunyuanVideo has
// single layers after them, in which both streams share their weights. README.md says what
// is special about the models and which splits are legal.
package hunyuan

import (
	"slices"

	"weft/models"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "hunyuan",

		Detect: detectConfig, Config: configWords, Derive: deriveAndCheck,
		Presets: presets, SamePreset: samePreset, KindName: kindName,

		Declare: declareModel, Resolve: resolveVariant,
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
				Conditions: &models.Conditions{Names: m.Conditions(), TextNames: m.TextConditions(), Check: m.CheckConditions, Feed: m.FeedConditions},
				Image:      models.ImageUse{Unprepared: c.Task == "i2v"}, // a text-to-video release gets zeros
				Companions: c.companions(), ReleasedPreset: kindName(c),
				GuidanceInput: c.guidanceInput(), Texts: c.texts(),
				ReleaseHints: slices.DeleteFunc([]string{c.Resolution, c.Task}, func(hint string) bool { return hint == "" }),
			},
		},
	}
}

// companions are the text encoder and the autoencoder of the release.
func (c Config) companions() models.Companions {
	if c.Glyphs {
		return models.Companions{Text: "hunyuan1.5-qwen-text", Decoder: "hunyuan1.5-vae"}
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

// texts are how a prompt is read by Llama, within a template whose first 95 rows are dropped, and
// by CLIP. Of HunyuanVideo-1.5 it is not known here.
func (c Config) texts() []models.TextEncoding {
	if c.Glyphs {
		return nil
	}
	return []models.TextEncoding{
		{Prefix: videoTemplate, Suffix: "<|eot_id|>", Pad: "<pad>", Crop: 95, Masked: true, Output: "out", Feature: models.ContextFeature, MaskFeature: "context_mask"},
		{Encoder: "hunyuan-clip-l-text", End: "<|endoftext|>", Pad: "<|endoftext|>", Rows: 77, Output: "out", Feature: "pooled"},
	}
}

// videoTemplate stands before every prompt: PROMPT_TEMPLATE["dit-llm-encode-video"] of
// HunyuanVideo's hyvideo/constants.py, up to the prompt.
const videoTemplate = "<|start_header_id|>system<|end_header_id|>\n\nDescribe the video by detailing the following aspects: " +
	"1. The main content and theme of the video." +
	"2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects." +
	"3. Actions, events, behaviors temporal relationships, physical movement changes of the objects." +
	"4. background environment, light, style and atmosphere." +
	"5. camera angles, movements, and transitions used in the video:<|eot_id|>" +
	"<|start_header_id|>user<|end_header_id|>\n\n"
