package generate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weft"
	"weft/engine"
	"weft/jobs"
	"weft/jobs/generate"
	"weft/pipeline"
	"weft/request"
)

const release = "../../testdata/pipelines/wan21_t2v"

// open opens the release.
func open(t *testing.T) *weft.Pipeline {
	t.Helper()
	p, err := weft.OpenPipeline(release, pipeline.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// asked is what the tests ask for.
var asked = request.Must("--size 64x32 --frames 5 --steps 4 --dtype bf16")

const seed = 7

// spec is asked as a job has it.
func spec(t *testing.T, p *weft.Pipeline) jobs.Spec {
	t.Helper()
	raw, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := p.ModelHash()
	if err != nil {
		t.Fatal(err)
	}
	return jobs.Spec{Model: p.Name(), ModelHash: hash, Prompt: "a cat", Request: raw, Seed: seed, Container: "avi", Preview: 1}
}

// whole is the video that weft generate makes of what is asked.
func whole(t *testing.T, p *weft.Pipeline) []byte {
	t.Helper()
	o := weft.GenerateOptions{Run: weft.Options{Device: engine.RefDevice}, Video: pipeline.Options{Request: asked, Prompt: "a cat", Out: filepath.Join(t.TempDir(), "v.avi"), Weft: weft.Version()}}
	o.Video.Seed = seed
	if _, err := p.Generate(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(o.Video.Out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A job has the bytes of weft generate, also one that is stopped behind its first step, and one
// whose state is of another request; and it has stills and previews.
func TestJobsHaveTheBytesOfGenerate(t *testing.T) {
	p := open(t)
	want := whole(t, p)
	dir := t.TempDir()
	s, err := jobs.Open(t.Context(), jobs.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := generate.New(p, weft.Options{Device: engine.RefDevice}, 1)
	defer r.Release()
	work := func() (stop func()) {
		ctx, end := context.WithCancel(context.Background())
		var done sync.WaitGroup
		done.Go(func() { _ = jobs.NewWorker(s, jobs.WorkerOptions{}).Run(ctx, r) })
		return func() { end(); done.Wait() }
	}
	create := func() string {
		j, _, err := s.Create(t.Context(), jobs.New{Spec: spec(t, p)})
		if err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	check := func(name, id string) jobs.Job {
		ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
		defer end()
		j, err := s.Wait(ctx, id)
		if err != nil || j.State != jobs.Completed {
			t.Fatalf("%s: %v, %s %+v", name, err, j.State, j.Error)
		}
		for what, kind := range map[string]string{"video": "RIFF", "thumbnail": "\xff\xd8", "spritesheet": "\xff\xd8"} {
			f, file, err := s.OpenFile(t.Context(), id, what)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, err := io.ReadAll(f)
			f.Close()
			if err != nil || !strings.HasPrefix(string(b), kind) || int64(len(b)) != file.Size {
				t.Errorf("%s: the %s begins with %.4q, %v", name, what, b, err)
			}
			if what == "video" && !bytes.Equal(b, want) {
				t.Errorf("%s: the video differs from weft generate's", name)
			}
		}
		if png, err := s.Preview(t.Context(), id); err != nil || !strings.HasPrefix(string(png), "\x89PNG") || j.PreviewStep == 0 {
			t.Errorf("%s: preview %.4q of step %d, %v", name, png, j.PreviewStep, err)
		}
		if j.Settings["steps"].Value != float64(4) || j.Progress.Memory == 0 || j.Furthest != 4 {
			t.Errorf("%s: %+v", name, j)
		}
		return j
	}

	stop := work()
	id := create()
	check("alone", id)
	stop()

	id = create()
	stop = work()
	events, err := s.Events(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.Job.Furthest >= 1 {
			break
		}
	}
	stop()
	if j, err := s.Get(t.Context(), id); err != nil || j.State != jobs.Queued || j.Furthest == 0 {
		t.Logf("the job was done before it could be stopped: %v, %s", err, j.State)
	}
	stop = work()
	check("stopped and gone on with", id)
	stop()

	// What another request left cannot be gone on from.
	id = create()
	state := filepath.Join(dir, "work", id+".0", "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "request.json"), []byte(`{"version":1,"seed":"1","asked":{},"new":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	stop = work()
	j := check("on another's state", id)
	stop()
	if notes := strings.Join(j.Notes, "\n"); !strings.Contains(notes, "made anew") {
		t.Errorf("notes %q", notes)
	}
}

// What a job asks for and cannot have fails it with the kinds of weft generate.
func TestRefusedJobsSayWhy(t *testing.T) {
	p := open(t)
	s, err := jobs.Open(t.Context(), jobs.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := generate.New(p, weft.Options{Device: engine.RefDevice}, 1)
	defer r.Release()
	ctx, end := context.WithCancel(context.Background())
	var done sync.WaitGroup
	defer done.Wait()
	defer end()
	done.Go(func() { _ = jobs.NewWorker(s, jobs.WorkerOptions{}).Run(ctx, r) })
	for _, c := range []struct {
		name, code string
		change     func(j *jobs.Spec)
	}{
		{"a size", "size", func(j *jobs.Spec) { j.Request = json.RawMessage(`{"size":"63x32","frames":5}`) }},
		{"a flag of another version", "request-syntax", func(j *jobs.Spec) { j.Request = json.RawMessage(`{"colour":"red"}`) }},
		{"a type", "plan-options", func(j *jobs.Spec) { j.AutoencoderType = "f99" }},
	} {
		n := jobs.New{Spec: spec(t, p)}
		c.change(&n.Spec)
		j, _, err := s.Create(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		j, err = s.Wait(t.Context(), j.ID)
		if err != nil || j.State != jobs.Failed || j.Error.Code != c.code {
			t.Errorf("%s: %v, %s %+v: want code %q", c.name, err, j.State, j.Error, c.code)
		}
	}
}
