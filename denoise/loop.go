// Package denoise is the loop over the steps of a video's latents. For each step it asks
// the sampler for the timestep, puts the expert of this timestep on devices, runs the
// model with and without the text, combines the two velocities by the scale of guidance,
// and moves the latents.
//
// A loop reaches a model on devices through Devices and Run alone. The caller takes its
// steps one by one, and may look at the latents between them:
//
//	l, err := denoise.New(experts, settings, text, negative, options)
//	defer l.Close()
//	for !l.Done() {
//		step, err := l.Step(ctx)
//	}
//	latents, err := l.VideoLatents()
package denoise

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weft/dtype"
	"weft/fault"
	"weft/models"
	"weft/nonfinite"
	"weft/sampler"
	"weft/tensor"
)

// Step reports one step.
type Step struct {
	Step     int     `json:"step"`
	Of       int     `json:"-"` // how many there are
	Timestep float64 `json:"timestep"`
	Sigma    float64 `json:"sigma"`
	Seconds  float64 `json:"seconds"`
	// Expert is the name of the model that ran, where there are two.
	Expert string `json:"expert,omitempty"`
	// Host is the part of Seconds spent in the scheduler.
	Host float64 `json:"scheduler_seconds"`
}

// Loop is one denoising of latents.
type Loop struct {
	experts       []Expert
	switchAt      float64 // timestep below which the second of two experts runs
	at            int     // the expert in use; -1 before the first
	family        family  // of the expert in use
	o             Options
	settings      models.Settings
	notes         []string
	guidance      []float64 // one an expert; nil where each step is one pass
	sampler       sampler.Sampler
	guidanceInput float64 // what a model reads that has guidance as an input
	// hasNegative says that a negative text is given, whether it is used or not.
	hasNegative bool
	req         models.Request
	run         Run              // of the expert in use
	texts       []*tensor.Tensor // one a pass
	batch       int
	shape       []int // of the latents
	x           []float32
	draws       map[int][]float32 // by step, those that are given
	kept        []float32         // of the frames that are kept; nil for none
	aimed       []float32         // the velocity of frames that are replaced; nil for none
	velocity    [][]float32       // uncond, cond, or one
	odd         nonfinite.Checker
	next        int    // the step that comes next
	steps       []Step // taken by this loop
	failed      error
	sum         string // of the request, once it was asked for
}

// New checks everything that is asked for, before any weight is read, and makes the
// first latents. text (batch, rows, dim), or (rows, dim), is the prompt's embedding,
// negative the one to be guided away from, nil for none; a model that reads token ids
// takes (batch, rows) or (rows) of these. experts are one model, or two, first the one
// that denoises from pure noise. settings are how the release is run where the options
// do not say.
//
// Errors have the kinds models.ErrVariant, ErrInputs, ErrSize and those of splits,
// sampler's kinds, and nonfinite.Err.
func New(experts []Expert, settings models.Settings, text, negative *tensor.Tensor, o Options) (*Loop, error) {
	f, err := familyOf(experts[0].Model)
	if err != nil {
		return nil, err
	}
	s := settings.ForSize(o.sizeText()).Over(o.askedSettings())
	l := &Loop{experts: experts, family: f, odd: nonfinite.Checker{Allow: o.AllowNonFinite}, at: -1, o: o, settings: s, hasNegative: negative != nil, notes: slices.Clone(settings.Notes)}
	var errs fault.List
	latent, err := models.VideoLatents(f.Generator, 1, o.Width, o.Height, s.Count("frames"))
	errs.Add(err)
	errs.Add(l.makeSampler(latent))
	errs.Add(l.chooseGuidance(negative != nil))
	errs.Add(l.setBoundary())
	l.settleTextLen()
	text, negative, err = l.batchTexts(text, negative)
	errs.Add(err)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	l.batch, l.shape = text.Shape[0], append([]int{text.Shape[0]}, latent...)
	l.req = models.Request{Batch: l.batch, Latent: latent, FPS: l.frameRate()}
	if err := l.arrangeTexts(text, negative); err != nil {
		return nil, err
	}
	if err := l.addGuidanceInput(); err != nil {
		return nil, err
	}
	if err := l.checkConditions(); err != nil {
		return nil, err
	}
	if err := l.keepFrames(); err != nil {
		return nil, err
	}
	l.req.Batch = l.texts[0].Shape[0]
	if l.o.TextLen > 0 {
		l.req.Text = max(l.req.Text, l.o.TextLen)
	}
	// Every expert's split is checked before the first weight is read.
	for _, e := range experts {
		if err := e.Devices.CheckSplit(l.req); err != nil {
			return nil, err
		}
	}
	inputs := map[string]*tensor.Tensor{"context": text, "negative context": negative, "latents": o.Noise}
	if o.Kept != nil {
		inputs["kept frames"] = o.Kept.Latents
	}
	errs.Add(l.odd.CheckTensors("input", nil, inputs))
	errs.Add(l.odd.CheckTensors("condition", nil, o.Conditions))
	errs.Add(l.odd.CheckTensors("draw", nil, o.Draws))
	if err := errs.Err(); err != nil {
		return nil, err
	}
	if o.OutputBytes != nil {
		if err := o.OutputBytes(int64(dtype.F32.Size())*int64(tensor.Elements(l.shape)), 0); err != nil {
			return nil, err
		}
	}
	if err := fault.Join(l.makeLatents(), l.readDraws()); err != nil {
		return nil, err
	}
	l.mixFrames()
	l.aimFrames()
	return l, nil
}

