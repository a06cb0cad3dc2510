package service

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weft/jobs"
	"weft/request"
)

// pngWithSize gives a PNG another size in its header.
func pngWithSize(b []byte, width, height uint32) []byte {
	b = slices.Clone(b)
	binary.BigEndian.PutUint32(b[16:], width)
	binary.BigEndian.PutUint32(b[20:], height)
	binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
	return b
}

func dataURL(b []byte) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b)
}

var limits = DefaultLimits

// The same request means the same as JSON and as a form.
func TestJSONAndFormsAreOneRequest(t *testing.T) {
	image, last := pngOf(t, 8, 6), pngOf(t, 6, 8)
	doc := fmt.Sprintf(`{"prompt": "a cat, \u00fcber", "negative_prompt": "", "model": "m", "size": "64x32", "seconds": "2", "fps": 8, "num_frames": 9, "num_inference_steps": 4,
		"guidance_scale": 4.5, "guidance_scale_2": 3, "flow_shift": 5, "boundary_ratio": 0.9, "seed": 18446744073709551615, "sampler": "unipc", "cfg": "batch", "integer_timesteps": true,
		"max_sequence_length": 16, "input_reference": {"image_url": %q}, "last_image_reference": %q, "fit": "crop", "crop": "62x30", "tile": "release", "vae_dtype": "bf16",
		"no_truncate": true, "preview": 2, "output_format": "avi", "user": "ann", "priority": "low"}`, dataURL(image), dataURL(last))
	kind, body := form(t, "prompt", "a cat, über", "negative_prompt", "", "model", "m", "size", "64x32", "seconds", "2", "fps", "8", "num_frames", "9", "num_inference_steps", "4",
		"guidance_scale", "4.5", "guidance_scale_2", "3", "flow_shift", "5", "boundary_ratio", "0.9", "seed", "18446744073709551615", "sampler", "unipc", "cfg", "batch",
		"integer_timesteps", "True",
		"max_sequence_length", "16", "@input_reference", string(image), "last_image_reference[image_url]", dataURL(last), "fit", "crop", "crop", "62x30", "tile", "release",
		"vae_dtype", "bf16",
		"no_truncate", "1", "preview", "2", "output_format", "avi", "user", "ann", "priority", "low")
	fromJSON, err := limits.read("application/json", strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	fromForm, err := limits.read(kind, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(fromJSON, fromForm) || fromJSON.hash() != fromForm.hash() {
		t.Errorf("JSON %+v\nform %+v", fromJSON, fromForm)
	}
	empty, two := "", 2
	want := &asked{text: request.Text{"size": "64x32", "fps": "8", "frames": "9", "steps": "4", "guidance": "4.5,3", "shift": "5", "boundary": "0.9",
		"seed":    "18446744073709551615",
		"sampler": "unipc", "cfg": "batch", "integer-timesteps": "true", "text-len": "16"}, prompt: "a cat, über", negative: &empty, model: "m", seconds: 2,
		guidance: [2]string{"4.5", "3"},
		images:   [2][]byte{image, last}, fit: "crop", crop: &[2]int{62, 30}, tiles: "release", vaeType: "bf16", format: "avi", preview: &two, whole: true, user: "ann",
		priority: jobs.Low, given: fromJSON.given}
	if !reflect.DeepEqual(fromJSON, want) {
		t.Errorf("read %+v\nwant %+v", fromJSON, want)
	}
	if len(fromJSON.given) != len(fields)-1 { // image_reference is a second name
		t.Errorf("%d fields were read of %d", len(fromJSON.given), len(fields))
	}
	if _, err := request.Parse(fromJSON.text); err != nil {
		t.Errorf("a field's flag is none of a request: %v", err)
	}
}

// Clients send seconds as text or as a number, and leave fields empty.
func TestWhatClientsSend(t *testing.T) {
	for _, c := range []struct {
		doc     string
		seconds float64
	}{
		{`{"prompt": "p", "seconds": "5"}`, 5}, {`{"prompt": "p", "seconds": 5}`, 5}, {`{"prompt": "p", "seconds": null, "seed": null, "input_reference": null}`, 0},
		{`{"prompt": "p", "seconds": "0.5", "num_frames": 9.0}`, 0.5},
	} {
		a, err := limits.read("application/json; charset=utf-8", strings.NewReader(c.doc))
		if err != nil || a.seconds != c.seconds {
			t.Errorf("%s: %v s, %v", c.doc, a.seconds, err)
		}
	}
	kind, body := form(t, "prompt", "p", "seed", "", "size", "64x32")
	a, err := limits.read(kind, strings.NewReader(string(body)))
	if err != nil || a.has("seed") || !a.has("size") {
		t.Errorf("an empty number in a form: %+v, %v", a, err)
	}
	one, err := limits.read("application/json", strings.NewReader(`{"prompt": "p"}`))
	if err != nil {
		t.Fatal(err)
	}
	other, err := limits.read("application/json", strings.NewReader(`{"prompt": "p", "seed": 1}`))
	if err != nil || one.hash() == other.hash() {
		t.Errorf("two requests have one hash: %v", err)
	}
}

// Every violation comes at once, each with its field; S07 and S08 among them.
func TestViolationsOfReading(t *testing.T) {
	image := dataURL(pngOf(t, 4, 4))
	small := limits
	small.ImageBytes, small.PromptBytes, small.TextBytes = 60, 10, 100
	for _, c := range []struct {
		name, doc string
		limits    Limits
		want      []string
	}{
		{"kinds", `{"prompt": 1, "size": 5, "seconds": true, "fps": "8", "num_frames": 9.5, "seed": "1", "integer_timesteps": "yes", "input_reference": 7}`, limits,
			[]string{"invalid-field prompt", "invalid-field size", "invalid-field seconds", "invalid-field fps", "invalid-field num_frames", "invalid-field seed",
				"invalid-field integer_timesteps",
				"invalid-field input_reference", "invalid-field prompt"}},
		{"values", `{"prompt": "p", "seconds": "-1", "sampler": "heun", "cfg": "x", "fit": "x", "crop": "4", "tile": "4", "vae_dtype": "f16", 
			"preview": -1, "user": "a\u0007", "priority": "urgent"}`, limits,
			[]string{"invalid-field seconds", "invalid-field sampler", "invalid-field cfg", "invalid-field fit", "invalid-field crop", "invalid-field tile",
				"invalid-field vae_dtype",
				"invalid-field preview", "invalid-field user", "invalid-field priority"}},
		{"no paths (S08)", `{"prompt": "p", "output_path": "/tmp/x.mp4", "save_to": "x", "file": "x", "state": "/tmp", "noise": "n.safetensors", "image": "/etc/passwd"}`, limits,
			[]string{"no-paths file", "no-paths image", "no-paths noise", "no-paths output_path", "no-paths save_to", "no-paths state"}},
		{"no URLs (S07)", `{"prompt": "p", "input_reference": "http://169.254.169.254/latest/meta-data/", 
			"last_image_reference": {"image_url": "file:///etc/passwd"}, "image_url": "https://example.org/a.png"}`, limits,
			[]string{"no-paths input_reference", "no-paths last_image_reference", "no-paths image_url"}},
		{"references", `{"prompt": "p", "input_reference": {"file_id": "file-1", "detail": "x", "image_url": 1}, 
			"image_reference": "data:image/png,abc", "last_image_reference": "data:image/png;base64,!"}`, limits,
			[]string{"invalid-field input_reference", "no-paths input_reference", "invalid-field input_reference", "invalid-field image_reference",
				"invalid-field last_image_reference"}},
		{"two names", fmt.Sprintf(`{"prompt": "p", "input_reference": %q, "image_reference": %q}`, image, image), limits, []string{"invalid-field image_reference"}},
		{"unknown", `{"prompt": "p", "num_frame": 9, "mesh": "tp=2", "n": 2}`, limits, []string{"invalid-field mesh", "invalid-field n", "invalid-field num_frame"}},
		{"guidance", `{"prompt": "p", "guidance_scale_2": 3}`, limits, []string{"invalid-field guidance_scale_2"}},
		{"nothing", `{}`, limits, []string{"invalid-field prompt"}},
		{"too large", fmt.Sprintf(`{"prompt": "eleven long", "negative_prompt": "eleven long", "input_reference": %q}`, image), small,
			[]string{"too-large input_reference", "too-large prompt", "too-large negative_prompt"}},
		{"no object", `[1]`, limits, []string{"invalid-request", "invalid-field prompt"}},
		{"twice", `{"prompt": "p", "prompt": "q"}`, limits, []string{"invalid-request", "invalid-field prompt"}},
		{"cut off", `{"prompt": "p"`, limits, []string{"invalid-request", "invalid-field prompt"}},
	} {
		_, err := c.limits.read("application/json", strings.NewReader(c.doc))
		if got := codesOf(err); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q\nwant %q\n%v", c.name, got, c.want, err)
		}
	}
}

func TestViolationsOfForms(t *testing.T) {
	small := limits
	small.TextBytes, small.ImageBytes = 20, 60
	for _, c := range []struct {
		parts  []string
		limits Limits
		want   []string
	}{
		{[]string{"prompt", "p", "@size", "64x32", "input_reference", "http://x/", "seed", "x", "output_path", "/tmp"}, limits,
			[]string{"invalid-field size", "no-paths input_reference", "invalid-field seed", "no-paths output_path"}},
		{[]string{"prompt", "p", "prompt", "q"}, limits, []string{"invalid-request prompt"}},
		{[]string{"prompt", strings.Repeat("p", 21), "@input_reference", string(pngOf(t, 4, 4))}, small, []string{"too-large prompt", "too-large input_reference",
			"invalid-field prompt"}},
		{[]string{"prompt", "p", "@input_reference", ""}, limits, []string{"invalid-field input_reference"}},
		{[]string{"prompt[x]", "p"}, limits, []string{"invalid-field prompt[x]", "invalid-field prompt"}},
	} {
		kind, body := form(t, c.parts...)
		_, err := c.limits.read(kind, strings.NewReader(string(body)))
		if got := codesOf(err); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q\nwant %q\n%v", c.parts, got, c.want, err)
		}
	}
	for _, kind := range []string{"", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded"} {
		if _, err := limits.read(kind, strings.NewReader("prompt=p")); err == nil {
			t.Errorf("content type %q is taken", kind)
		}
	}
}

