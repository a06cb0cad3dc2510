// Package t5 holds T5 encoders that video models use as text encoders: UMT5-XXL (Wan), T5
// v1.1 XXL (CogVideoX, LTX-Video) and ByT5 small (HunyuanVideo-1.5). README.md says what is
// special about them and which splits are legal.
package t5

import (
	"weft/internal/bystander"
	"weft/models"
)

func init() {
	models.Register(models.Family[Config]{
		Name: "t5",

		Detect: detectConfig, Config: configWords, Derive: deriveAndCheck,
		Presets: presets, SamePreset: samePreset, KindName: kindName, FromShapes: configOfShapes,

		Declare: declareModel,
	})
}

// Model is a configuration of the family.
type Model struct {
	name     string
	c        Config
	n        naming
	renamers []renamer
}

// declareModel says what a configuration has and does.
func declareModel(name string, c Config) models.Declaration {
	m := &Model{name: name, c: c, n: published[c.Names]}
	for _, from := range published {
		m.renamers = append(m.renamers, newRenamer(from, m.n))
	}
	return models.Declaration{
		Params: m.Params, Official: m.Official,
		Ignore: []bystander.Kind{bystander.TextDecoder, bystander.NextToken}, // the rest of a whole T5
		Rules:  m.Rules, Check: m.Check,

		Inputs:  []string{"ids", "ids_long", "rows", "mask"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{
			Tied: listTiedNames(), TokenTable: m.n.tokens + ".weight",
			CheckSplit: m.CheckSplit, Variants: m.Runs,
		},
	}
}
