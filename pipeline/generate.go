package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"weft/checkpoint"
	"weft/denoise"
	"weft/internal/hostmemory"
	"weft/nonfinite"
	"weft/tensor"
)

// phases are all phases of a generation in their order. Nothing else knows the order.
var phases = []struct {
	name string
	run  func(*generation, context.Context) (Cost, error)
}{
	{"text", (*generation).encodeText},
	{"denoise", (*generation).denoiseLatents},
	{"decode", (*generation).decodeFrames},
}

// generation is one video under way. Between phases it has what the phases before have made.
type generation struct {
	*settled
	d        Devices
	state    *stateFolder
	features features
	latents  *tensor.Tensor // (1, channels, frames, height, width), f32
	result   *Result
	began    time.Time // of the phase
}

// Generate makes a video of a prompt. Everything that is asked for is checked before the first
// weight is read.
//
// Errors have the kinds of packages denoise, models, video and userfile for what is asked,
// ErrTruncated, ErrState, and nonfinite.Err where a value becomes NaN or infinite on the way.
func (p *Pipeline) Generate(ctx context.Context, d Devices, o Options) (*Result, error) {
	o, state, err := p.openState(o)
	if err != nil {
		return nil, err
	}
	s, err := p.settle(ctx, d, o)
	if err != nil {
		return nil, err
	}
	g := &generation{settled: s, d: d, state: state, result: s.newResult()}
	if err := g.begin(ctx); err != nil {
		return nil, err
	}
	return g.run(ctx)
}

// newResult has what is known before the first phase.
func (s *settled) newResult() *Result {
	r := &Result{Out: s.o.Out, Frames: s.frames(), Width: s.width, Height: s.height, FPS: s.fps.Value.(float64), Seed: s.o.Seed, Model: s.p.Name(),
		Settings: s.settings, Phases: []Phase{}, Steps: []denoise.Step{}, Files: map[string]string{}}
	if s.prompt != nil {
		r.Text = &Texts{Text: s.prompt.text}
		if s.negative != nil {
			r.Text.Negative = &s.negative.text
		}
	}
	if s.video != nil {
		r.Video = &VideoFile{Container: s.video.Container, Codec: s.video.Codec, Encoder: s.video.Encoder, Pixels: s.video.Pixels}
	}
	return r
}

// run runs all phases.
func (g *generation) run(ctx context.Context) (*Result, error) {
	for _, ph := range phases {
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
	g.result.Phases = append(g.result.Phases, Phase{Name: name, Mesh: cost.Mesh, DType: cost.DType, Seconds: time.Since(g.began).Seconds(),
		PeakRSS: hostmemory.PeakResident(), BytesRead: cost.BytesRead, Resident: cost.Resident})
	g.notes = append(g.notes, cost.Notes...)
	debug.FreeOSMemory()
	return nil
}

// progress tells where the generation stands.
func (g *generation) progress(phase string, done, of int, left float64) {
	if g.o.OnProgress != nil {
		g.o.OnProgress(Progress{Video: 1, Videos: 1, Phase: phase, Done: done, Of: of, Seconds: time.Since(g.began).Seconds(), Left: left, RSS: hostmemory.Resident()})
	}
}

// explain adds to the error of a phase what is left of the work, and how to go on.
func (g *generation) explain(phase string, err error) error {
	if !g.state.hasLatents() {
		return err
	}
	switch {
	case errors.Is(err, nonfinite.Err) && phase == "denoise":
		return fmt.Errorf("%w; usual causes: a compute type of too small a range, scales of 8-bit weights, an autoencoder or text encoder of another release; the last good latents are in %s",
			err, g.state.path(latentsFile))
	case errors.Is(err, nonfinite.Err):
		return fmt.Errorf("%w; the latents are in %s: weft decode --latents decodes them again, with --vae of another file or --vae-dtype f32", err, g.state.path(latentsFile))
	}
	return fmt.Errorf("%w; --resume goes on from %s", err, g.state.dir)
}

// encodeText makes the rows of the prompt and of the negative prompt.
func (g *generation) encodeText(ctx context.Context) (Cost, error) {
	if g.features != nil { // they come with the state
		return Cost{}, nil
	}
	texts, cost, err := g.p.encodeTexts(ctx, g.d, g.texts(), g.rows, g.text)
	if err != nil {
		return cost, err
	}
	g.features = features{"context": texts[0]}
	if len(texts) > 1 {
		g.features["negative"] = texts[1]
	}
	return cost, g.keepFeatures()
}

// keepFeatures writes the features to the state, and to the file that is asked for.
func (g *generation) keepFeatures() error {
	if err := g.state.writeFeatures(g.features); err != nil {
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
	loop, den, err := g.newLoop(g.d, g.features)
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
	if g.latents, err = loop.VideoLatents(); err != nil {
		return Cost{}, err
	}
	cost := den.Cost()
	return cost, g.writeLatents(traced)
}

// keepStep writes the state after a step, and what else is asked for of it.
func (g *generation) keepStep(loop *denoise.Loop, step denoise.Step, traced map[string]*tensor.Tensor) error {
	state, err := loop.State()
	if err != nil {
		return err
	}
	if err := g.state.writeLoop(state, g.d.Engine().Name, g.denoise.meshText()); err != nil {
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

// writeLatents writes the latents after the last step to the file that is asked for.
func (g *generation) writeLatents(traced map[string]*tensor.Tensor) error {
	if g.o.LatentsOut == "" {
		return nil
	}
	traced["latents"] = g.latents
	g.result.Files["latents"] = g.o.LatentsOut
	return checkpoint.Write(g.o.LatentsOut, traced, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: g.o.Force})
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
