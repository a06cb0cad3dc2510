package weft

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"weft/denoise"
	"weft/engine"
	"weft/identify"
	"weft/internal/hostmemory"
	"weft/models"
	"weft/pipeline"
	"weft/request"
	"weft/tensor"
)

// PhaseDevices are the devices of a pipeline: one engine, on which the models of the phases run
// one after another, each on a mesh of its own. A model that a pipeline says will run again keeps
// its programs and weights there meanwhile, as far as memory allows by the plan's count of what
// runs in between; the costs of the phases have a note where it does not.
type PhaseDevices struct {
	opt Options
	n   int
	*heldDevices
	notes []string // for the next cost

	using    *turn  // that this generation has; nil where devices are not shared
	onTurn   func() // told when this generation uses the devices for the first time; nil tells nobody
	onBeside func() // told when another's loop has memory beside what this generation has left to do
}

// heldDevices are an engine and what stays on it between generations. Several may use it at a time
// where there are turns.
type heldDevices struct {
	mu    sync.Mutex    // of all that follows
	eng   engine.Engine // nil before the first model runs
	own   bool          // the engine is this pipeline's
	kept  []*keptRun    // in the order in which they were released
	stays bool          // every model may run again, in another generation
	made  *madeOutputs  // what encoders made before; nil keeps nothing

	turns     *turns // nil: one generation at a time
	batch     int    // how many videos are denoised at once; 0 is 1
	batches   map[string]*batch
	forms     map[string]*batchForm
	costs     map[string]useCost               // of other phases
	loopCost  useCost                          // of the last loop
	keptBytes atomic.Int64                     // what kept runs hold
	limit     func() (bytes int64, known bool) // memory for what runs; nil before the engine is open
}

// NewPhaseDevices makes the devices of the options' mesh. The engine is opened as the first model
// runs. Errors: those of the mesh.
func NewPhaseDevices(o Options) (*PhaseDevices, error) {
	on, err := o.LocalMesh()
	if err != nil {
		return nil, err
	}
	return &PhaseDevices{opt: o, n: on.NumDevices(), heldDevices: &heldDevices{}}, nil
}

// Count is how many there are.
func (d *PhaseDevices) Count() int { return d.n }

// Engine says what runs the programs. It is empty before the first of them runs.
func (d *PhaseDevices) Engine() engine.Info {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng == nil {
		return engine.Info{}
	}
	return d.eng.Info()
}

// open opens the engine before the first model runs.
func (d *PhaseDevices) open(ctx context.Context) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eng != nil {
		return nil
	}
	if d.eng = d.opt.Running; d.eng != nil {
		return nil
	}
	o := d.opt.Engine
	o.Alike = d.n
	d.eng, err = engine.Open(ctx, d.opt.Device, d.n*max(1, d.batch), o)
	if err != nil {
		d.eng = nil
		return err
	}
	d.own = true
	d.limit = func() (int64, bool) {
		limit, err := memoryLimit(d.opt, d.eng)
		if isHost(d.eng) { // else what is free is not counted, but what there is
			limit += d.keptBytes.Load()
		}
		return limit, err == nil
	}
	return nil
}

// Close frees what was kept, and the engine.
func (d *PhaseDevices) Close() {
	for _, k := range d.kept {
		k.run.Close()
	}
	d.kept = nil
	if d.own {
		d.eng.Close()
		d.eng, d.own = nil, false
	}
}

// placed are the options for a model that is no denoiser: what is asked of the denoiser's
// steps and splits is not asked of it.
func (d *PhaseDevices) placed(p pipeline.Placement) Options {
	o := d.opt
	d.mu.Lock()
	o.Mesh, o.DType, o.Running, o.OutputBytes = p.Mesh, p.DType, d.eng, nil
	d.mu.Unlock()
	switch {
	case !p.Stream:
		o.Offload = request.Offload{}
	case o.Offload.Policy == request.OffloadKeep: // layers of the denoiser
		o.Offload = request.Offload{Policy: request.OffloadAll}
	}
	o.LoRA, o.FSDP, o.Micro, o.Layers, o.SplitResidual, o.TextLen, o.TokenTimes, o.Batch = nil, nil, 0, 0, false, 0, false, 0
	return o
}

// CheckSplit reports every reason why a model cannot run a request as it is placed.
func (d *PhaseDevices) CheckSplit(m *identify.Match, r models.Request, p pipeline.Placement) error {
	_, _, _, err := (&Model{m}).applyOptions(r, d.placed(p))
	return err
}

// Forward computes a model's outputs for each of several inputs, with weights that are loaded
// once.
func (d *PhaseDevices) Forward(ctx context.Context, m *identify.Match, inputs []map[string]*tensor.Tensor, p pipeline.Placement) ([]map[string]*tensor.Tensor, pipeline.Cost, error) {
	outs := make([]map[string]*tensor.Tensor, len(inputs))
	var todo []int // those whose outputs are not there from before
	for i, in := range inputs {
		if outs[i] = d.made.find(m, in, p); outs[i] == nil {
			todo = append(todo, i)
		}
	}
	if len(todo) == 0 {
		return outs, pipeline.Cost{}, nil
	}
	cost, err := d.withRun(ctx, m, p, runFeed{inputs: inputs[todo[0]]}, func(r *Run) error {
		for n, i := range todo {
			if n > 0 {
				r.beginAgain()
				if err := r.feedInputs(inputs[i]); err != nil {
					return err
				}
			}
			out, err := r.Forward(ctx)
			if err != nil {
				return err
			}
			outs[i] = out
			d.made.put(m, inputs[i], p, out)
		}
		return nil
	})
	return outs, cost, err
}

