package service

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/fault"
	"weft/internal/editdistance"
	"weft/internal/printable"
	"weft/jobs"
	"weft/models"
	"weft/picture"
	"weft/request"
	"weft/sampler"
)

// asked is a request as it was sent, read and not yet decided.
type asked struct {
	// text are the fields that are flags of a request.Request.
	text request.Text
	// given has what was sent, by field, in one way of writing: it is hashed, to tell a retry
	// from another request with the same idempotency key.
	given map[string]string

	prompt   string
	negative *string
	model    string
	seconds  float64
	guidance [2]string
	images   [2][]byte // input_reference and last_image_reference
	fit      picture.Fit
	crop     *[2]int
	tiles    string
	vaeType  string
	format   string
	preview  *int
	whole    bool // no_truncate
	user     string
	priority jobs.Priority
}

func (a *asked) has(field string) bool { _, ok := a.given[field]; return ok }

// kind is what the values of a field are.
type kind string

const (
	textKind    kind = "string"
	wholeKind   kind = "integer"
	numberKind  kind = "number"
	switchKind  kind = "boolean"
	secondsKind kind = "seconds" // text or an integer: clients send either
	imageKind   kind = "image"
)

// field is one field of a request.
type field struct {
	name  string
	kind  kind
	flag  string // of weft generate; "" where it has none
	help  string
	words []string // the values that there are
	// set takes the value's text. It is nil for a flag of a request.Request, and for images.
	set func(f *field, a *asked, text string) error
}

// fields are all fields of a request, in the order in which violations have them. weft generate's
// other flags name files, or are given to weft serve.
var fields = []field{
	{name: "prompt", kind: textKind, flag: "prompt", help: "What the video shows.", set: func(_ *field, a *asked, text string) error { a.prompt = text; return nil }},
	{name: "model", kind: textKind, help: "A name that GET /v1/models has; the one model of this service where it is left out.",
		set: func(_ *field, a *asked, text string) error { a.model = text; return nil }},
	{name: "negative_prompt", kind: textKind, flag: "negative", help: "What the video is guided away from; the release's own text where it is left out.",
		set: func(_ *field, a *asked, text string) error { a.negative = &text; return nil }},
	{name: "size", kind: textKind, flag: "size", help: "WIDTHxHEIGHT in pixels."},
	{name: "seconds", kind: secondsKind, help: "How long the video is. It gives the number of frames, the nearest that the model makes, where num_frames does not.",
		set: setSeconds},
	{name: "fps", kind: numberKind, flag: "fps", help: "Frames a second."},
	{name: "num_frames", kind: wholeKind, flag: "frames", help: "Frames of the video; models make certain numbers alone, such as 4k+1."},
	{name: "num_inference_steps", kind: wholeKind, flag: "steps", help: "Steps of the scheduler."},
	{name: "guidance_scale", kind: numberKind, flag: "guidance", help: "How strongly the prompt guides; of two experts that of the one that runs first.",
		set: func(_ *field, a *asked, text string) error { a.guidance[0] = text; return nil }},
	{name: "guidance_scale_2", kind: numberKind, help: "The guidance of the expert that runs second.",
		set: func(_ *field, a *asked, text string) error { a.guidance[1] = text; return nil }},
	{name: "flow_shift", kind: numberKind, flag: "shift", help: "Warp of the noise levels."},
	{name: "boundary_ratio", kind: numberKind, flag: "boundary", help: "Share of the noise levels above which the first of two experts runs."},
	{name: "seed", kind: wholeKind, flag: "seed", help: "Seed of the noise; one is drawn where it is left out, and told."},
	{name: "sampler", kind: textKind, flag: "sampler", help: "The scheduler.", words: sampler.Names()},
	{name: "cfg", kind: textKind, flag: "cfg", help: "How the passes with and without the text run.", words: []string{models.CFGBatch, models.CFGSequential, models.CFGNone}},
	{name: "integer_timesteps", kind: switchKind, flag: "integer-timesteps", help: "Truncate what the model is fed to an integer."},
	{name: "max_sequence_length", kind: wholeKind, flag: "text-len", help: "Rows of text, for models whose configuration does not state them."},
	{name: "input_reference", kind: imageKind, flag: "image",
		help: "The picture that the video begins with: a file of PNG, JPEG or WebP in a form; in JSON a data URL, or an object with it as image_url."},
	{name: "image_reference", kind: imageKind, help: "As input_reference, under the name that other servers have."},
	{name: "last_image_reference", kind: imageKind, flag: "last-image", help: "The picture that the video ends with, for models that take one."},
	{name: "fit", kind: textKind, flag: "fit", help: "How the pictures fill the frames.", words: fitNames(), set: func(_ *field, a *asked,
		text string) error {
		a.fit = picture.Fit(text)
		return nil
	}},
	{name: "crop", kind: textKind, flag: "crop", help: "WIDTHxHEIGHT of the middle that is cut out of each frame.", set: setCrop},
	{name: "tile", kind: textKind, flag: "tile", help: `Decode in overlapping tiles, which gives other pixels: "release", or HEIGHTxWIDTH,STRIDExSTRIDE.`, set: setTiles},
	{name: "vae_dtype", kind: textKind, flag: "vae-dtype", help: "The type that the autoencoder computes in.", words: []string{"f32", "bf16"},
		set: func(_ *field, a *asked, text string) error { a.vaeType = text; return nil }},
	{name: "no_truncate", kind: switchKind, flag: "no-truncate", help: "Refuse a prompt of more tokens than the text encoder reads, which is cut otherwise.",
		set: func(_ *field, a *asked, text string) error { a.whole = text == "true"; return nil }},
	{name: "preview", kind: wholeKind, flag: "preview", help: "A small picture every so many steps; 0 is none.", set: setPreview},
	{name: "output_format", kind: textKind, flag: "out", help: "How the video is written: a format that GET /v1/models lists.",
		set: func(_ *field, a *asked, text string) error { a.format = text; return nil }},
	{name: "user", kind: textKind, help: "Whom the video is for. Users take turns.", set: setUser},
	{name: "priority", kind: textKind, help: "Which of the waiting videos are made first. Only an operator's token may say high.", words: []string{"low", "normal", "high"},
		set: setPriority},
}

