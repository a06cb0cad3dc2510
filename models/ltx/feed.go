package ltx

import (
	"bytes"
	"maps"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/spmd"
	"weft/tensor"
)

// stepInputNames lists the inputs of a step, for messages about missing ones.
func (m *Model) stepInputNames() []string {
	out := []string{"x", "coords", "t (or t_tokens)", "context", "context_mask (if any)"}
	if m.c.CrossAdaLN {
		out = append(out, "sigma")
	}
	if m.c.Keyframes {
		out = append(out, "keyframes_mask (if any)")
	}
	return out
}

// Request reads batch and tokens off x (B, N, C). coords (B, 3, N) are the tokens' positions
// in seconds, pixels and pixels; for LTX-2.5 they have the start and the end of each token,
// (B, 3, N, 2). The noise level is t (B,) in [0, 1], or t_tokens (B, N) with one for each
// token; LTX-2.5 reads sigma (B,) besides. context (B, L, caption_channels) may come with
// context_mask (B, L), and LTX-2.5's tokens with keyframes_mask (B, N, 1).
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	in := models.Given{Model: m.name, Inputs: inputs, Reads: m.stepInputNames()}
	rank := 3
	if m.c.Second {
		rank = 4
	}
	x, coords, context := in.Need("x", 3), in.Need("coords", rank), in.Need("context", 3)
	perToken := inputs["t"] == nil && inputs["t_tokens"] != nil
	if perToken {
		in.Need("t_tokens", 2)
	} else {
		in.Need("t", 1)
	}
	if m.c.CrossAdaLN {
		in.Need("sigma", 1)
	}
	in.RefuseUnread(map[string]bool{"sigma": m.c.CrossAdaLN, "keyframes_mask": m.c.Keyframes})
	if err := in.Err(); err != nil {
		return models.Request{}, err
	}
	b, n, text := x.Shape[0], x.Shape[1], context.Shape[1]
	width := m.c.CaptionChannels
	if width == 0 {
		width = m.c.Dim()
	}
	want := map[string][]int{"x": {b, n, m.c.InChannels}, "coords": {b, 3, n}, "context": {b, text, width}, "context_mask": {b, text},
		"t": {b}, "t_tokens": {b, n}, "sigma": {b}, "keyframes_mask": {b, n, 1}}
	if m.c.Second {
		want["coords"] = append(want["coords"], 2)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if t := inputs[name]; t != nil && !slices.Equal(t.Shape, want[name]) {
			in.Refuse("%s is %v: want %v, where x is %v", name, t.Shape, want[name], x.Shape)
		}
	}
	if b < 1 || n < 1 || text < 1 {
		in.Refuse("x %v and context %v: want at least one video, one token, one row of text", x.Shape, context.Shape)
	}
	if mask := inputs["context_mask"]; mask != nil {
		if _, err := step.MaskOf(mask); err != nil {
			in.Refuse("context_mask: %w", err)
		}
	}
	if err := in.Err(); err != nil {
		return models.Request{}, err
	}
	r := models.Request{Batch: b, Latent: []int{m.c.InChannels, n, 1, 1}, Text: text, TokenTimes: perToken}
	if perToken {
		var err error
		if r.Times, err = step.Times(inputs["t_tokens"]); err != nil {
			return models.Request{}, err
		}
	}
	for i := 1; i < b; i++ {
		r.OwnPositions = r.OwnPositions || !bytes.Equal(coords.Rows(0, 1).Data, coords.Rows(i, i+1).Data)
	}
	return r, nil
}

// Runs lists two steps if t and t_tokens are both given: one with a noise level for each
// video, and one with a noise level for each token.
func (m *Model) Runs(inputs map[string]*tensor.Tensor) []models.Variant {
	if inputs["t"] == nil || inputs["t_tokens"] == nil {
		return []models.Variant{{Inputs: inputs}}
	}
	one, each := maps.Clone(inputs), maps.Clone(inputs)
	delete(one, "t_tokens")
	delete(each, "t")
	return []models.Variant{{Inputs: one}, {Suffix: "_tokens_t", Inputs: each}}
}

