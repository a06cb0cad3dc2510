package cosmos25

import (
	"maps"
	"math"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/tensor"
)

// stepInputNames lists the inputs of a step as an error message shows them.
var stepInputNames = []string{"x", "t (or t_frames)", "context", "condition_mask and padding_mask if wanted"}

// Request reads batch, latent shape and text length off x (B, C, F, H, W), t
// (B,) and context (B, rows, text_dim). t_frames (B, F), a timestep for every
// frame, takes the place of t. condition_mask (B, 1, F, H, W) is 1 where a
// latent is given, padding_mask, of that shape, where a pixel is real: 0 and 1
// everywhere unless given.
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	in := models.Given{Model: m.name, Inputs: inputs, Reads: stepInputNames}
	x, context := in.Need("x", 5), in.Need("context", 3)
	perFrame := inputs["t_frames"] != nil
	var t *tensor.Tensor
	if perFrame {
		t = in.Need("t_frames", 2)
	} else {
		t = in.Need("t", 1)
	}
	given := map[string]*tensor.Tensor{}
	for _, name := range []string{"condition_mask", "padding_mask"} {
		if inputs[name] != nil {
			given[name] = in.Need(name, 5)
		}
	}
	if err := in.Err(); err != nil {
		return models.Request{}, err
	}
	r := models.Request{Batch: x.Shape[0], Latent: slices.Clone(x.Shape[1:]), Text: context.Shape[1], TokenTimes: perFrame}
	in.OneBatch([]string{"x", "timesteps", "context"}, r.Batch, t.Shape[0], context.Shape[0])
	if context.Shape[2] != m.c.TextDim {
		in.Refuse("context rows of %d numbers: the model reads crossattn_proj_in_channels %d", context.Shape[2], m.c.TextDim)
	}
	if context.Shape[1] < 1 || context.Shape[1] > TextLen {
		in.Refuse("context of %d rows: the model reads 1 to %d", context.Shape[1], TextLen)
	}
	in.Add(m.checkLatent(r.Latent))
	if perFrame && t.Shape[1] != r.Latent[1] {
		in.Refuse("t_frames is %v: x has %d frames", t.Shape, r.Latent[1])
	}
	want := append([]int{r.Batch, 1}, r.Latent[1:]...)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Equal(given[name].Shape, want) {
			in.Refuse("%s is %v: want %v, one channel of x's shape", name, given[name].Shape, want)
		}
	}
	return r, in.Err()
}

// Runs lists the steps that inputs allow. With t, all frames are denoised alike and
// none is given. Where t_frames is there as well, a second step reads it and
// condition_mask, and makes out_frames.
func (m *Model) Runs(inputs map[string]*tensor.Tensor) []models.Variant {
	if inputs["t"] == nil || inputs["t_frames"] == nil {
		return []models.Variant{{Inputs: inputs}}
	}
	all, frames := maps.Clone(inputs), maps.Clone(inputs)
	delete(all, "t_frames")
	delete(all, "condition_mask")
	delete(frames, "t")
	return []models.Variant{{Inputs: all}, {Suffix: "_frames", Inputs: frames}}
}

// Example makes x, a context two rows short of full at most 14, and a timestep
// for every frame, the first frame given and nearly without noise.
func (m *Model) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	if latent == nil {
		p := m.c.Patch()
		latent = []int{m.c.InChannels, 3 * p[0], 3 * p[1], 5 * p[2]}
	}
	if err := m.checkLatent(latent); err != nil {
		return nil, err
	}
	normal := step.Normals(seed)
	in := map[string]*tensor.Tensor{"x": normal(append([]int{batch}, latent...)...), "context": normal(batch, 14, m.c.TextDim)}
	if m.c.PatchTemporal != 1 {
		in["t"] = step.ExampleTimes(batch)
		return in, nil
	}
	frames, t := latent[1], tensor.New(dtype.F32, batch, latent[1])
	mask := tensor.New(dtype.F32, append([]int{batch, 1}, latent[1:]...)...)
	frame := latent[2] * latent[3]
	for b := range batch {
		step.Put(t, b*frames, 1)
		for f := 1; f < frames; f++ {
			step.Put(t, b*frames+f, step.ExampleTime(b, batch))
		}
		for i := range frame {
			step.Put(mask, b*frames*frame+i, 1)
		}
	}
	in["t_frames"], in["condition_mask"] = t, mask
	return in, nil
}

