package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/models"
	"weft/picture"
	"weft/request"
)

// settleJSON settles a request.
func settleJSON(t testing.TB, r *Release, doc string) (*settled, error) {
	t.Helper()
	a, err := limits.read("application/json", strings.NewReader(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return r.settle(t.Context(), a, limits)
}

// What is left out is the release's, what is taken is told with its source, and what is stored is
// what was asked for and nothing more, so that the bytes are those of weft generate.
func TestWhatWasTaken(t *testing.T) {
	r := openRelease(t, "wan21_t2v", "--mesh tp=1")
	for _, c := range []struct {
		doc, request string
		frames       int
		from         string // of the number of frames
		note         string
	}{
		{`{"prompt": "a cat", "size": "64x32", "num_frames": 9, "num_inference_steps": 4}`, `{"dtype":"bf16","frames":9,"mesh":"tp=1","size":"64x32","steps":4}`, 9, "request", ""},
		{`{"prompt": "a cat", "size": "64x32", "seconds": "1", "num_inference_steps": 4}`, `{"dtype":"bf16","frames":17,"mesh":"tp=1","size":"64x32","steps":4}`, 17,
			"seconds 1 at the release's fps 16", "17 is the nearest"},
		{`{"prompt": "a cat", "size": "64x32", "seconds": 2, "fps": 4}`, `{"dtype":"bf16","fps":4,"frames":9,"mesh":"tp=1","size":"64x32"}`, 9, "seconds 2 at fps 4",
			"9 is the nearest"},
		{`{"prompt": "a cat", "size": "64x32", "seconds": 2, "num_frames": 5}`, `{"dtype":"bf16","frames":5,"mesh":"tp=1","size":"64x32"}`, 5, "request", "and not seconds"},
	} {
		s, err := settleJSON(t, r, c.doc)
		if err != nil {
			t.Errorf("%s: %v", c.doc, err)
			continue
		}
		if string(s.spec.Request) != c.request {
			t.Errorf("%s: stored %s\nwant %s", c.doc, s.spec.Request, c.request)
		}
		if f := s.spec.Settings["frames"]; f.Value != c.frames || f.From != c.from || s.frames != c.frames {
			t.Errorf("%s: frames %+v", c.doc, f)
		}
		if !strings.Contains(strings.Join(s.notes, "\n"), c.note) {
			t.Errorf("%s: notes %q", c.doc, s.notes)
		}
		if seed := s.spec.Settings["seed"]; seed.From != fromDraw || seed.Value != fmt.Sprint(s.spec.Seed) {
			t.Errorf("seed %+v of %d", seed, s.spec.Seed)
		}
		if _, ok := s.spec.Settings["prompt"]; ok {
			t.Error("the prompt is among the settings")
		}
		if shift := s.spec.Settings["shift"]; shift.From == fromRequest || shift.From == fromServe || shift.Value == nil {
			t.Errorf("shift %+v", shift)
		}
		var back request.Request
		if err := json.Unmarshal(s.spec.Request, &back); err != nil {
			t.Errorf("a worker cannot read %s: %v", s.spec.Request, err)
		}
	}
	s, err := settleJSON(t, r, `{"prompt": "a cat", "size": "64x32", "num_frames": 5, "seed": 7, "guidance_scale": 3, "output_format": "avi", "no_truncate": true, "crop": "60x30"}`)
	if err != nil {
		t.Fatal(err)
	}
	size, frames, fps, seconds := shapeOf(s.spec)
	if s.spec.Seed != 7 || s.spec.Settings["seed"].From != fromRequest || s.spec.Settings["guidance"].From != fromRequest ||
		size != "60x30" || frames != 5 || fps != 16 || seconds != "0.313" {
		t.Errorf("%+v, %s, %d frames, %g fps, %s s", s.spec, size, frames, fps, seconds)
	}
	if s.spec.Seconds <= 0 || s.spec.Bytes <= 0 {
		t.Errorf("planned %+v", s.planned)
	}
}

// Each thing that the release cannot do is refused, all at once, before there is a job.
func TestWhatTheReleaseRefuses(t *testing.T) {
	t2v, i2v := openRelease(t, "wan21_t2v", ""), openRelease(t, "wan21_i2v", "")
	image := dataURL(pngOf(t, 40, 30))
	for _, c := range []struct {
		r      *Release
		doc    string
		want   []string
		says   string
		status int
	}{
		{t2v, `{"prompt": "p", "size": "63x31", "num_frames": 8, "model": "sora-2", "guidance_scale": 3, "cfg": "none", "output_format": "gif"}`,
			[]string{"model-not-found model", "invalid-field output_format", "size size", "size num_frames", "size size", "inputs"}, "64x32", 400},
		{t2v, `{"prompt": "p", "size": "64x32", "num_frames": 5, "num_inference_steps": -1, "flow_shift": 1e999}`, nil, "", 0},
		{t2v, fmt.Sprintf(`{"prompt": "p", "size": "64x32", "num_frames": 5, "input_reference": %q}`, image), nil, "image", 422},
		{i2v, `{"prompt": "p", "size": "64x32", "num_frames": 5}`, nil, "image", 422},
		{i2v, `{"prompt": "p", "size": "64x32", "num_frames": 5, "input_reference": "data:image/png;base64,R0lGODlh"}`, []string{"image-format input_reference"}, "PNG, JPEG", 422},
		{i2v, fmt.Sprintf(`{"prompt": "p", "size": "64x32", "num_frames": 5, "image_reference": %q}`, dataURL(hugePNG(t))), []string{"image-too-many-pixels image_reference"},
			"60000x60000", 422},
		{t2v, `{"prompt": "p", "size": "63x32", "num_frames": 5, "output_format": "mp4"}`, nil, "nearest in aspect: 64x32; size 64x32 crop 63x32", 422},
		{t2v, `{"prompt": "p", "size": "64x32", "num_frames": 5, "crop": "63x31", "output_format": "mp4"}`, []string{"video-size size"}, "even", 422},
		{t2v, `{"prompt": "p", "size": "64x32", "num_frames": 5, "guidance_scale": 3, "guidance_scale_2": 4}`, nil, "guidance", 422},
	} {
		a, err := limits.read("application/json", strings.NewReader(c.doc))
		if err != nil {
			if c.status != 0 {
				t.Errorf("%s: %v", c.doc, err)
			}
			continue
		}
		_, err = c.r.settle(t.Context(), a, limits)
		if err == nil {
			t.Errorf("%s is taken", c.doc)
			continue
		}
		if got := codesOf(err); c.want != nil && !slices.Equal(slices.Compact(got), slices.Compact(slices.Clone(c.want))) {
			t.Errorf("%s: %q\nwant %q\n%v", c.doc, got, c.want, err)
		}
		messages := ""
		for _, v := range describeError(err, 422, strings.Clone).Error.Violations {
			messages += v.Message + "\n"
		}
		if !strings.Contains(messages, c.says) || strings.Contains(messages, "--") {
			t.Errorf("%.200s: %s", c.doc, messages)
		}
		if got := statusOf(err); c.status != 0 && got != c.status {
			t.Errorf("%s: status %d, want %d: %v", c.doc, got, c.status, err)
		}
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A picture of a whole file is taken, and one whose header says too much is refused before memory
// is taken for it.
func TestPictures(t *testing.T) {
	r := openRelease(t, "wan21_i2v", "")
	raw, err := os.ReadFile(pipelinesDir + "wan21_i2v/image.png")
	if err != nil {
		t.Fatal(err)
	}
	kind, body := form(t, "prompt", "p", "size", "64x32", "num_frames", "5", "@input_reference", string(raw))
	a, err := limits.read(kind, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.settle(t.Context(), a, limits)
	if err != nil || s.images[0] == nil {
		t.Errorf("%v", err)
	}
	huge := hugePNG(t)
	if len(huge) > 1024 {
		t.Fatalf("the small file has %d bytes", len(huge))
	}
	a.images[0] = huge
	if _, err := r.settle(t.Context(), a, limits); !errors.Is(err, picture.ErrTooManyPixels) {
		t.Error(err)
	}
}

// A request that the devices do not hold is refused with what they hold, and that is taken.
func TestTooBigIsRefusedWithWhatFits(t *testing.T) {
	r := openRelease(t, "wan21_t2v", "")
	r.Machine.MemoryBytes = 40 << 20
	doc := `{"prompt": "p", "size": "%s", "num_frames": %d, "num_inference_steps": 4}`
	_, err := settleJSON(t, r, fmt.Sprintf(doc, "832x480", 81))
	if !errors.Is(err, ErrTooBig) || statusOf(err) != 422 {
		t.Fatal(err)
	}
	body := describeError(err, 422, strings.Clone)
	var big TooBig
	if err := json.Unmarshal(body.Error.Details, &big); err != nil {
		t.Fatal(err)
	}
	if big.Bytes <= big.Limit || len(big.Nearest) == 0 || big.Phase == "" {
		t.Fatalf("%+v", big)
	}
	for _, n := range big.Nearest {
		s, err := settleJSON(t, r, fmt.Sprintf(doc, n.Size, n.Frames))
		if err != nil || s.planned.Bytes != n.Bytes || n.Bytes > big.Limit {
			t.Errorf("%+v does not fit: %v", n, err)
		}
	}
	l := limits
	l.Seconds = 1e-9
	a, err := l.read("application/json", strings.NewReader(fmt.Sprintf(doc, "64x32", 5)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.settle(t.Context(), a, l); !errors.Is(err, ErrTooBig) {
		t.Errorf("a video that takes too long: %v", err)
	}
	r.Machine.MemoryBytes = 1 << 10
	r.plans.known = nil
	r.plans = planner{}
	if _, err := settleJSON(t, r, fmt.Sprintf(doc, "64x32", 5)); err == nil || !strings.Contains(err.Error(), "weights alone") {
		t.Errorf("nothing fits: %v", err)
	}
}

// The numbers of frames are those that the model makes.
func TestNearestFrames(t *testing.T) {
	g := openRelease(t, "wan21_t2v", "").grid()
	for wish, want := range map[float64]int{80: 81, 16: 17, 79: 81, 78: 77, 0.2: 1, 3: 5, 240: 241} {
		if got := g.nearestFrames(wish); got != want {
			t.Errorf("%g frames: %d, want %d", wish, got, want)
		}
		if _, err := models.VideoLatents(g.gen, 1, g.width, g.height, g.nearestFrames(wish)); err != nil {
			t.Error(err)
		}
	}
	if got := g.frameCounts(13); !slices.Equal(got, []int{1, 5, 9, 13}) {
		t.Errorf("%v", got)
	}
}

// Whatever is asked, settling it ends with a job or with a refusal of the client's fault.
func FuzzSettle(f *testing.F) {
	r := openRelease(f, "wan21_t2v", "")
	f.Add("64x32", "1", 16.0, 0, 4, 5.0, "7", "")
	f.Add("16384x16384", "3600", 1e300, 0, -1, -1e300, "18446744073709551615", "crop")
	f.Add("0x-1", "0.0001", 0.001, 1<<40, 1<<40, 1.0, "-1", "9223372036854775807x1")
	f.Fuzz(func(t *testing.T, size, seconds string, fps float64, frames, steps int, guidance float64, seed, crop string) {
		fieldsOf := map[string]any{"prompt": size, "size": size, "seconds": seconds, "num_inference_steps": steps, "seed": json.Number(seed), "crop": crop}
		if frames != 0 {
			fieldsOf["num_frames"] = frames
		}
		if fps != 0 {
			fieldsOf["fps"], fieldsOf["guidance_scale"] = fps, guidance
		}
		doc, err := json.Marshal(fieldsOf)
		if err != nil {
			return // NaN, or a seed that is no number
		}
		a, err := limits.read("application/json", strings.NewReader(string(doc)))
		if err != nil {
			return
		}
		s, err := r.settle(t.Context(), a, limits)
		if err != nil {
			if status := statusOf(err); status < 400 || status >= 500 {
				t.Fatalf("%s: status %d: %v", doc, status, err)
			}
			return
		}
		if s.frames < 1 || s.width < 1 || s.height < 1 || s.spec.Seconds <= 0 {
			t.Fatalf("%s: %+v", doc, s)
		}
	})
}

// Admission takes so long: of a shape that is new, and of one that was planned before.
func BenchmarkSettle(b *testing.B) {
	r := openRelease(b, "wan21_t2v", "")
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("known=%t", known), func(b *testing.B) {
			for b.Loop() {
				if !known {
					r.plans = planner{}
				}
				if _, err := settleJSON(b, r, `{"prompt": "a cat walks on the grass", "size": "832x480", "num_frames": 81}`); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
