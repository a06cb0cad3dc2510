package service

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"mime/multipart"
	"strings"
	"testing"

	"weft"
	"weft/fault"
	"weft/pipeline"
	"weft/plan"
	"weft/request"
)

const pipelinesDir = "../testdata/pipelines/"

// openRelease opens a small release as a service on one CPU device has it. Flags are those of
// weft serve.
func openRelease(t testing.TB, name string, flags string) *Release {
	t.Helper()
	p, err := weft.OpenPipeline(pipelinesDir+name, pipeline.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	run := weft.Options{Request: request.Must(strings.TrimSpace("--dtype bf16 " + flags)), Device: "reference"}
	r, _, err := NewRelease(t.Context(), p, run, request.Hardware{}, plan.Machine{MemoryBytes: 8 << 30, Cores: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.TryFormats(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// form makes a form; a field whose name begins with @ is a file.
func form(t testing.TB, parts ...string) (contentType string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		name, isFile := strings.CutPrefix(parts[i], "@")
		var err error
		if isFile {
			part, e := w.CreateFormFile(name, "../../etc/passwd") // no name of a file is read
			if err = e; err == nil {
				_, err = part.Write([]byte(parts[i+1]))
			}
		} else {
			err = w.WriteField(name, parts[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.Bytes()
}

// pngOf is a small picture.
func pngOf(t testing.TB, width, height int) []byte {
	t.Helper()
	im := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		im.Set(i%width, i/width, color.RGBA{uint8(i), uint8(3 * i), 90, 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hugePNG is a PNG of a few hundred bytes whose header says 60000x60000 pixels.
func hugePNG(t testing.TB) []byte {
	t.Helper()
	b := pngOf(t, 8, 8)
	return pngWithSize(b, 60000, 60000)
}

// codesOf are the codes of an error's violations, with the field of each.
func codesOf(err error) []string {
	codes := []string{}
	for _, v := range fault.Violations(err) {
		d := describeViolation(v)
		text := d.Code
		if d.Param != nil {
			text += " " + *d.Param
		}
		codes = append(codes, text)
	}
	return codes
}
