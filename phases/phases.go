// Package phases has the one list of what making a video computes, in order:
//
//	text     the prompt and the negative prompt to rows of text
//	image    a given image to what the transformer reads of it; not for every model
//	denoise  noise to latents
//	decode   latents to frames
//
// Each phase runs one model or several, one after another, each on a mesh of its own of the
// same devices and with its own weights. The list says of each run which model, with which
// request and on which meshes; it knows no checkpoint and no hardware. Package plan counts
// what the runs take, and package aot compiles their programs.
package phases

import (
	"cmp"
	"slices"

	"weft/attention"
	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/request"
	"weft/spmd"
)

// The phases.
const (
	Text    = "text"
	Image   = "image"
	Denoise = "denoise"
	Decode  = "decode"
)

// Names lists the phases in order.
func Names() []string { return []string{Text, Image, Denoise, Decode} }

// AutoencoderType is the type that autoencoders compute in where the request does not say
// another one (request.Request.AutoencoderType), whatever the transformer computes in.
const AutoencoderType = dtype.F32

// Run is the run of one model in a phase.
type Run struct {
	Phase string
	// Name is the model's. Model is nil where weft has no such model.
	Name  string
	Model models.Model
	// Request is what the model computes, without a target.
	Request models.Request
	Passes  int // of the graph, in one run
	// Tiles is how many tiles of one size are computed one after another, each of them as Request
	// says; 0 where there are none.
	Tiles int
	// meshes lists the meshes to try of so many devices, the best first. It is nil for the
	// transformer, whose mesh is asked for.
	meshes func(devices int) [][]mesh.Axis
}

// Parts are the models beside the transformer where others than those that it was published with
// are run, or where their files are known. nil stands for the one that it was published with.
// Texts are in the order in which the generator lists its encoders.
type Parts struct {
	Texts               []models.Model
	Stages              []models.Model // that the texts go through behind their encoders
	Vision, Autoencoder models.Model
}

// stage is the model that a text goes through of a number, nil for the one that it was published with.
func (p Parts) stage(i int) models.Model {
	if i < len(p.Stages) {
		return p.Stages[i]
	}
	return nil
}

// text is the text encoder of a number, nil for the one that it was published with.
func (p Parts) text(i int) models.Model {
	if i < len(p.Texts) {
		return p.Texts[i]
	}
	return nil
}

// Of lists the runs of a video that a generator makes with the models that it was published
// with. Errors: those of request.Request.OfVideo, and models.ErrSize for tiles that the
// autoencoder cannot have.
func Of(m models.Model, r request.Request) ([]Run, error) { return OfParts(m, r, Parts{}) }

// OfParts is Of with the parts that are loaded.
func OfParts(m models.Model, r request.Request, parts Parts) ([]Run, error) {
	step, passes, err := r.OfVideo(m)
	if err != nil {
		return nil, err
	}
	r = r.WithRelease(m)
	gen := m.Features().Generator
	c := gen.Companions
	var runs []Run
	runs = append(runs, encodeTexts(gen, parts, r)...)
	runs = append(runs, encodeImage(gen, parts, r, step.Latent)...)
	runs = append(runs, Run{Phase: Denoise, Name: m.Name(), Model: m, Request: step, Passes: passes})
	decode, err := decodeVideo(c.Decoder, parts.Autoencoder, r, gen.DecodedLatents(step.Latent, r.Frames))
	return append(runs, decode...), err
}

// autoencoderType is the type that a request's autoencoder computes in.
func autoencoderType(r request.Request) dtype.DType {
	return cmp.Or(r.AutoencoderType, AutoencoderType)
}

// decodeVideo lists the runs that decode the latents: one, or in tiles one for each of their sizes,
// all on the mesh of the whole pictures.
func decodeVideo(decoder string, loaded models.Model, r request.Request, latent []int) ([]Run, error) {
	whole := models.Request{Batch: r.Batch, Latent: latent, DType: autoencoderType(r)}
	run := newRun(Decode, decoder, loaded, whole, picturesOf(whole))
	if r.Tiles == nil || run.Model == nil {
		return []Run{run}, nil
	}
	tiler := run.Model.Features().Tiled
	if tiler == nil {
		return nil, fault.New(models.ErrInputs, nil, "%s is not computed in tiles", decoder)
	}
	tiles, err := tiler.DecodingRequests(whole, *r.Tiles)
	if err != nil {
		return nil, err
	}
	runs := make([]Run, len(tiles))
	for i, t := range tiles {
		runs[i] = run
		runs[i].Request, runs[i].Tiles = t.Request, t.Count
	}
	return runs, nil
}

// picturesOf lists the meshes of an autoencoder's request.
func picturesOf(r models.Request) func(devices int) [][]mesh.Axis {
	return func(devices int) [][]mesh.Axis { return PictureMeshes(devices, r) }
}