// A body that is longer than it may be is cut off, and said to be too large.
func TestBodyThatIsTooLong(t *testing.T) {
	kind, body := form(t, "prompt", "p", "@input_reference", strings.Repeat("x", 4000))
	for _, c := range []struct{ kind, body string }{{"application/json", `{"prompt": "` + strings.Repeat("p", 4000) + `"}`}, {kind, string(body)}} {
		_, err := limits.read(c.kind, http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(c.body)), 1000))
		if !errors.Is(err, ErrTooLarge) || statusOf(err) != http.StatusRequestEntityTooLarge && statusOf(err) != http.StatusBadRequest {
			t.Errorf("%s: %v", c.kind, err)
		}
	}
}

func FuzzReadJSON(f *testing.F) {
	f.Add(`{"prompt": "p", "seconds": 5, "fps": 8, "num_frames": 9, "input_reference": {"image_url": "data:image/png;base64,AAAA"}}`)
	f.Add(`{"prompt": "\ud800", "seed": 1e400, "guidance_scale": -0, "crop": "1x1", "tile": "8x8,4x4", "Prompt": ""}`)
	f.Add(`{"prompt": "p", "output_path": "/x", "user": "` + strings.Repeat("u", 200) + `"}`)
	small := limits
	small.ImageBytes = 1 << 10
	f.Fuzz(func(t *testing.T, doc string) { checkRead(t, small, "application/json", doc) })
}

