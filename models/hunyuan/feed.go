package hunyuan

import (
	"maps"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// stepInputNames lists the inputs of a step, for messages about missing ones.
func (m *Model) stepInputNames() []string {
	if m.c.Glyphs {
		return []string{"x", "t", "context", "context_mask, byt5, byt5_mask (if any)", "y and vision (of an image)"}
	}
	return append([]string{"x", "t", "context", "context_mask (if any)"}, m.Conditions()...)
}

// Conditions lists the inputs of a step besides latents, time and text: the pooled text and
// the guidance scale or, in 1.5, what an image gives.
func (m *Model) Conditions() []string {
	if m.c.Glyphs {
		return []string{"y", "vision"}
	}
	names := []string{"pooled"}
	if m.c.Guidance {
		names = append(names, "guidance")
	}
	if m.c.ImageCondition == latentConcat {
		names = append(names, "y")
	}
	return names
}

// TextConditions lists the inputs that belong to one text, so that a negative prompt has its own:
// the pooled vector or, in 1.5, byT5's rows, and the masks that say which rows are real.
func (m *Model) TextConditions() []string {
	if m.c.Glyphs {
		return []string{"context_mask", "byt5", "byt5_mask"}
	}
	return []string{"pooled", "context_mask"}
}

// Request reads batch, latent shape and text length off x (B, C, F, H, W), t (B,)
// and context (B, T, text_states_dim), and checks the conditions as CheckConditions does.
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	in := models.Given{Model: m.name, Inputs: inputs, Reads: m.stepInputNames()}
	x, t, context := in.Need("x", 5), in.Need("t", 1), in.Need("context", 3)
	in.RefuseUnread(map[string]bool{"pooled": !m.c.Glyphs, "guidance": m.c.Guidance,
		"byt5": m.c.Glyphs, "byt5_mask": m.c.Glyphs, "vision": m.c.Glyphs, "y": m.c.Glyphs || m.c.ImageCondition == latentConcat})
	if err := in.Err(); err != nil {
		return models.Request{}, err
	}
	r := models.Request{Batch: x.Shape[0], Latent: slices.Clone(x.Shape[1:]), Text: context.Shape[1]}
	in.OneBatch([]string{"x", "t", "context"}, r.Batch, t.Shape[0], context.Shape[0])
	if context.Shape[1] < 1 || context.Shape[2] != m.c.TextDim {
		in.Refuse("context is %v: want at least one row of text_states_dim %d numbers", context.Shape, m.c.TextDim)
	}
	if m.c.ImageCondition == tokenReplace {
		r.TokenTimes, r.Times = true, timesOfTokens
	}
	in.Add(models.CheckLatent(r.Latent, m.c.In, m.c.Patch))
	r, err := m.CheckConditions(r, inputs)
	in.Add(err)
	return r, in.Err()
}

// CheckConditions checks pooled (B, text_states_dim_2), guidance (B,) and context_mask
// (B, T). The mask may be missing: then every row of the text is real. For 1.5
// checkGlyphsAndImage checks the conditions.
func (m *Model) CheckConditions(r models.Request, in map[string]*tensor.Tensor) (models.Request, error) {
	var l fault.List
	if in["context_mask"] != nil {
		rows, err := maskRows(in, "context_mask", "context", r.Batch, r.Text)
		l.Add(err)
		for b := range len(rows) / max(1, r.Text) {
			if !slices.ContainsFunc(rows[b*r.Text:(b+1)*r.Text], func(v float32) bool { return v != 0 }) {
				l.Add(fault.New(models.ErrInputs, nil, "context_mask of video %d has no real row: the text's mean would be of none", b))
			}
		}
		r.Masked = true
	}
	if m.c.Glyphs {
		r, err := m.checkGlyphsAndImage(r, in)
		l.Add(err)
		return r, l.Err()
	}
	for _, name := range m.Conditions() {
		want := []int{r.Batch}
		switch name {
		case "pooled":
			want = append(want, m.c.PooledDim)
		case "y":
			want = append(append(want, m.c.embeddedChannels()-m.c.In), r.Latent[1:]...)
		}
		t, err := models.Need(m.name, in, name, len(want), m.stepInputNames())
		l.Add(err)
		if err == nil && !slices.Equal(t.Shape, want) {
			l.Add(fault.New(models.ErrInputs, nil, "%s is %v: want %v", name, t.Shape, want))
		}
	}
	return r, l.Err()
}

