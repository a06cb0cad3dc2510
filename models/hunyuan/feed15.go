package hunyuan

import (
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// checkGlyphsAndImage checks what 1.5 may be given beside latents and text: byt5 (B, G,
// 1472) for the letters in the text with byt5_mask (B, G), without which every row
// is real; and of an image vision (B, V, vision_states_dim) with y (B, C+1, F, H,
// W), its latents and the channel that says which frames they are. Without an
// image it is text-to-video, which the release makes of zeros.
func (m *Model) checkGlyphsAndImage(r models.Request, in map[string]*tensor.Tensor) (models.Request, error) {
	var l fault.List
	rows := func(name string, width int) int {
		if in[name] == nil {
			return 0
		}
		t, err := models.Need(m, in, name, 3, m.stepInputNames())
		l.Add(err)
		if err != nil {
			return 0
		}
		if t.Shape[0] != r.Batch || t.Shape[1] < 1 || t.Shape[2] != width {
			l.Add(fault.New(models.ErrInputs, nil, "%s is %v: want %d videos, at least one row of %d numbers", name, t.Shape, r.Batch, width))
		}
		return t.Shape[1]
	}
	r.SecondText, r.Image = rows("byt5", m.c.GlyphDim), rows("vision", m.c.VisionDim)
	switch {
	case in["byt5_mask"] == nil:
	case in["byt5"] == nil:
		l.Add(fault.New(models.ErrInputs, nil, "byt5_mask is given without byt5, whose rows it is about"))
	default:
		_, err := maskRows(in, "byt5_mask", "byt5", r.Batch, r.SecondText)
		l.Add(err)
		r.Masked = true
	}
	if (in["vision"] == nil) != (in["y"] == nil) {
		l.Add(fault.New(models.ErrInputs, nil, "of vision and y one is given: image-to-video reads both, text-to-video neither"))
	}
	if in["y"] != nil && len(r.Latent) == 4 {
		want := append([]int{r.Batch, m.c.embeddedChannels() - m.c.In}, r.Latent[1:]...)
		t, err := models.Need(m, in, "y", 5, m.stepInputNames())
		l.Add(err)
		if err == nil && !slices.Equal(t.Shape, want) {
			l.Add(fault.New(models.ErrInputs, nil, "y is %v: want %v, an image's latents and one channel more", t.Shape, want))
		}
	}
	return r, l.Err()
}

// Rows that an example has of letters and image.
const (
	exampleGlyphs = 5
	exampleImage  = 3
)

// exampleGlyphsAndImage adds to an example what checkBeside reads; each video has a
// letter fewer than the one before.
func (m *Model) exampleGlyphsAndImage(in map[string]*tensor.Tensor, normal func(shape ...int) *tensor.Tensor) {
	shape := slices.Clone(in["x"].Shape)
	batch := shape[0]
	shape[1] = m.c.embeddedChannels() - m.c.In
	in["y"], in["vision"] = normal(shape...), normal(batch, exampleImage, m.c.VisionDim)
	mask := tensor.New(dtype.F32, batch, exampleGlyphs)
	for b := range batch {
		for i := range max(0, exampleGlyphs-1-b) {
			step.Put(mask, b*exampleGlyphs+i, 1)
		}
	}
	in["byt5"], in["byt5_mask"] = normal(batch, exampleGlyphs, m.c.GlyphDim), mask
}
