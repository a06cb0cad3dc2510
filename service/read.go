package service

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/printable"
	"weft/request"
)

// maxParts bounds the fields of a form; a request has fewer names.
const maxParts = 64

// read reads a request to its end, JSON or a form. The error has every violation: ErrSyntax,
// ErrField, ErrPath, ErrTooLarge, ErrMediaType. What could be read is returned beside an error.
func (l Limits) read(contentType string, body io.Reader) (*asked, error) {
	a := &asked{text: request.Text{}, given: map[string]string{}}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = ""
	}
	var errs fault.List
	switch media {
	case "application/json":
		errs.Add(l.readJSON(a, body))
	case "multipart/form-data":
		errs.Add(l.readForm(a, multipart.NewReader(body, params["boundary"])))
	default:
		return a, fault.New(ErrMediaType, nil, "content type %q: want application/json or multipart/form-data", printable.ClipName(contentType))
	}
	errs.Add(a.settleGuidance())
	errs.Add(l.checkTexts(a))
	return a, errs.Err()
}

// tooLarge makes the error of a body that was cut off; other errors of reading stay.
func tooLarge(err error) error {
	if cut := (*http.MaxBytesError)(nil); errors.As(err, &cut) {
		return fault.New(ErrTooLarge, TooLarge{Limit: cut.Limit, Unit: "bytes"}, "the request has more than %d bytes", cut.Limit)
	}
	return fault.New(ErrSyntax, nil, "the request cannot be read to its end: %w", err)
}

func (l Limits) readJSON(a *asked, body io.Reader) error {
	raw, err := io.ReadAll(body)
	if err != nil {
		return tooLarge(err)
	}
	doc, bad := jsontext.ParseObject(raw, jsontext.Options{Keys: true})
	if bad != nil {
		return fault.New(ErrSyntax, nil, "the request is no JSON object: %v", bad)
	}
	var errs fault.List
	for _, f := range fields { // in their order
		v, given := doc[f.name]
		if delete(doc, f.name); !given || v == nil {
			continue
		}
		if f.kind == imageKind {
			errs.Add(l.takeReference(a, &f, v))
			continue
		}
		text, err := f.jsonText(v)
		if err == nil {
			err = f.take(a, text)
		}
		errs.Add(err)
	}
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		errs.Add(unknownField(name))
	}
	return errs.Err()
}

// takeReference takes a picture of a JSON document: a data URL, or an object with it.
func (l Limits) takeReference(a *asked, f *field, v any) error {
	object, isObject := v.(map[string]any)
	if !isObject {
		url, isText := v.(string)
		if !isText {
			return f.refuse(jsonName(v), "want a data URL, or an object with it as image_url")
		}
		return l.takeURL(a, f, url)
	}
	var errs fault.List
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		text, isText := value.(string)
		switch {
		case value == nil:
		case name == "file_id":
			errs.Add(fault.New(ErrPath, Field{Field: f.name}, "%s.file_id: files are not kept here: send the picture as a file in a form, or as a data URL in image_url", f.name))
		case name != "image_url":
			errs.Add(fault.New(ErrField, Field{Field: f.name}, "%s.%s: want image_url alone", f.name, printable.ClipName(name)))
		case !isText:
			errs.Add(f.refuse(jsonName(value), "image_url: want a data URL"))
		default:
			errs.Add(l.takeURL(a, f, text))
		}
	}
	return errs.Err()
}

// takeURL takes a picture from a data URL. Every other URL is refused: nothing is fetched.
func (l Limits) takeURL(a *asked, f *field, url string) error {
	head, data, ok := strings.Cut(url, ",")
	if scheme, _, _ := strings.Cut(head, ":"); !ok || !strings.EqualFold(scheme, "data") {
		return fault.New(ErrPath, Field{Field: f.name}, "%s: want a data URL, data:image/png;base64,... : nothing is fetched or opened for a request", f.name)
	}
	if !strings.HasSuffix(strings.ToLower(head), ";base64") {
		return fault.New(ErrField, Field{Field: f.name}, "%s: want a data URL in base64, data:image/png;base64,...", f.name)
	}
	if n := int64(base64.StdEncoding.DecodedLen(len(data))); n > l.ImageBytes+2 {
		return l.imageTooLarge(f, n)
	}
	b, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return fault.New(ErrField, Field{Field: f.name}, "%s: the data URL is no base64: %w", f.name, err)
	}
	return l.takeImage(a, f, b)
}

func (l Limits) imageTooLarge(f *field, n int64) error {
	return fault.New(ErrTooLarge, TooLarge{f.name, n, l.ImageBytes, "bytes"}, "%s has %d bytes: at most %d are read", f.name, n, l.ImageBytes)
}