// maskRows reads a mask (batch, rows) that has a number for each row of the input of. A
// missing mask makes every row real.
func maskRows(in map[string]*tensor.Tensor, name, of string, batch, rows int) ([]float32, error) {
	mask := in[name]
	if mask == nil {
		return slices.Repeat([]float32{1}, batch*rows), nil
	}
	if want := []int{batch, rows}; !slices.Equal(mask.Shape, want) {
		return nil, fault.New(models.ErrInputs, nil, "%s is %v: want %v, a number for each row of %s", name, mask.Shape, want, of)
	}
	fs, err := step.MaskOf(mask)
	if err != nil {
		return nil, fault.New(models.ErrInputs, nil, "%s: %w", name, err)
	}
	return fs, nil
}

// Example makes the inputs Request reads from a seed; the text of each video is
// two rows shorter than the one before.
func (m *Model) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	p := m.c.Patch
	if latent == nil {
		latent = []int{m.c.In, 3 * p[0], 3 * p[1], 5 * p[2]}
	}
	if err := models.CheckLatent(latent, m.c.In, p); err != nil {
		return nil, err
	}
	normal := step.Normals(seed)
	mask := tensor.New(dtype.F32, batch, step.ExampleRows)
	in := map[string]*tensor.Tensor{"x": normal(append([]int{batch}, latent...)...), "t": step.ExampleTimes(batch), "context": normal(batch, step.ExampleRows, m.c.TextDim),
		"context_mask": mask}
	if m.c.Glyphs {
		m.exampleGlyphsAndImage(in, normal)
	} else {
		in["pooled"] = normal(batch, m.c.PooledDim)
	}
	if m.c.ImageCondition == latentConcat {
		in["y"] = normal(append([]int{batch, m.c.embeddedChannels() - m.c.In}, latent[1:]...)...)
	}
	if m.c.Guidance {
		in["guidance"] = tensor.New(dtype.F32, batch)
	}
	for b := range batch {
		for i := range max(1, step.ExampleRows-2*b-2) {
			step.Put(mask, b*step.ExampleRows+i, 1)
		}
		if m.c.Guidance {
			step.Put(in["guidance"], b, 6000)
		}
	}
	return in, nil
}

// Feed makes the graph's inputs from those Request reads.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	return step.Feeder{Times: "t", Text: "context", FeedText: m.FeedText, FeedTimes: m.feedTimes, FeedConditions: m.FeedConditions}.Feed(g, r, inputs)
}

// FeedConditions passes the pooled text, byT5's rows and the image's inputs through, embeds
// the guidance scale, and turns the masks into the graph's masks with feedMasks.
func (m *Model) FeedConditions(g *graph.Graph, r models.Request, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	for _, name := range []string{"pooled", "byt5", "vision", "y"} {
		if in[name] == nil {
			continue
		}
		var err error
		if out[name], err = in[name].As(dtype.F32); err != nil {
			return nil, err
		}
	}
	if m.c.Guidance {
		scale, err := in["guidance"].Float32s()
		if err != nil {
			return nil, err
		}
		out["guidance"] = step.RoundedTimeTable(scale, r.Batch, timeWidth)
	}
	if in["context_mask"] != nil || in["byt5_mask"] != nil {
		rows, err := maskRows(in, "context_mask", "context", r.Batch, r.Text)
		if err != nil {
			return nil, err
		}
		letters, err := maskRows(in, "byt5_mask", "byt5", r.Batch, r.SecondText)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, m.feedMasks(g, r, rows, letters))
	}
	return out, nil
}

