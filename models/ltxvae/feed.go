package ltxvae

import (
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/models/step"
	"weft/models/vae"
	"weft/tensor"
)

// Inputs names what the model reads: latents to decode, with the timestep and the noise of a
// decoder that has them, or a video to encode.
func (m *Model) Inputs() []string { return append(m.pictures.Inputs(), m.besideLatents()...) }

// besideLatents names what a decoding reads besides the latents.
func (m *Model) besideLatents() []string {
	var names []string
	if m.c.Timestep {
		names = append(names, "timestep")
	}
	for i := range m.c.noiseScales() {
		names = append(names, noiseName(i))
	}
	return names
}

// Runs lists the decoding of latents and the encoding of a video, as far as they are given.
func (m *Model) Runs(inputs map[string]*tensor.Tensor) []models.Variant {
	runs := m.pictures.Runs(inputs)
	for _, run := range runs {
		if run.Inputs["video"] != nil {
			continue
		}
		for _, name := range m.besideLatents() {
			if t := inputs[name]; t != nil {
				run.Inputs[name] = t
			}
		}
	}
	return runs
}

// FrameRequest is the request for an input that comes frame by frame, by its name and shape. A
// decoder with a timestep takes its inputs whole.
func (m *Model) FrameRequest(input string, shape []int) (models.Request, error) {
	r, err := m.pictures.FrameRequest(input, shape)
	if err == nil && !r.Encode && m.c.Timestep {
		err = fault.New(models.ErrInputs, nil, "input %q frame by frame: %s reads a timestep beside the latents, so want its inputs whole", input, m.pictures.Model)
	}
	return r, err
}

// Example makes latents of unit variance from a seed, and where the decoder reads them a timestep
// of 0.05 and noise.
func (m *Model) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	out, err := m.pictures.Example(batch, latent, seed)
	if err != nil {
		return nil, err
	}
	if m.c.Timestep {
		if out["timestep"], err = vae.Floats(slices.Repeat([]float64{0.05}, batch)...); err != nil {
			return nil, err
		}
	}
	normals, z := step.Normals(seed+1), out["z"].Shape
	for i, scale := range m.c.noiseScales() {
		out[noiseName(i)] = normals(scale*z[3], scale*z[4])
	}
	return out, nil
}

// Feed makes the graph's inputs: frames of latents or of a video, and what a decoding reads
// besides. Error: ErrInputs for a timestep or noise that is missing or of another shape.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	if !r.Encode {
		if err := m.feedBesideLatents(g, r, inputs, out); err != nil {
			return nil, err
		}
	}
	return out, m.pictures.FeedFrames(g, inputs, out)
}

// feedBesideLatents makes those of the graph's inputs that a decoding reads besides the latents.
func (m *Model) feedBesideLatents(g *graph.Graph, r models.Request, inputs, to map[string]*tensor.Tensor) (err error) {
	is := 1.0
	if inputs["z"] == nil {
		is = 0
	}
	if to[normalisedLatents], err = vae.Floats(is); err != nil {
		return err
	}
	var l fault.List
	for i := range m.c.noiseScales() {
		name := noiseName(i)
		t, want := inputs[name], g.Input(name).Shape
		if t == nil || !t.DType.IsFloat() || !slices.Equal(t.Shape, want) {
			l.Add(fault.New(models.ErrInputs, nil, "input %q is %v: want noise of a floating-point type and shape %v, one plane for all channels and frames", name, t, want))
			continue
		}
		if to[name], err = t.As(dtype.F32); err != nil {
			return err
		}
	}
	if m.c.Timestep {
		ts, err := timesteps(inputs["timestep"], r.Batch)
		l.Add(err)
		if err == nil {
			to["time"] = step.TimeTable(ts, g.Input("time").Shape...)
		}
	}
	return l.Err()
}

// timesteps are 1000 times the timestep of each video. The input has one for each, or one for all.
func timesteps(t *tensor.Tensor, batch int) ([]float32, error) {
	if t == nil || !t.DType.IsFloat() || len(t.Shape) != 1 || t.Shape[0] != 1 && t.Shape[0] != batch {
		return nil, fault.New(models.ErrInputs, nil, "input \"timestep\" is %v: want a floating-point type of shape [%d] or [1], from 0 to 1", t, batch)
	}
	ts, err := t.Float32s()
	if err != nil {
		return nil, err
	}
	for i := range ts {
		ts[i] *= 1000
	}
	if len(ts) < batch {
		ts = slices.Repeat(ts, batch)
	}
	return ts, nil
}

// FeedStatic makes the graph's inputs that are no frames, for an encoding or a decoding without a
// timestep.
func (m *Model) FeedStatic(g *graph.Graph) (map[string]*tensor.Tensor, error) {
	out := map[string]*tensor.Tensor{}
	if g.Input(normalisedLatents) == nil {
		return out, nil
	}
	var err error
	out[normalisedLatents], err = vae.Floats(1)
	return out, err
}