func fitNames() []string {
	names := make([]string, len(picture.Fits))
	for i, f := range picture.Fits {
		names[i] = string(f)
	}
	return names
}

// refusedNames are names that other servers or the command line have, with what is right here.
var refusedNames = map[string]string{}

func init() {
	for reason, names := range map[string]string{
		"no path is read from a request: videos have names of the service's own, and GET /v1/videos/{id}/content gives them": "" +
			"output_path output_dir output output_file save_path save_to path file out " +
			"filename frames_out latents_out features_out state",
		"nothing is fetched or opened for a request: send the picture as a file in a form, or as a data URL": "image image_url image_path " +
			"image_file url file_id video_url last_image",
		"noise comes from the seed: no file is read for a request": "noise latents",
		"it is decided where the service is started, by a flag of weft serve": "mesh device dtype offload offload_depth attention fsdp split_residual " +
			"micro layers plugin release text_encoder vae tokenizer image_encoder",
		"one request makes one video": "n num_videos num_outputs_per_prompt prompts batch",
	} {
		for _, name := range strings.Fields(names) {
			refusedNames[name] = reason
		}
	}
}

// fieldNamed returns the field of a name, or nil.
func fieldNamed(name string) *field {
	if i := slices.IndexFunc(fields, func(f field) bool { return f.name == name }); i >= 0 {
		return &fields[i]
	}
	return nil
}

// fieldOfFlag is the name that clients have for a flag of weft generate, "" for none.
func fieldOfFlag(flag string) string {
	for _, f := range fields {
		if f.flag == flag && flag != "" {
			return f.name
		}
	}
	return ""
}

// maxName bounds what is compared with the names of fields.
const maxName = 64

// unknownField refuses a name that no field has.
func unknownField(name string) error {
	shown := printable.ClipName(name)
	if why, ok := refusedNames[name]; ok {
		kind := ErrField
		if strings.Contains(why, "for a request") || strings.Contains(why, "from a request") {
			kind = ErrPath
		}
		return fault.New(kind, Field{Field: shown}, "%s: %s", shown, why)
	}
	name = name[:min(len(name), maxName)]
	near := slices.MinFunc(fields, func(a, b field) int { return editdistance.Between(name, a.name) - editdistance.Between(name, b.name) })
	return fault.New(ErrField, Field{Field: shown, Instead: []string{near.name}}, "%s: a request has no field of this name; the likest is %s", shown, near.name)
}

