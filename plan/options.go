package plan

import (
	"cmp"

	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/spmd"
	"weft/targets"
	"weft/topology"
)

// How the passes with and without the text run.
const (
	CFGBatch      = "batch"      // both as one batch of twice the size
	CFGSequential = "sequential" // one after the other
	CFGNone       = "none"       // the pass with the text alone
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

// maxBatch bounds the videos of a step: more is a mistyped number.
const maxBatch = 1 << 10

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

// Target says for which hardware and form of attention programs for a slice are built.
func (o Options) Target(on topology.Slice) spmd.Target {
	t := targets.For(on)
	t.Attention = o.Attention
	return t
}
