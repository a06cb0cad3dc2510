package weft

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"weft/aot"
	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/graph"
	"weft/internal/hostmemory"
	"weft/lora"
	"weft/mesh"
	"weft/models"
	"weft/nonfinite"
	"weft/plan"
	"weft/request"
	"weft/session"
	"weft/tensor"
)

// Options of a run: what is asked, and how it is carried out. The zero value runs in f32 on
// one device of whatever engine is installed.
type Options struct {
	// Request says what is asked. A mesh of auto is the best split of the hardware that On
	// names (plan.Best), and one device where On names none; On decides nothing else here.
	// The residual stream, norms, softmax sums and the time embedding are f32 in every
	// DType.
	request.Request
	// Device is "auto", "cpu", "reference" or "tpu".
	Device string
	Engine engine.Options
	// Running is an engine to run on in place of Device's, with devices enough for the
	// mesh. It stays open.
	Running engine.Engine
	// Compiled is a folder of programs compiled ahead of time (package aot), which are
	// loaded in place of compiling. What the request leaves out is then what
	// they were compiled for; everything else that does not agree is refused.
	Compiled string
	Progress session.Progress
	// AllowNonFinite lets NaN and infinities pass, in inputs and in outputs. Without it
	// they end a run with ErrNonFinite.
	AllowNonFinite bool
	// OutputBytes, where set, is told before anything is compiled or a weight is read
	// how many bytes the outputs of a step have, and how many the values along the way.
	// Its error ends the run: there may be no room for them.
	OutputBytes func(outputs, values int64) error

	// makeRoom, where set, is asked for memory for a graph before its weights are read, and says
	// whether there is some for the weights that only the beginning of a request reads to stay.
	// They do where again says that requests follow.
	makeRoom func(o Options, m *Model, g *graph.Graph, micro int) (leaversStay bool)
	again    bool
}

// Run is a model on a mesh whose split is checked, whose programs are compiled and
// whose weights are loaded: it is ready to run steps.
type Run struct {
	model    *Model
	req      models.Request
	g        *graph.Graph
	eng      engine.Engine
	ownsEng  bool
	s        *session.Session
	adapters *lora.Set // merged into the weights; nil for none
	opt      Options
	micro    int
	lanes    []string                    // one a microbatch
	inputs   []map[string]*tensor.Tensor // of the graph, by lane
	seconds  float64                     // fastest step so far, 0 before the first
	first    float64
	odd      nonfinite.Checker
	frames   FrameSource // of the one input that comes by frames, nil without one
	// offloadAsked is the policy that was asked for; opt has the one that was taken.
	offloadAsked string
	notes        []string
	before       earlierCosts
}

// ParseMesh reads a mesh in the form that flags have, and puts the axes dp, tp and sp
// in their usual order. auto is one device.
func ParseMesh(text string) (*mesh.Mesh, error) {
	axes, err := request.ParseMesh(text)
	if err != nil {
		return nil, err
	}
	return request.Request{Mesh: axes}.LocalMesh()
}

// Start prepares a step for inputs in the names of the model (for Wan: x, t,
// context). An illegal split is refused before any weight is read.
func (m *Model) Start(ctx context.Context, inputs map[string]*tensor.Tensor, o Options) (*Run, error) {
	return runFeed{inputs: inputs}.start(m, o.AllowNonFinite, func(req models.Request) (*Run, error) { return m.prepareRun(ctx, req, o, nil) })
}

// applyOptions applies the options to a request and checks the split. With a pipeline,
// the returned request is that of one of micro microbatches.
func (m *Model) applyOptions(req models.Request, o Options) (on *mesh.Mesh, out models.Request, micro int, err error) {
	if err = o.Check(); err != nil {
		return nil, req, 0, err
	}
	if o.As != "" {
		return nil, req, 0, fault.New(request.ErrOptions, request.Refused{Flag: "as", Value: o.As}, "as %s: what runs is weft's own program; a peer's is planned only", o.As)
	}
	if on, err = o.LocalMesh(); err != nil {
		return nil, req, 0, err
	}
	if req, err = o.OfInputs(m.Model, req); err != nil {
		return nil, req, 0, err
	}
	whole, adapters := req, m.checkAdapters(o)
	if out, micro, err = microbatchRequest(whole, on, o); err != nil {
		return on, out, micro, fault.Join(models.AdviseNumber(err, func(n int) bool {
			other := o
			other.Micro = n
			r, _, err := microbatchRequest(whole, on, other)
			return err == nil && m.Check(on, r) == nil
		}), adapters)
	}
	return on, out, micro, fault.Join(models.Advise(m.Check(on, out), on, 0, func(candidate *mesh.Mesh) error {
		r, _, err := microbatchRequest(whole, candidate, o)
		if err == nil {
			err = m.Check(candidate, r)
		}
		return err
	}), adapters)
}

