package cogvideox

import (
	"maps"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/internal/numbers"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// pixels is the number of pixels along each side of the square that one latent covers.
const pixels = 8

// stepInputNames lists the inputs of a step as an error message shows them.
func (m *Model) stepInputNames() []string {
	return append([]string{"x", "t", "text"}, m.Conditions()...)
}

// Conditions names the inputs that only image-to-video reads: the image's latents,
// which may also stand behind x's own channels, and 1.5's offset.
func (m *Model) Conditions() []string {
	var out []string
	if m.c.conditionDim() > 0 {
		out = append(out, "y")
	}
	if m.c.OfsEmbedDim > 0 {
		out = append(out, "ofs")
	}
	return out
}

// Request reads batch and latent shape off x (B, F, C, H, W), t (B,) and text (B,
// max_text_seq_length, text_embed_dim). Image-to-video reads the image's latents
// as y (B, F, in_channels-C, H, W), or behind x's as the peers do, so that x has
// in_channels; 1.5's reads the offset ofs (B,).
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	in := models.Given{Model: m.name, Inputs: inputs, Reads: m.stepInputNames()}
	x, t, text := in.Need("x", 5), in.Need("t", 1), in.Need("text", 3)
	if m.c.OfsEmbedDim > 0 {
		in.Need("ofs", 1)
	}
	if err := in.Err(); err != nil {
		return models.Request{}, err
	}
	r := models.Request{Batch: x.Shape[0], Latent: []int{x.Shape[2], x.Shape[1], x.Shape[3], x.Shape[4]}, Text: text.Shape[1]}
	inputs, whole := m.splitImageLatents(inputs)
	if whole {
		r.Latent[0] = m.c.OutChannels
	}
	in.OneBatch([]string{"x", "t", "text"}, r.Batch, t.Shape[0], text.Shape[0])
	if text.Shape[2] != m.c.TextEmbedDim {
		in.Refuse("text rows of %d numbers: the model reads text_embed_dim %d", text.Shape[2], m.c.TextEmbedDim)
	}
	in.RefuseUnread(map[string]bool{"y": m.c.conditionDim() > 0, "ofs": m.c.OfsEmbedDim > 0})
	in.Add(m.checkLatent(r.Latent))
	r, err := m.CheckConditions(r, inputs)
	in.Add(err)
	return r, in.Err()
}

// splitImageLatents splits x into x and y where x holds the image's latents behind
// its own channels, and says whether it did.
func (m *Model) splitImageLatents(inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, bool) {
	x := inputs["x"]
	if m.c.conditionDim() == 0 || inputs["y"] != nil || x.Shape[2] != m.c.InChannels {
		return inputs, false
	}
	out := maps.Clone(inputs)
	out["x"], out["y"] = x.Slice(2, 0, m.c.OutChannels), x.Slice(2, m.c.OutChannels, m.c.InChannels)
	return out, true
}

// conditionShape returns the shape of the image's latents.
func (m *Model) conditionShape(r models.Request) []int {
	return []int{r.Batch, r.Latent[1], m.c.conditionDim(), r.Latent[2], r.Latent[3]}
}

// CheckConditions checks y (B, F, in_channels-C, H, W) and ofs (B,).
func (m *Model) CheckConditions(r models.Request, in map[string]*tensor.Tensor) (models.Request, error) {
	var l fault.List
	for _, name := range m.Conditions() {
		want := []int{r.Batch}
		if name == "y" {
			want = m.conditionShape(r)
		}
		t, err := models.Need(m.name, in, name, len(want), m.stepInputNames())
		l.Add(err)
		if err == nil && !slices.Equal(t.Shape, want) {
			l.Add(fault.New(models.ErrInputs, nil, "%s is %v: want %v", name, t.Shape, want))
		}
	}
	return r, l.Err()
}