// makeSampler makes the sampler that the settings name, for latents (channels, frames,
// height, width), or nil where these are refused.
func (l *Loop) makeSampler(latent []int) (err error) {
	s := l.settings
	shift := s.Number("shift")
	if v, _ := s.Get("shift"); v.From != models.FromFlag && !sampler.TakesShift(s.Text("sampler")) {
		shift = 0 // of another sampler's
	}
	tokens := 0
	if len(latent) == 4 {
		tokens = latent[1] * latent[2] * latent[3]
	}
	l.sampler, err = sampler.New(s.Text("sampler"), sampler.Options{
		Steps: s.Count("steps"), Shift: shift, IntegerTimesteps: s.Is("integer_timesteps"), Seed: l.o.Seed, Tokens: tokens, Noise: l.fillNoise,
	})
	return err
}

// frameRate returns the frames a second of the request: those asked for, or the
// release's, where positions are seconds.
func (l *Loop) frameRate() float64 {
	if l.o.FPS == 0 && (l.settings.Text("time") != "" || l.family.ReadsRate) {
		return l.settings.Number("fps")
	}
	return l.o.FPS
}

// makeLatents makes the latents before the first step: those given, or the seed's noise.
func (l *Loop) makeLatents() (err error) {
	if l.o.OnlyCheck {
		l.failed = fault.New(models.ErrInputs, nil, "a loop that was only checked takes no steps")
		return nil
	}
	if l.o.Noise == nil {
		l.x = sampler.Noise(l.o.Seed, l.shape...)
		return nil
	}
	if l.x, err = l.o.Noise.Float32s(); err != nil || len(l.x) != tensor.Elements(l.shape) {
		return fault.New(models.ErrInputs, nil, "initial latents are %v: want %v", l.o.Noise, l.shape)
	}
	return nil
}

// Len returns how many steps the loop has in all.
func (l *Loop) Len() int { return l.sampler.Steps() }

// Next returns the step that comes next, from 0 on; Len after the last.
func (l *Loop) Next() int { return l.next }

// Done reports whether all steps are taken.
func (l *Loop) Done() bool { return l.next == l.Len() }

// Steps lists the steps that this loop has taken.
func (l *Loop) Steps() []Step { return slices.Concat([]Step{}, l.steps) }

// Settings are all that were taken, and from where.
func (l *Loop) Settings() map[string]models.Setting { return l.settings.Taken() }

// Notes say what was decided where neither the options nor the release did, and where the
// loop differs from how the release is run.
func (l *Loop) Notes() []string { return slices.Clone(l.notes) }