// feedMasks makes three inputs from the masks of the text's rows (B, T) and of its letters
// (B, G). text_mask (B, 1, 1, T) and key_mask (B, 1, 1, S+V+G+T) say which keys the refiner
// and the blocks attend to. text_share (B, T, 1) is the weight of each row in the mean of
// the real ones. As in the release, the refiner attends to the first row even if it is
// padding.
func (m *Model) feedMasks(g *graph.Graph, r models.Request, rows, letters []float32) map[string]*tensor.Tensor {
	text, keys := tensor.New(dtype.Bool, g.Input("text_mask").Shape...), tensor.New(dtype.Bool, g.Input("key_mask").Shape...)
	share := tensor.New(dtype.F32, g.Input("text_share").Shape...)
	n := keys.Shape[3] // S+V+G+T
	for b := range r.Batch {
		own, real := rows[b*r.Text:(b+1)*r.Text], 0
		for _, v := range own {
			if v != 0 {
				real++
			}
		}
		key := keys.Data[b*n : (b+1)*n]
		for i := range n - r.Text - r.SecondText {
			key[i] = 1
		}
		for i, v := range letters[b*r.SecondText : (b+1)*r.SecondText] {
			if v != 0 {
				key[n-r.Text-r.SecondText+i] = 1
			}
		}
		for i, v := range own {
			if v != 0 {
				text.Data[b*r.Text+i], key[n-r.Text+i] = 1, 1
				step.Put(share, b*r.Text+i, 1/float64(real))
			}
		}
		text.Data[b*r.Text] = 1
	}
	return map[string]*tensor.Tensor{"text_mask": text, "key_mask": keys, "text_share": share}
}

// FeedStep makes the inputs that change from step to step. The whole batch has one timestep.
func (m *Model) FeedStep(r models.Request, x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error) {
	return step.FeedStep(r, x, t, func(ts []float32) *tensor.Tensor { return step.TimeTable(ts, r.Batch, timeWidth) })
}

// FeedText makes the inputs that depend on the text and on the video's size alone: the
// context, masks under which every row is real (FeedConditions replaces them if a mask is
// given), and the rotary tables.
func (m *Model) FeedText(g *graph.Graph, r models.Request, context *tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if want := []int{r.Batch, r.Text, m.c.TextDim}; !slices.Equal(context.Shape, want) {
		return nil, fault.New(models.ErrInputs, nil, "context is %v: want %v", context.Shape, want)
	}
	text, err := context.As(r.DType)
	if err != nil {
		return nil, err
	}
	one := []float32{1}
	out := m.feedMasks(g, r, slices.Repeat(one, r.Batch*r.Text), slices.Repeat(one, r.Batch*r.SecondText))
	out["context"] = text
	angles := step.GridAngles(step.GridOf(r.Latent, m.c.Patch), m.c.RopeDims, [3]float64{m.c.RopeTheta, m.c.RopeTheta, m.c.RopeTheta})
	out["rope_cos"], out["rope_sin"] = step.RotaryPairs(angles, g.Input("rope_cos").Shape[0], m.c.HeadDim())
	return out, nil
}

// LatentShape is (channels, frames, height, width) of the latents of a video. A latent
// position stands for 8x8 pixels (1.5: 16x16) and for 4 frames, the first one for a single
// frame. Where an image's latents stand beside the video's, there are those of 4 frames more.
func (m *Model) LatentShape(width, height, frames int) ([]int, error) {
	latent, err := models.LatentShape(width, height, frames, m.c.In, m.c.pixels(), framesPerLatent, m.c.Patch)
	if err == nil && m.c.ImageCondition == latentConcat {
		latent[1]++
	}
	return latent, err
}