// Example makes the inputs that Request reads from a seed: the tokens of a video, and 9 rows
// of text. Each video has one masked row of text more than the one before.
func (m *Model) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	if latent == nil {
		latent = []int{m.c.InChannels, 3, 3, 5}
	}
	if err := models.CheckLatent(latent, m.c.InChannels, [3]int{1, 1, 1}); err != nil {
		return nil, err
	}
	grid := step.GridOf(latent, [3]int{1, 1, 1})
	normal, n := step.Normals(seed), grid.Tokens()
	shape := []int{batch, 3, n}
	if m.c.Second {
		shape = append(shape, 2)
	}
	coords, ends := tensor.New(dtype.F32, shape...), len(shape)-2
	bounds := m.c.tokenBounds(grid, m.framesPerSecond(models.Request{}))
	for i := range coords.Elements() {
		end, token, axis := i%ends, i/ends%n, i/ends/n%3
		step.Put(coords, i, bounds[end][token][axis])
	}
	const rows = 9
	width := m.c.CaptionChannels
	if width == 0 {
		width = m.c.Dim()
	}
	t, mask := tensor.New(dtype.F32, batch), tensor.New(dtype.F32, batch, rows)
	for b := range batch {
		step.Put(t, b, float64(b+1)/float64(batch+1))
		for i := range rows - min(b, rows-1) {
			step.Put(mask, b*rows+i, 1)
		}
	}
	in := map[string]*tensor.Tensor{"x": normal(batch, n, m.c.InChannels), "coords": coords, "t": t, "context": normal(batch, rows, width), "context_mask": mask}
	if m.c.CrossAdaLN {
		in["sigma"] = t
	}
	if m.c.Keyframes {
		in["keyframes_mask"] = tensor.New(dtype.F32, batch, n, 1)
		step.Put(in["keyframes_mask"], n-1, 1)
	}
	return in, nil
}

