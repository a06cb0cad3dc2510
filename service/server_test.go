package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/jobs"
)

// stepper is a runner whose steps are let through one by one.
type stepper struct {
	maker    jobs.Maker
	steps    int
	gate     chan struct{} // a step waits for a value
	open     chan struct{} // closed: no step waits
	began    chan string   // the ids of jobs whose first step is under way
	released chan struct{}
	finish   func(ctx context.Context, dir string, spec jobs.Spec) error // writes the files, in place of texts
	mu       sync.Mutex
	running  map[string]bool
	made     int // steps
}

func newStepper(r *Release, steps int) *stepper {
	return &stepper{maker: r.Maker(), steps: steps, gate: make(chan struct{}), open: make(chan struct{}), began: make(chan string, 100), released: make(chan struct{}, 10),
		running: map[string]bool{}}
}

// Maker is that of the release.
func (s *stepper) Maker() jobs.Maker { return s.maker }

// Release tells of itself.
func (s *stepper) Release() { s.released <- struct{}{} }

// madeOf is what the stepper makes of a spec: the same for each try.
func madeOf(spec jobs.Spec) []byte {
	return []byte(fmt.Sprintf("video of %s with seed %d and %s", spec.Prompt, spec.Seed, spec.Request))
}

// Run takes the steps that are left.
func (s *stepper) Run(ctx context.Context, t jobs.Task) (jobs.Output, error) {
	s.mark(t.Job.ID, true)
	defer s.mark(t.Job.ID, false)
	state := filepath.Join(t.Dir, "state")
	done := 0
	if b, err := os.ReadFile(state); err == nil {
		_, _ = fmt.Sscan(string(b), &done)
	}
	for ; done < s.steps; done++ {
		t.Report(jobs.Progress{Phase: "denoise", Step: done, Of: s.steps, Left: float64(s.steps - done), Memory: 1 << 20, Preview: s.preview(t.Dir, done)})
		s.began <- t.Job.ID
		select {
		case <-s.gate:
		case <-s.open:
		case <-ctx.Done():
			return jobs.Output{}, ctx.Err()
		}
		s.mu.Lock()
		s.made++
		s.mu.Unlock()
		if err := os.WriteFile(state, fmt.Append(nil, done+1), 0o600); err != nil {
			return jobs.Output{}, err
		}
	}
	files := map[string]string{"video": "video." + t.Job.Spec.Container, "thumbnail": "thumbnail.jpg", "spritesheet": "spritesheet.jpg"}
	if s.finish != nil {
		return jobs.Output{Files: files}, s.finish(ctx, t.Dir, t.Job.Spec)
	}
	for what, name := range files {
		b := madeOf(t.Job.Spec)
		if what != "video" {
			b = append([]byte(what+" of "), b...)
		}
		if err := os.WriteFile(filepath.Join(t.Dir, name), b, 0o600); err != nil {
			return jobs.Output{}, err
		}
	}
	return jobs.Output{Files: files, Notes: []string{"made by a stepper"}}, nil
}

// preview writes a small picture after the first step.
func (s *stepper) preview(dir string, done int) string {
	if done == 0 {
		return ""
	}
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 32, 16))); err != nil {
		return ""
	}
	if os.WriteFile(filepath.Join(dir, "preview.png"), b.Bytes(), 0o600) != nil {
		return ""
	}
	return "preview.png"
}

func (s *stepper) mark(id string, runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[id] = runs
}

func (s *stepper) runs(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

// running is a service under test: a durable store, the server on loopback, and a worker.
type running struct {
	t      testing.TB
	dir    string
	at     string
	store  *jobs.Store
	server *Server
	steps  *stepper
	token  string
	end    func() // stops the worker, the server and the store
}

// startService starts a service with a data folder. change, where given, changes its options.
func startService(t testing.TB, dir string, steps *stepper, release *Release, change func(*Options, *jobs.Options)) *running {
	t.Helper()
	o, storeOptions := Options{Release: release, Page: testPage}, jobs.Options{Dir: dir, Lease: 2 * time.Second}
	if change != nil {
		change(&o, &storeOptions)
	}
	store, err := jobs.Open(t.Context(), storeOptions)
	if err != nil {
		t.Fatal(err)
	}
	o.Store = store
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := s.Serve(ctx, l, nil); err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	if steps != nil {
		parts.Go(func() {
			if err := jobs.NewWorker(store, jobs.WorkerOptions{}).Run(ctx, steps); err != nil {
				t.Errorf("the worker: %v", err)
			}
		})
	}
	r := &running{t: t, dir: dir, at: "http://" + l.Addr().String(), store: store, server: s, steps: steps}
	var once sync.Once
	r.end = func() {
		once.Do(func() {
			cancel()
			parts.Wait()
			if err := store.Close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		})
	}
	t.Cleanup(r.end)
	return r
}

// ask sends a request and gives the answer, which is held against the document where it is JSON.
func (r *running) ask(method, path, id string, body string, headers ...string) (*http.Response, []byte) {
	r.t.Helper()
	kind := ""
	if body != "" {
		kind = "application/json"
	}
	return r.send(method, path, id, kind, strings.NewReader(body), headers...)
}

func (r *running) send(method, path, id, kind string, body io.Reader, headers ...string) (*http.Response, []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.at+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && id != "openapi" {
		checkAnswer(r.t, id, resp.StatusCode, b)
	}
	return resp, b
}

// create asks for a video that must be taken.
func (r *running) create(body string, headers ...string) Video {
	r.t.Helper()
	resp, b := r.ask("POST", "/v1/videos", "createVideo", body, headers...)
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%d %s", resp.StatusCode, b)
	}
	return decodeJSON[Video](r.t, b)
}

func decodeJSON[T any](t testing.TB, b []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}

func (r *running) get(id string) Video {
	r.t.Helper()
	resp, b := r.ask("GET", "/v1/videos/"+id, "getVideo", "")
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("%d %s", resp.StatusCode, b)
	}
	return decodeJSON[Video](r.t, b)
}

// await asks for a video until it is as wanted.
func (r *running) await(id, what string, is func(Video) bool) Video {
	r.t.Helper()
	var v Video
	for range 1000 {
		if v = r.get(id); is(v) {
			return v
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("the video is not %s: %+v", what, v)
	return v
}

func hasStatus(status string) func(Video) bool {
	return func(v Video) bool { return v.Status == status }
}

// begin waits until a step of a job is under way.
func (r *running) begin(id string) {
	r.t.Helper()
	for {
		select {
		case got := <-r.steps.began:
			if got == id {
				return
			}
		case <-time.After(20 * time.Second):
			r.t.Fatalf("no step of %s begins", id)
		}
	}
}

// small is a request whose prompt is told apart.
func small(prompt string, more string) string {
	return fmt.Sprintf(`{"prompt": %q, "size": "64x32", "num_frames": 5, "num_inference_steps": 3, "seed": 1, "output_format": "avi"%s}`, prompt, more)
}

// event is one of a stream.
type event struct {
	id, kind string
	video    Video
}

// stream reads the events of a stream until stop reports true, or the stream ends.
func (r *running) stream(path string, lastID string, stop func(event) bool) []event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", r.at+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		r.t.Fatalf("%s: %s", path, resp.Status)
	}
	var list []event
	var e event
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.video = decodeJSON[Video](r.t, []byte(value))
			if len(value) > 16<<10 {
				r.t.Errorf("an event of %d bytes", len(value))
			}
		case "":
			if e.kind == "" {
				continue // a beat, or how soon to come again
			}
			list = append(list, e)
			if stop(e) {
				return list
			}
			e = event{}
		}
	}
	return list
}
