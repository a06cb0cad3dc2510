package cosmos3

import (
	"encoding/binary"
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
var stepInputNames = []string{"x", "t", "ids", "and if wanted mask, noisy_mask, und_position_ids, gen_position_ids"}

// firstGiven is the input's name for a second noisy_mask, which allows one more step:
// that with the first frame given.
const firstGiven = "noisy_mask_first_given"

// Request reads batch and latent shape off x (B, C, F, H, W), the text's length
// off ids (B, L), or (L) for one video; t is (B,). mask (B, L) is above 0 where an
// id is real; padding stands behind the real ids. noisy_mask (B, F) is 0 for frames that
// are given, which get no timestep. und_position_ids and gen_position_ids are
// (frame, row, column) positions of ids and tokens, (3, n) for all videos or (B, 3,
// n); unless given, those of a video of the base rate.
func (m *Model) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	in := models.Given{Model: m.name, Inputs: inputs, Reads: stepInputNames}
	x, t := in.Need("x", 5), in.Need("t", 1)
	if inputs["noisy_mask"] != nil {
		in.Need("noisy_mask", 2)
	}
	if err := in.Err(); err != nil {
		return models.Request{}, err
	}
	text, err := models.TextRequest(m.name, withBatch(inputs), m.c.Vocab, true)
	if err != nil {
		return models.Request{}, err
	}
	r := models.Request{Batch: x.Shape[0], Latent: slices.Clone(x.Shape[1:]), Text: text.Text, Masked: text.Masked, TokenTimes: inputs["noisy_mask"] != nil}
	in.OneBatch([]string{"x", "t", "ids"}, r.Batch, t.Shape[0], text.Batch)
	in.Add(m.checkLatent(r.Latent))
	if err := in.Err(); err != nil {
		return r, err
	}
	if n := inputs["noisy_mask"]; n != nil && !slices.Equal(n.Shape, []int{r.Batch, r.Latent[1]}) {
		in.Refuse("noisy_mask is %v: want %v, one number a frame", n.Shape, []int{r.Batch, r.Latent[1]})
	}
	for name, n := range map[string]int{"und_position_ids": r.Text, "gen_position_ids": step.GridOf(r.Latent, m.c.patchShape()).Tokens()} {
		p := inputs[name]
		if p == nil {
			continue
		}
		if !slices.Equal(p.Shape, []int{3, n}) && !slices.Equal(p.Shape, []int{r.Batch, 3, n}) {
			in.Refuse("%s is %v: want %v for all videos or %v", name, p.Shape, []int{3, n}, []int{r.Batch, 3, n})
		}
		if !p.DType.IsFloat() {
			in.Refuse("%s is %v: want a floating-point type", name, p.DType)
		}
	}
	return r, in.Err()
}

// withBatch returns ids and mask with a batch dim: one video's may come without it.
func withBatch(inputs map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for _, name := range []string{"ids", "mask"} {
		if t := inputs[name]; t != nil {
			out[name] = t
			if len(t.Shape) == 1 {
				out[name] = &tensor.Tensor{DType: t.DType, Shape: []int{1, t.Shape[0]}, Data: t.Data}
			}
		}
	}
	return out
}

// Runs lists the steps that inputs allow: one with noisy_mask as it is given, and,
// where noisy_mask_first_given is there, one with the first frame given.
func (m *Model) Runs(inputs map[string]*tensor.Tensor) []models.Variant {
	all := maps.Clone(inputs)
	delete(all, firstGiven)
	if inputs[firstGiven] == nil {
		return []models.Variant{{Inputs: all}}
	}
	given := maps.Clone(all)
	given["noisy_mask"] = inputs[firstGiven]
	return []models.Variant{{Inputs: all}, {Suffix: "_first_given", Inputs: given}}
}

// Example makes x, t, ids with a mask, each further text shorter, and the first
// frame given.
func (m *Model) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	if latent == nil {
		latent = []int{m.c.Channels, 3, 3 * m.c.Patch, 5 * m.c.Patch}
	}
	if err := m.checkLatent(latent); err != nil {
		return nil, err
	}
	in := step.ExampleText(batch, step.ExampleRows, m.c.Vocab, seed)
	in["x"] = step.Normals(seed)(append([]int{batch}, latent...)...)
	in["t"], in["noisy_mask"] = step.ExampleTimes(batch), tensor.New(dtype.F32, batch, latent[1])
	for b := range batch {
		for f := 1; f < latent[1]; f++ {
			step.Put(in["noisy_mask"], b*latent[1]+f, 1)
		}
	}
	return in, nil
}

