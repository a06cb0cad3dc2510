package wan

import (
	"cmp"
	"maps"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// Request reads batch, latent shape and text length off x (B, C, F, H, W), t
// (B,) and context (B, L, text_dim); i2v reads y (B, in_dim - C, F, H, W) and,
// with an image branch, clip_fea (B, rows, image_dim) besides. t_tokens (B, S),
// a timestep for every token, takes the place of t.
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	in := models.Given{Model: m.name, Inputs: inputs, Reads: m.stepInputNames()}
	x, context := in.Need("x", 5), in.Need("context", 3)
	var t *tensor.Tensor
	perToken := inputs["t_tokens"] != nil
	if perToken {
		t = in.Need("t_tokens", 2)
	} else {
		t = in.Need("t", 1)
	}
	in.RefuseUnread(map[string]bool{"y": m.c.readsY(), "clip_fea": m.c.ImageDim > 0, nameOfControl: m.c.ModelType == vace, nameOfScale: m.c.ModelType == vace})
	for _, name := range m.Conditions() {
		in.Need(name, conditionRank[name])
	}
	if err := in.Err(); err != nil {
		return models.Request{}, err
	}
	r := models.Request{Batch: x.Shape[0], Latent: slices.Clone(x.Shape[1:]), Text: context.Shape[1], TokenTimes: perToken}
	in.OneBatch([]string{"x", "t", "context"}, r.Batch, t.Shape[0], context.Shape[0])
	if context.Shape[2] != m.c.TextDim {
		in.Refuse("context rows of %d numbers: the model reads text_dim %d", context.Shape[2], m.c.TextDim)
	}
	if context.Shape[1] < 1 {
		in.Refuse("context has no rows")
	}
	in.Add(m.checkLatent(r.Latent))
	r, err := m.CheckConditions(r, inputs)
	in.Add(err)
	if err := in.Err(); err != nil {
		return r, err
	}
	if !perToken {
		return r, nil
	}
	if frames, rows, cols := m.tokenGrid(r); t.Shape[1] != frames*rows*cols {
		return r, fault.New(models.ErrInputs, nil, "t_tokens is %v: x has %d tokens (%d frames of %d x %d patches)", t.Shape, frames*rows*cols, frames, rows, cols)
	}
	r.Times, err = step.Times(t)
	return r, err
}

// Runs lists two steps where t and t_tokens are both given: with a timestep for
// every token, and with one for each video.
func (m *Model) Runs(inputs map[string]*tensor.Tensor) []models.Variant {
	runs := []models.Variant{{Inputs: inputs}}
	if inputs["t"] != nil && inputs["t_tokens"] != nil {
		uniform := maps.Clone(inputs)
		delete(uniform, "t_tokens")
		runs = append(runs, models.Variant{Suffix: "_uniform_t", Inputs: uniform})
	}
	return runs
}

// stepInputNames lists the inputs of a step as an error message shows them.
func (m *Model) stepInputNames() []string {
	return append([]string{"x", "t (or t_tokens)", "context"}, m.Conditions()...)
}

// Conditions names the inputs that the model reads of images or of a control video.
func (m *Model) Conditions() []string {
	var out []string
	if m.c.readsY() {
		out = append(out, "y")
	}
	if m.c.ImageDim > 0 {
		out = append(out, "clip_fea")
	}
	if m.c.ModelType == vace {
		out = append(out, nameOfControl)
	}
	return out
}

// optionalConditions names those that a run may leave out.
func (m *Model) optionalConditions() []string {
	if m.c.ModelType == vace {
		return []string{nameOfScale}
	}
	return nil
}

// conditionRank is the number of dims of each condition.
var conditionRank = map[string]int{"y": 5, "clip_fea": 3, nameOfControl: 5}