// FeedConditions passes y to the graph as f32 and makes the sinusoids of ofs.
func (m *Model) FeedConditions(_ *graph.Graph, r models.Request, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	for _, name := range m.Conditions() {
		t, err := in[name].As(dtype.F32)
		if err != nil {
			return nil, err
		}
		if name == "ofs" {
			ofs, err := t.Float32s()
			if err != nil {
				return nil, err
			}
			t = step.TimeTable(ofs, r.Batch, m.c.OfsEmbedDim)
		}
		out[name] = t
	}
	return out, nil
}

// Example makes the inputs Request reads from a seed.
func (m *Model) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	c, p := m.c, m.c.patchShape()
	if latent == nil {
		latent = []int{c.OutChannels, 3 * p[0], 3 * p[1], 5 * p[2]}
		if g := c.sampleGrid(); c.Learned {
			latent = []int{c.OutChannels, g.Frames * p[0], g.Rows * p[1], g.Cols * p[2]}
		}
	}
	if err := m.checkLatent(latent); err != nil {
		return nil, err
	}
	normal := step.Normals(seed)
	in := map[string]*tensor.Tensor{"x": normal(batch, latent[1], latent[0], latent[2], latent[3]), "t": step.ExampleTimes(batch), "text": normal(batch, c.TextLen, c.TextEmbedDim)}
	if c.conditionDim() > 0 {
		in["y"] = normal(m.conditionShape(models.Request{Batch: batch, Latent: latent})...)
	}
	if c.OfsEmbedDim > 0 {
		in["ofs"] = tensor.New(dtype.F32, batch)
		for b := range batch {
			step.Put(in["ofs"], b, 2) // as every release is run
		}
	}
	return in, nil
}

// Feed makes the graph's inputs from the inputs that Request checks.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	inputs, _ = m.splitImageLatents(inputs)
	return step.Feeder{Times: "t", Text: "text", FeedText: m.FeedText, FeedTimes: step.FeedTimes, FeedConditions: m.FeedConditions}.Feed(g, r, inputs)
}

// FeedStep makes the inputs that change from step to step, from x (B, C, F, H, W)
// and one timestep for the whole batch.
func (m *Model) FeedStep(r models.Request, x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error) {
	return step.FeedStep(r, x.Transpose(0, 2, 1, 3, 4), t, func(ts []float32) *tensor.Tensor { return step.TimeTable(ts, r.Batch, m.c.Dim()) })
}

// Velocity turns out (B, F, C, H, W) into latents (B, C, F, H, W).
func (m *Model) Velocity(_ models.Request, out *tensor.Tensor) *tensor.Tensor {
	return out.Transpose(0, 2, 1, 3, 4)
}

// FeedText makes the inputs that stay the same in every step: the context from the
// text encoder's rows, and the tables of positions.
func (m *Model) FeedText(g *graph.Graph, r models.Request, text *tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if want := []int{r.Batch, m.c.TextLen, m.c.TextEmbedDim}; !slices.Equal(text.Shape, want) {
		return nil, fault.New(models.ErrInputs, nil, "text is %v: want %v", text.Shape, want)
	}
	context, err := text.As(r.DType)
	if err != nil {
		return nil, err
	}
	out := map[string]*tensor.Tensor{"context": context}
	grid := step.GridOf(r.Latent, m.c.patchShape())
	if in := g.Input("positions"); in != nil {
		out["positions"] = m.c.sinCosTable(grid, in.Shape[0])
	} else {
		out["rope_cos"], out["rope_sin"] = m.c.rotaryTables(grid, g.Input("rope_cos").Shape[0])
	}
	return out, nil
}

// LatentShape is (channels, frames, height, width) of the latent video: 8x8
// pixels and 4 frames (the first alone) to one latent. Where patches have
// several latent frames, the number is rounded up to fill them: 81 frames are 21,
// and 22 for 1.5.
func (m *Model) LatentShape(width, height, frames int) ([]int, error) {
	// Patches of several frames are filled up below.
	latent, err := models.LatentShape(width, height, frames, m.c.OutChannels, pixels, 4, [3]int{1, m.c.PatchSize, m.c.PatchSize})
	if err != nil {
		return nil, err
	}
	latent[1] = numbers.RoundUp(latent[1], m.c.patchShape()[0])
	return latent, m.checkLatent(latent)
}