func FuzzReadForm(f *testing.F) {
	kind, body := form(f, "prompt", "p", "@input_reference", "xx", "seconds", "5", "image_reference[image_url]", "data:,")
	f.Add(kind, string(body))
	f.Add("multipart/form-data; boundary=a", "--a\r\nContent-Disposition: form-data; name=\"prompt[\"\r\n\r\n\r\n--a--")
	small := limits
	small.ImageBytes = 1 << 10
	f.Fuzz(func(t *testing.T, kind, body string) { checkRead(t, small, kind, body) })
}

// checkRead holds what must be true of any bytes: what is read is within the limits, names no
// path, and can be given to the flags; a refusal has a status of the client's fault.
func checkRead(t *testing.T, l Limits, kind, body string) {
	a, err := l.read(kind, strings.NewReader(body))
	if err != nil {
		if status := statusOf(err); status < 400 || status >= 500 {
			t.Fatalf("status %d: %v", status, err)
		}
		describeError(err, statusOf(err), strings.Clone)
	}
	for _, im := range a.images {
		if int64(len(im)) > l.ImageBytes {
			t.Fatalf("a picture of %d bytes", len(im))
		}
	}
	for name := range a.given {
		if fieldNamed(name) == nil {
			t.Fatalf("the field %q is none", name)
		}
	}
	for flag := range a.text {
		if request.KindOf(flag) == "" {
			t.Fatalf("the flag %q is none of a request", flag)
		}
	}
	if err == nil && (int64(len(a.prompt)) > l.PromptBytes || !a.has("prompt")) {
		t.Fatal("a prompt that is too long, or none")
	}
	if a.hash() == "" {
		t.Fatal("no hash")
	}
}
