// Package vae has the pieces that the families of autoencoders build on: which latents and
// videos there are and how they are split over a mesh, graphs whose calls take a frame or a few
// frames each, the layers that autoencoders share, and tiles. What is computed is up to the
// family.
package vae

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/strategy"
	"weft/tensor"
)

// PictureChannels is the number of channels of a picture: red, green and blue.
const PictureChannels = 3

// Autoencoder says which latents (channels, frames, height, width) a model decodes and which
// videos (3, frames, height, width) it encodes. Its methods are what a family declares about
// them.
type Autoencoder struct {
	Model string // the model's name
	// Channels of the latents, and the configuration's word for their number.
	Channels    int
	ChannelsKey string
	Scale       int // pixels that a latent position is wide and high
	// FramesPerLatent is the number of frames that a latent frame stands for. The first stands
	// for one frame only.
	FramesPerLatent int
	// DecodedFrames is the number of frames that so many latent frames are decoded to. It is nil
	// where that is VideoFrames.
	DecodedFrames func(latent int) int
	// Latents are names of inputs to decode besides z, which take its place.
	Latents []string
}

// VideoFrames is the number of frames that so many latent frames stand for.
func (a Autoencoder) VideoFrames(latent int) int { return 1 + (latent-1)*a.FramesPerLatent }

// Axes are the mesh axes that the programs use: dp shards the batch, sp rows, tp columns.
// fsdp shards the weights alone: its devices compute the same.
var Axes = strategy.Axes(strategy.Batch, strategy.AtRest, strategy.Columns, strategy.Rows)

// CheckSplit reports axes over which an autoencoder cannot be sharded.
func (a Autoencoder) CheckSplit(on *mesh.Mesh) error {
	var l fault.List
	for _, axis := range on.Axes() {
		if axis.Size > 1 && !slices.Contains(Axes, axis.Name) {
			l.Add(fault.New(models.ErrAxis, struct {
				Axis  string   `json:"axis"`
				Known []string `json:"known"`
			}{axis.Name, Axes}, "axis %s=%d: %s is split over dp (the batch), sp (rows) and tp (columns), its weights over fsdp", axis.Name, axis.Size, a.Model))
		}
	}
	return l.Err()
}

// Check reports every reason why a mesh cannot run a request.
func (a Autoencoder) Check(on *mesh.Mesh, r models.Request) error {
	var l fault.List
	l.Add(a.CheckSplit(on))
	l.Add(models.CheckFSDP(on, r))
	if r.Batch < 1 {
		l.Add(fault.New(models.ErrInputs, nil, "batch %d: want 1 or more", r.Batch))
	} else {
		l.Add(models.CheckDim(on, models.ErrBatch, "batch", r.Batch, strategy.Batch))
	}
	if r.DType != dtype.F32 && r.DType != dtype.BF16 {
		l.Add(fault.New(models.ErrInputs, nil, "compute type %v: want f32 or bf16", r.DType))
	}
	if r.Layers > 0 {
		l.Add(fault.New(models.ErrInputs, nil, "%d layers: a decoder's stages cannot be left out", r.Layers))
	}
	err := a.CheckLatent(r.Latent)
	l.Add(err)
	if r.Strict && err == nil {
		for _, d := range splitDims(r.Latent) {
			if n := on.Size(d.axis); d.size%n != 0 {
				l.Add(models.NotDivisible(models.ErrSize, d.what+", whose padding is refused in strict mode,", d.size, d.axis, n))
			}
		}
	}
	return l.Err()
}

// CheckLatent reports latents of a shape that the model does not have.
func (a Autoencoder) CheckLatent(latent []int) error {
	if len(latent) != 4 {
		return fault.New(models.ErrInputs, nil, "latents of shape %v: want (channels, frames, height, width)", latent)
	}
	var l fault.List
	if latent[0] != a.Channels {
		l.Add(fault.New(models.ErrInputs, nil, "latents of %d channels: the decoder reads %s %d", latent[0], a.ChannelsKey, a.Channels))
	}
	for i, what := range []string{"frames", "height", "width"} {
		if n := latent[1+i]; n < 1 || n > 1<<16 {
			l.Add(fault.New(models.ErrSize, nil, "latent %s %d: want 1 or more, at most 65536", what, n))
		}
	}
	return l.Err()
}

// VideoShape is (channels, frames, height, width) of the video that latents
// (channels, frames, height, width) decode to.
func (a Autoencoder) VideoShape(latent []int) ([]int, error) {
	if err := a.CheckLatent(latent); err != nil {
		return nil, err
	}
	frames := a.VideoFrames
	if a.DecodedFrames != nil {
		frames = a.DecodedFrames
	}
	return []int{PictureChannels, frames(latent[1]), a.Scale * latent[2], a.Scale * latent[3]}, nil
}

