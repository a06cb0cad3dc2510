package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft"
	"weft/dtype"
	"weft/fault"
	"weft/internal/printable"
	"weft/jobs"
	"weft/models"
	"weft/picture"
	"weft/pipeline"
	"weft/pipeline/conditions"
	"weft/request"
	"weft/video"
)

// settled is a request of which everything is decided.
type settled struct {
	spec    jobs.Spec
	images  [2][]byte
	notes   []string
	planned Planned
	frames  int
	width   int
	height  int
	fps     float64
}

// Sources of settings besides the release's.
const (
	fromRequest = "request"
	fromServe   = "serve"
	fromDraw    = "drawn"
	fromSeconds = "seconds " // begins the source of a number of frames that follows from seconds
)

// settle decides what a request leaves out, as the release does, and checks all of it. The error
// has every violation.
func (r *Release) settle(ctx context.Context, a *asked, limits Limits) (*settled, error) {
	var errs fault.List
	if a.model != "" && !slices.Contains(r.Names, a.model) {
		errs.Add(fault.New(ErrModel, Field{"model", printable.ClipName(a.model), r.Names}, "model %q is not served here: want %s", printable.ClipName(a.model),
			strings.Join(r.Names, " or ")))
	}
	first, last, notes, undecoded := a.decodeImages(limits)
	errs.Add(undecoded)
	format, err := r.settleFormat(a)
	errs.Add(err)
	q, frameNotes, framesFrom, err := r.layOver(a)
	errs.Add(err)
	o, err := r.options(a, q)
	errs.Add(err)
	checked, err := r.check(ctx, o, first, last)
	for _, v := range fault.Violations(err) {
		if undecoded == nil || !errors.Is(v, conditions.ErrImage) { // that a picture is missing
			errs.Add(v)
		}
	}
	if err := errs.Err(); err != nil {
		return nil, distinct(err)
	}
	if err := video.CheckSize(video.Request{Path: "video." + format, Width: checked.Width, Height: checked.Height, Frames: checked.Frames}); err != nil {
		return nil, err
	}
	s := &settled{images: a.images, frames: checked.Frames, width: checked.Width, height: checked.Height, fps: checked.FPS}
	for _, note := range slices.Concat(notes, frameNotes, checked.Notes) {
		s.notes = append(s.notes, r.relative(note))
	}
	s.spec = jobs.Spec{Model: r.Names[0], ModelHash: r.Hash, Prompt: a.prompt, Negative: a.negative, Seed: checked.Seed, Fit: string(a.fit), NoTruncate: a.whole, Crop: a.crop,
		Tiles: a.tiles, AutoencoderType: a.vaeType, Preview: o.Video.Preview, Container: format, Priority: a.priority}
	if s.spec.Request, err = q.MarshalJSON(); err != nil {
		return nil, err
	}
	s.spec.Settings = a.settingsOf(checked, framesFrom)
	for name, setting := range s.spec.Settings {
		s.spec.Settings[name] = models.Setting(r.shownSetting(setting))
	}
	if s.planned, err = r.admit(ctx, q, checked, first != nil, limits); err != nil {
		return s, err
	}
	s.spec.Bytes = s.planned.Bytes
	s.spec.Seconds = s.planned.Seconds
	return s, nil
}

// distinct leaves out violations that say the same.
func distinct(err error) error {
	var l fault.List
	said := map[string]bool{}
	for _, v := range fault.Violations(err) {
		if !said[v.Error()] {
			said[v.Error()] = true
			l.Add(v)
		}
	}
	return l.Err()
}

// check runs the release's own checks. Where the size is refused the others are made with the
// release's size, so that all violations are known.
func (r *Release) check(ctx context.Context, o weft.GenerateOptions, first, last *picture.Image) (*pipeline.Result, error) {
	checked, err := r.Check(ctx, o, first, last)
	if !errors.Is(err, models.ErrSize) {
		return checked, err
	}
	o.Video.Width, o.Video.Height, o.Video.Frames, o.Video.Crop = 0, 0, 0, nil
	_, others := r.Check(ctx, o, first, last)
	return nil, fault.Join(err, others)
}

