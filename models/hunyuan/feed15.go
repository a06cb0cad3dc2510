package hunyuan

import (
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// checkGlyphsAndImage checks the optional inputs of 1.5. byt5 (B, G, byt5_dim) are rows for
// the letters quoted in the text, byt5_mask (B, G) says which of them are real; without it
// all are. An image gives vision (B, V, vision_states_dim) and y (B, C+1, F, H, W): its
// latents and a channel that marks the frames that it gives. Without an image the model
// makes a video from text alone; the release feeds zeros then.
func (m *Model) checkGlyphsAndImage(r models.Request, in map[string]*tensor.Tensor) (models.Request, error) {
	var l fault.List
	rows := func(name string, width int) int {
		if in[name] == nil {
			return 0
		}
		t, err := models.Need(m.name, in, name, 3, m.stepInputNames())
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
		t, err := models.Need(m.name, in, "y", 5, m.stepInputNames())
		l.Add(err)
		if err == nil && !slices.Equal(t.Shape, want) {
			l.Add(fault.New(models.ErrInputs, nil, "y is %v: want %v, an image's latents and one channel more", t.Shape, want))
		}
	}
	return r, l.Err()
}

// The numbers of rows of byT5 and of the image's features that an example has.
const (
	exampleGlyphs = 5
	exampleImage  = 3
)

// exampleGlyphsAndImage adds the inputs that checkGlyphsAndImage checks to an example. Each
// video has one real row of byT5 fewer than the one before.
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