// take takes a field's value from its text.
func (f *field) take(a *asked, text string) error {
	a.given[f.name] = text
	if f.words != nil && !slices.Contains(f.words, text) {
		return fault.New(ErrField, Field{f.name, printable.ClipName(text), f.words}, "%s %q: want %s", f.name, printable.ClipName(text), strings.Join(f.words, ", "))
	}
	if f.set != nil {
		return f.set(f, a, text)
	}
	a.text[f.flag] = text
	return nil
}

// refuse makes a violation of a field.
func (f *field) refuse(value, format string, args ...any) error {
	value = printable.ClipName(value)
	return fault.New(ErrField, Field{Field: f.name, Value: value}, f.name+" %q: "+format, append([]any{value}, args...)...)
}

// jsonText gives the text of a field's value in a JSON document.
func (f *field) jsonText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		if f.kind == textKind || f.kind == secondsKind {
			return v, nil
		}
	case bool:
		if f.kind == switchKind {
			return strconv.FormatBool(v), nil
		}
	case json.Number:
		if f.kind == numberKind || f.kind == secondsKind {
			return v.String(), nil
		}
		if f.kind == wholeKind {
			return wholeText(f, v.String())
		}
	}
	want := map[kind]string{textKind: "a string", wholeKind: "an integer", numberKind: "a number", switchKind: "true or false",
		secondsKind: "an integer, or a string of one"}[f.kind]
	return "", f.refuse(jsonName(v), "want %s", want)
}

// wholeText accepts an integer, also as 16.0, which some libraries write.
func wholeText(f *field, text string) (string, error) {
	whole := strings.TrimSuffix(text, ".0")
	if strings.Trim(strings.TrimPrefix(whole, "-"), "0123456789") != "" || whole == "" {
		return "", f.refuse(text, "want an integer")
	}
	return whole, nil
}

// jsonName names a JSON value in messages.
func jsonName(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	default:
		return fmt.Sprint(v)
	}
}

// formText checks a field's value in a form, where all are text.
func (f *field) formText(text string) (string, error) {
	switch f.kind {
	case wholeKind:
		return wholeText(f, text)
	case switchKind:
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return "", f.refuse(text, "want true or false")
		}
		return strconv.FormatBool(b), nil
	}
	return text, nil
}

// maxSeconds bounds a video: more is a mistyped number.
const maxSeconds = 3600

func setSeconds(f *field, a *asked, text string) error {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x > 0 && x <= maxSeconds) {
		return f.refuse(text, "want seconds, more than 0 and at most %d", maxSeconds)
	}
	a.seconds = x
	return nil
}

func setCrop(f *field, a *asked, text string) error {
	var c [2]int
	if _, err := fmt.Sscanf(text, "%dx%d", &c[0], &c[1]); err != nil || fmt.Sprintf("%dx%d", c[0], c[1]) != text {
		return f.refuse(text, "want WIDTHxHEIGHT in pixels, such as 1920x1080")
	}
	a.crop = &c
	return nil
}

func setTiles(f *field, a *asked, text string) error {
	if _, err := models.ParseTiles(text); err != nil {
		return f.refuse(text, "%w", err)
	}
	a.tiles = text
	return nil
}

func setPreview(f *field, a *asked, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return f.refuse(text, "want a number of steps, or 0 for none")
	}
	a.preview = &n
	return nil
}

// maxUser bounds the name of a user.
const maxUser = 128

func setUser(f *field, a *asked, text string) error {
	if len(text) > maxUser || printable.Text(text) != text {
		return f.refuse(text, "want at most %d bytes that can be printed", maxUser)
	}
	a.user = text
	return nil
}

var priorities = map[string]jobs.Priority{"low": jobs.Low, "normal": jobs.Normal, "high": jobs.High}

func setPriority(_ *field, a *asked, text string) error {
	a.priority = priorities[text]
	return nil
}

// priorityName is the word for a priority.
func priorityName(p jobs.Priority) string {
	for name, value := range priorities {
		if value == p {
			return name
		}
	}
	return ""
}