// takeImage takes a picture's bytes, which are decoded later.
func (l Limits) takeImage(a *asked, f *field, b []byte) error {
	if int64(len(b)) > l.ImageBytes {
		return l.imageTooLarge(f, int64(len(b)))
	}
	at, other := 0, "image_reference"
	switch f.name {
	case "last_image_reference":
		at, other = 1, ""
	case "image_reference":
		other = "input_reference"
	}
	if a.images[at] != nil {
		return fault.New(ErrField, Field{Field: f.name}, "%s and %s are two names of one picture: want one of them", f.name, other)
	}
	if len(b) == 0 {
		return fault.New(ErrField, Field{Field: f.name}, "%s is an empty file: want a PNG, JPEG or WebP", f.name)
	}
	sum := sha256.Sum256(b)
	a.images[at], a.given[f.name] = b, hex.EncodeToString(sum[:])
	return nil
}

// readForm reads a form. Texts that are empty say nothing, except those of text fields.
func (l Limits) readForm(a *asked, form *multipart.Reader) error {
	var errs fault.List
	seen := map[string]bool{}
	for n := 0; ; n++ {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return errs.Err()
		}
		if err == nil && n == maxParts {
			err = fmt.Errorf("it has more than %d parts", maxParts)
		}
		if err != nil {
			errs.Add(tooLarge(err))
			return errs.Err()
		}
		// A picture as an object comes as image_reference[image_url].
		name, inner, _ := strings.Cut(strings.TrimSuffix(part.FormName(), "]"), "[")
		f := fieldNamed(name)
		isImage := f != nil && f.kind == imageKind
		if part.FormName() == "" || seen[part.FormName()] {
			errs.Add(fault.New(ErrSyntax, Field{Field: printable.ClipName(name)}, "a part of the form has no name, or the name of another: %q",
				printable.ClipName(part.FormName())))
			continue
		}
		seen[part.FormName()] = true
		if f == nil || inner != "" && !isImage {
			errs.Add(unknownField(part.FormName()))
			continue
		}
		err = l.readPart(a, f, part, inner)
		errs.Add(err)
		if cut := (*http.MaxBytesError)(nil); errors.As(err, &cut) {
			return errs.Err()
		}
	}
}

// readPart reads one part of a form. inner is the name within a picture's object.
func (l Limits) readPart(a *asked, f *field, part *multipart.Part, inner string) error {
	limit := l.TextBytes
	if f.kind == imageKind {
		limit = l.ImageBytes
		if part.FileName() == "" { // a data URL
			limit = int64(base64.StdEncoding.EncodedLen(int(l.ImageBytes))) + 1024
		}
	}
	b, err := io.ReadAll(io.LimitReader(part, limit+1))
	switch {
	case err != nil:
		return tooLarge(err)
	case int64(len(b)) > limit:
		return fault.New(ErrTooLarge, TooLarge{f.name, 0, limit, "bytes"}, "%s has more than %d bytes", f.name, limit)
	case f.kind != imageKind && part.FileName() != "":
		return fault.New(ErrField, Field{Field: f.name}, "%s is sent as a file: want text", f.name)
	case f.kind == imageKind && part.FileName() != "":
		return l.takeImage(a, f, b)
	case f.kind == imageKind && inner != "":
		return l.takeReference(a, f, map[string]any{inner: string(b)})
	case f.kind == imageKind:
		return l.takeURL(a, f, string(b))
	case len(b) == 0 && f.kind != textKind:
		return nil
	}
	text, err := f.formText(string(b))
	if err != nil {
		return err
	}
	return f.take(a, text)
}

// settleGuidance makes one flag of the two scales.
func (a *asked) settleGuidance() error {
	switch {
	case a.guidance[0] == "" && a.guidance[1] == "":
		return nil
	case a.guidance[0] == "":
		return fault.New(ErrField, Field{Field: "guidance_scale_2"}, "guidance_scale_2 without guidance_scale: want both, the first for the expert that runs first")
	case a.guidance[1] == "":
		a.text["guidance"] = a.guidance[0]
	default:
		a.text["guidance"] = a.guidance[0] + "," + a.guidance[1]
	}
	return nil
}

// checkTexts reports a prompt that is missing, and texts that are too long.
func (l Limits) checkTexts(a *asked) error {
	var errs fault.List
	if !a.has("prompt") {
		errs.Add(fault.New(ErrField, Field{Field: "prompt"}, "prompt is missing: want what the video shows"))
	}
	negative := ""
	if a.negative != nil {
		negative = *a.negative
	}
	for _, t := range []struct{ name, text string }{{"prompt", a.prompt}, {"negative_prompt", negative}} {
		if n := int64(len(t.text)); n > l.PromptBytes {
			errs.Add(fault.New(ErrTooLarge, TooLarge{t.name, n, l.PromptBytes, "bytes"}, "%s has %d bytes: at most %d are read", t.name, n, l.PromptBytes))
		}
	}
	return errs.Err()
}

// hash is one of all that was sent, whether as JSON or as a form.
func (a *asked) hash() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	_ = e.Encode(a.given) // sorted by name; a map of texts is always written
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}
