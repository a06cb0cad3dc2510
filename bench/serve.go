package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/fault"
	"weft/jobs/simulate"
)

// ErrLost: a video that was promised is not there, is there twice, or has other bytes.
var ErrLost = fault.NewKind("video-lost")

// served is the result of bench serve.
type served struct {
	Date     string   `json:"date"`
	Command  string   `json:"command"`
	Hardware hardware `json:"hardware"`
	Model    string   `json:"model"`
	Clients  int      `json:"clients"`
	Workers  int      `json:"workers"`
	Kills    killRun  `json:"kills"`
	Quiet    []load   `json:"quiet_runs"` // one after the other, by the same processes
	// Growth is how much more memory each process has after the second quiet run than after the
	// first, as a share.
	Growth map[string]float64 `json:"memory_growth"`
	// OneWorker is a quiet run with one worker, beside those with all.
	OneWorker load `json:"one_worker"`
	// Simulated has workers whose steps sleep, all in one process with a queue of its own.
	Simulated []simulate.Report `json:"simulated"`
}

// load is what a number of requests took.
type load struct {
	Requests int     `json:"requests"`
	Seconds  float64 `json:"seconds"`
	// Status are the times of GET /v1/videos/{id}, of the answers that came.
	Status latencies `json:"status"`
	// Memory is what each process has resident after the run, in bytes.
	Memory map[string]int64 `json:"resident_bytes"`
}

// killRun is a load during which processes were killed.
type killRun struct {
	load
	APIs      int `json:"api_kills"`
	Workers   int `json:"worker_kills"`
	Distinct  int `json:"distinct_requests"` // each is held against a video of weft generate
	Same      int `json:"same_bytes"`
	Listed    int `json:"videos_listed"` // all that the service has
	Tries     int `json:"tries"`         // of all videos; more than Requests where kills made further ones
	Unreached int `json:"unreached"`     // requests that met no API and were sent again
}

// latencies are times in seconds.
type latencies struct {
	Count  int     `json:"count"`
	Median float64 `json:"median_seconds"`
	P99    float64 `json:"p99_seconds"`
	Most   float64 `json:"most_seconds"`
}

// rate is videos a second.
func (l load) rate() float64 { return float64(l.Requests) / l.Seconds }

// allMemory is what all processes have resident.
func (l load) allMemory() (sum int64) {
	for _, n := range l.Memory {
		sum += n
	}
	return sum
}

func latenciesOf(times []float64) latencies {
	if len(times) == 0 {
		return latencies{}
	}
	slices.Sort(times)
	at := func(share float64) float64 { return times[min(len(times)-1, int(share*float64(len(times))))] }
	return latencies{len(times), at(0.5), at(0.99), times[len(times)-1]}
}

// serveBench is a bench with its flags.
type serveBench struct {
	model                                string
	clients, workers, requests, distinct int
	kills, sleep                         time.Duration
	weft, dir                            string
	videos                               map[string][]byte // what weft generate makes, by prompt
}

// serve loads a video service while its processes are killed, and then without kills. Everything
// is over loopback; the queue's server is in this process and is not killed.
func serve(ctx context.Context, args []string) error {
	b := serveBench{videos: map[string][]byte{}}
	fs := flag.NewFlagSet("serve", flag.ExitOnError)
	fs.StringVar(&b.model, "model", filepath.Join("testdata", "pipelines", "wan21_t2v"), "a release's folder")
	fs.IntVar(&b.clients, "clients", 8, "clients, each of which asks for one video at a time")
	fs.IntVar(&b.workers, "workers", 2, "processes that make videos")
	fs.IntVar(&b.requests, "requests", 200, "videos of each run, at least")
	fs.IntVar(&b.distinct, "distinct", 20, "different requests among them")
	fs.DurationVar(&b.kills, "kills", 5*time.Minute, "for how long processes are killed; videos are asked for as long, and at least those of a run")
	fs.DurationVar(&b.sleep, "sleep", 500*time.Millisecond, "what a simulated step takes")
	out := fs.String("out", filepath.Join("bench", "results"), "where the result goes")
	only := fs.String("only", "", "kills, quiet or simulated: that part alone, of which no result is written")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *only != "" && !slices.Contains([]string{"kills", "quiet", "simulated"}, *only) {
		return fmt.Errorf("-only %q: want kills, quiet or simulated", *only)
	}
	if *only == "simulated" {
		_, err := b.simulate(ctx)
		return err
	}
	var err error
	if b.dir, err = os.MkdirTemp("", "weft-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.weft = filepath.Join(b.dir, "weft")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.weft, "./cmd/weft")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building weft: %w", err)
	}
	if err := b.generateAll(ctx); err != nil {
		return err
	}
	s := served{Date: time.Now().Format(time.DateOnly), Command: "go run ./bench serve " + strings.Join(args, " "), Hardware: thisHardware(), Model: b.model,
		Clients: b.clients, Workers: b.workers}
	wants := func(part string) bool { return *only == "" || *only == part }
	if wants("kills") {
		if s.Kills, err = b.runWithKills(ctx); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "with kills: %+v\n", s.Kills)
	}
	if wants("quiet") {
		if err := b.runAllQuietly(ctx, &s); err != nil {
			return err
		}
	}
	if *only != "" {
		return nil
	}
	if s.Simulated, err = b.simulate(ctx); err != nil {
		return err
	}
	return s.write(*out)
}