// Feed makes the graph's inputs from those Request reads.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	var mask []float32
	var err error
	if t := inputs["context_mask"]; t != nil {
		if mask, err = step.MaskOf(t); err != nil {
			return nil, err
		}
	}
	if err := m.feedText(g, r, inputs["context"], mask, out); err != nil {
		return nil, err
	}
	places, err := m.c.readPlaces(inputs["coords"], g.Input("rope_cos").Shape[0])
	if err != nil {
		return nil, err
	}
	out["rope_cos"], out["rope_sin"] = m.c.newRotary().makeTables(places, g.Input("rope_cos").Shape[1])
	if out["x"], err = inputs["x"].As(dtype.F32); err != nil {
		return nil, err
	}
	level := "t"
	if r.TokenTimes {
		level = "t_tokens"
	}
	levels, err := m.scaleNoiseLevels(inputs[level])
	if err != nil {
		return nil, err
	}
	step.FeedTimes(g, r, levels, out)
	if m.c.CrossAdaLN {
		if levels, err = m.scaleNoiseLevels(inputs["sigma"]); err != nil {
			return nil, err
		}
		out["sigma"] = step.TimeTable(levels, r.Batch, timeDim)
	}
	if m.c.Keyframes {
		shape := g.Input("keyframes").Shape
		out["keyframes"] = tensor.New(dtype.F32, shape...)
		if t := inputs["keyframes_mask"]; t != nil {
			if out["keyframes"], err = step.PadRows(t, shape[1], dtype.F32); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// scaleNoiseLevels converts noise levels (B,) or (B, N) in [0, 1] to the timesteps that the
// model was trained on.
func (m *Model) scaleNoiseLevels(t *tensor.Tensor) ([]float32, error) {
	ts, err := t.Float32s()
	return step.ScaleTimesteps(ts, m.c.TimeScale), err
}

// feedText makes the context and the bias on attention's scores, which hides the rows that
// the mask excludes. Without a mask, rows of zeros at the end are taken for padding.
func (m *Model) feedText(g *graph.Graph, r models.Request, context *tensor.Tensor, mask []float32, out map[string]*tensor.Tensor) error {
	name, rows := "context", g.Input("text_bias").Shape[3]
	if m.c.CaptionChannels == 0 {
		name = "text"
	}
	want := g.Input(name).Shape
	if len(context.Shape) != 3 || context.Shape[0] != r.Batch || context.Shape[1] > rows || context.Shape[2] != want[2] {
		return fault.New(models.ErrInputs, nil, "context is %v: want (%d, up to %d, %d)", context.Shape, r.Batch, rows, want[2])
	}
	var err error
	if out[name], err = step.PadRows(context, rows, r.DType); err != nil {
		return err
	}
	last := make([]int, r.Batch)
	for b := range r.Batch {
		given := context.Rows(b, b+1)
		row := len(given.Data) / context.Shape[1]
		last[b] = context.Shape[1]
		for mask == nil && last[b] > 1 && !slices.ContainsFunc(given.Data[(last[b]-1)*row:last[b]*row], func(x byte) bool { return x != 0 }) {
			last[b]--
		}
	}
	out["text_bias"] = m.textBias(rows, context.Shape[1], last, mask)
	return nil
}

// textBias makes the bias on attention's scores, (B, 1, 1, rows), which hides the rows of each text
// from last on and those that a mask (B, given) excludes.
func (m *Model) textBias(rows, given int, last []int, mask []float32) *tensor.Tensor {
	none := -10000.0 // as LTX-Video's own code has it: not minus infinity
	if m.c.Second {
		none = spmd.NegInf
	}
	bias := tensor.New(dtype.F32, len(last), 1, 1, rows)
	for b := range last {
		for i := range rows {
			switch {
			case i >= last[b]:
				step.Put(bias, b*rows+i, none)
			case mask != nil:
				step.Put(bias, b*rows+i, (1-float64(mask[b*given+i]))*none)
			}
		}
	}
	return bias
}

// CheckConditions checks context_mask (B, L), which may be missing: rows of zeros at the text's
// end are padding then.
func (m *Model) CheckConditions(r models.Request, in map[string]*tensor.Tensor) (models.Request, error) {
	mask := in["context_mask"]
	if mask == nil {
		return r, nil
	}
	if want := []int{r.Batch, r.Text}; !slices.Equal(mask.Shape, want) {
		return r, fault.New(models.ErrInputs, nil, "context_mask is %v: want %v, a number for each row of context", mask.Shape, want)
	}
	if _, err := step.MaskOf(mask); err != nil {
		return r, fault.New(models.ErrInputs, nil, "context_mask: %w", err)
	}
	return r, nil
}

// FeedConditions makes the bias on attention's scores of context_mask.
func (m *Model) FeedConditions(g *graph.Graph, r models.Request, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	t := in["context_mask"]
	if t == nil {
		return out, nil
	}
	mask, err := step.MaskOf(t)
	if err != nil {
		return nil, err
	}
	out["text_bias"] = m.textBias(g.Input("text_bias").Shape[3], t.Shape[1], slices.Repeat([]int{t.Shape[1]}, t.Shape[0]), mask)
	return out, nil
}

// framesPerSecond is the frame rate by which positions in seconds are computed. If a request
// gives none it is 25 for LTX-Video and 24 for LTX-2.5, as in their own pipelines.
func (m *Model) framesPerSecond(r models.Request) float64 {
	switch {
	case r.FPS > 0:
		return r.FPS
	case m.c.Second:
		return 24
	}
	return 25
}

// FeedText makes the inputs that stay the same from step to step: the text, with its rows of
// zeros at the end masked, and the rotary tables for the request's latents.
func (m *Model) FeedText(g *graph.Graph, r models.Request, context *tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	if err := m.feedText(g, r, context, nil, out); err != nil {
		return nil, err
	}
	places := m.c.tokenPlaces(m.c.tokenBounds(step.GridOf(r.Latent, [3]int{1, 1, 1}), m.framesPerSecond(r)))
	out["rope_cos"], out["rope_sin"] = m.c.newRotary().makeTables([][][]float64{places}, g.Input("rope_cos").Shape[1])
	if in := g.Input("keyframes"); in != nil {
		out["keyframes"] = tensor.New(dtype.F32, in.Shape...)
	}
	return out, nil
}

// FeedStep makes the tokens of latents x (B, C, F, H, W) and the sinusoidal embedding of the
// timestep t, which is 1000 times the noise level.
func (m *Model) FeedStep(r models.Request, x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error) {
	x, err := x.As(dtype.F32)
	if err != nil {
		return nil, err
	}
	level := slices.Repeat([]float32{float32(t / 1000 * m.c.TimeScale)}, r.Batch)
	tokens := x.Transpose(0, 2, 3, 4, 1)
	tokens.Shape = []int{r.Batch, step.GridOf(r.Latent, [3]int{1, 1, 1}).Tokens(), m.c.InChannels}
	out := map[string]*tensor.Tensor{"x": tokens, "time": step.TimeTable(level, r.Batch, timeDim)}
	if m.c.CrossAdaLN {
		out["sigma"] = out["time"]
	}
	return out, nil
}

// FeedFrameTimes is FeedStep with a timestep for each latent frame, of a request with TokenTimes.
func (m *Model) FeedFrameTimes(g *graph.Graph, r models.Request, x *tensor.Tensor, times []float64) (map[string]*tensor.Tensor, error) {
	if len(times) != r.Latent[1] {
		return nil, fault.New(models.ErrInputs, nil, "%d timesteps: want one for each of %d frames", len(times), r.Latent[1])
	}
	in, err := m.FeedStep(r, x, slices.Max(times))
	if err != nil {
		return nil, err
	}
	var levels []float32
	for _, t := range times {
		levels = append(levels, slices.Repeat([]float32{float32(t / 1000 * m.c.TimeScale)}, r.Latent[2]*r.Latent[3])...)
	}
	delete(in, "time")
	step.FeedTimes(g, r, slices.Repeat(levels, r.Batch), in)
	return in, nil
}

// Velocity turns tokens (B, N, C) into latents (B, C, F, H, W).
func (m *Model) Velocity(r models.Request, out *tensor.Tensor) *tensor.Tensor {
	video := &tensor.Tensor{DType: out.DType, Shape: append(append([]int{out.Shape[0]}, r.Latent[1:]...), m.c.OutChannels), Data: out.Data}
	return video.Transpose(0, 4, 1, 2, 3)
}

// LatentShape is (channels, frames, height, width) of the latents of a video. A latent
// position, which is one token, stands for 32x32 pixels and 8 frames, the first one for a
// single frame.
func (m *Model) LatentShape(width, height, videoFrames int) ([]int, error) {
	return models.LatentShape(width, height, videoFrames, m.c.InChannels, pixelsPerLatent, framesPerLatent, [3]int{1, 1, 1})
}
