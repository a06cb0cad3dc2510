package weft

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/models"
	"weft/plan"
	"weft/sampler"
	"weft/session"
	"weft/tensor"
)

// SampleOptions of Sample.
type SampleOptions struct {
	Options
	Width, Height int
	// What follows is the release's own (models.SettingsOf) where it is zero.
	Frames           int
	FPS              float64 // frames a second, for models whose positions are seconds
	Steps            int
	Sampler          string // one of sampler.Names
	Shift            float64
	IntegerTimesteps bool
	// Guidance mixes the velocities with and without the text: uncond + Guidance
	// (cond - uncond). It is one scale, or one for each of two experts, first the one
	// that runs first. It needs a negative text; 1 is one pass without.
	Guidance []float64
	// Boundary is the share of the noise levels above which the first of two experts runs.
	Boundary float64
	// CFG is how the passes with and without the text run: plan.CFGBatch, also as "",
	// makes them one batch, which dp=2 runs in parallel; plan.CFGSequential runs one
	// after the other; plan.CFGNone is the pass with the text alone.
	CFG string
	// Asked names settings that are asked for though they are zero, which is then refused.
	Asked []string
	Seed  uint64
	// Conditions are what the model reads besides latents, time and text (for Wan
	// i2v y and clip_fea), the same in every step and for both texts; what a
	// models.TextConditioned reads of one text is of Negative under "negative_" and its name.
	Conditions map[string]*tensor.Tensor
	// Noise are the latents to start from, in place of the seed's.
	Noise *tensor.Tensor
	// OnStep is called after each step.
	OnStep func(SampleStep)
}

// SampleStep reports one step.
type SampleStep struct {
	Step     int     `json:"step"`
	Of       int     `json:"-"` // how many there are
	Timestep float64 `json:"timestep"`
	Sigma    float64 `json:"sigma"`
	Seconds  float64 `json:"seconds"`
	// Expert is the folder of the model that ran, where there are two.
	Expert string `json:"expert,omitempty"`
	// Host is the part of Seconds spent in the scheduler.
	Host float64 `json:"scheduler_seconds"`
}

// Sampled is the result of Sample.
type Sampled struct {
	Latents *tensor.Tensor // (batch, channels, frames, height, width), f32
	Steps   []SampleStep
	Report  Report
	// Settings are all that were taken, and from where.
	Settings map[string]models.Setting
}

// Sample denoises latents. text (batch, rows, dim), or (rows, dim), is the
// prompt's embedding, negative the one to be guided away from, nil for none.
func (m *Model) Sample(ctx context.Context, text, negative *tensor.Tensor, o SampleOptions) (*Sampled, error) {
	return sampleLatents(ctx, []expert{{m: m}}, m.Settings, text, negative, o)
}