// LatentShape is (channels, frames, height, width) of the latents that a video (3, frames,
// height, width) is encoded to. Error: a video that is not of such a size, with the nearest
// that are.
func (a Autoencoder) LatentShape(video []int) ([]int, error) {
	var l fault.List
	if video[0] != PictureChannels {
		l.Add(fault.New(models.ErrInputs, nil, "a video of %d channels: want %d (red, green, blue)", video[0], PictureChannels))
	}
	latent := []int{a.Channels}
	for i, d := range []struct {
		what       string
		unit, rest int // sizes are a multiple of unit, and rest more
	}{{"frames", a.FramesPerLatent, 1}, {"height", a.Scale, 0}, {"width", a.Scale, 0}} {
		n := video[1+i]
		if n < 1 || n > 1<<16*d.unit {
			l.Add(fault.New(models.ErrSize, nil, "video %s %d: want 1 or more, at most 65536 latents", d.what, n))
			continue
		}
		below := (n-d.rest)/d.unit*d.unit + d.rest
		latent = append(latent, (below-d.rest)/d.unit+d.rest)
		if below == n {
			continue
		}
		rule := "a multiple of %d"
		if d.rest > 0 {
			rule = "1 more than a multiple of %d"
		}
		nearest := fmt.Sprint(below + d.unit)
		if below > 0 {
			nearest = fmt.Sprintf("%d or %d", below, below+d.unit)
		}
		l.Add(fault.New(models.ErrSize, nil, "video %s %d: want "+rule+"; nearest: %s", d.what, n, d.unit, nearest))
	}
	return latent, l.Err()
}

// decoded lists the names of the inputs that are decoded.
func (a Autoencoder) decoded() []string { return append([]string{"z"}, a.Latents...) }

// Inputs names what the model reads: latents to decode, or a video to encode.
func (a Autoencoder) Inputs() []string { return append(a.decoded(), "video") }

// whichInput finds the input that a run is of: the first one that is given.
func (a Autoencoder) whichInput(inputs map[string]*tensor.Tensor) (string, *tensor.Tensor) {
	for _, name := range a.Inputs() {
		if t := inputs[name]; t != nil {
			return name, t
		}
	}
	return "", nil
}

// Request reads batch and latent shape off latents to decode (B, C, T, H, W), or else off video
// (B, 3, T, H, W), pixels from -1 to 1 to encode.
func (a Autoencoder) Request(inputs map[string]*tensor.Tensor) (models.Request, error) {
	name, t := a.whichInput(inputs)
	if t == nil {
		return models.Request{}, fault.New(models.ErrInputs, nil, "inputs \"z\" and \"video\" are missing: %s decodes the latents z or encodes a video", a.Model)
	}
	if !t.DType.IsFloat() {
		return models.Request{}, fault.New(models.ErrInputs, nil, "input %q is %v: want a floating-point type", name, t.DType)
	}
	return a.requestOf(name, t.Shape)
}

// FrameRequest is Request for an input that comes frame by frame, by its name and shape.
func (a Autoencoder) FrameRequest(input string, shape []int) (models.Request, error) {
	if slices.Contains(a.Latents, input) {
		return models.Request{}, fault.New(models.ErrInputs, nil, "input %q frame by frame: want z or video, or %s whole", input, input)
	}
	return a.requestOf(input, shape)
}

func (a Autoencoder) requestOf(input string, shape []int) (models.Request, error) {
	if len(shape) != 5 {
		return models.Request{}, fault.New(models.ErrInputs, nil, "input %q of shape %v: want (batch, channels, frames, height, width)", input, shape)
	}
	r := models.Request{Batch: shape[0], Latent: slices.Clone(shape[1:])}
	if slices.Contains(a.decoded(), input) {
		return r, a.CheckLatent(r.Latent)
	}
	if input != "video" {
		return r, fault.New(models.ErrInputs, nil, "input %q: %s reads z or video", input, a.Model)
	}
	r.Encode = true
	var err error
	r.Latent, err = a.LatentShape(r.Latent)
	return r, err
}

// Runs lists the decoding of latents and the encoding of video, as far as they are given. The
// outputs of the two have different names.
func (a Autoencoder) Runs(inputs map[string]*tensor.Tensor) []models.Variant {
	var runs []models.Variant
	for i, name := range a.Inputs() {
		if t := inputs[name]; t != nil {
			v := models.Variant{Inputs: map[string]*tensor.Tensor{name: t}}
			if i > 0 && name != "video" && inputs["z"] != nil {
				v.Suffix = "_" + name
			}
			runs = append(runs, v)
		}
	}
	if runs == nil {
		runs = []models.Variant{{Inputs: inputs}} // Request says what is missing
	}
	return runs
}

// Example makes latents z of unit variance from a seed. A nil latent gives 3 frames of
// 3 x 5.
func (a Autoencoder) Example(batch int, latent []int, seed uint64) (map[string]*tensor.Tensor, error) {
	if latent == nil {
		latent = []int{a.Channels, 3, 3, 5}
	}
	if err := a.CheckLatent(latent); err != nil {
		return nil, err
	}
	g := rand.New(rand.NewPCG(seed, 0))
	shape := append([]int{batch}, latent...)
	fs := make([]float32, tensor.Elements(shape))
	for i := range fs {
		fs[i] = float32(g.NormFloat64())
	}
	z, err := tensor.FromFloat32s(dtype.F32, fs, shape...)
	return map[string]*tensor.Tensor{"z": z}, err
}

// FeedFrames adds the graph's inputs that are frames of what a run is of: latents or a video.
func (a Autoencoder) FeedFrames(g *graph.Graph, inputs, to map[string]*tensor.Tensor) error {
	_, whole := a.whichInput(inputs)
	for _, in := range g.Inputs {
		if in.Of == "" {
			continue
		}
		frame, err := whole.Slice(2, in.Frame, in.Frame+1).As(in.DType)
		if err != nil {
			return err
		}
		to[in.Name] = frame
	}
	return nil
}

// Floats is an f32 tensor of one dim.
func Floats(values ...float64) (*tensor.Tensor, error) {
	fs := make([]float32, len(values))
	for i, v := range values {
		fs[i] = float32(v)
	}
	return tensor.FromFloat32s(dtype.F32, fs, len(fs))
}