// microbatchRequest returns the request of one of the microbatches that flow through a
// pipeline, and the number of microbatches, which is 1 without a pipeline.
func microbatchRequest(req models.Request, on *mesh.Mesh, o Options) (models.Request, int, error) {
	micro := o.Micro
	if micro == 0 && on.Size(mesh.PP) > 1 && req.Batch%on.Size(mesh.DP) == 0 {
		micro = req.Batch / on.Size(mesh.DP)
	}
	micro = max(micro, 1)
	if req.Batch%micro != 0 {
		return req, 0, models.NotDivisible(models.ErrBatch, "batch", req.Batch, "microbatches", micro)
	}
	req.Batch /= micro
	return req, micro, nil
}

// prepareRun checks the split, opens the engine, builds and compiles the programs and
// loads the weights; only the inputs are still missing. eng, if it is not nil, is used
// in place of a new engine, and must have enough devices for the mesh.
func (m *Model) prepareRun(ctx context.Context, req models.Request, o Options, eng engine.Engine) (*Run, error) {
	bundle, o, err := openCompiled(o)
	if err != nil {
		return nil, err
	}
	if o.Request, err = plan.Best(ctx, m.Model, plan.Options{Request: o.Request}); err != nil {
		return nil, err
	}
	on, req, micro, err := m.applyOptions(req, o)
	if err != nil {
		return nil, err
	}
	if bundle != nil && on.String() == bundle.Mesh().String() {
		on = bundle.Mesh() // with its order of devices
	}
	if eng == nil {
		eng = o.Running
	}
	r := &Run{model: m, eng: eng, opt: o, micro: micro, odd: nonfinite.Checker{Allow: o.AllowNonFinite}}
	if eng == nil {
		if r.eng, err = engine.Open(ctx, o.Device, on.NumDevices(), o.Engine); err != nil {
			return nil, err
		}
		r.ownsEng = true
	}
	req.Target = o.Adapt(r.eng.Target())
	g, err := m.Graph(on, req)
	if err != nil {
		r.Close()
		return nil, err
	}
	r.g, r.req = g, req
	if o.OutputBytes != nil {
		outputs, values := g.OutputBytes()
		if err := o.OutputBytes(outputs*int64(micro), values*int64(micro)); err != nil {
			r.Close()
			return nil, err
		}
	}
	stay := o.makeRoom != nil && o.makeRoom(o, m, g, micro)
	var note string
	if r.opt.Request, note, err = decideOffload(o, g, micro, r.eng); err != nil {
		r.Close()
		return nil, err
	}
	r.offloadAsked = o.Offload.String()
	if note != "" {
		r.notes = append(r.notes, note)
	}
	runs := r.eng
	if bundle != nil {
		if runs, err = bundle.Engine(r.eng, m.Model, req, g); err != nil {
			r.Close()
			return nil, err
		}
	}
	if r.s, err = session.New(ctx, g, runs, o.Progress); err != nil {
		r.Close()
		return nil, err
	}
	r.s.KeepLeavers(stay && o.again)
	if r.adapters, err = m.openAdapters(ctx, o); err != nil {
		r.Close()
		return nil, err
	}
	if r.adapters != nil {
		r.s.AddWhileLoading(r.adapters.Addend)
	}
	if err := r.s.LoadOffloaded(ctx, m.Checkpoint, m.Stored, r.opt.Offloading(), o.Progress); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// openCompiled opens the folder of compiled programs that the options name, if they
// name one. Options that are not set are filled in from it.
func openCompiled(o Options) (*aot.Bundle, Options, error) {
	if o.Compiled == "" {
		return nil, o, nil
	}
	b, err := aot.OpenBundle(o.Compiled)
	if err != nil {
		return nil, o, err
	}
	if o.Mesh == nil {
		o.Mesh = b.Mesh().Axes()
	}
	if o.DType == dtype.Invalid {
		if o.DType, err = dtype.Parse(b.DType); err != nil {
			return nil, o, err
		}
	}
	o.Layers = cmp.Or(o.Layers, b.Layers)
	o.SplitResidual = o.SplitResidual || b.SplitResidual
	if o.FSDP == nil && len(b.FSDP) > 0 {
		o.FSDP = b.FSDP
	}
	return b, o, nil
}

// Close frees the devices.
func (r *Run) Close() {
	if r.s != nil {
		r.s.Close()
	}
	r.adapters.Close()
	if r.ownsEng && r.eng != nil {
		r.eng.Close()
	}
}

// Forward runs one step on the inputs of Start and returns every output they
// allow; for Wan "out", the velocity, shaped as x.
func (r *Run) Forward(ctx context.Context) (map[string]*tensor.Tensor, error) {
	return r.forwardTraced(ctx, nil)
}

// Trace runs a step as Forward does, and also calls visit with the values along the
// way, in order: context_embed, time_embed, patch_embed, block_0, ...
func (r *Run) Trace(ctx context.Context, visit func(name string, t *tensor.Tensor) error) (map[string]*tensor.Tensor, error) {
	return r.forwardTraced(ctx, visit)
}

// forwardTraced runs one step. If visit is not nil, it is called with the values that
// the step's calls pass on.
func (r *Run) forwardTraced(ctx context.Context, visit func(string, *tensor.Tensor) error) (map[string]*tensor.Tensor, error) {
	start, loaded := time.Now(), r.s.Loaded().Seconds
	if err := r.feedStep(ctx); err != nil {
		return nil, err
	}
	o := r.stepOptions()
	traced := newTrace(r.micro, visit)
	if visit != nil {
		o.Trace = traced.addValue
	}
	outs, err := r.s.Run(ctx, r.lanes, o)
	if err != nil {
		return nil, err
	}
	r.recordStepTime(time.Since(start).Seconds() - (r.s.Loaded().Seconds - loaded))
	if err := traced.flush(); err != nil {
		return nil, err
	}
	out := map[string]*tensor.Tensor{}
	for name := range outs[0] {
		parts := make([]*tensor.Tensor, len(outs))
		for i := range outs {
			parts[i] = outs[i][name]
		}
		out[name] = tensor.Stack(parts)
	}
	if err := r.odd.CheckTensors("output", nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// stepOptions are the options of a step's run in the session.
func (r *Run) stepOptions() session.RunOptions {
	return session.RunOptions{Progress: r.opt.Progress, Frame: r.nextFrame}
}

// trace puts the microbatches of each value together again before visit sees the value.
type trace struct {
	micro int
	visit func(string, *tensor.Tensor) error
	names []string
	parts map[string][]*tensor.Tensor
}

func newTrace(micro int, visit func(string, *tensor.Tensor) error) *trace {
	return &trace{micro: micro, visit: visit, parts: map[string][]*tensor.Tensor{}}
}

// addValue takes one microbatch of a value.
func (t *trace) addValue(_, name string, x *tensor.Tensor) error {
	if t.micro == 1 {
		return t.visit(name, x)
	}
	if t.parts[name] == nil {
		t.names = append(t.names, name)
	}
	t.parts[name] = append(t.parts[name], x)
	return nil
}

// flush hands the values that had several microbatches to visit.
func (t *trace) flush() error {
	for _, name := range t.names {
		if err := t.visit(name, tensor.Stack(t.parts[name])); err != nil {
			return err
		}
	}
	return nil
}

// Spans returns when each pipeline stage worked on each microbatch in the last step.
func (r *Run) Spans() []session.Span { return r.s.Spans() }

// recordStepTime takes the seconds of a step into the report: the first step's, and the
// fastest. The reading of weights in a step is loading, and not in them.
func (r *Run) recordStepTime(seconds float64) {
	if r.first == 0 {
		r.first = seconds
	}
	if r.seconds == 0 || seconds < r.seconds {
		r.seconds = seconds
	}
}

// stepInputs returns those of the graph's inputs that must be fed again for each step.
func (r *Run) stepInputs(all map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for _, in := range r.g.Inputs {
		if in.Step {
			out[in.Name] = all[in.Name]
		}
	}
	return out
}

// Graph returns the graph of programs and calls that runs.
func (r *Run) Graph() *graph.Graph { return r.g }

// Report says which engine and split a run had, and what it cost in time, memory and
// traffic.
type Report struct {
	Engine         engine.Info          `json:"engine"`
	Mesh           string               `json:"mesh"`
	DType          string               `json:"dtype"`
	Seconds        float64              `json:"seconds"`
	FirstSeconds   float64              `json:"first_seconds"`
	CompileSeconds float64              `json:"compile_seconds"`
	LoadSeconds    float64              `json:"load_seconds"`
	BytesRead      int64                `json:"bytes_read"`
	PeakRSS        int64                `json:"peak_rss_bytes,omitzero"` // left out where the system does not tell
	Resident       int64                `json:"resident_weight_bytes"`
	ResidentAll    []int64              `json:"resident_weight_bytes_per_device"`
	Collectives    []session.Collective `json:"collectives"`
	RequestTraffic []session.Collective `json:"request_collectives"`
	Cache          CacheReport          `json:"cache"`
	// Compiled is the folder that the programs were loaded from, where they were.
	Compiled string `json:"compiled,omitempty"`
	// Microbatches and Spans are there with a pipeline: when each stage worked on which.
	Microbatches int            `json:"microbatches,omitempty"`
	Spans        []session.Span `json:"spans,omitempty"`
	// LoRA says what was merged into the weights.
	LoRA []lora.Report `json:"lora,omitempty"`
	// Attention is the form each attention takes, and why.
	Attention []graph.Choice `json:"attention"`
	// Offload says which weights were streamed or left the devices.
	Offload OffloadReport `json:"offload"`
	// Profile is where a step's time goes, where ForwardOptions.Profile asked for it.
	Profile *Profile `json:"profile,omitempty"`
	Notes   []string `json:"notes"`
}

// CacheReport counts what the compile cache did.
type CacheReport struct {
	Hits   int `json:"hits"`
	Misses int `json:"misses"`
}

// Report returns the costs so far. Seconds is the time of the fastest step.
// FirstSeconds is the time of the first step, which also computes everything that
// depends on the text alone. Resident is the weight memory of the device that holds the
// most, with the slots of streamed weights, at the time when it held most. LoadSeconds has the
// weights too that were read once the request had begun.
func (r *Run) Report() Report {
	l := r.s.Loaded()
	hits, misses := r.eng.Cache()
	notes := slices.Concat([]string{}, r.model.Notices, r.g.Notes, r.notes, r.odd.Notes)
	if n := r.eng.Info().Note; n != "" {
		notes = append(notes, n)
	}
	for _, a := range r.adapters.Reports() {
		notes = append(notes, a.String())
	}
	micro := 0
	if r.g.Stages() > 1 {
		micro = r.micro
	}
	off := OffloadReport{Policy: cmp.Or(r.opt.Offload.String(), request.OffloadNone), Asked: cmp.Or(r.offloadAsked, request.OffloadNone), Offloaded: r.s.Offloaded()}
	for _, w := range l.Weights {
		if r.s.LeaversLeft() {
			off.LeftBytes = max(off.LeftBytes, w.Leave)
		}
	}
	l.BytesRead -= r.before.bytesRead
	l.Seconds -= r.before.loadSeconds
	if off.Offloaded != nil {
		off.BytesRead -= r.before.streamed.BytesRead
		off.ReadSeconds -= r.before.streamed.ReadSeconds
		off.WaitSeconds -= r.before.streamed.WaitSeconds
		l.BytesRead += off.BytesRead
	}
	return Report{Offload: off, LoRA: r.adapters.Reports(), Microbatches: micro, Spans: r.s.Spans(), Engine: r.eng.Info(), Mesh: r.g.Mesh.String(), DType: r.req.DType.String(),
		Seconds: r.seconds, FirstSeconds: r.first, CompileSeconds: r.s.CompileSeconds() - r.before.compileSeconds, LoadSeconds: l.Seconds,
		BytesRead: l.BytesRead, PeakRSS: hostmemory.PeakResident(), Resident: l.MaxResident(), ResidentAll: l.ResidentBytes,
		Collectives: r.s.Collectives(false), RequestTraffic: r.s.Collectives(true),
		Cache: CacheReport{hits, misses}, Compiled: r.opt.Compiled, Attention: r.g.Choices(), Notes: notes}
}

// Text formats the report for people, in one line.
func (r Report) Text() string {
	compiled := fmt.Sprintf("compile %.2f s (%d cached of %d)", r.CompileSeconds, r.Cache.Hits, r.Cache.Hits+r.Cache.Misses)
	if r.Compiled != "" {
		compiled = fmt.Sprintf("programs from %s in %.2f s", r.Compiled, r.CompileSeconds)
	}
	peak := "unknown"
	if r.PeakRSS > 0 {
		peak = Bytes(r.PeakRSS)
	}
	text := fmt.Sprintf("%s, mesh %s, %s: step %.3f s (first %.3f s), %s, load %.2f s (%s read), peak RSS %s",
		r.Engine.Name, r.Mesh, r.DType, r.Seconds, r.FirstSeconds, compiled, r.LoadSeconds, Bytes(r.BytesRead), peak)
	if o := r.Offload.Offloaded; o != nil {
		text += fmt.Sprintf("\noffload %s: the weights of %d of %d layers streamed, %s a step, through %d slots of %s in all, %d read ahead; calls waited %.2f s for them",
			r.Offload.Policy, o.Layers-o.Kept, o.Layers, Bytes(o.StepBytes), o.Slots, Bytes(o.SlotBytes), o.Depth, o.WaitSeconds)
	}
	return text
}

// Bytes writes a size for people, in powers of 1000.
func Bytes(n int64) string {
	f := float64(n)
	for _, u := range []string{"B", "kB", "MB", "GB"} {
		if f < 1000 {
			if u == "B" {
				return fmt.Sprintf("%d B", n)
			}
			return fmt.Sprintf("%.2f %s", f, u)
		}
		f /= 1000
	}
	return fmt.Sprintf("%.2f TB", f)
}