// Feed makes the graph's inputs from the inputs that Request checks.
func (m *Model) Feed(g *graph.Graph, r models.Request, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	out, err := step.FeedIDs(g, withBatch(inputs))
	if err != nil {
		return nil, err
	}
	ts, err := inputs["t"].Float32s()
	if err != nil {
		return nil, err
	}
	out["time"] = m.timeTable(ts)
	if out["x"], err = inputs["x"].As(dtype.F32); err != nil {
		return nil, err
	}
	if r.TokenTimes {
		if out["noisy"], err = inputs["noisy_mask"].As(dtype.F32); err != nil {
			return nil, err
		}
	}
	lengths := m.realTextLengths(r, out["mask"])
	for _, part := range []struct {
		name, given string
		own         func(length int) [][3]float64
	}{
		{"text", "und_position_ids", func(int) [][3]float64 { return textPositions(m.textLength(r)) }},
		{"video", "gen_position_ids", func(length int) [][3]float64 { return m.videoPositions(r, length) }},
	} {
		places := make([][][3]float64, r.Batch)
		for b := range places {
			if p := inputs[part.given]; p != nil {
				if places[b], err = readPositions(p, b); err != nil {
					return nil, err
				}
			} else {
				places[b] = part.own(lengths[b])
			}
		}
		m.addRotaryTables(g, part.name, places, out)
	}
	return out, nil
}

// textLength returns the number of ids that a request's texts are padded to.
func (m *Model) textLength(r models.Request) int {
	if r.Text == 0 {
		return textLen
	}
	return r.Text
}

// realTextLengths counts the ids of each text that are not padding.
func (m *Model) realTextLengths(r models.Request, mask *tensor.Tensor) []int {
	out := slices.Repeat([]int{m.textLength(r)}, r.Batch)
	if mask == nil {
		return out
	}
	for b := range out {
		out[b] = 0
		for _, real := range mask.Data[b*mask.Shape[1] : (b+1)*mask.Shape[1]] {
			out[b] += int(real)
		}
	}
	return out
}

// textPositions returns the positions of n ids. An id has the same position as frame,
// row and column.
func textPositions(n int) [][3]float64 {
	out := make([][3]float64, n)
	for i := range out {
		out[i] = [3]float64{float64(i), float64(i), float64(i)}
	}
	return out
}

// videoPositions returns the positions of a video's tokens behind a text of length
// ids. Frames begin a margin behind the text and are further apart where the video
// has fewer frames a second than the base rate; rows and columns begin at 0.
func (m *Model) videoPositions(r models.Request, length int) [][3]float64 {
	grid := step.GridOf(r.Latent, m.c.patchShape())
	pace := 1.0
	if r.FPS > 0 && grid.Frames > 1 {
		pace = m.c.BaseFPS / r.FPS
	}
	out := make([][3]float64, grid.Tokens())
	for s := range out {
		f, y, x := grid.At(s)
		out[s] = [3]float64{pace*float64(f) + float64(length+m.c.FramesBehind), float64(y), float64(x)}
	}
	return out
}

// readPositions reads the positions of video b from p, which is (3, n) for all videos
// or (B, 3, n).
func readPositions(p *tensor.Tensor, b int) ([][3]float64, error) {
	fs, err := p.Float32s()
	if err != nil {
		return nil, err
	}
	n := p.Shape[len(p.Shape)-1]
	if len(p.Shape) == 3 {
		fs = fs[3*n*b:]
	}
	out := make([][3]float64, n)
	for i := range out {
		out[i] = [3]float64{float64(fs[i]), float64(fs[n+i]), float64(fs[2*n+i])}
	}
	return out, nil
}

// addRotaryTables adds the tables name_cos and name_sin (B, rows, d) of positions to
// out. Rows past the last position are zero.
func (m *Model) addRotaryTables(g *graph.Graph, name string, places [][][3]float64, out map[string]*tensor.Tensor) {
	cos, sin := tensor.New(dtype.F32, g.Input(name+"_cos").Shape...), tensor.New(dtype.F32, g.Input(name+"_sin").Shape...)
	size := len(cos.Data) / len(places)
	for b, p := range places {
		c, s := step.RotaryHalves(m.Rope(p), cos.Shape[1], m.c.HeadDim)
		copy(cos.Data[b*size:], c.Data)
		copy(sin.Data[b*size:], s.Data)
	}
	out[name+"_cos"], out[name+"_sin"] = cos, sin
}