// runAllQuietly makes all videos twice by the same processes, and once by one worker.
func (b *serveBench) runAllQuietly(ctx context.Context, s *served) (err error) {
	if s.Quiet, s.Growth, err = b.runQuietly(ctx, 2); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "growth: %v\n", s.Growth)
	one := *b
	one.workers = 1
	alone, _, err := one.runQuietly(ctx, 1)
	if err == nil {
		s.OneWorker = alone[0]
	}
	return err
}

// simulate runs jobs whose steps sleep with more and more workers.
func (b *serveBench) simulate(ctx context.Context) (all []simulate.Report, err error) {
	for _, workers := range []int{1, 2, 4, 8, 16, 32} {
		r, err := simulate.Measure(ctx, simulate.Load{Workers: workers, Jobs: 2 * workers, Users: 4, Steps: 20, Step: b.sleep})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "simulated: %+v\n", r)
		all = append(all, r)
	}
	return all, nil
}

// promptOf is the prompt of a request; requests of one prompt are the same.
func (b *serveBench) promptOf(request int) string {
	return fmt.Sprintf("a cat walks on the grass, take %d", request%b.distinct)
}

// frames and steps of each video, and the seed of a prompt.
const (
	benchSize, benchFrames, benchSteps = "64x32", 9, 4
	benchSeed                          = 7
)

// generateAll makes the video of each distinct request on the command line.
func (b *serveBench) generateAll(ctx context.Context) error {
	for i := range b.distinct {
		path := filepath.Join(b.dir, fmt.Sprintf("generated-%d.avi", i))
		c := exec.CommandContext(ctx, b.weft, "generate", "--model", b.model, "--prompt", b.promptOf(i), "--size", benchSize, "--frames", fmt.Sprint(benchFrames), "--steps",
			fmt.Sprint(benchSteps),
			"--seed", fmt.Sprint(benchSeed), "--device", "cpu", "--out", path)
		if text, err := c.CombinedOutput(); err != nil {
			return fault.New(ErrProgram, nil, "weft generate: %w: %s", err, text)
		}
		video, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b.videos[b.promptOf(i)] = video
	}
	return nil
}

// client asks for videos and counts.
type client struct {
	*serveBench
	processes *processes
	prefix    string // of idempotency keys

	mu        sync.Mutex
	status    []float64
	ids       map[string]string // of each key
	same      int
	tries     int
	unreached int
}

// video is what is read of an answer.
type video struct {
	ID, Status string
	Error      *struct{ Code, Message string }
	Tries      int
}