// newRun makes a run of a preset, or of the model that is loaded in its place.
func newRun(phase, name string, loaded models.Model, r models.Request, meshes func(int) [][]mesh.Axis) Run {
	out := Run{Phase: phase, Name: name, Request: r, Passes: 1, meshes: meshes}
	if loaded != nil {
		out.Name, out.Model = loaded.Name(), loaded
	} else if m, err := models.ByName(name); err == nil {
		out.Model = m
	}
	return out
}

// encodeTexts lists the runs that encode the prompts and, where videos are guided by it, the
// negative prompts, all at once: one for each text encoder. A generator that says nothing of how
// its text is made is given the rows of its encoder's.
func encodeTexts(gen *models.Generator, parts Parts, r request.Request) []Run {
	texts, textLen := gen.Texts, cmp.Or(r.TextLen, r.Settings.Release.TextLen)
	if len(texts) == 0 {
		texts, textLen = []models.TextEncoding{{Masked: true}}, r.TextLen
	}
	batch := r.Batch
	if r.CFG != models.CFGNone {
		batch *= 2
	}
	var runs []Run
	stages := 0
	for i, t := range texts {
		if t.PresetOf(gen) == "" {
			continue // the transformer reads the tokens
		}
		rows := 0
		if t.Image != nil {
			tower := newRun(Text, t.Image.Vision, nil, models.Request{Batch: 1, DType: r.ComputeType()}, TextMeshes)
			if runs = append(runs, tower); tower.Model != nil {
				rows = tower.Model.Features().Vision.Rows
			}
		}
		run := newRun(Text, t.PresetOf(gen), parts.text(i), models.Request{Batch: batch, Text: t.EncoderRows(textLen, rows), DType: r.ComputeType()}, TextMeshes)
		if run.Model != nil {
			run.Request.Masked = t.Masked && slices.Contains(run.Model.Inputs(), "mask")
			run.Request.TextRows = run.Model.Features().TokenTable != "" // the table stays in its file
		}
		runs = append(runs, run)
		for _, then := range t.Then {
			run := newRun(Text, then.Preset, parts.stage(stages), models.Request{Batch: batch, Text: t.Length(textLen), DType: r.ComputeType()}, TextMeshes)
			if stages++; run.Model != nil {
				run.Request.Masked = slices.Contains(run.Model.Inputs(), "context_mask")
			}
			runs = append(runs, run)
		}
	}
	return runs
}

// encodeImage lists the runs that make of one image, which all videos of the batch begin with,
// what the transformer reads: features of a vision encoder, and latents. Those are of a video
// that begins with the image, or for a model whose first latent frame is the image, of the
// image alone. Such a model also makes videos of a text alone; an image is given where the
// request says that tokens have timesteps of their own. Where nothing prepares the image, the run
// is that of the autoencoder, without a model.
func encodeImage(gen *models.Generator, parts Parts, r request.Request, latent []int) []Run {
	var runs []Run
	use := gen.Image
	if use.Vision != "" {
		runs = append(runs, newRun(Image, use.Vision, parts.Vision, models.Request{Batch: use.VisionImages(), DType: r.ComputeType()}, TextMeshes))
	}
	encode := models.Request{Batch: 1, Encode: true, DType: autoencoderType(r)}
	switch {
	case use.Unprepared:
		return append(runs, Run{Phase: Image, Name: gen.Companions.Decoder, Passes: 1})
	case use.LatentChannels > 0 && !use.Alone:
		encode.Latent = latent
	case gen.Control != nil: // what is kept of a control video, and what is made anew
		encode.Latent = latent
		run := newRun(Image, gen.Companions.Decoder, parts.Autoencoder, encode, picturesOf(encode))
		run.Passes = 2
		return append(runs, run)
	case use.Alone, use.KeepsFirst && (r.TokenTimes || use.Needed):
		encode.Latent = append([]int{latent[0], 1}, latent[2:]...)
	default:
		return runs
	}
	return append(runs, newRun(Image, gen.Companions.Decoder, parts.Autoencoder, encode, picturesOf(encode)))
}

// Target is the run's own for hardware with the target that is asked for. The kernel, where it
// is demanded, is demanded of the transformer: encoders and decoders take it where they can.
func (r Run) Target(t spmd.Target) spmd.Target {
	if r.Phase != Denoise && t.Attention == attention.Kernel {
		t.Attention = attention.Auto
	}
	return t
}

// Place finds the first mesh of so many devices on which the model runs the request, whose
// target is the run's own. A mesh may leave devices idle. It is nil where there is none, and for the transformer.
func (r Run) Place(devices int, req models.Request) []mesh.Axis {
	if r.Model == nil || r.meshes == nil {
		return nil
	}
	for _, axes := range r.meshes(devices) {
		on, err := mesh.Local(axes...)
		if err == nil && r.Model.Check(on, req) == nil {
			return axes
		}
	}
	return nil
}
