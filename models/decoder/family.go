// Package decoder is the decoder-only language models whose hidden states video
// models read as text: Reason1 (Qwen2.5, Cosmos-Predict2.5), Qwen2.5-VL
// (HunyuanVideo-1.5), Llama 3 (HunyuanVideo) and Gemma 4 (LTX-2.5). README.md says
// what is special about them and which splits are legal.
package decoder

import (
	"weft/internal/bystander"
	"weft/models"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "decoder",

		Detect: detectConfig, Config: configWords,
		Presets: presets, KindName: func(c Config) string { return c.ModelType },

		Declare: declareModel,
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
		Params: m.Params, Official: m.Official,
		// The output layer, the other towers and the layers that join them.
		Ignore: []bystander.Kind{bystander.NextToken, bystander.VisionTower, bystander.AudioTower},
		Rules:  m.Rules, Check: m.Check,

		Inputs:  m.inputs(),
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{CheckSplit: m.CheckSplit, Variants: models.TextRuns, HiddenWidth: c.Dim, ImageTower: c.Images, TokenTable: m.tokenTable()},
	}
}

// tokenTable is the table whose rows are looked up outside of the decoder, because an image's rows
// stand among them; "" for a decoder of text alone, which reads ids.
func (m *Model) tokenTable() string {
	if m.c.Images == "" {
		return ""
	}
	return m.namePrefix() + "embed_tokens.weight"
}

// inputs are what an encoding reads.
func (m *Model) inputs() []string {
	if m.c.Images == "" {
		return []string{"ids", "mask"}
	}
	return []string{"ids", "rows", "mask"}
}
