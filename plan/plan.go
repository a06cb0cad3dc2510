package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"weft/attention"
	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/program/cost"
	"weft/sharding"
	"weft/spmd"
	"weft/targets"
	"weft/topology"
)

// How the passes with and without the text run.
const (
	CFGBatch      = models.CFGBatch
	CFGSequential = models.CFGSequential
	CFGNone       = models.CFGNone
)

// Kinds of errors.
var (
	// ErrOptions: options that no split could make right.
	ErrOptions = fault.NewKind("plan-options")
	// ErrNoPlan: no split of the slice is legal.
	ErrNoPlan = fault.NewKind("no-legal-plan")
	// ErrTooBig: a slice on which no legal split fits.
	ErrTooBig = fault.NewKind("too-big")
	// ErrAssert: an assertion does not hold.
	ErrAssert = fault.NewKind("assertion-failed")
)

// Options say what is planned: the video, the numeric types, and the splits to try.
type Options struct {
	Width, Height, Frames int
	Batch                 int // videos; 0 is 1
	// CFG is one of these; "" is the release's own: CFGNone where its guidance is
	// distilled into the weights, else CFGBatch.
	CFG string
	// Settings are the model's (models.SettingsOf); the zero value finds those of the
	// model alone.
	Settings      models.Settings
	DType         dtype.DType
	SplitResidual bool
	Text          int // rows of text where the configuration has no length
	// Mesh plans this split alone; axes left out are 1. nil goes over all.
	Mesh []mesh.Axis
	// FSDP are axes among dp and sp over which the weights are sharded too, where a split
	// has them; nil plans each split with its weights sharded so and without.
	FSDP []string
	// MemoryBytes is a device's memory where the slice does not say (cpu:N); 0 is not known.
	MemoryBytes int64
	// Cores are the processors that the devices of cpu:N share; 0 is 2.
	Cores int
	// Attention is the form that attention takes: attention.Auto, also as "",
	// attention.Blocked, or attention.Kernel, where splits without one are refused. The
	// models beside the transformer take their best where the kernel is asked for.
	Attention string
	// TokenTimes gives tokens timesteps of their own, of two among them: a given first
	// frame's and the others', as image-to-video with Wan2.2-TI2V has.
	TokenTimes bool
	// As says whose program is planned: "" for weft's, AsVidax for the peer's.
	As string
	// Weights is the type that the devices keep weights in. The zero value is DType for
	// weft, and for the peer the type that its script takes.
	Weights dtype.DType
	// Prices are a user's own; nil leaves costs out.
	Prices *Prices
	// Steps is the number of steps of a video. The time of work that is done once a video
	// is spread over them, and costs are given for a video too. 0 leaves both out.
	Steps int
}

// Memory counts the bytes of one device, by kind, at the moment of a phase when it holds
// most.
type Memory struct {
	WeightsBytes int64 `json:"weights_bytes"`
	// ResidualBytes are the values that a step hands from program to program: the residual
	// stream, the latents, the time's embedding.
	ResidualBytes int64 `json:"residual_bytes"`
	// AttentionBytes are the text's keys and values and the position tables, which a
	// request keeps, and the values of attention that are live at the peak.
	AttentionBytes int64 `json:"attention_bytes"`
	// GatheredBytes are the results of all-gathers that are live at the peak.
	GatheredBytes int64 `json:"gathered_bytes"`
	// TempBytes are all others: activations within a program.
	TempBytes  int64 `json:"temp_bytes"`
	TotalBytes int64 `json:"total_bytes"`
	// At is the program that needs it.
	At string `json:"at"`
}

// Phase has the memory of a part of generating a video, and the form that each of its
// attentions takes, with the reason. The zero value is a phase that is not modelled. The
// attention of the transformer stands in Plan.
type Phase struct {
	*Memory
	Attention []graph.Choice `json:"attention,omitempty"`
}

// NotModelled stands in JSON and text for a phase that no program describes.
const NotModelled = "not modelled"

// MarshalJSON writes the memory or "not modelled".
func (p Phase) MarshalJSON() ([]byte, error) {
	if p.Memory == nil {
		return json.Marshal(NotModelled)
	}
	type plain Phase
	return json.Marshal(plain(p))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Phase) UnmarshalJSON(b []byte) error {
	if string(b) == `"`+NotModelled+`"` {
		*p = Phase{}
		return nil
	}
	type plain Phase
	return json.Unmarshal(b, (*plain)(p))
}

// Breakdown has the memory of each phase.
type Breakdown struct {
	Text Phase `json:"text"`
	DiT  Phase `json:"dit"`
	VAE  Phase `json:"vae"`
}

