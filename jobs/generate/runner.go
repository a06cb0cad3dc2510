// Package generate runs jobs on devices: it makes the videos of package jobs with a release, as
// weft generate does, to the same bytes.
package generate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"weft"
	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/jobs"
	"weft/mesh"
	"weft/models"
	"weft/phases"
	"weft/picture"
	"weft/pipeline"
	"weft/request"
	"weft/video/stills"
)

// Runner is a jobs.Runner on a release. Between jobs it keeps the engine with its compiled
// programs, weights as far as memory allows, and the rows of texts that were encoded last.
type Runner struct {
	p    *weft.Pipeline
	run  weft.Options
	made jobs.Maker
	err  error // of the model's hash

	batch int // how many jobs are denoised at once
	// relative names the release's files without their folder, which is not the business of those
	// who ask for videos.
	relative func(string) string

	mu   sync.Mutex
	kept *weft.KeptDevices // nil while the devices are free
}

// New makes a runner. Of the request in run, those values are taken that say where and how the
// work is done: mesh, FSDP, attention, offload, microbatches. What is made is the jobs' own. Up to
// batch jobs of one shape are denoised at once, over so many times the mesh's devices (weft.Keep).
func New(p *weft.Pipeline, run weft.Options, batch int) *Runner {
	hash, err := p.ModelHash()
	return &Runner{p: p, run: run, err: err, batch: max(1, batch), relative: p.RelativeNames(),
		made: jobs.Maker{Weft: weft.Version(), Model: hash, Mesh: mesh.FormatAxes(run.Mesh), Engine: run.Device}}
}

// Maker says what videos are made with.
func (r *Runner) Maker() jobs.Maker { return r.made }

// Release frees the devices, with all that was kept.
func (r *Runner) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept != nil {
		r.kept.Close()
		r.kept = nil
	}
}

// devices are those that stay between jobs.
func (r *Runner) devices() *weft.KeptDevices {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = weft.KeepDevices(weft.Keep{Batch: r.batch})
	}
	return r.kept
}

// stateFolder is the pipeline's state within the folder of a try.
const stateFolder = "state"

// Run makes the video of a task, or goes on with it from the state in its folder.
func (r *Runner) Run(ctx context.Context, t jobs.Task) (jobs.Output, error) {
	if r.err != nil {
		return jobs.Output{}, r.err
	}
	giveWay()
	made, pictures, err := r.generate(ctx, t)
	if errors.Is(err, pipeline.ErrState) && ctx.Err() == nil {
		// A state that this version cannot go on from. The video is made anew.
		if err := os.RemoveAll(filepath.Join(t.Dir, stateFolder)); err != nil {
			return jobs.Output{}, err
		}
		why := err
		if made, pictures, err = r.generate(ctx, t); err == nil {
			made.Notes = append(made.Notes, fmt.Sprintf("made anew: %v", strings.ReplaceAll(why.Error(), t.Dir+string(filepath.Separator), "")))
		}
	}
	if errors.Is(err, engine.ErrUnavailable) || weft.FailedTogether(err) {
		err = jobs.OfMachine(err)
	}
	if err != nil {
		err = withoutFolder(err, t.Dir)
		return jobs.Output{}, shownError{err, r.relative(err.Error())}
	}
	if err := pictures.Write(t.Dir); err != nil {
		return jobs.Output{}, err
	}
	return jobs.Output{Settings: r.shownSettings(made.Settings), Notes: r.shownNotes(made.Notes), Files: map[string]string{
		"video": filepath.Base(made.Out), "thumbnail": stills.Thumbnail, "spritesheet": stills.SpriteSheet}}, nil
}

// shownSettings are settings as those see them who ask for videos.
func (r *Runner) shownSettings(settings map[string]models.Setting) map[string]models.Setting {
	out := map[string]models.Setting{}
	for name, s := range settings {
		out[name] = models.Setting{Value: s.Value, From: r.relative(s.From)}
	}
	return out
}

// shownNotes are notes as those see them who ask for videos.
func (r *Runner) shownNotes(notes []string) []string {
	var out []string
	for _, n := range notes {
		out = append(out, r.relative(n))
	}
	return out
}

// shownError is an error with the text that those see who ask for videos.
type shownError struct {
	error
	text string
}

// Error is the text.
func (e shownError) Error() string { return e.text }

func (e shownError) Unwrap() error { return e.error }

