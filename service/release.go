package service

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"weft"
	"weft/jobs"
	"weft/mesh"
	"weft/models"
	"weft/picture"
	"weft/pipeline"
	"weft/plan"
	"weft/request"
	"weft/topology"
	"weft/video"
)

// Release is what the service makes videos with: a release's folder, and how it is run.
type Release struct {
	*weft.Pipeline
	// Run says how it is run. Its request has what weft serve was given: the mesh, the compute
	// type, what is streamed. A client's request is laid over it.
	Run weft.Options
	// Hash is Pipeline.ModelHash, and Names are those under which clients may ask for the model,
	// the first its own.
	Hash  string
	Names []string
	// On is the hardware that requests are planned for; with none memory and time are not known.
	On      request.Hardware
	Machine plan.Machine
	// Batch is how many videos of one shape are denoised at once; 0 is 1.
	Batch int
	// Formats are the containers that videos can be written in; the first is taken where a
	// client says none.
	Formats []string
	// Weft is the version that videos' metadata has.
	Weft string

	plans planner
	// relative names the release's files without their folder.
	relative func(string) string
}

// formats are the containers, in the order of preference.
var formats = []string{"mp4", "webm", "avi", "png"}

// contentTypes are those of the containers, and of stills.
var contentTypes = map[string]string{"mp4": "video/mp4", "webm": "video/webm", "avi": "video/x-msvideo", "png": "image/apng"}

// NewRelease makes the release of an open pipeline, which a process that takes requests follows by
// TryFormats. Where no hardware is named, the CPU's devices are planned for unless others run the
// model. Notes say what is left out, and why.
func NewRelease(ctx context.Context, p *weft.Pipeline, run weft.Options, on request.Hardware, m plan.Machine) (r *Release, notes []string, err error) {
	r = &Release{Pipeline: p, Run: run, On: on, Machine: m, Weft: weft.Version(), Names: []string{p.Name()}, relative: p.RelativeNames()}
	if r.Hash, err = p.ModelHash(); err != nil {
		return nil, nil, err
	}
	for _, name := range []string{p.Settings.Release.Name, filepath.Base(p.Dir)} {
		if name != "" && name != "." && !slices.Contains(r.Names, name) {
			r.Names = append(r.Names, name)
		}
	}
	devices, err := run.Request.LocalMesh()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case on.IsNamed():
	case run.Device == "cpu" || run.Device == "auto" || run.Device == "reference":
		if r.On.Slice, err = topology.Lookup(fmt.Sprintf("cpu:%d", devices.NumDevices())); err != nil {
			return nil, nil, err
		}
	default:
		notes = append(notes, fmt.Sprintf("no hardware is named with --on: on %s requests are accepted whatever memory they take, and waits are not known", run.Device))
	}
	note, err := r.tryDefaults(ctx)
	if note != "" {
		notes = append(notes, note)
	}
	return r, notes, err
}

// tryDefaults checks a video of the release's own settings, so that a mesh which no request can be
// run on is refused when the service starts. Where its size alone is refused, that is a note.
func (r *Release) tryDefaults(ctx context.Context) (note string, err error) {
	var grey, last *picture.Image
	use := r.Denoiser().Features().Generator.Image
	if use.Needed {
		grey = &picture.Image{Width: 64, Height: 64, Pix: make([]byte, 3*64*64)}
	}
	if use.NeedsLast {
		last = grey
	}
	checked, err := r.Check(ctx, weft.GenerateOptions{Video: pipeline.Options{Request: r.Run.Request, Weft: r.Weft}, Run: r.Run}, grey, last)
	if err == nil {
		_, _ = r.admit(ctx, r.Run.Request, checked, grey != nil, Limits{}) // so that the first request need not wait for the plan; it is told what is wrong
	}
	if errors.Is(err, models.ErrSize) || errors.Is(err, models.ErrSeq) {
		return fmt.Sprintf("requests of the release's own size are refused: %v", err), nil
	}
	return "", err
}

// tried are the containers that were found to work in this process, and why others do not.
var tried struct {
	sync.Mutex
	formats, notes []string
}