// CheckConditions reads the image rows off clip_fea (B, rows, image_dim) and
// checks y (B, in_dim - C, F, H, W), vace_context (B, vace_in_dim, F, H, W) and
// vace_scale (B, control blocks).
func (m *Model) CheckConditions(r models.Request, in map[string]*tensor.Tensor) (models.Request, error) {
	var l fault.List
	for _, name := range m.Conditions() {
		t, err := models.Need(m.name, in, name, conditionRank[name], m.stepInputNames())
		l.Add(err)
		switch {
		case err != nil:
		case name == "y":
			if want := append([]int{r.Batch, m.c.ConditionDim()}, r.Latent[1:]...); !slices.Equal(t.Shape, want) {
				l.Add(fault.New(models.ErrInputs, nil, "y is %v: want %v, x's shape with the mask's and the image's %d channels", t.Shape, want, want[1]))
			}
		case name == nameOfControl:
			if want := append([]int{r.Batch, m.c.ControlDim}, r.Latent[1:]...); !slices.Equal(t.Shape, want) {
				l.Add(fault.New(models.ErrInputs, nil, "%s is %v: want %v, x's shape with the control video's and the mask's %d channels", name, t.Shape, want, want[1]))
			}
		case t.Shape[0] != r.Batch || t.Shape[1] < 1 || t.Shape[2] != m.c.ImageDim:
			l.Add(fault.New(models.ErrInputs, nil, "clip_fea is %v: want (%d, rows, %d), image_dim wide", t.Shape, r.Batch, m.c.ImageDim))
		case m.c.ImageRows > 0 && t.Shape[1] != m.c.ImageRows:
			l.Add(m.refuseImageRows(t.Shape[1]))
		default:
			r.Image = t.Shape[1]
		}
	}
	if t, want := in[nameOfScale], []int{r.Batch, len(m.c.ControlLayers)}; t != nil && (!slices.Equal(t.Shape, want) || !t.DType.IsFloat()) {
		l.Add(fault.New(models.ErrInputs, nil, "%s is %v: want %v of a floating-point type, a scale for each of %s's control blocks", nameOfScale, t, want, m.name))
	}
	return r, l.Err()
}

// FeedConditions passes y and clip_fea to the graph as f32, or a control video.
func (m *Model) FeedConditions(g *graph.Graph, r models.Request, in map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if m.c.ModelType == vace {
		return m.feedControl(g, r, in)
	}
	out := map[string]*tensor.Tensor{}
	for _, name := range m.Conditions() {
		var err error
		if out[name], err = in[name].As(dtype.F32); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// tokenGrid returns how many tokens a request's video has along each dim: latent
// frames, rows and columns divided by the patch size.
func (m *Model) tokenGrid(r models.Request) (frames, rows, cols int) {
	return r.Latent[1] / m.c.PatchSize[0], r.Latent[2] / m.c.PatchSize[1], r.Latent[3] / m.c.PatchSize[2]
}

// Example makes x, t and a context two rows short of full (at most 14), and what
// the model reads besides: y with the first frame given, a few rows of image
// features, for TI2V a timestep for every token with the first frame's at 0.
func (m *Model) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	if latent == nil {
		p := m.c.PatchSize
		latent = []int{m.c.LatentDim(), 3 * p[0], 3 * p[1], 5 * p[2]}
	}
	if err := m.checkLatent(latent); err != nil {
		return nil, err
	}
	rows := 14
	if m.c.TextLen > 0 {
		rows = max(1, min(rows, m.c.TextLen-2))
	}
	normal := step.Normals(seed)
	in := map[string]*tensor.Tensor{"x": normal(append([]int{batch}, latent...)...), "t": step.ExampleTimes(batch), "context": normal(batch, rows, m.c.TextDim)}
	if m.c.readsY() {
		in["y"] = m.exampleCondition(normal(append([]int{batch, m.c.ConditionDim()}, latent[1:]...)...))
	}
	if m.c.ImageDim > 0 {
		in["clip_fea"] = normal(batch, cmp.Or(m.c.ImageRows, 9), m.c.ImageDim)
	}
	if m.c.ModelType == vace {
		in[nameOfControl] = normal(append([]int{batch, m.c.ControlDim}, latent[1:]...)...)
		in[nameOfScale] = m.exampleScales(batch)
	}
	if m.c.ModelType == ti2v {
		frames, rows, cols := m.tokenGrid(models.Request{Latent: latent})
		tokens := tensor.New(dtype.F32, batch, frames*rows*cols)
		for b := range batch {
			for s := rows * cols; s < frames*rows*cols; s++ {
				step.Put(tokens, b*frames*rows*cols+s, step.ExampleTime(b, batch))
			}
		}
		in["t_tokens"] = tokens
	}
	return in, nil
}

// exampleCondition sets the mask channels of y, which are those in front of the
// image's latents, to 1 in the first frame and to 0 in the others.
func (m *Model) exampleCondition(y *tensor.Tensor) *tensor.Tensor {
	masks := max(0, m.c.ConditionDim()-m.c.OutDim)
	frame := y.Shape[3] * y.Shape[4]
	for b := range y.Shape[0] {
		for i := range masks * y.Shape[2] * frame {
			v := 0.0
			if i/frame%y.Shape[2] == 0 {
				v = 1
			}
			step.Put(y, b*y.Shape[1]*y.Shape[2]*frame+i, v)
		}
	}
	return y
}

// exampleScales are scales of control blocks that all differ.
func (m *Model) exampleScales(batch int) *tensor.Tensor {
	scales := tensor.New(dtype.F32, batch, len(m.c.ControlLayers))
	for i := range scales.Elements() {
		step.Put(scales, i, 1-0.25*float64(i%4))
	}
	return scales
}

// Feed makes the graph's inputs from the inputs that Request checks.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	times := "t"
	if r.TokenTimes {
		times = "t_tokens"
	}
	return step.Feeder{Times: times, Text: "context", FeedText: m.FeedText, FeedTimes: step.FeedTimes, FeedConditions: m.FeedConditions}.Feed(g, r, inputs)
}

