// Package clip is the towers of CLIP and SigLIP that video models use: the image tower
// of ViT-H/14, whose features Wan2.1's image-to-video model reads; that of ViT-L/14 within
// LLaVA, whose rows HunyuanVideo-I2V reads in its text; SigLIP's, which HunyuanVideo-1.5 reads;
// and the text tower of ViT-L/14, whose pooled output HunyuanVideo reads. README.md says what is
// special about them and which splits are legal.
package clip

import "weft/models"

func init() {
	models.Register(models.Family[Config]{
		Name: "clip",

		Detect: detectConfig, Config: configWords, Derive: deriveAndCheck,
		Presets: presets, SamePreset: samePreset, KindName: func(c Config) string { return "clip-" + c.Tower },
		FromShapes: configOfShapes,

		Declare: declareModel,
	})
}

// Model is a configuration of the family.
type Model struct {
	name string
	c    Config
	n    naming
}

// declareModel says what a configuration has and does.
func declareModel(name string, c Config) models.Declaration {
	m := &Model{name, c, namesOf(c)}
	d := models.Declaration{
		Params: m.Params, Official: m.Official, Ignore: m.Ignore(), Rules: m.Rules, Check: m.Check,

		Inputs:  []string{"x"},
		Request: m.Request, Example: m.Example, Feed: m.Feed,
		Graph: m.Graph,

		Features: models.Features{CheckSplit: m.CheckSplit},
	}
	switch c.Tower {
	case text:
		d.Inputs = []string{"ids", "mask"}
	case vision:
		d.Vision = &models.Vision{Pixels: c.ImageSize, Rows: c.rows(), Width: c.width(), Signed: c.Names == siglip}
	}
	return d
}