// withoutFolder is an error without what was put around it of the folder of a try: how a command
// would go on from there, or where its last latents are. The job does the first by itself, and the
// folder of one that failed is gone.
func withoutFolder(err error, dir string) error {
	for strings.Contains(err.Error(), dir) {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	return err
}

// generate makes the video, and stills of its frames.
func (r *Runner) generate(ctx context.Context, t jobs.Task) (*weft.Generated, *stills.Stills, error) {
	o, err := r.options(t)
	if err != nil {
		return nil, nil, err
	}
	var s *stills.Stills
	o.OnSettled = func(made *pipeline.Result) (err error) {
		s, err = stills.New(made.Frames, made.Width, made.Height)
		return err
	}
	o.OnFrame = func(frame []float32) error { return s.Add(frame) }
	held := &heldReports{report: o.OnProgress}
	o.OnProgress = held.take
	made, err := r.p.Generate(ctx, weft.GenerateOptions{Video: o, Run: r.run, Devices: r.devices(), OnTurn: held.letGo, OnBeside: t.Free})
	return made, s, err
}

// heldReports keep the last progress until the devices are the job's: it has not begun before.
type heldReports struct {
	report func(pipeline.Progress)
	last   *pipeline.Progress
	begun  bool
}

func (h *heldReports) take(p pipeline.Progress) {
	if h.last = &p; h.begun {
		h.report(p)
	}
}

func (h *heldReports) letGo() {
	if h.begun = true; h.last != nil {
		h.report(*h.last)
	}
}

// Joins reports whether a job is denoised at once with others: all have one shape, and of none did a
// worker die, so that one that kills its worker fails alone.
func (r *Runner) Joins(j jobs.Job, with []jobs.Job) bool {
	return j.Deaths == 0 && !slices.ContainsFunc(with, func(other jobs.Job) bool { return other.Deaths > 0 || shapeOf(other.Spec) != shapeOf(j.Spec) })
}

// shapeOf says what videos of one shape have in common: what their steps' programs are made of.
func shapeOf(s jobs.Spec) string {
	var q request.Request
	if err := json.Unmarshal(s.Request, &q); err != nil {
		return "request of " + s.Prompt // refused when it is run
	}
	shape := fmt.Sprintf("%v %d %v %v %s", q.DType, q.TextLen, q.TokenTimes, q.Layers, q.Attention)
	for _, name := range []string{"size", "frames", "fps", "passes", "cfg"} {
		shape += " " + s.Settings[name].Text()
	}
	return shape + fmt.Sprint(" ", s.Image != "", s.LastImage != "")
}

// options are what a job asks for, on this runner's devices.
func (r *Runner) options(t jobs.Task) (pipeline.Options, error) {
	spec := t.Job.Spec
	o := pipeline.Options{Prompt: spec.Prompt, Negative: spec.Negative, Image: t.Image, LastImage: t.LastImage, Fit: picture.Fit(spec.Fit), NoTruncate: spec.NoTruncate,
		Crop: spec.Crop, Out: filepath.Join(t.Dir, "video."+spec.Container), State: filepath.Join(t.Dir, stateFolder), Force: true, Preview: spec.Preview, Weft: weft.Version()}
	_, err := os.Stat(o.State)
	o.Resume = err == nil // else a note would say that there is no state
	var errs fault.List
	if len(spec.Request) > 0 {
		errs.Add(json.Unmarshal(spec.Request, &o.Request))
	}
	if spec.Tiles != "" {
		tiles, err := models.ParseTiles(spec.Tiles)
		errs.Add(err)
		o.Tiles = &tiles
	}
	if spec.AutoencoderType != "" {
		d, err := dtype.Parse(spec.AutoencoderType)
		if err != nil || d != dtype.F32 && d != dtype.BF16 {
			errs.Add(fault.New(request.ErrOptions, request.Refused{Flag: "vae-dtype", Value: spec.AutoencoderType}, "vae-dtype %q: want f32 or bf16", spec.AutoencoderType))
		}
		o.AutoencoderType = d
	}
	o.Seed = spec.Seed
	placeRequest(&o.Request, r.run.Request)
	o.OnProgress = reporter(t, o)
	return o, errs.Err()
}

// placeRequest puts a request where a runner's devices are: those values are taken from on that
// say where and how the work is done.
func placeRequest(r *request.Request, on request.Request) {
	r.Mesh, r.On, r.FSDP, r.Micro = on.Mesh, request.Hardware{}, on.FSDP, on.Micro
	r.Offload, r.OffloadDepth = on.Offload, on.OffloadDepth
	r.Attention, r.SplitResidual, r.Strict = cmp.Or(on.Attention, r.Attention), on.SplitResidual, on.Strict
}

// reporter makes a pipeline's progress that of a job.
func reporter(t jobs.Task, o pipeline.Options) func(pipeline.Progress) {
	var most int64
	return func(p pipeline.Progress) {
		most = max(most, p.RSS)
		out := jobs.Progress{Phase: p.Phase, Step: p.Done, Of: p.Of, Left: p.Left, Memory: most}
		if o.Preview > 0 && p.Phase == phases.Denoise && p.Done > 0 && p.Done%o.Preview == 0 {
			out.Preview = filepath.Base(o.Out) + ".preview.png"
		}
		t.Report(out)
	}
}