// TryFormats finds out which containers can be written here, once in a process. Notes say of
// others why not.
func (r *Release) TryFormats(ctx context.Context) (notes []string, err error) {
	tried.Lock()
	defer tried.Unlock()
	if tried.formats == nil {
		dir, err := os.MkdirTemp("", "weft-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		var all sync.WaitGroup // each tries an encoder, which takes a while to start
		errs := make([]error, len(formats))
		for i, f := range formats {
			all.Go(func() {
				_, errs[i] = video.Check(ctx, video.Request{Path: filepath.Join(dir, "video."+f), Width: 64, Height: 64, Frames: 1, Rate: video.Rate{Num: 16, Den: 1}})
			})
		}
		all.Wait()
		var works []string
		for i, f := range formats {
			if errs[i] != nil {
				notes = append(notes, fmt.Sprintf("no videos in %s: %v", f, errs[i]))
				continue
			}
			works = append(works, f)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		tried.formats, tried.notes = works, notes
	}
	r.Formats = tried.formats
	return tried.notes, nil
}

// Maker is what jobs of this release are made for.
func (r *Release) Maker() jobs.Maker {
	return jobs.Maker{Weft: r.Weft, Model: r.Hash, Mesh: mesh.FormatAxes(r.Run.Mesh), Engine: r.Run.Device}
}

// ModelList is the answer of GET /v1/models.
type ModelList struct {
	Object string  `json:"object" doc:"list"`
	Data   []Model `json:"data"`
}

// Model is a model that videos are made with, and what may be asked of it.
type Model struct {
	ID      string   `json:"id"`
	Object  string   `json:"object" doc:"model"`
	Created int64    `json:"created" doc:"when the service was started, in Unix seconds"`
	OwnedBy string   `json:"owned_by" doc:"weft"`
	Names   []string `json:"names" doc:"further names under which it may be asked for"`
	Hash    string   `json:"model_hash" doc:"of the headers and configurations of its parts"`
	Release string   `json:"release"`
	// Defaults are the settings where a request says nothing.
	Defaults map[string]Setting `json:"defaults" doc:"settings where a request says nothing, each with its source"`
	Fields   []ModelField       `json:"fields" doc:"the fields of a request that mean something to this model"`
	Formats  []string           `json:"output_formats" doc:"the first is taken where a request says none"`
	Image    string             `json:"image" doc:"whether the model takes a picture to begin with: no, optional or needed"`
	Last     bool               `json:"last_image" doc:"whether it takes a picture to end with"`
	Experts  int                `json:"experts"`
	Previews bool               `json:"previews"`
	// WidthStep and HeightStep are what sizes are multiples of.
	WidthStep  int `json:"width_step" doc:"widths are multiples of it, in pixels"`
	HeightStep int `json:"height_step"`
	// FrameCounts are the numbers of frames that the model makes, up to what people ask for.
	FrameCounts []int `json:"frame_counts" doc:"the numbers of frames that the model makes, those below 260"`
	// Mesh and what follows say how it is run.
	Mesh    string `json:"mesh,omitempty"`
	Offload string `json:"offload,omitempty"`
	DType   string `json:"dtype"`
	On      string `json:"on,omitempty" doc:"the hardware that requests are planned for"`
	Weft    string `json:"weft"`
	// Explorer is where the plan explorer shows this model.
	Explorer string `json:"explorer,omitempty" doc:"the address of the plan explorer with this model and its mesh"`
}

// ModelField is a field that a request may have.
type ModelField struct {
	Name string   `json:"name"`
	Kind string   `json:"kind" doc:"string, integer, number, boolean, seconds or image"`
	Help string   `json:"help"`
	Flag string   `json:"flag,omitempty" doc:"of weft generate, where it has one"`
	Enum []string `json:"values,omitempty" doc:"the values that there are"`
}

// Setting is the value of a setting, and where it is from.
type Setting struct {
	Value any    `json:"value"`
	From  string `json:"from" doc:"request, serve, drawn, a file or a publisher's source"`
}

// shownSetting is a setting as clients see it: where the release's folder is, is not their business.
func (r *Release) shownSetting(s models.Setting) Setting { return Setting{s.Value, r.relative(s.From)} }

// describe makes the model of GET /v1/models.
func (r *Release) describe(created int64) Model {
	gen := r.Denoiser().Features().Generator
	m := Model{ID: r.Names[0], Object: "model", Created: created, OwnedBy: "weft", Names: append([]string{}, r.Names[1:]...), Hash: r.Hash, Release: r.Settings.Release.Name,
		Defaults: map[string]Setting{}, Formats: r.Formats, Image: "no", Last: gen.Image.TakesLast, Experts: r.Experts(), Previews: r.HasPreviews(),
		Mesh: mesh.FormatAxes(r.Run.Mesh), Offload: r.Run.Offload.String(), DType: r.Run.ComputeType().String(), On: r.On.String(), Weft: r.Weft}
	if gen.Image.ReadsImages() {
		m.Image = "optional"
	}
	if gen.Image.Needed {
		m.Image = "needed"
	}
	for name, s := range r.Settings.Taken() {
		m.Defaults[name] = r.shownSetting(s)
	}
	m.Defaults["negative_prompt"] = r.shownSetting(r.Settings.Negative())
	for _, f := range fields {
		if r.reads(f.name, m) {
			m.Fields = append(m.Fields, ModelField{f.name, string(f.kind), f.help, f.flag, f.words})
		}
	}
	g := r.grid()
	m.WidthStep, m.HeightStep = g.widthStep, g.heightStep
	m.FrameCounts = g.frameCounts(frameCountsShown)
	return m
}

// frameCountsShown is up to where numbers of frames are listed.
const frameCountsShown = 260

// reads reports whether a field means something to the model.
func (r *Release) reads(field string, m Model) bool {
	_, hasShift := m.Defaults["shift"]
	switch field {
	case "guidance_scale_2", "boundary_ratio":
		return m.Experts > 1
	case "input_reference", "image_reference", "fit":
		return m.Image != "no"
	case "last_image_reference":
		return m.Last
	case "preview":
		return m.Previews
	case "flow_shift":
		return hasShift
	case "max_sequence_length":
		return r.Denoiser().Features().Generator.PadsText
	}
	return true
}

// grid says which sizes a model makes.
type grid struct {
	gen                   *models.Generator
	width, height, frames int // one that it makes
	widthStep, heightStep int
}

// grid finds the sizes by asking the generator.
func (r *Release) grid() grid {
	g := grid{gen: r.Denoiser().Features().Generator}
	g.width, g.height, g.frames = r.LegalSize()
	widthStep, heightStep, _ := g.gen.SizeSteps(g.width, g.height, g.frames)
	g.widthStep, g.heightStep = max(1, widthStep), max(1, heightStep)
	return g
}

func (g grid) makes(width, height, frames int) bool {
	_, err := g.gen.LatentShape(width, height, frames)
	return err == nil
}

// frameCounts lists the numbers of frames that the model makes, up to most.
func (g grid) frameCounts(most int) []int {
	list := []int{}
	for n := 1; n <= most; n++ {
		if g.makes(g.width, g.height, n) {
			list = append(list, n)
		}
	}
	return list
}

// mostFrames is more than any video has.
const mostFrames = 1 << 30

// nearestFrames is the number of frames nearest to a wish that the model makes, the larger of two.
func (g grid) nearestFrames(wish float64) int {
	if wish > mostFrames {
		return mostFrames // which is refused, with the rule
	}
	best := g.frames
	for n := max(1, int(wish)-64); n <= int(wish)+64; n++ {
		if off, bestOff := abs(float64(n)-wish), abs(float64(best)-wish); g.makes(g.width, g.height, n) && (off < bestOff || off == bestOff && n > best) {
			best = n
		}
	}
	return best
}

func abs(x float64) float64 { return max(x, -x) }

// explorerAddress is where the explorer shows the model, which it has under a name, with the
// service's mesh, all axes of it, and the size that a request is given which says none.
func (m *Model) explorerAddress(name, split string) string {
	q := url.Values{"model": {name}, "dtype": {m.DType}}
	for parameter, value := range map[string]any{"on": m.On, "mesh": split, "size": m.Defaults["size"].Value, "frames": m.Defaults["frames"].Value} {
		if text := fmt.Sprint(value); value != nil && text != "" {
			q.Set(parameter, text)
		}
	}
	return ExplorerPath + "?" + q.Encode()
}
