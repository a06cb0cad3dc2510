package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/denoise"
	"weft/fault"
	"weft/internal/hostmemory"
	"weft/nonfinite"
	"weft/phases"
	"weft/pipeline/conditions"
	"weft/tensor"
)

// phaseRunners runs the phases of a generation, in the order that package phases has.
var phaseRunners = []struct {
	name string
	run  func(*generation, context.Context) (Cost, error)
}{
	{phases.Text, (*generation).encodeText},
	{phases.Image, (*generation).encodeImage},
	{phases.Denoise, (*generation).denoiseLatents},
	{phases.Decode, (*generation).decodeFrames},
}

// generation is one video under way. Between phases it has what the phases before have made.
type generation struct {
	*settled
	d        Devices
	state    *stateFolder
	features features
	complete bool           // features has all that the loop reads
	latents  *tensor.Tensor // (1, channels, frames, height, width), f32
	result   *Result
	began    time.Time // of the phase

	video, videos int           // of how many videos of one list it is which
	together      []*generation // all of them: their texts are encoded at once
}

// Generate makes a video of a prompt. Everything that is asked for is checked before the first
// weight is read.
//
// Errors have the kinds of packages denoise, models, video and userfile for what is asked,
// ErrTruncated, ErrState, and nonfinite.Err where a value becomes NaN or infinite on the way.
func (p *Pipeline) Generate(ctx context.Context, d Devices, o Options) (*Result, error) {
	results, err := p.GenerateAll(ctx, d, []Options{o})
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// GenerateAll makes a video of each of several options, which differ in their prompts, seeds
// and outputs alone. All are checked before the first weight is read. The text encoder is loaded
// once for all of them; then each video goes through the other phases, so that one is there
// before the next is begun. Devices keep programs and weights in between where they have the
// memory. With Resume, videos that are there are passed over; their results
// are left out. After an error the results are those of the videos that were made.
func (p *Pipeline) GenerateAll(ctx context.Context, d Devices, all []Options) ([]*Result, error) {
	var errs fault.List
	var gens []*generation
	for i, o := range all {
		g, err := p.prepare(ctx, d, o, len(all) > 1)
		if err != nil && len(all) > 1 {
			err = within(fmt.Sprintf("video %d", i+1), err)
		}
		if errs.Add(err); g != nil {
			g.video, g.videos = i+1, len(all)
			gens = append(gens, g)
		}
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	for _, g := range gens {
		if err := g.begin(ctx); err != nil {
			return nil, err
		}
	}
	for i, g := range gens {
		g.together, g.again = gens, i < len(gens)-1
	}
	var results []*Result
	for _, g := range gens {
		r, err := g.run(ctx)
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

// prepare settles one video. It gives none for one of a list that is there already, where the
// list is gone on with.
func (p *Pipeline) prepare(ctx context.Context, d Devices, o Options, oneOfMany bool) (*generation, error) {
	o, state, err := p.openState(o)
	if err != nil {
		return nil, err
	}
	if oneOfMany && o.Resume && state.request == nil && !o.Force && slices.Contains(outputsThere(o), o.base()) {
		return nil, nil
	}
	s, err := p.settle(ctx, d, o)
	if err != nil {
		return nil, err
	}
	return &generation{settled: s, d: d, state: state, result: s.newResult()}, nil
}

// within puts what an error is about in front of each of its violations.
func within(what string, err error) error {
	var l fault.List
	for _, v := range fault.Violations(err) {
		l.Add(fmt.Errorf("%s: %w", what, v))
	}
	return l.Err()
}

// newResult has what is known before the first phase.
func (s *settled) newResult() *Result {
	r := &Result{Out: s.o.Out, Seed: s.o.Seed, Model: s.p.Name(),
		Settings: s.settings, Phases: []Phase{}, Steps: []denoise.Step{}, Files: map[string]string{}}
	if s.latent != nil { // else there is text alone
		r.Frames, r.Width, r.Height, r.FPS = s.frames(), s.width, s.height, s.fps.Value.(float64)
	}
	if s.prompt != nil {
		r.Text = s.prompt.report()
		if s.negative != nil {
			r.Text.Negative = s.negative.report()
		}
	}
	if s.plan != nil {
		r.Video = &VideoFile{Container: s.plan.Container, Codec: s.plan.Codec, Encoder: s.plan.Encoder, Pixels: s.plan.Pixels}
	}
	return r
}

// run runs all phases.
func (g *generation) run(ctx context.Context) (*Result, error) {
	if g.o.OnSettled != nil {
		if err := g.o.OnSettled(g.result); err != nil {
			return nil, err
		}
	}
	for _, ph := range phaseRunners {
		if err := g.runPhase(ctx, ph.name, ph.run); err != nil {
			return nil, g.explain(ph.name, err)
		}
	}
	if err := g.state.remove(); err != nil {
		g.notes = append(g.notes, fmt.Sprintf("%s could not be removed: %v", g.state.dir, err))
	}
	g.finishResult()
	return g.result, nil
}

// finishResult fills in what is known after the last phase.
func (g *generation) finishResult() {
	r := g.result
	r.Engine = g.d.Engine()
	for _, ph := range r.Phases {
		r.PeakRSS = max(r.PeakRSS, ph.PeakRSS)
	}
	if n := r.Engine.Note; n != "" {
		g.notes = append(g.notes, n)
	}
	r.Notes = append([]string{}, unique(g.notes)...)
}

// runPhase runs one phase and reports on it. The memory that it held is given back to the
// system before the next one begins.
func (g *generation) runPhase(ctx context.Context, name string, run func(*generation, context.Context) (Cost, error)) error {
	g.began = time.Now()
	hostmemory.ResetPeak()
	g.progress(name, 0, 0, 0)
	cost, err := run(g, ctx)
	if err != nil {
		return err
	}
	if cost.Mesh == "" {
		return nil // nothing ran
	}
	g.result.Phases = append(g.result.Phases, Phase{Name: name, Mesh: cost.Mesh, DType: cost.DType, Seconds: time.Since(g.began).Seconds(),
		PeakRSS: hostmemory.PeakResident(), BytesRead: cost.BytesRead, Resident: cost.Resident, Compile: cost.Compile, Load: cost.Load})
	g.notes = append(g.notes, cost.Notes...)
	hostmemory.Return()
	return nil
}

// progress tells where the generation stands.
func (g *generation) progress(phase string, done, of int, left float64) {
	if g.o.OnProgress != nil {
		g.o.OnProgress(Progress{Video: g.video, Videos: g.videos, Phase: phase, Done: done, Of: of, Seconds: time.Since(g.began).Seconds(), Left: left, RSS: hostmemory.Resident()})
	}
}

// explain adds to the error of a phase what is left of the work, and how to go on.
func (g *generation) explain(phase string, err error) error {
	if !g.state.hasLatents() {
		return err
	}
	switch {
	case errors.Is(err, nonfinite.Err) && phase == "denoise":
		return fmt.Errorf("%w; usual causes: a compute type of too small a range, scales of 8-bit weights, a part of another release; the last good latents are in %s",
			err, g.state.path(latentsFile))
	case errors.Is(err, nonfinite.Err):
		return fmt.Errorf("%w; the latents are in %s: weft decode --latents decodes them again, with --vae of another file or --vae-dtype f32", err, g.state.path(latentsFile))
	}
	return resumable{fmt.Errorf("%w; --resume goes on from %s", err, g.state.dir), g.state.dir}
}

// resumable is an error after which the generation can go on.
type resumable struct {
	error
	state string
}

func (r resumable) Unwrap() error { return r.error }

// ResumableFrom returns the folder of the state that a generation goes on from which ended
// with an error, "" where there is none.
func ResumableFrom(err error) string {
	var r resumable
	if errors.As(err, &r) {
		return r.state
	}
	return ""
}

// encodeText makes the rows of the prompt and of the negative prompt, and those of all videos
// that come after this one.
func (g *generation) encodeText(ctx context.Context) (Cost, error) {
	var todo []*generation
	var videos [][]*prompt
	for _, other := range g.together {
		if other.features == nil { // else they come with the state, or were made with an earlier video's
			todo, videos = append(todo, other), append(videos, other.texts())
		}
	}
	if g.features != nil || len(todo) == 0 {
		return Cost{}, nil
	}
	texts, cost, err := g.p.encodeTexts(ctx, g.d, videos, g.rows, g.settled.text, g.images.first)
	if err != nil {
		return cost, err
	}
	for i, other := range todo {
		other.features = joinTexts(texts[i])
	}
	return cost, nil
}

// keepFeatures writes the features to the state, and to the file that is asked for.
func (g *generation) keepFeatures() error {
	if err := g.state.writeFeatures(g.features, g.keptFrame()); err != nil {
		return err
	}
	if g.o.FeaturesOut == "" {
		return nil
	}
	g.result.Files["features"] = g.o.FeaturesOut
	return g.features.write(g.o.FeaturesOut, g.o.Force)
}

// denoiseLatents takes the steps that are left, and keeps the latents of each.
func (g *generation) denoiseLatents(ctx context.Context) (Cost, error) {
	loop, den, err := g.newLoop(g.d, g.features, false)
	if err != nil {
		return Cost{}, err
	}
	defer loop.Close()
	if g.state.loop != nil {
		if err := loop.Restore(g.state.loop); err != nil {
			return Cost{}, err
		}
		at := loop.Next()
		g.result.Resumed = &at
	}
	traced := map[string]*tensor.Tensor{}
	for !loop.Done() {
		step, err := loop.Step(ctx)
		if err != nil {
			return Cost{}, err
		}
		g.result.Steps = append(g.result.Steps, step)
		if err := g.keepStep(loop, step, traced); err != nil {
			return Cost{}, err
		}
		g.progress("denoise", loop.Next(), loop.Len(), step.Seconds*float64(loop.Len()-loop.Next()))
	}
	g.notes = append(g.notes, loop.NonFiniteNotes()...)
	if was, is := g.state.madeOn[0], g.d.Engine().Name; was != "" && is != "" && was != is {
		g.notes = append(g.notes, fmt.Sprintf("the steps before were taken by engine %s, these by %s: %s", was, is, sameWithin))
	}
	if g.latents, err = loop.VideoLatents(); err != nil {
		return Cost{}, err
	}
	g.latents = withoutReferences(g.latents, g.referenceFrames())
	if traced["latents"], err = loop.Latents(); err != nil {
		return Cost{}, err
	}
	cost := den.Cost()
	return cost, g.writeLatents(traced)
}

// sameWithin says what a state means on another mesh or engine.
const sameWithin = "the result is the same within the arithmetic's tolerance, not to the same bytes"

// keepStep writes the state after a step, and what else is asked for of it.
func (g *generation) keepStep(loop *denoise.Loop, step denoise.Step, traced map[string]*tensor.Tensor) error {
	state, err := loop.State()
	if err != nil {
		return err
	}
	if err := g.state.writeLoop(state, g.d.Engine().Name, g.denoise.meshText(), g.referenceFrames()); err != nil {
		return err
	}
	if g.o.Trace && g.o.LatentsOut != "" {
		traced[fmt.Sprintf("latents_%d", step.Step)] = state.Latents
	}
	if n := g.o.Preview; n > 0 && (step.Step+1)%n == 0 {
		return g.writePreview(state)
	}
	return nil
}

// keptFrame are the latents of a first frame that is given and stands beside the denoised ones,
// nil where there is none or where it is among them already.
func (g *generation) keptFrame() *tensor.Tensor {
	if g.mix.frame != nil || g.p.imageUse().Replaced != nil {
		return nil
	}
	return g.features[conditions.NameOfKept]
}

// writeLatents writes the latents as the sampler left them to the file that is asked for, and
// beside them the latents of a first frame that is kept, which Decode puts back.
func (g *generation) writeLatents(traced map[string]*tensor.Tensor) error {
	if g.o.LatentsOut == "" {
		return nil
	}
	if kept := g.keptFrame(); kept != nil {
		traced[conditions.NameOfKept] = kept
	}
	g.result.Files["latents"] = g.o.LatentsOut
	return g.writeLatentsFile(traced)
}

// unique returns lines without repetitions, in order.
func unique(lines []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, l := range lines {
		if !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	return out
}