// peakBytes gives the bytes of the phase that takes most.
func (b Breakdown) peakBytes() int64 {
	n := int64(0)
	for _, p := range []Phase{b.Text, b.DiT, b.VAE} {
		if p.Memory != nil {
			n = max(n, p.TotalBytes)
		}
	}
	return n
}

// Plan describes how a step runs with one legal split: its memory, collectives and time.
type Plan struct {
	Slice   string   `json:"slice"`
	Mesh    string   `json:"mesh"`
	FSDP    []string `json:"fsdp"` // axes over which the weights are sharded
	Fits    Fit      `json:"fits"`
	Devices int      `json:"devices"`

	HBMBytesPerDevice int64 `json:"hbm_bytes_per_device"`
	// HBMLimitBytes is DeviceMemory's usable part; nil where it is not known.
	HBMLimitBytes *int64                `json:"hbm_limit_bytes"`
	DeviceMemory  topology.DeviceMemory `json:"device_memory"`
	OverBytes     *int64                `json:"over_bytes"` // beyond the limit; nil where that is not known
	// Change is the smallest change that makes a plan fit that does not, as flags:
	// "--mesh dp=1,tp=1,sp=4 --fsdp sp (12.30 GB)"; or why there is none. Advice is the
	// flags alone, "" for none.
	Change    string    `json:"change,omitempty"`
	Advice    string    `json:"advice,omitempty"`
	Breakdown Breakdown `json:"breakdown"`
	// Attention is the form each attention takes, and why.
	Attention []graph.Choice `json:"attention"`

	// CollectiveBytes are the bytes that a device sends in a step, by axis.
	CollectiveBytes map[string]int64 `json:"collective_bytes"`
	// RequestCollectiveBytes are those of the programs that run once a request.
	RequestCollectiveBytes map[string]int64 `json:"request_collective_bytes"`
	// Collectives is CollectiveBytes by operation, as graph.Traffic has it.
	Collectives []cost.Traffic `json:"collectives"`

	StepSeconds float64       `json:"step_seconds"`
	Cost        *Cost         `json:"cost,omitempty"` // at a user's prices
	Time        Time          `json:"time"`
	Programs    []ProgramTime `json:"programs"`

	CFGParallel bool     `json:"cfg_parallel"`
	Padding     []string `json:"padding"` // what is padded, in words; empty: nothing
	Notes       []string `json:"notes"`

	split split
	stage pipelineStage // the fullest, where there is a pipeline
}

// Refusal is a split that is not legal, or with SearchAll a kind of hardware on which no
// split fits.
type Refusal struct {
	Slice      string         `json:"slice"`
	Mesh       string         `json:"mesh"`
	Kind       string         `json:"kind"`
	Reason     string         `json:"reason"`
	Violations []fault.Report `json:"violations"` // every reason
}

// Result has the plans, best first, and the splits that are refused.
type Result struct {
	Model  string    `json:"model"`
	On     string    `json:"on"`
	As     string    `json:"as,omitempty"` // "vidax" where the peer is planned
	Size   string    `json:"size"`
	Frames int       `json:"frames"`
	Batch  int       `json:"batch"`
	CFG    string    `json:"cfg"`
	DType  string    `json:"dtype"`
	Plans  []Plan    `json:"plans"`
	Refuse []Refusal `json:"refused"`
	// Efficiency says how good the times are: "assumed" or "calibrated".
	Efficiency string   `json:"efficiency"`
	Notes      []string `json:"notes"`
	// Settings are those of the release that a plan depends on, each with where it is from.
	Settings map[string]models.Setting `json:"settings"`
}

// maxBatch bounds the videos of a step: more is a mistyped number.
const maxBatch = 1 << 10

// search holds what the plans of all splits of one request share. It is safe for use by
// many goroutines.
type search struct {
	m        models.Model
	o        Options
	r        models.Request
	passes   int
	layers   int // number of layers to which graphs of two layers are scaled; 0: graphs have all layers
	figures  Efficiencies
	mu       sync.Mutex
	measures map[string]*splitMeasures
	explains bool // graphs are kept with the measures
	companions
}