// decodeImages decodes the pictures. Their headers say how large they are before any memory is
// taken for them.
func (a *asked) decodeImages(limits Limits) (first, last *picture.Image, notes []string, err error) {
	var errs fault.List
	decode := func(i int, name string) *picture.Image {
		if a.images[i] == nil {
			return nil
		}
		im, said, err := picture.Decode(a.images[i], name, limits.ImagePixels)
		errs.Add(err)
		notes = append(notes, said...)
		return im
	}
	name := "input_reference"
	if a.has("image_reference") {
		name = "image_reference"
	}
	first = decode(0, name)
	last = decode(1, "last_image_reference")
	return first, last, notes, errs.Err()
}

// settleFormat is the container of the video.
func (r *Release) settleFormat(a *asked) (string, error) {
	switch {
	case a.format != "" && !slices.Contains(r.Formats, a.format):
		return "", fault.New(ErrField, Field{"output_format", printable.ClipName(a.format), r.Formats}, "output_format %q: want %s", printable.ClipName(a.format),
			strings.Join(r.Formats, ", "))
	case a.format != "":
		return a.format, nil
	case len(r.Formats) == 0:
		return "", fault.New(ErrField, Field{Field: "output_format"}, "no container can be written here")
	}
	return r.Formats[0], nil
}

// layOver lays what a client asks over what the service was started with. framesFrom is the
// source of the number of frames where seconds give it.
func (r *Release) layOver(a *asked) (q request.Request, notes []string, framesFrom string, err error) {
	text := request.Text{}
	for _, arg := range r.Run.Arguments() {
		text[arg.Flag] = arg.Value
	}
	for flag, value := range a.text {
		text[flag] = value
	}
	q, err = request.Parse(text)
	switch {
	case a.seconds == 0:
	case a.has("num_frames"):
		notes = append(notes, fmt.Sprintf("num_frames %s is taken, and not seconds", a.given["num_frames"]))
	default:
		fps, from := q.FPS, "fps"
		if fps == 0 {
			fps, from = r.Settings.Number("fps"), "the release's fps"
		}
		if fps <= 0 {
			break // refused with the rest
		}
		wish := a.seconds * fps
		q.Frames = r.grid().nearestFrames(wish)
		framesFrom = fmt.Sprintf(fromSeconds+"%s at %s %g", a.given["seconds"], from, fps)
		if float64(q.Frames) != wish {
			notes = append(notes, fmt.Sprintf("%s are %g frames: %d is the nearest number that the model makes", framesFrom, wish, q.Frames))
		}
	}
	return q, notes, framesFrom, err
}

// options are those of weft generate for the same video.
func (r *Release) options(a *asked, q request.Request) (weft.GenerateOptions, error) {
	v := pipeline.Options{Request: q, Prompt: a.prompt, Negative: a.negative, Fit: a.fit, NoTruncate: a.whole, DrawSeed: !a.has("seed"), Crop: a.crop, Weft: r.Weft}
	if a.vaeType == "bf16" {
		v.AutoencoderType = dtype.BF16
	}
	if r.HasPreviews() {
		v.Preview = 1
	}
	if a.preview != nil {
		v.Preview = *a.preview
	}
	var err error
	if a.tiles != "" {
		var t models.Tiles
		t, err = models.ParseTiles(a.tiles)
		v.Tiles = &t
	}
	return weft.GenerateOptions{Video: v, Run: r.Run}, err
}

// flagOfSetting are the settings whose flag has another name.
var flagOfSetting = map[string]string{"text_len": "text-len", "integer_timesteps": "integer-timesteps"}

// settingsOf are the settings that were taken, each with its source.
func (a *asked) settingsOf(checked *pipeline.Result, framesFrom string) map[string]models.Setting {
	out := map[string]models.Setting{}
	for name, s := range checked.Settings {
		if s.From == models.FromFlag {
			s.From = fromServe
			flag := name
			if f, other := flagOfSetting[name]; other {
				flag = f
			}
			if _, given := a.text[flag]; given || name == "negative_prompt" {
				s.From = fromRequest
			}
		}
		out[name] = s
	}
	delete(out, "prompt") // which answers have beside the settings
	if framesFrom != "" {
		out["frames"] = models.Setting{Value: checked.Frames, From: framesFrom}
	}
	seedFrom := fromRequest
	if !a.has("seed") {
		seedFrom = fromDraw
	}
	// The last digits of a large number are lost where JSON's numbers are f64.
	out["seed"] = models.Setting{Value: strconv.FormatUint(checked.Seed, 10), From: seedFrom}
	return out
}