// sampleLatents runs the whole denoising loop with one model or two experts.
func sampleLatents(ctx context.Context, experts []expert, settings models.Settings, text, negative *tensor.Tensor, o SampleOptions) (*Sampled, error) {
	j, err := newSampling(experts, settings, text, negative, o)
	if err != nil {
		return nil, err
	}
	defer j.close()
	steps := []SampleStep{}
	for i := range j.sampler.Steps() {
		s, err := j.runStep(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		steps = append(steps, s)
		if o.OnStep != nil {
			o.OnStep(s)
		}
	}
	out, err := tensor.FromFloat32s(dtype.F32, j.x, j.shape...)
	return &Sampled{Latents: out, Steps: steps, Report: j.totalReport(), Settings: j.settings.Taken()}, err
}

// expert is a model, with the timestep down to which it denoises.
type expert struct {
	m     *Model
	name  string  // "" where there is one
	until float64 // of the timesteps; 0 is all
}

// sampling is the state of one denoising loop.
type sampling struct {
	experts  []expert
	at       int // the expert in use; -1 before the first
	g        *models.Generator
	o        SampleOptions
	settings models.Settings
	notes    []string
	guidance []float64 // one an expert; nil where each step is one pass
	sampler  sampler.Sampler
	req      models.Request
	eng      engine.Engine    // of all experts, where it is this loop's own
	run      *Run             // of the expert in use; the others' weights are on no device
	past     []Report         // of the experts before it
	texts    []*tensor.Tensor // one a pass
	batch    int
	shape    []int // of the latents
	x        []float32
	velocity [][]float32 // uncond, cond, or one
	odd      nonFinite
}

// askedSettings returns the settings that the options ask for.
func (o SampleOptions) askedSettings() models.Said {
	v := map[string]any{}
	set := func(name string, given bool, value any) {
		if given || slices.Contains(o.Asked, name) {
			v[name] = value
		}
	}
	set("sampler", o.Sampler != "", o.Sampler)
	set("shift", o.Shift != 0, o.Shift)
	set("guidance", len(o.Guidance) > 0, o.Guidance)
	set("steps", o.Steps != 0, o.Steps)
	set("boundary", o.Boundary != 0, o.Boundary)
	set("frames", o.Frames != 0, o.Frames)
	set("fps", o.FPS != 0, o.FPS)
	set("size", true, o.sizeText())
	set("cfg", o.CFG != "", o.CFG)
	set("integer_timesteps", o.IntegerTimesteps, o.IntegerTimesteps)
	set("text_len", o.TextLen > 0, o.TextLen)
	return models.Said{From: models.FromFlag, Values: v}
}

func (o SampleOptions) sizeText() string { return fmt.Sprintf("%dx%d", o.Width, o.Height) }

// chooseGuidance decides from the settings how many passes each step has, and the scale
// of guidance for each expert. It notes where this differs from how the release is run.
func (j *sampling) chooseGuidance(negative *tensor.Tensor) error {
	o, s, name := j.o, j.settings, j.experts[0].m.Name()
	scales, asked := s.Numbers("guidance"), len(o.Guidance) > 0
	var l fault.List
	for _, g := range scales {
		if math.IsNaN(g) || math.IsInf(g, 0) {
			l.Add(fault.New(models.ErrInputs, nil, "guidance %v: want finite numbers", scales))
		}
	}
	switch o.CFG {
	case "", plan.CFGBatch, plan.CFGSequential, plan.CFGNone:
	default:
		l.Add(fault.New(models.ErrInputs, nil, "cfg %q: want %s, %s or %s", o.CFG, plan.CFGBatch, plan.CFGSequential, plan.CFGNone))
	}
	switch n := len(j.experts); {
	case len(scales) > 2 || asked && len(scales) == 2 && n == 1:
		l.Add(fault.New(models.ErrInputs, nil, "guidance %v: want one scale%s, since there is %s", scales, map[bool]string{true: " or two"}[n == 2], map[bool]string{true: "one model", false: "a pair of models"}[n == 1]))
	case len(scales) == 2 && n == 1:
		at := 0
		if filepath.Base(j.experts[0].m.dir) == "low_noise_model" || filepath.Base(j.experts[0].m.dir) == "transformer_2" {
			at = 1
		}
		scales = scales[at : at+1]
		j.notes = append(j.notes, fmt.Sprintf("one of two experts is run alone, with its guidance of %g", scales[0]))
	case len(scales) == 1 && n == 2:
		scales = []float64{scales[0], scales[0]}
	}
	alone := !slices.ContainsFunc(scales, func(g float64) bool { return g != 1 })
	if asked && !alone && negative == nil && o.CFG != plan.CFGNone {
		l.Add(fault.New(models.ErrInputs, nil, "guidance %v needs a negative prompt's embedding to guide away from", scales))
	}
	if asked && !alone && o.CFG == plan.CFGNone {
		l.Add(fault.New(models.ErrInputs, nil, "guidance %v with cfg none: one pass has nothing to be guided away from; leave one of them out", scales))
	}
	if err := l.Err(); err != nil {
		return err
	}
	g, _ := s.Get("guidance")
	why := ""
	switch {
	case o.CFG == plan.CFGNone:
		why = "cfg none"
	case alone:
		why = fmt.Sprintf("guidance 1 (%s)", g.From)
	case negative == nil:
		why = "no negative text"
		j.notes = append(j.notes, fmt.Sprintf("no negative text: each step is one pass, without guidance; %s is run with guidance %s (%s)", name, g.Text(), g.From))
	}
	if why == "" {
		j.guidance = scales
		j.settings = s.Over(models.Said{From: g.From, Values: map[string]any{"passes": 2}})
		if o.CFG == "" {
			j.settings = j.settings.Over(models.Said{From: "default", Values: map[string]any{"cfg": plan.CFGBatch}})
		}
		return nil
	}
	if negative != nil {
		j.notes = append(j.notes, why+": each step is one pass, and the negative text is not used")
	}
	j.settings = s.Over(models.Said{From: why, Values: map[string]any{"passes": 1, "cfg": plan.CFGNone}})
	return nil
}

// newSampling checks everything that is asked for, before any weight is read, and makes
// the initial latents.
func newSampling(experts []expert, settings models.Settings, text, negative *tensor.Tensor, o SampleOptions) (*sampling, error) {
	var l fault.List
	g := experts[0].m.Features().Generator
	if g == nil {
		return nil, fault.New(models.ErrVariant, nil, "%s does not denoise latents", experts[0].m.Name())
	}
	s := settings.ForSize(o.sizeText()).Over(o.askedSettings())
	j := &sampling{experts: experts, odd: nonFinite{allow: o.AllowNonFinite}, at: -1, g: g, o: o, settings: s, notes: slices.Clone(settings.Notes)}
	latent, err := models.VideoLatents(g, 1, o.Width, o.Height, s.Count("frames"))
	l.Add(err)
	shift := s.Number("shift")
	if v, _ := s.Get("shift"); v.From != models.FromFlag && !sampler.TakesShift(s.Text("sampler")) {
		shift = 0 // of another sampler's
	}
	tokens := 0
	if len(latent) == 4 {
		tokens = latent[1] * latent[2] * latent[3]
	}
	j.sampler, err = sampler.New(s.Text("sampler"), sampler.Options{Steps: s.Count("steps"), Shift: shift, IntegerTimesteps: s.Is("integer_timesteps"), Seed: o.Seed, Tokens: tokens})
	l.Add(err)
	l.Add(j.chooseGuidance(negative))
	if b := s.Number("boundary"); len(experts) == 2 && !(b > 0 && b < 1) {
		l.Add(fault.New(models.ErrInputs, nil, "boundary %g: want a share of the noise levels between 0 and 1", b))
	} else if len(experts) == 2 {
		experts[0].until = 1000 * b
	} else if o.Boundary != 0 || slices.Contains(o.Asked, "boundary") {
		l.Add(fault.New(models.ErrInputs, nil, "boundary %g: there is one model, not two experts", o.Boundary))
	}
	guided := j.guidance != nil
	if o.FPS == 0 && s.Text("time") != "" {
		o.FPS = s.Number("fps") // positions are seconds
	}
	// Where neither the configuration nor a flag says how long a text is, the release
	// does; models that mask what is padded need no padding.
	if g.PadsText && o.TextLen == 0 {
		o.TextLen = s.Count("text_len")
		j.o.TextLen = o.TextLen
	} else if !g.PadsText {
		j.settings = j.settings.Without("text_len")
	}
	batched := batchedRows
	if g.ReadsTokens {
		batched = batchedIDs
	}
	text, err = batched(text, "context")
	l.Add(err)
	if guided {
		negative, err = batched(negative, "negative context")
		l.Add(err)
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	j.batch, j.shape = text.Shape[0], append([]int{text.Shape[0]}, latent...)
	rows := text.Shape[1]
	j.texts = []*tensor.Tensor{text}
	if guided {
		rows = max(rows, negative.Shape[1])
		if negative.Shape[0] != j.batch || !slices.Equal(negative.Shape[2:], text.Shape[2:]) {
			return nil, fault.New(models.ErrInputs, nil, "context is %v and negative context %v: batch and width must be equal", text.Shape, negative.Shape)
		}
		if c := g.Conditions; c != nil && len(c.OfText) > 0 && negative.Shape[1] != text.Shape[1] {
			return nil, fault.New(models.ErrInputs, nil, "context has %d rows and negative context %d: %s takes no row for padding that no mask says is, so make both as long, with a mask each", text.Shape[1], negative.Shape[1], g.Name())
		}
		if j.texts = []*tensor.Tensor{negative, text}; o.CFG != plan.CFGSequential {
			if j.texts, err = joinTexts(negative, text, rows); err != nil {
				return nil, err
			}
		}
	}
	j.req = models.Request{Batch: j.batch, Latent: latent, Text: rows, FPS: o.FPS}
	for _, t := range j.texts {
		j.req.Masked = j.req.Masked || g.ReadsTokens && isPadded(t, rows)
	}
	if err := j.checkConditions(); err != nil {
		return nil, err
	}
	j.req.Batch = j.texts[0].Shape[0]
	// Every expert's split is checked before the first weight is read.
	for _, e := range experts {
		if _, _, _, err := e.m.applyOptions(j.req, o.Options); err != nil {
			return nil, err
		}
	}
	n := tensor.Elements(j.shape)
	l.Add(j.odd.checkFinite("input", nil, map[string]*tensor.Tensor{"context": text, "negative context": negative, "latents": o.Noise}))
	l.Add(j.odd.checkFinite("condition", nil, o.Conditions))
	if err := l.Err(); err != nil {
		return nil, err
	}
	if o.OutputBytes != nil {
		if err := o.OutputBytes(4*int64(n), 0); err != nil {
			return nil, err
		}
		j.o.OutputBytes = nil // of the latents, not of each step's outputs
	}
	if o.Noise != nil {
		if j.x, err = o.Noise.Float32s(); err != nil || len(j.x) != n {
			return nil, fault.New(models.ErrInputs, nil, "initial latents are %v: want %v", o.Noise, j.shape)
		}
	} else {
		j.x = sampler.Noise(o.Seed, j.shape...)
	}
	return j, nil
}

// ofNegative is the prefix of the conditions that belong to the negative text.
const ofNegative = "negative_"

// isGuided reports whether there is a negative text. Its videos come first in a batch
// of both.
func (j *sampling) isGuided() bool { return len(j.texts) > 1 || j.texts[0].Shape[0] > j.batch }

// conditionsOf returns the conditions for the videos of one text, under the names that
// the model has for them.
func (j *sampling) conditionsOf(negative bool) map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for name, x := range j.o.Conditions {
		if !strings.HasPrefix(name, ofNegative) {
			out[name] = x
		}
	}
	for name, x := range j.o.Conditions {
		if own, ok := strings.CutPrefix(name, ofNegative); ok && negative {
			out[own] = x
		}
	}
	return out
}

// checkConditions checks the tensors that the model reads besides latents, time and
// text, each with a batch of videos, and enters them in the request.
func (j *sampling) checkConditions() error {
	c := j.g.Conditions
	names := []string{}
	if c != nil {
		names = slices.Clone(c.Names)
	}
	var l fault.List
	var apart error // what both texts' conditions differ in that must not
	if c != nil && len(c.OfText) > 0 {
		own := c.OfText
		names = append(names, own...)
		if j.isGuided() {
			apart = j.checkPairedConditions(own)
			l.Add(apart)
			for _, name := range own {
				names = append(names, ofNegative+name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.o.Conditions)) {
		if !slices.Contains(names, name) {
			l.Add(fault.New(models.ErrInputs, nil, "condition %q is given: %s reads %v besides latents, time and text", name, j.g.Name(), names))
		}
	}
	if c != nil {
		req, err := c.Check(j.req, j.conditionsOf(false))
		l.Add(err)
		if err == nil && apart == nil && j.isGuided() {
			if _, err := c.Check(j.req, j.conditionsOf(true)); err != nil {
				l.Add(fmt.Errorf("of the negative text: %w", err))
			}
		}
		j.req = req
	}
	return l.Err()
}

// checkPairedConditions checks the conditions that each text has one of. They must be
// given for both texts or for neither, and in the same shape, because both texts are
// steps of one request.
func (j *sampling) checkPairedConditions(names []string) error {
	var l fault.List
	for _, name := range names {
		text, negative := j.o.Conditions[name], j.o.Conditions[ofNegative+name]
		switch {
		case (text == nil) != (negative == nil):
			l.Add(fault.New(models.ErrInputs, nil, "of the conditions %q and %q one is given: %s reads %s of each text", name, ofNegative+name, j.g.Name(), name))
		case text != nil && !slices.Equal(text.Shape, negative.Shape):
			l.Add(fault.New(models.ErrInputs, nil, "condition %q is %v and %q %v: want one shape", name, text.Shape, ofNegative+name, negative.Shape))
		}
	}
	return l.Err()
}

// useExpert loads the expert for timestep t and frees the one before it. fresh reports
// whether the expert has changed.
func (j *sampling) useExpert(ctx context.Context, t float64) (fresh bool, err error) {
	at := 0
	for at < len(j.experts)-1 && t < j.experts[at].until {
		at++
	}
	if at == j.at {
		return false, nil
	}
	if j.run != nil {
		j.past = append(j.past, j.run.Report())
		j.run.Close()
		j.run = nil
	}
	m, o := j.experts[at].m, j.o.Options
	if len(j.experts) > 1 && j.eng == nil && o.On == nil {
		on, err := ParseMesh(o.Mesh)
		if err != nil {
			return false, err
		}
		if j.eng, err = engine.Open(ctx, o.Device, on.NumDevices(), o.Engine); err != nil {
			return false, err
		}
	}
	if j.run, err = m.prepareRun(ctx, j.req, o, j.eng); err != nil {
		return false, err
	}
	j.at, j.g = at, m.Features().Generator
	return true, nil
}

// close frees the devices and the engine.
func (j *sampling) close() {
	if j.run != nil {
		j.run.Close()
	}
	if j.eng != nil {
		j.eng.Close()
	}
}

// totalReport returns the report of the expert in use, with the costs of the experts
// before it added.
func (j *sampling) totalReport() Report {
	r := j.run.Report()
	r.Notes = append(append(slices.Clone(j.notes), r.Notes...), j.odd.notes...)
	for _, p := range j.past {
		r.CompileSeconds += p.CompileSeconds
		r.LoadSeconds += p.LoadSeconds
		r.BytesRead += p.BytesRead
		r.Seconds = min(r.Seconds, p.Seconds)
		r.FirstSeconds = p.FirstSeconds
		r.Resident = max(r.Resident, p.Resident)
	}
	return r
}

// batchedIDs returns token ids as i32 with a batch dim: (rows) becomes (1, rows).
func batchedIDs(t *tensor.Tensor, what string) (*tensor.Tensor, error) {
	if t == nil || (len(t.Shape) != 1 && len(t.Shape) != 2) || t.Elements() == 0 || (t.DType != dtype.I32 && t.DType != dtype.I64) {
		return nil, fault.New(models.ErrInputs, nil, "%s %v: want token ids (rows) or (batch, rows) of i32 or i64", what, t)
	}
	numbers, err := t.Int64s()
	if err != nil {
		return nil, err
	}
	rows := t.Shape[len(t.Shape)-1]
	out := tensor.New(dtype.I32, len(numbers)/rows, rows)
	for i, id := range numbers {
		if id > math.MaxInt32 || id < math.MinInt32 {
			return nil, fault.New(models.ErrInputs, nil, "%s: token id %d is no vocabulary's", what, id)
		}
		binary.LittleEndian.PutUint32(out.Data[4*i:], uint32(int32(id)))
	}
	return out, nil
}

// isPadded reports whether a row of token ids (batch, up to rows) has fewer than rows
// ids.
func isPadded(ids *tensor.Tensor, rows int) bool {
	numbers, err := ids.Int64s()
	return err == nil && (ids.Shape[1] < rows || slices.Min(numbers) < 0)
}

// batchedRows returns an embedding with a batch dim: (rows, dim) becomes (1, rows,
// dim).
func batchedRows(t *tensor.Tensor, what string) (*tensor.Tensor, error) {
	if t == nil || (len(t.Shape) != 2 && len(t.Shape) != 3) || t.Elements() == 0 || !t.DType.IsFloat() {
		return nil, fault.New(models.ErrInputs, nil, "%s %v: want (rows, dim) or (batch, rows, dim) of a floating-point type", what, t)
	}
	if len(t.Shape) == 3 {
		return t, nil
	}
	return &tensor.Tensor{DType: t.DType, Shape: append([]int{1}, t.Shape...), Data: t.Data}, nil
}

// joinTexts joins both texts into one batch. The shorter text is padded at its end: an
// embedding with rows of zeros, as the models do, and token ids with -1.
func joinTexts(a, b *tensor.Tensor, rows int) ([]*tensor.Tensor, error) {
	if len(a.Shape) == 2 {
		n, size := a.Shape[0], dtype.I32.Size()
		out := tensor.New(dtype.I32, 2*n, rows)
		for i := range out.Data {
			out.Data[i] = 0xff
		}
		for i, t := range []*tensor.Tensor{a, b} {
			own := t.Shape[1] * size
			for k := range n {
				copy(out.Data[(i*n+k)*rows*size:], t.Data[k*own:(k+1)*own])
			}
		}
		return []*tensor.Tensor{out}, nil
	}
	n, dim := a.Shape[0], a.Shape[2]
	out := make([]float32, 2*n*rows*dim)
	for i, t := range []*tensor.Tensor{a, b} {
		fs, err := t.Float32s()
		if err != nil {
			return nil, err
		}
		own := t.Shape[1] * dim
		for k := range n {
			copy(out[(i*n+k)*rows*dim:], fs[k*own:(k+1)*own])
		}
	}
	t, err := tensor.FromFloat32s(dtype.F32, out, 2*n, rows, dim)
	return []*tensor.Tensor{t}, err
}

// runStep denoises the latents by step i of the sampler.
func (j *sampling) runStep(ctx context.Context, i int) (SampleStep, error) {
	start := time.Now()
	t := j.sampler.Timestep(i)
	fresh, err := j.useExpert(ctx, t)
	if err != nil {
		return SampleStep{}, err
	}
	if err := j.computeVelocities(ctx, fresh, t); err != nil {
		return SampleStep{}, err
	}
	host := time.Now()
	v := j.velocity[0]
	if len(j.velocity) == 2 {
		if err := sampler.Guide(j.velocity[0], j.velocity[1], float32(j.guidance[j.at]), v); err != nil {
			return SampleStep{}, err
		}
	}
	if err := j.sampler.Step(i, j.x, v); err != nil {
		return SampleStep{}, err
	}
	if err := j.checkLatents(i); err != nil {
		return SampleStep{}, err
	}
	end := time.Now()
	j.run.recordStepTime(end.Sub(start).Seconds())
	return SampleStep{Step: i, Of: j.sampler.Steps(), Timestep: t, Sigma: j.sampler.Sigma(i), Expert: j.experts[j.at].name, Seconds: end.Sub(start).Seconds(), Host: end.Sub(host).Seconds()}, nil
}

// checkLatents refuses latents that became NaN or infinite in step i, because all later
// steps would continue with them.
func (j *sampling) checkLatents(i int) error {
	x, err := tensor.FromFloat32s(dtype.F32, j.x, j.shape...)
	if err != nil {
		return err
	}
	return j.odd.checkFinite("latents", &i, map[string]*tensor.Tensor{"latents": x})
}

// computeVelocities runs the model on the latents for every text. Each text is a lane,
// or several lanes where a pipeline cuts the batch; the lanes of a step share the
// stages.
func (j *sampling) computeVelocities(ctx context.Context, fresh bool, t float64) error {
	copies := j.run.req.Batch * j.run.micro / j.batch // 2 when guidance is one batch
	xs := make([]float32, 0, len(j.x)*copies)
	for range copies {
		xs = append(xs, j.x...)
	}
	x, err := tensor.FromFloat32s(dtype.F32, xs, append([]int{j.batch * copies}, j.shape[1:]...)...)
	if err != nil {
		return err
	}
	n, lanes := j.run.req.Batch, []string{}
	for pass, text := range j.texts {
		for k := range j.run.micro {
			lane := fmt.Sprintf("text %d micro %d", pass, k)
			lanes = append(lanes, lane)
			if err := j.feedLane(ctx, lane, text.Rows(k*n, (k+1)*n), x.Rows(k*n, (k+1)*n), pass*j.batch+k*n, fresh, t); err != nil {
				return err
			}
		}
	}
	outs, err := j.run.s.Run(ctx, lanes, session.RunOptions{})
	if err != nil {
		return err
	}
	all := make([]*tensor.Tensor, len(outs))
	for k := range outs {
		if all[k], err = j.latentsOf(outs[k]["out"]); err != nil {
			return err
		}
	}
	fs, err := tensor.Stack(all).Float32s()
	if err != nil {
		return err
	}
	j.velocity = j.velocity[:0]
	for at := 0; at < len(fs); at += len(j.x) {
		j.velocity = append(j.velocity, fs[at:at+len(j.x)])
	}
	return nil
}

// latentsOf returns a step's output in the shape of the latents, or an error if it has
// another shape.
func (j *sampling) latentsOf(out *tensor.Tensor) (*tensor.Tensor, error) {
	want := append([]int{j.run.req.Batch}, j.shape[1:]...)
	if out == nil || out.Elements() != tensor.Elements(want) {
		return nil, fault.New(models.ErrOutput, nil, "%s gives %v in a step: want the velocity of latents %v; its configuration's channels out are no latents'", j.g.Name(), out, want)
	}
	if j.g.Velocity != nil {
		out = j.g.Velocity(j.run.req, out)
	}
	if !slices.Equal(out.Shape, want) {
		return nil, fault.New(models.ErrOutput, nil, "%s gives %v in a step: want the velocity of latents %v", j.g.Name(), out, want)
	}
	return out, nil
}

// feedLane feeds the latents of a lane, which start at row lo of the videos of both
// texts. Before the expert's first step it also feeds the text and the conditions.
func (j *sampling) feedLane(ctx context.Context, lane string, text, x *tensor.Tensor, lo int, fresh bool, t float64) error {
	if fresh {
		in, err := j.g.FeedText(j.run.g, j.run.req, text)
		if err != nil {
			return err
		}
		if c := j.g.Conditions; c != nil {
			part := map[string]*tensor.Tensor{}
			own, negative := j.conditionsOf(false), j.conditionsOf(true)
			for name, all := range own {
				rows := make([]*tensor.Tensor, text.Shape[0])
				for i := range rows {
					of, at := all, (lo+i)%j.batch
					if j.isGuided() && lo+i < j.batch {
						of = negative[name]
					}
					rows[i] = of.Rows(at, at+1)
				}
				part[name] = tensor.Stack(rows)
			}
			more, err := c.Feed(j.run.g, j.run.req, part)
			if err != nil {
				return err
			}
			maps.Copy(in, more)
		}
		if err := j.run.s.Feed(ctx, lane, in); err != nil {
			return err
		}
	}
	in, err := j.g.FeedStep(j.run.req, x, t)
	if err != nil {
		return err
	}
	return j.run.s.Feed(ctx, lane, in)
}