// withDefaults fills in the options that are left out: the batch, and from the release's
// settings the text's length and the kind of guidance.
func (o Options) withDefaults(m models.Model) Options {
	o.Batch = cmp.Or(o.Batch, 1)
	o.Settings = o.modelSettings(m)
	p, ok := m.(models.PadsText)
	switch pads := ok && p.PadsText(); {
	case !pads:
		o.Settings = o.Settings.Without("text_len")
	case o.Text == 0:
		o.Text = o.Settings.Count("text_len") // as sampling pads it
	case o.Text != o.Settings.Count("text_len"):
		o.Settings = o.Settings.Over(models.Said{From: models.FromFlag, Values: map[string]any{"text_len": o.Text}})
	}
	if _, known := o.Settings.Get("cfg"); known {
		return o
	}
	passes, _ := o.Settings.Get("passes")
	said := models.Said{From: models.FromFlag, Values: map[string]any{"cfg": o.CFG, "passes": 2}}
	if o.CFG == "" {
		if o.CFG = CFGBatch; passes.Value == 1 {
			o.CFG = CFGNone
		}
		said = models.Said{From: passes.From, Values: map[string]any{"cfg": o.CFG, "passes": passes.Value}}
	} else if o.CFG == CFGNone {
		said.Values["passes"] = 1
	}
	o.Settings = o.Settings.Over(said)
	return o
}

// modelSettings gives the options' settings, or where they have none, the model's.
func (o Options) modelSettings(m models.Model) models.Settings {
	s := o.Settings
	if s.Release.Name == "" {
		_, s, _ = models.SettingsOf(m, models.ReleaseQuery{}) // without a folder or a name nothing can be wrong
	}
	return s
}

// Request gives the request that a model builds for these options, without a split and a
// target, and the number of passes that a denoising step makes. Errors: ErrOptions,
// models.ErrSize.
func (o Options) Request(m models.Model) (r models.Request, passes int, err error) {
	o = o.withDefaults(m)
	var l fault.List
	gen, ok := m.(models.Generator)
	if !ok {
		return r, 0, fault.New(ErrOptions, nil, "%s makes no videos: there is no step to plan", m.Name())
	}
	if o.Batch < 1 || o.Batch > maxBatch {
		l.Add(fault.New(ErrOptions, nil, "batch %d: want 1 to %d videos", o.Batch, maxBatch))
	}
	if o.CFG != CFGBatch && o.CFG != CFGSequential && o.CFG != CFGNone {
		l.Add(fault.New(ErrOptions, nil, "cfg %q: want %s, %s or %s", o.CFG, CFGBatch, CFGSequential, CFGNone))
	}
	if o.DType != dtype.F32 && o.DType != dtype.BF16 {
		l.Add(fault.New(ErrOptions, nil, "compute type %v: want bf16 or f32", o.DType))
	}
	latent, err := models.VideoLatents(gen, max(1, min(o.Batch, maxBatch)), o.Width, o.Height, o.Frames)
	l.Add(err)
	if err := l.Err(); err != nil {
		return r, 0, err
	}
	positions := models.Positions(o.Batch, latent)
	if o.As != "" && o.As != AsVidax {
		l.Add(fault.New(ErrOptions, nil, "plan as %q: weft's own program is planned, or the peer's: %s", o.As, AsVidax))
	}
	if o.As == "" && o.Weights != dtype.Invalid && o.Weights != o.DType {
		l.Add(fault.New(ErrOptions, nil, "weights in %v with a compute type of %v: weft keeps contracted weights in the compute type, and all others in f32; scaled fp8 checkpoints are widened as they load", o.Weights, o.DType))
	}
	if o.As == AsVidax && o.Weights != dtype.Invalid && o.Weights != dtype.F32 && o.Weights != dtype.BF16 {
		l.Add(fault.New(ErrOptions, nil, "weights in %v: the peer's scripts keep them in f32 or bf16", o.Weights))
	}
	if o.Steps < 0 {
		l.Add(fault.New(ErrOptions, nil, "%d steps: want 1 or more, or 0 to leave them out", o.Steps))
	}
	if err := l.Err(); err != nil {
		return r, 0, err
	}
	if positions > models.MaxPositions {
		return r, 0, fault.New(models.ErrSize, nil, "%dx%d pixels, %d frames, batch %d make %d latent positions: more than the %d that are planned; smaller sizes or fewer frames",
			o.Width, o.Height, o.Frames, o.Batch, positions, models.MaxPositions)
	}
	r = models.Request{Batch: o.Batch, Latent: latent, Text: o.Text, DType: o.DType, SplitResidual: o.SplitResidual, TokenTimes: o.TokenTimes}
	if o.TokenTimes {
		r.Times = 2
	}
	switch o.CFG {
	case CFGSequential:
		return r, 2, nil
	case CFGBatch:
		r.Batch *= 2
	}
	return r, 1, nil
}