// FeedStep makes the inputs that change from step to step, with one timestep for
// the whole batch.
func (m *Model) FeedStep(r models.Request, x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error) {
	return step.FeedStep(r, x, t, func(ts []float32) *tensor.Tensor { return step.TimeTable(ts, r.Batch, m.c.FreqDim) })
}

// FeedFrameTimes makes the inputs that change from step to step, with the timestep of its
// frame for each token.
func (m *Model) FeedFrameTimes(g *graph.Graph, r models.Request, x *tensor.Tensor, times []float64) (map[string]*tensor.Tensor, error) {
	frames, rows, cols := m.tokenGrid(r)
	if len(times) != frames {
		return nil, fault.New(models.ErrInputs, nil, "%d timesteps: want one for each of %d frames", len(times), frames)
	}
	x, err := x.As(dtype.F32)
	if err != nil {
		return nil, err
	}
	video := []float32{}
	for _, t := range times {
		video = append(video, slices.Repeat([]float32{float32(t)}, rows*cols)...)
	}
	in := map[string]*tensor.Tensor{"x": x}
	step.FeedTimes(g, r, slices.Repeat(video, r.Batch), in)
	return in, nil
}

// FeedText pads the context with zero rows to text_len, as the released models
// are run, and makes the rotary tables, with zeros for padded tokens.
func (m *Model) FeedText(g *graph.Graph, r models.Request, context *tensor.Tensor) (map[string]*tensor.Tensor, error) {
	length := m.c.TextLen
	if length == 0 {
		length = r.Text
	}
	if context.Shape[0] != r.Batch || context.Shape[1] > length || context.Shape[2] != m.c.TextDim {
		return nil, fault.New(models.ErrInputs, nil, "context %v: want (%d, up to %d, %d)", context.Shape, r.Batch, length, m.c.TextDim)
	}
	padded, err := step.PadRows(context, length, r.DType)
	if err != nil {
		return nil, err
	}
	cos, sin := step.RotaryPairs(m.Rope(m.tokenGrid(r)), g.Input("rope_cos").Shape[0], m.c.HeadDim())
	return map[string]*tensor.Tensor{"context": padded, "rope_cos": cos, "rope_sin": sin}, nil
}

// Rope returns the rotary angles of tokens (S, d/2). Of a head's d channels,
// d - 4(d/6) rotate by the frame, 2(d/6) by the row and 2(d/6) by the column.
func (m *Model) Rope(frames, rows, cols int) [][]float64 {
	d := m.c.HeadDim()
	return step.GridAngles(step.Grid{Frames: frames, Rows: rows, Cols: cols}, [3]int{d - 4*(d/6), 2 * (d / 6), 2 * (d / 6)}, [3]float64{10000, 10000, 10000})
}

// LatentShape returns (channels, frames, height, width) of the latent video. One
// latent covers 8x8 pixels, or 16x16 with Wan2.2's own VAE, and 4 frames, except
// that the first latent frame covers the first frame alone.
func (m *Model) LatentShape(width, height, frames int) ([]int, error) {
	return models.LatentShape(width, height, frames, m.c.LatentDim(), m.c.latentPixels(), 4, m.c.PatchSize)
}