// NonFiniteNotes say which tensors have a NaN or an infinity, where these are allowed.
func (l *Loop) NonFiniteNotes() []string { return slices.Clone(l.odd.Notes) }

// Latents returns a copy of the latents as the sampler left them after the steps so far:
// (batch, channels, frames, height, width), f32. After an error of Step they are those before
// that step.
func (l *Loop) Latents() (*tensor.Tensor, error) {
	return tensor.FromFloat32s(dtype.F32, l.x, l.shape...)
}

// VideoLatents returns a copy of the latents with the frames that are kept apart in their
// places: what is decoded, after the last step or for a preview.
func (l *Loop) VideoLatents() (*tensor.Tensor, error) { return l.decodedLatents() }

// Run takes the steps that are left. after, if it is not nil, is called after each; its
// error ends the loop there.
func (l *Loop) Run(ctx context.Context, after func(Step) error) error {
	for !l.Done() {
		s, err := l.Step(ctx)
		if err != nil {
			return err
		}
		if after == nil {
			continue
		}
		if err := after(s); err != nil {
			return err
		}
	}
	return nil
}

// Step takes the next step. After an error the loop takes no more.
func (l *Loop) Step(ctx context.Context) (Step, error) {
	if l.failed != nil {
		return Step{}, l.failed
	}
	if l.Done() {
		return Step{}, fault.New(sampler.ErrStepIndex, sampler.BadIndex{Step: l.next, Want: -1, Steps: l.Len()},
			"step %d asked of a loop of %d steps, 0 to %d", l.next, l.Len(), l.Len()-1)
	}
	s, err := l.takeStep(ctx, l.next)
	if err != nil {
		l.failed = fmt.Errorf("step %d: %w", l.next, err)
		return Step{}, l.failed
	}
	l.next, l.steps = l.next+1, append(l.steps, s)
	return s, nil
}

// takeStep denoises the latents by step i of the sampler.
func (l *Loop) takeStep(ctx context.Context, i int) (Step, error) {
	start := time.Now()
	t := l.sampler.Timestep(i)
	fresh, err := l.useExpert(ctx, t)
	if err != nil {
		return Step{}, err
	}
	l.noiseFrames(i)
	if err := l.computeVelocities(ctx, i, fresh, l.timeOf(i)); err != nil {
		return Step{}, err
	}
	host := time.Now()
	v, err := l.guide()
	if err != nil {
		return Step{}, err
	}
	l.putAimed(v)
	if err := l.moveLatents(i, v); err != nil {
		return Step{}, err
	}
	end := time.Now()
	return Step{Step: i, Of: l.sampler.Steps(), Timestep: t, Sigma: l.sampler.Sigma(i),
		Expert: l.experts[l.at].Name, Seconds: end.Sub(start).Seconds(), Host: end.Sub(host).Seconds()}, nil
}

// moveLatents moves the latents along a velocity, by step i of the sampler. After an error they
// are what they were before.
func (l *Loop) moveLatents(i int, velocity []float32) error {
	before := slices.Clone(l.x)
	err := l.stepLatents(i, velocity)
	if err == nil {
		err = l.checkLatents(i)
	}
	if err != nil {
		l.x = before
	}
	return err
}

// timeOf is the timestep that the model reads at step i.
func (l *Loop) timeOf(i int) float64 {
	if l.family.ReadsSigma {
		return 1000 * l.sampler.Sigma(i)
	}
	return l.sampler.Timestep(i)
}

// checkLatents refuses latents that became NaN or infinite in step i, because all later
// steps would continue with them. The velocities were looked at before, on the devices; what
// arises here is the sampler's.
func (l *Loop) checkLatents(i int) error {
	x, err := l.Latents()
	if err != nil {
		return err
	}
	return l.odd.CheckTensors("latents", &i, map[string]*tensor.Tensor{"latents": x})
}

// Close frees the devices of the expert in use. A step that is taken afterwards starts it
// again.
func (l *Loop) Close() {
	if l.run != nil {
		l.run.Close()
	}
	l.run, l.at = nil, -1
}