func newSearch(m models.Model, o Options) (*search, error) {
	e, err := efficiencies()
	if err != nil {
		return nil, err
	}
	r, passes, err := o.Request(m)
	if err != nil {
		return nil, err
	}
	s := &search{m: m, o: o.withDefaults(m), r: r, passes: passes, figures: e, measures: map[string]*splitMeasures{}}
	one, err := mesh.Local(axesOf(split{pp: 1, dp: 1, fsdp: 1, tp: 1, sp: 1})...)
	if err != nil {
		return nil, err
	}
	if err := m.Check(one, s.r); err != nil { // wrong on one device, so wrong with every split
		return nil, err
	}
	s.layers = countAlikeLayers(m)
	return s, nil
}

// Search plans a model's step on a slice: every split, legal or not. A Result with
// no plans is no error here. Errors: ErrOptions, models.ErrSize and what
// Model.Check says of a single device; ctx's, when it ends first.
func Search(ctx context.Context, m models.Model, on topology.Slice, o Options) (*Result, error) {
	s, err := newSearch(m, o)
	if err != nil {
		return nil, err
	}
	if o.As == AsVidax {
		return s.searchPeer(ctx, on)
	}
	res := s.newResult(on.String())
	if err := s.planSlice(ctx, res, on); err != nil {
		return nil, err
	}
	return res, s.adviseOnPlans(ctx, on, res.Plans)
}

func (s *search) newResult(on string) *Result {
	res := &Result{Model: s.m.Name(), On: on, Size: fmt.Sprintf("%dx%d", s.o.Width, s.o.Height), Frames: s.o.Frames,
		Batch: s.o.Batch, CFG: s.o.CFG, DType: s.o.DType.String(), Plans: []Plan{}, Refuse: []Refusal{}, Efficiency: s.figures.Status}
	res.Notes = []string{
		"phases run one after another; memory is the largest one's",
		fmt.Sprintf("step times rest on %s efficiencies (plan/data/efficiency.json)", res.Efficiency)}
	res.Notes = append(res.Notes, s.o.Settings.Notes...)
	res.Settings = map[string]models.Setting{}
	for _, name := range []string{"release", "cfg", "passes", "text_len", "time"} { // what a plan depends on
		if setting, ok := s.o.Settings.Get(name); ok {
			res.Settings[name] = setting
		}
	}
	if missing := s.unmodelledPhases(); len(missing) > 0 {
		res.Notes = append(res.Notes, "not modelled: "+strings.Join(missing, " and "))
	}
	return res
}

