package hunyuan

import (
	"maps"
	"slices"
	"strings"

	"weft/fault"
	"weft/mesh"
	"weft/models"
)

// textRows is the number of text rows that the released pipelines produce. A request that
// gives no length gets it.
func (c Config) textRows() int {
	if c.Glyphs {
		return 1000
	}
	return 256
}

// glyphRows is the number of rows of byT5, which encode the letters quoted in the text, that
// the released pipeline of HunyuanVideo-1.5 produces.
const glyphRows = 256

// CheckSplit reports every reason why a mesh cannot hold the model, whatever the request.
func (m *Model) CheckSplit(on *mesh.Mesh) error {
	var l fault.List
	l.Add(models.CheckTransformer(on, m.name, m.c.Heads, "mlp width", m.c.FFNDim()))
	if m.c.Glyphs {
		l.Add(models.CheckFFN(on, "byt5_hidden", m.c.GlyphHidden))
		l.Add(models.CheckFFN(on, "vision_states_dim", m.c.VisionDim))
	}
	return l.Err()
}

// Check reports every reason why a mesh cannot run a request.
func (m *Model) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(m.CheckSplit(on))
	double, single := m.countLayers(r.Layers)
	r.Layers = 0 // CheckRequest counts layers of one kind
	l.Add(models.CheckRequest(on, r, double+single))
	l.Add(models.CheckLatent(r.Latent, m.c.In, m.c.Patch))
	if r.Text < 0 {
		l.Add(fault.New(models.ErrInputs, nil, "context of %d rows: want 1 or more", r.Text))
	}
	if r.TokenTimes && m.c.ImageCondition != tokenReplace {
		l.Add(fault.New(models.ErrInputs, nil, "%s reads no timestep for each token", m.name))
	}
	if beside := max(r.Image, r.SecondText); min(r.Image, r.SecondText) < 0 || beside > 0 && !m.c.Glyphs {
		l.Add(fault.New(models.ErrInputs, nil, "%d rows of an image and %d of a second text: %s reads none", r.Image, r.SecondText, m.name))
	}
	if err := l.Err(); err != nil {
		return err
	}
	lay := m.layOutRequest(on, r)
	return models.CheckPadding(on, r, "video tokens", lay.Tokens, lay.Padded)
}

// resolveVariant refuses checkpoints of variants that only their tensors reveal: their config.json
// reads like that of a model that this package runs.
func resolveVariant(name string, c Config, names []string) (Config, error) {
	has := func(prefix string) string {
		for _, n := range names {
			if strings.HasPrefix(n, prefix) {
				return n
			}
		}
		return ""
	}
	variants := map[string]string{"byt5_in.": "HunyuanVideo-1.5", "vision_in.": "HunyuanVideo-1.5", "cond_type_embedding.": "HunyuanVideo-1.5",
		"controlnet_": "ControlNet", "image_projection.": "FramePack"}
	if c.Glyphs {
		variants = map[string]string{"vector_in.": "HunyuanVideo", "single_blocks.": "HunyuanVideo", "guidance_in.": "HunyuanVideo",
			"time_r_in.": "mean flow", "controlnet_": "ControlNet"}
	}
	for _, prefix := range slices.Sorted(maps.Keys(variants)) {
		if n, variant := has(prefix), variants[prefix]; n != "" {
			return c, fault.New(models.ErrVariant, struct {
				Variant string `json:"variant"`
				Tensor  string `json:"tensor"`
			}{variant, n}, "the checkpoint is the %s variant (tensor %s): its config.json says %s", variant, n, name)
		}
	}
	return c, nil
}