// Rope returns the rotary angles (n, d/2) of positions. Pair i of a head's channels
// rotates with the frequency theta^(-2i/d): by the row where i mod 3 is 1, by the
// column where it is 2, and else by the frame. Pairs behind the first 3 times as
// many as rows and columns have in rope_axes_dim rotate by the frame as well. The
// angles are rounded to f32 step by step as in the released model, whose tables at
// position 15,000 are some 1e-3 from exact ones.
func (m *Model) Rope(places [][3]float64) [][]float64 {
	half := m.c.HeadDim / 2
	frequencies, axis := make([]float32, half), make([]int, half)
	for i := range half {
		e := float32(2*i) / float32(m.c.HeadDim)
		frequencies[i] = 1 / float32(math.Pow(m.c.RopeTheta, float64(e)))
		if a := i % 3; a > 0 && i < 3*m.c.RopeAxes[a] {
			axis[i] = a
		}
	}
	out := make([][]float64, len(places))
	for s, place := range places {
		out[s] = make([]float64, half)
		for i, f := range frequencies {
			out[s][i] = float64(float32(place[axis[i]]) * f)
		}
	}
	return out
}

// timeTable returns the sinusoids (B, 1, 256) of timesteps. The model reads sigma in
// place of a timestep: t in 0..1000 times the config's scale.
func (m *Model) timeTable(ts []float32) *tensor.Tensor {
	return step.TimeTable(step.ScaleTimesteps(ts, m.c.TimeScale), len(ts), 1, timeDim)
}

// FeedStep makes the inputs that change from step to step, with one timestep for
// the whole batch.
func (m *Model) FeedStep(r models.Request, x *tensor.Tensor, t float64) (map[string]*tensor.Tensor, error) {
	return step.FeedStep(r, x, t, m.timeTable)
}

// FeedText makes the inputs that stay the same in every step, from ids (B, up to L)
// for texts that the request pads to L ids. Negative ids are padding.
func (m *Model) FeedText(g *graph.Graph, r models.Request, ids *tensor.Tensor) (map[string]*tensor.Tensor, error) {
	length := m.textLength(r)
	numbers, err := ids.Int64s()
	if err != nil || len(ids.Shape) != 2 || ids.Shape[0] != r.Batch || ids.Shape[1] > length {
		return nil, fault.New(models.ErrInputs, nil, "ids %v: want integers (%d, up to %d)", ids, r.Batch, length)
	}
	out := map[string]*tensor.Tensor{"ids": tensor.New(dtype.I32, r.Batch, length)}
	mask := tensor.New(dtype.Bool, r.Batch, length)
	for i, id := range numbers {
		at := i/ids.Shape[1]*length + i%ids.Shape[1]
		switch {
		case id >= int64(m.c.Vocab):
			return nil, fault.New(models.ErrInputs, nil, "id %d at %d: the vocabulary has %d", id, i, m.c.Vocab)
		case id >= 0:
			binary.LittleEndian.PutUint32(out["ids"].Data[4*at:], uint32(id))
			mask.Data[at] = 1
		}
	}
	lengths := m.realTextLengths(r, mask)
	if r.Masked {
		out["mask"] = mask
	} else if slices.Min(lengths) < length {
		return nil, fault.New(models.ErrInputs, nil, "ids %v have %v real ones of %d: padding needs a mask", ids, lengths, length)
	}
	texts, videos := make([][][3]float64, r.Batch), make([][][3]float64, r.Batch)
	for b := range r.Batch {
		texts[b], videos[b] = textPositions(length), m.videoPositions(r, lengths[b])
	}
	m.addRotaryTables(g, "text", texts, out)
	m.addRotaryTables(g, "video", videos, out)
	return out, nil
}

// LatentShape returns (channels, frames, height, width) of the latent video of
// Wan2.2's VAE. One latent covers 16x16 pixels and 4 frames, except that the first
// latent frame covers the first frame alone.
func (m *Model) LatentShape(width, height, frames int) ([]int, error) {
	return models.LatentShape(width, height, frames, m.c.Channels, 16, 4, m.c.patchShape())
}
