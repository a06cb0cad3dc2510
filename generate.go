package weft

import (
	"context"
	"slices"

	"weft/fault"
	"weft/models"
	"weft/picture"
	"weft/pipeline"
	"weft/plan"
)

// Pipeline is a release with all parts that make a video: transformer, text encoder, tokenizer
// and autoencoder.
type Pipeline struct{ *pipeline.Pipeline }

// OpenPipeline finds and opens the parts of the release in a folder, which is in its publisher's
// layout or in diffusers'. Only configurations, headers and the tokenizer are read. Errors are
// those of pipeline.Open.
func OpenPipeline(dir string, o pipeline.OpenOptions) (*Pipeline, error) {
	p, err := pipeline.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &Pipeline{p}, nil
}

// GenerateOptions of Pipeline.Generate, Encode and Decode. The request of Video is taken for
// the phases too: its mesh is the denoiser's, and the other phases have meshes of their own
// over the same devices.
type GenerateOptions struct {
	Video pipeline.Options
	// Run says how it is carried out. Its request is not read.
	Run Options
	// Devices, where set, are those that stay between generations.
	Devices *KeptDevices
	// Of Devices that several generations have at a time: OnTurn, where set, is told when this one
	// uses them first. OnBeside is told when the video is being decoded, and another one may be
	// denoised beside it.
	OnTurn, OnBeside func()
}

// Generated is the result of Generate. Its JSON is what weft generate prints.
type Generated = pipeline.Result

// Generate makes a video of a prompt: the text phase, the denoising loop, and the decoding, whose
// frames go to the file as they come. Everything that is asked is checked before the first
// weight is read. Errors are those of pipeline.Generate.
func (p *Pipeline) Generate(ctx context.Context, o GenerateOptions) (*Generated, error) {
	return p.runPhases(ctx, o, func(d pipeline.Devices, v pipeline.Options) (*Generated, error) {
		return p.Pipeline.Generate(ctx, d, v)
	})
}

// Check decides and checks everything that Generate would for a video, and gives its result as
// far as it is known before the first weight is read: sizes, settings with their sources, notes.
// No file is read or written: the pictures that the video begins and ends with are given, nil
// for none, and no outputs are looked at. Errors are those of pipeline.Generate.
func (p *Pipeline) Check(ctx context.Context, o GenerateOptions, first, last *picture.Image) (*Generated, error) {
	return p.runPhases(ctx, o, func(d pipeline.Devices, v pipeline.Options) (*Generated, error) {
		return p.Pipeline.Check(ctx, d, v, first, last)
	})
}

// GenerateAll makes several videos, one of each of the options of Video, with the texts
// encoded at once. The programs and weights of the other phases stay from one video to the next
// as far as memory allows (PhaseDevices). Everything that is asked of any of them is checked before the first weight
// is read. The results of those that were made come beside an error.
func (p *Pipeline) GenerateAll(ctx context.Context, videos []pipeline.Options, run Options) ([]*Generated, error) {
	if len(videos) == 0 {
		return nil, fault.New(models.ErrInputs, nil, "no videos are asked for")
	}
	var all []*Generated
	_, err := p.runPhases(ctx, GenerateOptions{Video: videos[0], Run: run}, func(d pipeline.Devices, v pipeline.Options) (*Generated, error) {
		videos := slices.Clone(videos)
		for i := range videos {
			videos[i].Mesh, videos[i].FSDP = v.Mesh, v.FSDP
		}
		var err error
		all, err = p.Pipeline.GenerateAll(ctx, d, videos)
		return nil, err
	})
	return all, err
}

// Encode runs the text phase alone.
func (p *Pipeline) Encode(ctx context.Context, o GenerateOptions) (*Generated, error) {
	return p.runPhases(ctx, o, func(d pipeline.Devices, v pipeline.Options) (*Generated, error) { return p.Pipeline.Encode(ctx, d, v) })
}

// Decode runs the decoding alone, of the latents in a file.
func (p *Pipeline) Decode(ctx context.Context, latents string, o GenerateOptions) (*Generated, error) {
	return p.runPhases(ctx, o, func(d pipeline.Devices, v pipeline.Options) (*Generated, error) {
		return p.Pipeline.Decode(ctx, d, latents, v)
	})
}

// runPhases gives a pipeline its devices for as long as run takes.
func (p *Pipeline) runPhases(ctx context.Context, o GenerateOptions, run func(pipeline.Devices, pipeline.Options) (*Generated, error)) (*Generated, error) {
	v := o.Video
	best, err := plan.Best(ctx, p.Denoiser(), plan.Options{Request: v.Request})
	if err != nil {
		return nil, err
	}
	v.Mesh, v.FSDP = best.Mesh, best.FSDP
	on, err := v.LocalMesh()
	if err != nil {
		return nil, err
	}
	o.Run.Request = v.Request
	if o.Devices != nil {
		d, giveBack := o.Devices.lend(o, on.NumDevices())
		defer giveBack()
		return run(d, v)
	}
	d := &PhaseDevices{opt: o.Run, n: on.NumDevices(), heldDevices: &heldDevices{}}
	defer d.Close()
	return run(d, v)
}