// Stream computes a model's outputs, and hands each part of them over as soon as it is computed.
func (d *PhaseDevices) Stream(ctx context.Context, m *identify.Match, inputs map[string]*tensor.Tensor, p pipeline.Placement, visit func(string, int, *tensor.Tensor) error) (pipeline.Cost, error) {
	if p.Tiles != nil {
		return d.streamTiled(ctx, m, inputs, p, visit)
	}
	return d.withRun(ctx, m, p, runFeed{inputs: inputs}, func(r *Run) error {
		d.tellBeside()
		return r.Stream(ctx, visit)
	})
}

// streamTiled is Stream in tiles. Each size of tile has programs of its own, so that none stay.
func (d *PhaseDevices) streamTiled(ctx context.Context, m *identify.Match, inputs map[string]*tensor.Tensor, p pipeline.Placement, visit func(string, int, *tensor.Tensor) error) (pipeline.Cost, error) {
	if err := d.open(ctx); err != nil {
		return pipeline.Cost{}, err
	}
	o := d.placed(p)
	o.makeRoom = d.makeRoom
	if err := d.waitForTurn(ctx, &turn{}); err != nil { // nothing runs beside tiles, whose need is not counted
		return pipeline.Cost{}, err
	}
	defer d.endTurn()
	report, err := (&Model{m}).StreamTiled(ctx, inputs, *p.Tiles, p.Spool, o, visit)
	return d.costOf(report), err
}

// StreamFrames is Stream of one input whose frames are asked for one by one.
func (d *PhaseDevices) StreamFrames(ctx context.Context, m *identify.Match, input string, shape []int, frames func(context.Context, int) (*tensor.Tensor, error),
	p pipeline.Placement, visit func(string, int, *tensor.Tensor) error) (pipeline.Cost, error) {
	return d.withRun(ctx, m, p, runFeed{input: input, shape: shape, frames: frames}, func(r *Run) error { return r.Stream(ctx, visit) })
}

// withRun puts a model on the devices for as long as use takes, or for the next time where the
// placement says that there is one.
func (d *PhaseDevices) withRun(ctx context.Context, m *identify.Match, p pipeline.Placement, in runFeed, use func(*Run) error) (pipeline.Cost, error) {
	if err := d.open(ctx); err != nil {
		return pipeline.Cost{}, err
	}
	var key string
	again := p.Again || d.stays
	model := &Model{m}
	defer d.endTurn()
	r, err := in.start(model, d.opt.AllowNonFinite, func(req models.Request) (r *Run, err error) {
		o := d.placed(p)
		if err := d.beginPhase(ctx, model, req, o); err != nil {
			return nil, err
		}
		r, key, err = d.takeRun(ctx, model, req, o, again)
		return r, err
	})
	if err != nil {
		return pipeline.Cost{}, err
	}
	err = use(r)
	cost := d.costOf(r.Report())
	d.releaseRun(key, r, again && err == nil)
	return cost, err
}

// Denoiser returns the devices for the experts of one denoising loop; again says that another
// one like it follows.
func (d *PhaseDevices) Denoiser(experts []*identify.Match, again bool) pipeline.Denoiser {
	return &phaseDenoiser{d: d, loop: newLoopDevices(d.opt, false), experts: experts, again: again || d.stays}
}

// phaseDenoiser are the devices of one denoising loop.
type phaseDenoiser struct {
	d       *PhaseDevices
	loop    *loopDevices
	experts []*identify.Match
	again   bool
	seat    *seatRun // where devices are shared
}

func (p *phaseDenoiser) Expert(i int) denoise.Devices {
	m := &Model{p.experts[i]}
	return phaseExpert{p, m, p.loop.of(m)}
}

func (p *phaseDenoiser) Cost() pipeline.Cost {
	if p.seat != nil {
		return p.d.costOf(p.loop.reportWith(p.seat.report()))
	}
	return p.d.costOf(p.loop.report())
}

// phaseExpert is one expert of a loop, on the engine of all phases.
type phaseExpert struct {
	p *phaseDenoiser
	m *Model
	denoise.Devices
}

func (e phaseExpert) Start(ctx context.Context, req models.Request) (denoise.Run, error) {
	d := e.p.d
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	hostmemory.Return() // that of the expert before this one
	o := e.p.loop.opt
	o.Running = d.eng
	if d.turns != nil {
		seat, err := d.enterBatch(ctx, e.p, e.m, req, o)
		if err != nil {
			return nil, err
		}
		e.p.seat = seat
		return seat, nil
	}
	r, key, err := d.takeRun(ctx, e.m, req, o, e.p.again)
	if err != nil {
		return nil, err
	}
	return e.p.loop.use(r, func(failed bool) { d.releaseRun(key, r, e.p.again && !failed) }), nil
}

// costOf is what a phase's report says of its cost.
func (d *PhaseDevices) costOf(r Report) pipeline.Cost {
	c := pipeline.Cost{Mesh: r.Mesh, DType: r.DType, BytesRead: r.BytesRead, Compile: r.CompileSeconds, Load: r.LoadSeconds, Resident: r.Resident, Notes: append(r.Notes, d.notes...)}
	d.notes = nil
	return c
}

// addNote adds a note to the next cost.
func (d *PhaseDevices) addNote(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}
