package weft

import (
	"context"
	"runtime/debug"
	"slices"

	"weft/denoise"
	"weft/engine"
	"weft/fault"
	"weft/identify"
	"weft/models"
	"weft/pipeline"
	"weft/plan"
	"weft/request"
	"weft/tensor"
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

// GenerateAll makes several videos, one of each of the options of Video, with the texts
// encoded at once. Everything that is asked of any of them is checked before the first weight
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
	d := &phaseDevices{opt: o.Run, n: on.NumDevices()}
	defer d.close()
	return run(d, v)
}

// phaseDevices are the devices of a pipeline: one engine, on which the models run one after
// another.
type phaseDevices struct {
	opt Options
	n   int
	eng engine.Engine // nil before the first model runs
	own bool          // the engine is this pipeline's
}

func (d *phaseDevices) Count() int { return d.n }

func (d *phaseDevices) Engine() engine.Info {
	if d.eng == nil {
		return engine.Info{}
	}
	return d.eng.Info()
}

// open opens the engine before the first model runs.
func (d *phaseDevices) open(ctx context.Context) (err error) {
	if d.eng != nil {
		return nil
	}
	if d.eng = d.opt.Running; d.eng != nil {
		return nil
	}
	d.eng, err = engine.Open(ctx, d.opt.Device, d.n, d.opt.Engine)
	if err != nil {
		d.eng = nil
		return err
	}
	d.own = true
	return nil
}

func (d *phaseDevices) close() {
	if d.own {
		d.eng.Close()
	}
}

// placed are the options for a model that is no denoiser: what is asked of the denoiser's
// steps and splits is not asked of it.
func (d *phaseDevices) placed(p pipeline.Placement) Options {
	o := d.opt
	o.Mesh, o.DType, o.Running, o.OutputBytes = p.Mesh, p.DType, d.eng, nil
	switch {
	case !p.Stream:
		o.Offload = request.Offload{}
	case o.Offload.Policy == request.OffloadKeep: // layers of the denoiser
		o.Offload = request.Offload{Policy: request.OffloadAll}
	}
	o.FSDP, o.Micro, o.Layers, o.SplitResidual, o.TextLen, o.TokenTimes, o.Batch = nil, 0, 0, false, 0, false, 0
	return o
}

func (d *phaseDevices) CheckSplit(m *identify.Match, r models.Request, p pipeline.Placement) error {
	_, _, _, err := (&Model{m}).applyOptions(r, d.placed(p))
	return err
}

func (d *phaseDevices) Forward(ctx context.Context, m *identify.Match, inputs []map[string]*tensor.Tensor, p pipeline.Placement) ([]map[string]*tensor.Tensor, pipeline.Cost, error) {
	if err := d.open(ctx); err != nil {
		return nil, pipeline.Cost{}, err
	}
	r, err := (&Model{m}).Start(ctx, inputs[0], d.placed(p))
	if err != nil {
		return nil, pipeline.Cost{}, err
	}
	defer r.Close()
	var outs []map[string]*tensor.Tensor
	for i, in := range inputs {
		if i > 0 {
			r.lanes, r.inputs = nil, nil
			if err := r.feedInputs(in); err != nil {
				return nil, costOf(r.Report()), err
			}
		}
		out, err := r.Forward(ctx)
		if err != nil {
			return nil, costOf(r.Report()), err
		}
		outs = append(outs, out)
	}
	return outs, costOf(r.Report()), nil
}

func (d *phaseDevices) Stream(ctx context.Context, m *identify.Match, inputs map[string]*tensor.Tensor, p pipeline.Placement, visit func(string, int, *tensor.Tensor) error) (pipeline.Cost, error) {
	if err := d.open(ctx); err != nil {
		return pipeline.Cost{}, err
	}
	if p.Tiles != nil { // which are blended when all of them are there
		out, report, err := (&Model{m}).ForwardTiled(ctx, inputs, *p.Tiles, d.placed(p))
		if err != nil {
			return costOf(report), err
		}
		return costOf(report), visit("out", 0, out["out"])
	}
	r, err := (&Model{m}).Start(ctx, inputs, d.placed(p))
	if err != nil {
		return pipeline.Cost{}, err
	}
	defer r.Close()
	err = r.Stream(ctx, visit)
	return costOf(r.Report()), err
}

func (d *phaseDevices) StreamFrames(ctx context.Context, m *identify.Match, input string, shape []int, frames func(context.Context, int) (*tensor.Tensor, error),
	p pipeline.Placement, visit func(string, int, *tensor.Tensor) error) (pipeline.Cost, error) {
	if err := d.open(ctx); err != nil {
		return pipeline.Cost{}, err
	}
	r, err := (&Model{m}).StartFrames(ctx, input, shape, frames, d.placed(p))
	if err != nil {
		return pipeline.Cost{}, err
	}
	defer r.Close()
	err = r.Stream(ctx, visit)
	return costOf(r.Report()), err
}

func (d *phaseDevices) Denoiser(experts []*identify.Match) pipeline.Denoiser {
	return &phaseDenoiser{d, newLoopDevices(d.opt, false), experts}
}

// phaseDenoiser are the devices of one denoising loop.
type phaseDenoiser struct {
	d       *phaseDevices
	loop    *loopDevices
	experts []*identify.Match
}

func (p *phaseDenoiser) Expert(i int) denoise.Devices {
	return phaseExpert{p, p.loop.of(&Model{p.experts[i]})}
}

func (p *phaseDenoiser) Cost() pipeline.Cost { return costOf(p.loop.report()) }

// phaseExpert is one expert of a loop, on the engine of all phases.
type phaseExpert struct {
	p *phaseDenoiser
	denoise.Devices
}

func (e phaseExpert) Start(ctx context.Context, req models.Request) (denoise.Run, error) {
	if err := e.p.d.open(ctx); err != nil {
		return nil, err
	}
	e.p.loop.opt.Running = e.p.d.eng
	debug.FreeOSMemory() // of the expert before this one
	return e.Devices.Start(ctx, req)
}

// costOf is what a phase's report says of its cost.
func costOf(r Report) pipeline.Cost {
	return pipeline.Cost{Mesh: r.Mesh, DType: r.DType, BytesRead: r.BytesRead, Resident: r.Resident, Compile: r.CompileSeconds, Load: r.LoadSeconds, Notes: r.Notes}
}
