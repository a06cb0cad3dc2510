//go:build unix

package jobs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"weft/jobs"
	"weft/jobs/simulate"
)

// childVariable has, in a process that a test starts, what the process is to do.
const childVariable = "WEFT_JOBS_TEST_CHILD"

func TestMain(m *testing.M) {
	raw := os.Getenv(childVariable)
	if raw == "" {
		os.Exit(m.Run())
	}
	var r role
	if err := json.Unmarshal([]byte(raw), &r); err != nil {
		panic(err)
	}
	if err := r.play(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// role is what a child process does: it opens a store, creates what its standard input asks for,
// and runs a worker whose steps sleep.
type role struct {
	Dir, NATS string
	Work      bool
	Steps     int
	Step      time.Duration
	MaxDeaths int
	Image     string // for the trace of a creation
}

// poison is the prompt of a job that kills its worker, and the step at which it does.
const poison, poisonedStep = "poison", 2

func (r role) play() error {
	ctx, end := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer end()
	s, err := jobs.Open(ctx, jobs.Options{Dir: r.Dir, NATS: r.NATS, Lease: lease, MaxDeaths: r.MaxDeaths, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	var worker sync.WaitGroup
	if r.Work {
		sleeper := &simulate.Sleeper{Steps: r.Steps, Step: r.Step, OnStep: func(j jobs.Job, step int) error {
			if j.Spec.Prompt == poison && step == poisonedStep {
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		}}
		worker.Go(func() { _ = jobs.NewWorker(s, jobs.WorkerOptions{}).Run(ctx, sleeper) })
	}
	fmt.Println("ready")
	go func() {
		if err := r.answer(ctx, s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		end() // nobody asks any more
	}()
	<-ctx.Done()
	worker.Wait()
	return s.Close()
}

// answer creates a job for each line of the standard input, whose words are a key and a prompt,
// and answers "made", the key and the id when that is done.
func (r role) answer(ctx context.Context, s *jobs.Store) error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		key, prompt, _ := strings.Cut(lines.Text(), " ")
		n := of("user "+key[:1], prompt)
		n.Key, n.Body = key, prompt
		if r.Image != "" {
			hash, err := s.PutImage(ctx, []byte(r.Image))
			if err != nil {
				return err
			}
			n.Image = hash
		}
		j, _, err := s.Create(ctx, n)
		if err != nil {
			return err
		}
		fmt.Println("made", key, j.ID)
	}
	return nil
}

// child is a process that plays a role.
type child struct {
	*exec.Cmd
	in    io.WriteCloser
	lines chan string
	errs  bytes.Buffer // to be read when it is gone
	once  sync.Once
	err   error
}

// start starts a child, before whose words others may stand, such as a tracer's, and waits until
// it is ready.
func start(t *testing.T, r role, before ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	words := append(before, self)
	c := &child{Cmd: exec.Command(words[0], words[1:]...), lines: make(chan string, 1000)}
	c.Env = append(os.Environ(), childVariable+"="+string(raw))
	c.Stderr = &c.errs
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { c.kill() })
	if line, ok := <-c.lines; !ok || line != "ready" {
		c.kill()
		t.Fatalf("a child said %q: %s", line, &c.errs)
	}
	return c
}

// kill kills a child, and waits until it is gone.
func (c *child) kill() {
	_ = c.Process.Kill()
	_ = c.gone()
}

// gone waits until a child has ended.
func (c *child) gone() error {
	for range c.lines { // Wait closes the pipe
	}
	c.once.Do(func() { c.err = c.Wait() })
	return c.err
}

// Processes that hold API, queue and worker are killed at any instant. Each request that is sent
// again until it is confirmed is one job, each job is made once, and each video has its bytes.
func TestNothingIsLostByKill(t *testing.T) {
	requests, kills := 24, 8
	if os.Getenv("WEFT_LONG_TESTS") != "" {
		requests, kills = 200, 100
	}
	r := role{Dir: t.TempDir(), Work: true, Steps: 4, Step: 5 * time.Millisecond, MaxDeaths: 1000}
	made := map[string]string{} // ids by key
	sent := 0
	for range kills {
		c := start(t, r)
		// The whole of those that were not confirmed, and some more.
		sent = min(requests, sent+1+requests/kills)
		go func() {
			for i := range sent {
				fmt.Fprintf(c.in, "%d prompt %d\n", i, i) // fails when it is killed
			}
		}()
		time.AfterFunc(time.Duration(rand.Int64N(int64(300*time.Millisecond))), func() { _ = c.Process.Kill() })
		for line := range c.lines {
			var key, id string
			if _, err := fmt.Sscanf(line, "made %s %s", &key, &id); err != nil {
				t.Fatalf("a child said %q", line)
			}
			if was := made[key]; was != "" && was != id {
				t.Errorf("key %s made %s and %s", key, was, id)
			}
			made[key] = id
		}
		_ = c.gone()
	}
	s, err := jobs.Open(t.Context(), jobs.Options{Dir: r.Dir, Lease: lease, MaxDeaths: r.MaxDeaths})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, id := range made {
		if _, err := s.Get(t.Context(), id); err != nil {
			t.Errorf("a job that was confirmed: %v", err)
		}
	}
	for i := range requests {
		prompt := fmt.Sprint("prompt ", i)
		n := of("user "+fmt.Sprint(i)[:1], prompt)
		n.Key, n.Body = fmt.Sprint(i), prompt
		j, existed, err := s.Create(t.Context(), n)
		if err != nil || made[n.Key] != "" && (!existed || j.ID != made[n.Key]) {
			t.Errorf("request %d again: %v, existed %v, %s and %s", i, err, existed, j.ID, made[n.Key])
		}
		made[n.Key] = j.ID
	}
	work(t, s, &simulate.Sleeper{Steps: r.Steps, Step: r.Step})
	var tries int
	for key, id := range made {
		j := wait(t, s, id)
		if j.State != jobs.Completed {
			t.Fatalf("request %s after %d tries: %s %+v", key, j.Try, j.State, j.Error)
		}
		if video, _ := read(t, s, id, "video"); video != simulate.Video(j.Spec, r.Steps) || j.Spec.Prompt != "prompt "+key {
			t.Errorf("request %s: %+v, %q", key, j, video)
		}
		tries += j.Try
	}
	if all := ids(t, s, jobs.ListOptions{}); len(all) != requests {
		t.Errorf("%d jobs of %d requests", len(all), requests)
	}
	if tries > requests+kills+1 {
		t.Errorf("%d tries of %d requests under %d kills: a kill ends one try", tries, requests, kills)
	}
	t.Logf("%d requests, %d kills, %d tries", requests, kills, tries)
	for i := 0; ; i++ {
		left, err := os.ReadDir(r.Dir + "/work")
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		if i == 500 {
			t.Fatalf("left are %v", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A job that kills its worker fails after as many tries as are allowed, and the others are made.
func TestPoisonFailsAlone(t *testing.T) {
	const maxDeaths = 3
	r := role{Dir: t.TempDir(), Work: true, Steps: 4, Step: 100 * time.Millisecond, MaxDeaths: maxDeaths}
	deaths := 0
	c := start(t, r)
	fmt.Fprintf(c.in, "0 %s\n", poison)
	fmt.Fprintf(c.in, "1 good\n")
	ids := map[string]string{}
	for {
		for line := range c.lines { // until it dies
			var key, id string
			if _, err := fmt.Sscanf(line, "made %s %s", &key, &id); err == nil {
				ids[key] = id
			}
		}
		c.kill()
		if deaths++; deaths > maxDeaths+2 {
			t.Fatalf("%d deaths: %s", deaths, &c.errs)
		}
		s := open(t, jobs.Options{Dir: r.Dir, MaxDeaths: maxDeaths})
		bad := get(t, s, ids["0"])
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if bad.Deaths >= maxDeaths-1 {
			break
		}
		c = start(t, r)
	}
	// The last death is counted by whoever comes next.
	s := open(t, jobs.Options{Dir: r.Dir, MaxDeaths: maxDeaths})
	work(t, s, &simulate.Sleeper{Steps: 4, Step: time.Millisecond})
	if ids["1"] == "" {
		ids["1"] = create(t, s, of("u", "good")).ID
	}
	bad, good := wait(t, s, ids["0"]), wait(t, s, ids["1"])
	if bad.State != jobs.Failed || bad.Error.Code != jobs.CodeWorkerDied || !strings.Contains(bad.Error.Message, "3 times") || !strings.Contains(bad.Error.Message, "behind step") {
		t.Errorf("%+v %+v", bad, bad.Error)
	}
	if good.State != jobs.Completed {
		t.Errorf("%+v %+v", good, good.Error)
	}
	if deaths > maxDeaths+1 { // the first one got two steps further
		t.Errorf("%d processes died: want at most %d", deaths, maxDeaths+1)
	}
}

// A server that is told to end hands its job back with the state, and the next one goes on.
func TestTerminatedAndGoneOnWith(t *testing.T) {
	r := role{Dir: t.TempDir(), Work: true, Steps: 1000, Step: 10 * time.Millisecond}
	c := start(t, r)
	fmt.Fprintln(c.in, "0 prompt")
	var id string
	if _, err := fmt.Sscanf(<-c.lines, "made 0 %s", &id); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.gone(); err != nil {
		t.Fatalf("it ended with %v: %s", err, &c.errs)
	}
	s := open(t, jobs.Options{Dir: r.Dir})
	before := get(t, s, id)
	if before.Status() != "queued" || before.Worker != "" || before.Deaths != 0 || before.Furthest == 0 {
		t.Errorf("%+v", before)
	}
	first := -1
	work(t, s, &simulate.Sleeper{Steps: before.Furthest + 2, Step: time.Millisecond, OnStep: func(_ jobs.Job, step int) error {
		if first < 0 {
			first = step
		}
		return nil
	}})
	j := wait(t, s, id)
	if video, _ := read(t, s, id, "video"); first < before.Furthest || video != simulate.Video(j.Spec, before.Furthest+2) {
		t.Errorf("it went on at step %d of %d", first, before.Furthest)
	}
}

// startNATS starts a server for several processes.
func startNATS(t *testing.T) (url string) {
	t.Helper()
	srv := serveNATS(t, t.TempDir(), server.RANDOM_PORT)
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	return srv.ClientURL()
}

// serveNATS starts a server on a folder and a port.
func serveNATS(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, SyncAlways: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	return srv
}

// The queue's server ends and comes back, within a lease, and in long tests later too. Workers and
// readers go on.
func TestServerComesBack(t *testing.T) {
	folder, dir := t.TempDir(), t.TempDir()
	srv := serveNATS(t, folder, server.RANDOM_PORT)
	port := srv.Addr().(*net.TCPAddr).Port
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	s := open(t, jobs.Options{Dir: dir, NATS: srv.ClientURL()})
	work(t, s, &simulate.Sleeper{Steps: 60, Step: 20 * time.Millisecond})
	times := []time.Duration{0}
	if os.Getenv("WEFT_LONG_TESTS") != "" {
		times = append(times, 2*lease)
	}
	for _, away := range times {
		j := create(t, s, of("u", fmt.Sprint("away for ", away)))
		until(t, s, j.ID, "three steps on", func(j jobs.Job) bool { return j.Furthest >= 3 })
		srv.Shutdown()
		srv.WaitForShutdown()
		short, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, _, err := s.Create(short, of("u", "p")); err == nil || errors.Is(err, jobs.ErrClosed) {
			t.Errorf("a creation without a server: %v", err)
		}
		end()
		time.Sleep(away)
		srv = serveNATS(t, folder, port)
		got := wait(t, s, j.ID)
		if video, _ := read(t, s, j.ID, "video"); got.State != jobs.Completed || video != simulate.Video(got.Spec, 60) || got.Deaths != 0 {
			t.Errorf("away for %v: %+v", away, got)
		}
	}
}

// Of two workers on one queue, one is killed and later one is stopped for so long that it is taken
// for dead; the other goes on with its job, and what the first one then does changes nothing.
func TestWorkersThatDieOrStall(t *testing.T) {
	url, dir := startNATS(t), t.TempDir()
	s := open(t, jobs.Options{Dir: dir, NATS: url})
	r := role{Dir: dir, NATS: url, Work: true, Steps: 60, Step: 20 * time.Millisecond}
	for _, c := range []struct {
		name string
		sig  syscall.Signal
	}{{"killed", syscall.SIGKILL}, {"stopped", syscall.SIGSTOP}} {
		first := start(t, r)
		j := create(t, s, of("u", c.name))
		had := until(t, s, j.ID, "three steps on", func(j jobs.Job) bool { return j.Furthest >= 3 })
		second := start(t, r)
		if err := first.Process.Signal(c.sig); err != nil {
			t.Fatal(err)
		}
		until(t, s, j.ID, "taken by the other", func(j jobs.Job) bool { return j.Try == 2 && j.State == jobs.Running })
		if c.sig == syscall.SIGSTOP {
			if err := first.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		got := wait(t, s, j.ID)
		video, _ := read(t, s, j.ID, "video")
		if got.State != jobs.Completed || got.Try != 2 || got.Worker == had.Worker || video != simulate.Video(j.Spec, r.Steps) {
			t.Errorf("%s: %+v, %q", c.name, got, video)
		}
		time.Sleep(lease)
		if after := get(t, s, j.ID); after.Revision != got.Revision {
			t.Errorf("%s: it was changed after its end: %+v", c.name, after)
		}
		if files := filesOf(t, dir, j.ID); len(files) != 1 || files[0] != "outputs/.video.avi" {
			t.Errorf("%s: left are %v", c.name, files)
		}
		first.kill()
		second.kill()
		if said := first.errs.String(); c.sig == syscall.SIGSTOP && !strings.Contains(said, "another worker has the job now") {
			t.Errorf("the worker that stalled said %s", said)
		}
	}
}

// Workers that were given another folder than the queue's are refused.
func TestFolderBelongsToItsQueue(t *testing.T) {
	url := startNATS(t)
	open(t, jobs.Options{Dir: t.TempDir(), NATS: url})
	if _, err := jobs.Open(t.Context(), jobs.Options{Dir: t.TempDir(), NATS: url, Lease: lease}); err == nil || !strings.Contains(err.Error(), "does not belong to the queue") {
		t.Errorf("%v", err)
	}
}