// planSlice adds the plans and refusals of one slice, without advice.
func (s *search) planSlice(ctx context.Context, res *Result, on topology.Slice) error {
	splits, err := s.listSplits(on)
	if err != nil {
		return err
	}
	type answer struct {
		plan    *Plan
		refused *Refusal
		err     error
	}
	answers := make([]answer, len(splits))
	runParallel(ctx, len(splits), func(i int) {
		a := &answers[i]
		a.plan, a.refused, a.err = s.planSplit(on, splits[i])
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	first := len(res.Plans)
	for _, a := range answers {
		switch {
		case a.err != nil:
			return a.err
		case a.plan != nil:
			res.Plans = append(res.Plans, *a.plan)
		case a.refused != nil && !slices.ContainsFunc(res.Refuse, func(r Refusal) bool { return r.Slice == a.refused.Slice && r.Mesh == a.refused.Mesh }):
			res.Refuse = append(res.Refuse, *a.refused)
		}
	}
	plans := res.Plans[first:]
	slices.SortStableFunc(plans, comparePlans)
	return nil
}

// comparePlans orders plans: those that fit first, then the faster, then the smaller.
func comparePlans(a, b Plan) int {
	fits := func(p Plan) int {
		if p.Fits == TooBig {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(fits(a), fits(b)), cmp.Compare(a.StepSeconds, b.StepSeconds),
		cmp.Compare(a.HBMBytesPerDevice, b.HBMBytesPerDevice), cmp.Compare(a.Mesh, b.Mesh), cmp.Compare(strings.Join(a.FSDP, ","), strings.Join(b.FSDP, ",")))
}

// runParallel calls f with 0 to n-1 on all processors, until ctx ends.
func runParallel(ctx context.Context, n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
}

// planSplit plans one split. It returns a plan, or why the split is refused.
func (s *search) planSplit(on topology.Slice, sp split) (*Plan, *Refusal, error) {
	refuse := func(err error) (*Plan, *Refusal, error) {
		r := newRefusal(on, sp, s.adviseOnSplit(on, sp, err))
		return nil, &r, nil
	}
	if sp.pp > 1 && sp.countDevices() == on.Devices {
		return s.planPipeline(on, sp)
	}
	local, r, err := s.requestForSplit(on, sp)
	if err != nil {
		return refuse(err)
	}
	got, err := s.measureSplit(local, sp, r)
	if refusesSplit(err) {
		return refuse(err)
	}
	if err != nil {
		return nil, nil, err
	}
	p := &Plan{Slice: on.String(), Mesh: sp.meshText(), FSDP: sp.fsdpAxes(), Devices: on.Devices, Breakdown: Breakdown{DiT: Phase{Memory: &got.memory}},
		Attention: got.choices, CollectiveBytes: byAxis(got.step), RequestCollectiveBytes: byAxis(got.request), Collectives: got.step,
		CFGParallel: s.o.CFG == CFGBatch && sp.dp%2 == 0, Padding: got.padding, Notes: slices.Clone(got.notes), split: sp}
	if err := s.addPhases(p, on); err != nil {
		return nil, nil, err
	}
	s.judgeMemory(p, on)
	if p.CFGParallel {
		p.Notes = append(p.Notes, fmt.Sprintf("dp=%d over a batch of %d: the passes with and without the text run on different devices (CFG parallel)", sp.dp, s.r.Batch))
	}
	if slices.ContainsFunc(got.choices, func(c graph.Choice) bool { return c.Taken == attention.Kernel }) {
		p.Notes = append(p.Notes, "attention by weft's kernel: its time is the compiler's figure for the code, and no TPU has run it yet")
	}
	if err := s.addTimes(p, on, got); err != nil {
		return nil, nil, err
	}
	s.addCost(p, on)
	return p, nil, nil
}

// refusesSplit reports whether a graph could not be built because of its split alone: the
// kernel does not take its shapes, or the weights are sharded over an axis that splits them
// already. The search then goes on with the other splits.
func refusesSplit(err error) bool {
	return errors.Is(err, attention.ErrKernelUnavailable) || errors.Is(err, sharding.ErrDuplicateAxis)
}

// adviseOnSplit completes the reason why a split is refused. For a mesh that is asked for
// alone it names the nearest meshes that are legal on the slice. In a search over all
// splits the answer has the legal ones anyway, so that none is named.
func (s *search) adviseOnSplit(on topology.Slice, sp split, err error) error {
	given, e := mesh.Local(axesOf(sp)...)
	if s.o.Mesh == nil || e != nil {
		return models.WithoutChoices(err)
	}
	return models.Advise(err, given, on.Devices, func(candidate *mesh.Mesh) error {
		other := splitOf(candidate.Axes())
		other.shardedOver = sp.shardedOver
		if other.countDevices() == on.Devices {
			if err := s.checkPipeline(on, other); err != nil {
				return err
			}
		}
		_, _, err := s.requestForSplit(on, other)
		return err
	})
}

// Target says for which hardware and form of attention programs for a slice are built.
func (o Options) Target(on topology.Slice) spmd.Target {
	t := targets.For(on)
	t.Attention = o.Attention
	return t
}

func newRefusal(on topology.Slice, sp split, err error) Refusal {
	r := Refusal{Slice: on.String(), Mesh: sp.meshText()}
	for i, v := range fault.Violations(err) {
		d := fault.Describe(v)
		r.Violations = append(r.Violations, d)
		if i == 0 {
			r.Kind, r.Reason = d.Kind, d.Message
		} else {
			r.Reason += "; " + d.Message
		}
	}
	return r
}

// judgeMemory compares a plan's memory with the device's and says whether it fits.
func (s *search) judgeMemory(p *Plan, on topology.Slice) {
	p.HBMBytesPerDevice = p.Breakdown.peakBytes()
	p.DeviceMemory = s.o.Memory(on)
	p.HBMLimitBytes = p.DeviceMemory.UsableBytes
	p.Fits, p.OverBytes = Judge(p.HBMBytesPerDevice, p.HBMLimitBytes)
	if p.Fits == FitUnknown {
		p.Notes = append(p.Notes, UnknownMemory)
	}
}

// addCost adds to a plan what it costs at the user's prices.
func (s *search) addCost(p *Plan, on topology.Slice) {
	if s.o.Prices == nil {
		return
	}
	if p.Cost = s.o.Prices.planCost(on, p.StepSeconds, s.o.Steps, s.o.Batch); p.Cost == nil {
		p.Notes = append(p.Notes, fmt.Sprintf("no price for %s or its generation, %s", on, on.Generation))
	}
}

func byAxis(ts []cost.Traffic) map[string]int64 {
	out := map[string]int64{}
	for _, t := range ts {
		out[t.Axis] += t.Bytes
	}
	return out
}