// makeVideos has all clients ask for all videos, and for more until a time has passed, and checks
// each.
func (c *client) makeVideos(ctx context.Context, least time.Duration) (load, error) {
	began := time.Now()
	next, failed := make(chan int), make(chan error, c.clients)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for range c.clients {
		all.Go(func() {
			for i := range next {
				if err := c.makeVideo(ctx, i); err != nil {
					failed <- err
					cancel()
					return
				}
			}
		})
	}
	asked := 0
	for ; asked < c.requests || time.Since(began) < least; asked++ {
		select {
		case next <- asked:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	all.Wait()
	select {
	case err := <-failed:
		return load{}, err
	default:
	}
	return load{asked, time.Since(began).Seconds(), latenciesOf(c.status), c.processes.memory()}, ctx.Err()
}

// makeVideo asks for one video with the same key until it is taken, waits for it, and compares it.
func (c *client) makeVideo(ctx context.Context, i int) error {
	prompt, key := c.promptOf(i), fmt.Sprintf("%s-%d", c.prefix, i)
	body, err := json.Marshal(map[string]any{"prompt": prompt, "size": benchSize, "num_frames": benchFrames, "num_inference_steps": benchSteps, "seed": benchSeed,
		"output_format": "avi"})
	if err != nil {
		return err
	}
	var v video
	if _, err := c.ask(ctx, "POST", "/v1/videos", body, key, &v); err != nil {
		return err
	}
	c.mu.Lock()
	c.ids[key] = v.ID
	c.mu.Unlock()
	for v.Status != "completed" {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		took, err := c.ask(ctx, "GET", "/v1/videos/"+v.ID, nil, "", &v)
		if err != nil {
			return err
		}
		if v.Status == "failed" {
			return fault.New(ErrLost, nil, "video %s failed: %+v", v.ID, v.Error)
		}
		c.mu.Lock()
		c.status = append(c.status, took.Seconds())
		c.mu.Unlock()
	}
	var content []byte
	if _, err := c.ask(ctx, "GET", "/v1/videos/"+v.ID+"/content", nil, "", &content); err != nil {
		return err
	}
	if !bytes.Equal(content, c.videos[prompt]) {
		return fault.New(ErrLost, nil, "video %s has %d bytes that are not those of weft generate", v.ID, len(content))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.same, c.tries = c.same+1, c.tries+v.Tries
	return nil
}

// ask sends a request until it is answered: an API that was killed comes back. took is the time of
// the answer that came.
func (c *client) ask(ctx context.Context, method, path string, body []byte, key string, into any) (took time.Duration, err error) {
	for {
		began := time.Now()
		status, answer, err := c.askOnce(ctx, method, path, body, key)
		took = time.Since(began)
		switch {
		case ctx.Err() != nil:
			return took, ctx.Err()
		case err == nil && status == http.StatusOK:
			if raw, isRaw := into.(*[]byte); isRaw {
				*raw = answer
				return took, nil
			}
			return took, json.Unmarshal(answer, into)
		case err == nil && status < 500 && status != http.StatusTooManyRequests:
			return took, fault.New(ErrLost, nil, "%s %s: %d %s", method, path, status, answer)
		}
		c.mu.Lock()
		c.unreached++
		c.mu.Unlock()
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (c *client) askOnce(ctx context.Context, method, path string, body []byte, key string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.processes.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// runWithKills makes all videos while processes are killed, and then counts what there is.
func (b *serveBench) runWithKills(ctx context.Context) (k killRun, err error) {
	p, err := b.start(ctx, "kills")
	if err != nil {
		return k, err
	}
	defer p.stop()
	killing, endKills := context.WithTimeout(ctx, b.kills)
	var killer sync.WaitGroup
	killer.Go(func() { k.APIs, k.Workers = p.killAtRandom(killing) })
	c := &client{serveBench: b, processes: p, prefix: "kills", ids: map[string]string{}}
	l, err := c.makeVideos(ctx, b.kills)
	endKills()
	killer.Wait()
	if err := errors.Join(err, p.failed()); err != nil {
		return k, err
	}
	k.load, k.Same, k.Tries, k.Unreached, k.Distinct = l, c.same, c.tries, c.unreached, b.distinct
	k.Listed, err = c.countVideos(ctx)
	if err != nil {
		return k, err
	}
	if k.Listed != k.Requests || k.Same != k.Requests {
		return k, fault.New(ErrLost, nil, "%d videos are listed, %d have the bytes of weft generate: want %d", k.Listed, k.Same, k.Requests)
	}
	return k, nil
}

// countVideos counts all videos of the service: those of the keys, each once, and no others.
func (c *client) countVideos(ctx context.Context) (n int, err error) {
	known := map[string]bool{}
	for _, id := range c.ids {
		known[id] = true
	}
	after := ""
	for {
		var list struct {
			Data    []video
			HasMore bool `json:"has_more"`
		}
		if _, err := c.ask(ctx, "GET", "/v1/videos?limit=100"+after, nil, "", &list); err != nil {
			return n, err
		}
		for _, v := range list.Data {
			if !known[v.ID] || v.Status != "completed" {
				return n, fault.New(ErrLost, nil, "video %s is %s, and of no request, or listed twice", v.ID, v.Status)
			}
			delete(known, v.ID)
			n++
			after = "&after=" + v.ID
		}
		if !list.HasMore {
			return n, nil
		}
	}
}

// runQuietly makes all videos several times by the same processes.
func (b *serveBench) runQuietly(ctx context.Context, times int) (runs []load, growth map[string]float64, err error) {
	p, err := b.start(ctx, fmt.Sprintf("quiet-%d", b.workers))
	if err != nil {
		return nil, nil, err
	}
	defer p.stop()
	for i := range times {
		c := &client{serveBench: b, processes: p, prefix: fmt.Sprintf("quiet-%d", i), ids: map[string]string{}}
		l, err := c.makeVideos(ctx, 0)
		if err := errors.Join(err, p.failed()); err != nil {
			return nil, nil, err
		}
		runs = append(runs, l)
		fmt.Fprintf(os.Stderr, "without kills: %+v\n", l)
	}
	growth = map[string]float64{}
	for name, before := range runs[0].Memory {
		growth[name] = float64(runs[times-1].Memory[name])/float64(before) - 1
	}
	growth["all"] = float64(runs[times-1].allMemory())/float64(runs[0].allMemory()) - 1
	return runs, growth, nil
}

// write writes the result as JSON and for people.
func (s served) write(folder string) error {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	base := filepath.Join(folder, s.Date+"-serve")
	if err := os.WriteFile(base+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Print(s.markdown())
	return os.WriteFile(base+".md", []byte(s.markdown()), 0o644)
}

func (s served) markdown() string {
	var b strings.Builder
	k := s.Kills
	fmt.Fprintf(&b, "# A video service whose processes are killed (%s)\n\n"+
		"Made by `%s`: %s, %s with %d frames and %d steps, %d clients, one API, %d workers, one NATS server, all over loopback.\n\n",
		s.Date, strings.TrimSpace(s.Command), s.Model, benchSize, benchFrames, benchSteps, s.Clients, s.Workers)
	fmt.Fprintf(&b, "| | with kill -9 | first quiet run | second |\n|---|---|---|---|\n")
	row := func(what string, of func(load) string) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", what, of(k.load), of(s.Quiet[0]), of(s.Quiet[1]))
	}
	row("videos asked for", func(l load) string { return fmt.Sprint(l.Requests) })
	fmt.Fprintf(&b, "| made, with the bytes of weft generate | %d | %d | %d |\n| listed | %d | | |\n"+
		"| tries | %d | | |\n| kills of the API | %d | | |\n| kills of workers | %d | | |\n| requests that met no API | %d | | |\n",
		k.Same, s.Quiet[0].Requests, s.Quiet[1].Requests, k.Listed, k.Tries, k.APIs, k.Workers, k.Unreached)
	row("seconds", func(l load) string { return fmt.Sprintf("%.0f", l.Seconds) })
	row("status, answers", func(l load) string { return fmt.Sprint(l.Status.Count) })
	row("status, median ms", func(l load) string { return fmt.Sprintf("%.1f", 1e3*l.Status.Median) })
	row("status, 99th percentile ms", func(l load) string { return fmt.Sprintf("%.1f", 1e3*l.Status.P99) })
	row("status, most ms", func(l load) string { return fmt.Sprintf("%.1f", 1e3*l.Status.Most) })
	for _, name := range slices.Sorted(maps.Keys(s.Quiet[0].Memory)) {
		fmt.Fprintf(&b, "| resident after the run, %s, MB | | %.1f | %.1f (%+.1f %%) |\n", name, float64(s.Quiet[0].Memory[name])/1e6, float64(s.Quiet[1].Memory[name])/1e6,
			100*s.Growth[name])
	}
	fmt.Fprintf(&b, "| resident after the run, all, MB | | %.1f | %.1f (%+.1f %%) |\n", float64(s.Quiet[0].allMemory())/1e6, float64(s.Quiet[1].allMemory())/1e6,
		100*s.Growth["all"])
	fmt.Fprintf(&b, "\nOne worker made %.2f videos a second, %d on the same %d cores %.2f.\n\n"+
		"| simulated workers | jobs | seconds | share of the workers' time that is steps | jobs a second, beside as many times one worker's |\n|---|---|---|---|---|\n",
		s.OneWorker.rate(), s.Workers, s.Hardware.Cores, s.Quiet[1].rate())
	for _, r := range s.Simulated {
		fmt.Fprintf(&b, "| %d | %d of %d steps of %v | %.1f | %.3f | %.3f |\n", r.Workers, r.Jobs, r.Steps, r.Step, r.Seconds, r.Efficiency, r.Rate()/s.Simulated[0].Rate()/float64(r.Workers))
	}
	fmt.Fprintf(&b, "\n%s, %d cores, memory %s, load average at the start %s, %s.\n", s.Hardware.CPU, s.Hardware.Cores, s.Hardware.Memory, s.Hardware.LoadAverage, s.Hardware.Go)
	return b.String()
}