// Feed makes the graph's inputs from the inputs that Request checks.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	times := "t"
	if r.TokenTimes {
		times = "t_frames"
	}
	out, err := step.Feeder{Times: times, Text: "context", FeedText: m.FeedText, FeedTimes: func(g *graph.Graph, _ models.Request, ts []float32, to map[string]*tensor.Tensor) {
		to["time"] = m.timeTable(ts, g.Input("time").Shape...)
	}}.Feed(g, r, inputs)
	if err != nil {
		return nil, err
	}
	for i, name := range []string{"condition_mask", "padding_mask"} {
		if inputs[name] == nil {
			continue
		}
		given, err := inputs[name].As(dtype.F32)
		if err != nil {
			return nil, err
		}
		size := len(given.Data) / r.Batch
		for b := range r.Batch {
			copy(out["masks"].Data[(masks*b+i)*size:], given.Data[b*size:(b+1)*size])
		}
	}
	return out, nil
}

// timeTable returns the sinusoids of timesteps. The model reads sigma in place of a
// timestep: t in 0..1000 times the config's scale.
func (m *Model) timeTable(ts []float32, shape ...int) *tensor.Tensor {
	return step.TimeTable(step.ScaleTimesteps(ts, m.c.TimeScale), shape...)
}

// FeedStep makes the inputs that change from step to step, with one timestep for
// the whole batch.
func (m *Model) FeedStep(r models.Request, x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error) {
	return step.FeedStep(r, x, t, func(ts []float32) *tensor.Tensor { return m.timeTable(ts, r.Batch, 1, m.c.Width) })
}

// feedGeneratorText makes the inputs that stay the same in every step of a video, as the releases'
// pipelines do: they give the channel that would say which pixels are real as zeros.
func (m *Model) feedGeneratorText(g *graph.Graph, r models.Request, context *tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out, err := m.FeedText(g, r, context)
	if err == nil {
		out["masks"] = tensor.New(dtype.F32, g.Input("masks").Shape...)
	}
	return out, err
}

// FeedText pads the context with zero rows to TextLen, as the released models are
// run. It also makes the rotary tables, and masks for the usual case that all
// pixels are real and no frame is given.
func (m *Model) FeedText(g *graph.Graph, r models.Request, context *tensor.Tensor) (map[string]*tensor.Tensor, error) {
	if context.Shape[0] != r.Batch || context.Shape[1] > TextLen || context.Shape[2] != m.c.TextDim {
		return nil, fault.New(models.ErrInputs, nil, "context %v: want (%d, up to %d, %d)", context.Shape, r.Batch, TextLen, m.c.TextDim)
	}
	padded, err := step.PadRows(context, TextLen, r.DType)
	if err != nil {
		return nil, err
	}
	out := map[string]*tensor.Tensor{"context": padded, "masks": tensor.New(dtype.F32, g.Input("masks").Shape...)}
	n := tensor.Elements(r.Latent[1:])
	for b := range r.Batch {
		for i := range n {
			step.Put(out["masks"], (masks*b+1)*n+i, 1)
		}
	}
	out["rope_cos"], out["rope_sin"] = step.RotaryHalves(m.Rope(step.GridOf(r.Latent, m.c.Patch())), g.Input("rope_cos").Shape[0], m.c.HeadDim())
	return out, nil
}

// Rope returns the rotary angles of tokens (S, d/2). The positions of frame, row and
// column rotate n = d - 4(d/6), 2(d/6) and 2(d/6) channels of a head, with the
// frequencies (10000 ratio^(n/(n-2)))^(-2i/n).
func (m *Model) Rope(grid step.Grid) [][]float64 {
	parts, ratios := m.c.rotaryChannels(), [3]float64{m.c.RopeT, m.c.RopeH, m.c.RopeW}
	var thetas [3]float64
	for a, n := range parts {
		thetas[a] = 10000 * math.Pow(ratios[a], float64(n)/float64(n-2))
	}
	return step.GridAngles(grid, parts, thetas)
}

// LatentShape returns (channels, frames, height, width) of the latent video of
// Wan2.1's VAE. One latent covers 8x8 pixels and 4 frames, except that the first
// latent frame covers the first frame alone.
func (m *Model) LatentShape(width, height, frames int) ([]int, error) {
	return models.LatentShape(width, height, frames, m.c.InChannels, pixelsPerLatent, 4, m.c.Patch())
}
