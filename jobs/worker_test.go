package jobs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/fault"
	"weft/jobs"
	"weft/jobs/simulate"
)

const steps = 5

// work runs a worker until the test ends, or until the function that it returns is called.
func work(t *testing.T, s *jobs.Store, r jobs.Runner) (stop func()) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := jobs.NewWorker(s, jobs.WorkerOptions{}).Run(ctx, r); err != nil {
			t.Error(err)
		}
	})
	stop = func() { end(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

// wait waits for the end of a job.
func wait(t *testing.T, s *jobs.Store, id string) jobs.Job {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	j, err := s.Wait(ctx, id)
	if err != nil {
		t.Fatalf("job %s: %v", id, err)
	}
	return j
}

// until waits for a job to be as a test wants it.
func until(t *testing.T, s *jobs.Store, id, what string, ok func(j jobs.Job) bool) jobs.Job {
	t.Helper()
	for range 6000 {
		if j := get(t, s, id); ok(j) {
			return j
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("job %s was never %s: %+v", id, what, get(t, s, id))
	return jobs.Job{}
}

// filesOf lists what is in a data folder of a job.
func filesOf(t *testing.T, dir, id string) []string {
	t.Helper()
	found := []string{}
	for _, sub := range []string{"work", "outputs"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), id) {
				found = append(found, sub+"/"+strings.TrimPrefix(e.Name(), id))
			}
		}
	}
	return found
}

func TestJobIsMade(t *testing.T) {
	dir := t.TempDir()
	s := open(t, jobs.Options{Dir: dir})
	j := create(t, s, of("u", "a cat"))
	if j.Status() != "queued" || j.Place != 1 || j.Percent() != 0 {
		t.Errorf("before: %s at place %d, %d %%", j.Status(), j.Place, j.Percent())
	}
	work(t, s, &simulate.Sleeper{Steps: steps, Step: time.Millisecond})
	got := wait(t, s, j.ID)
	video, file := read(t, s, j.ID, "video")
	sum := sha256.Sum256([]byte(video))
	if got.State != jobs.Completed || got.Status() != "completed" || got.Percent() != 100 || got.Try != 1 || got.Error != nil || got.Settings["steps"].Value != float64(steps) {
		t.Errorf("%+v", got)
	}
	if video != simulate.Video(j.Spec, steps) || file.Size != int64(len(video)) || file.SHA256 != hex.EncodeToString(sum[:]) || file.ContentType != "video/x-msvideo" {
		t.Errorf("%q, %+v", video, file)
	}
	if _, _, err := s.OpenFile(t.Context(), j.ID, "thumbnail"); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("a file that there is none of: %v", err)
	}
	if !got.Started.After(got.Created) || !got.Ended.After(got.Started) || !got.Expires.Equal(got.Ended.Add(jobs.DefaultRetention)) {
		t.Errorf("created %v, started %v, ended %v, expires %v", got.Created, got.Started, got.Ended, got.Expires)
	}
	until(t, s, j.ID, "tidied up", func(jobs.Job) bool { return slices.Equal(filesOf(t, dir, j.ID), []string{"outputs/.video.avi"}) })
}

// A job that is stopped ends within a step, by whatever was wished, and leaves what it should.
func TestRunningJobsStopWithinAStep(t *testing.T) {
	for _, c := range []struct {
		name  string
		stop  func(s *jobs.Store, id string) error
		state jobs.State // "" is gone
		files bool
	}{
		{"cancel", func(s *jobs.Store, id string) error { _, err := s.Cancel(context.Background(), id); return err }, jobs.Cancelled, false},
		{"delete", func(s *jobs.Store, id string) error { return s.Delete(context.Background(), id) }, "", false},
		{"pause", func(s *jobs.Store, id string) error { _, err := s.Pause(context.Background(), id); return err }, jobs.Paused, true},
		{"pause of the queue", func(s *jobs.Store, id string) error { return s.PauseQueue(context.Background()) }, jobs.Queued, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, jobs.Options{Dir: dir})
			released := make(chan bool, 9)
			var begun sync.Map
			r := &simulate.Sleeper{Steps: 1000, Step: 20 * time.Millisecond, OnRelease: func() { released <- true },
				OnStep: func(j jobs.Job, step int) error { begun.Store(step, true); return nil }}
			work(t, s, r)
			j := create(t, s, of("u", "p"))
			until(t, s, j.ID, "two steps on", func(j jobs.Job) bool { return j.Furthest >= 2 })
			if err := c.stop(s, j.ID); err != nil {
				t.Fatal(err)
			}
			if c.state == "" {
				if _, err := s.Get(t.Context(), j.ID); !errors.Is(err, jobs.ErrNotFound) {
					t.Errorf("deleted: %v", err)
				}
				for range 500 {
					if len(filesOf(t, dir, j.ID)) == 0 {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
			} else {
				got := until(t, s, j.ID, "stopped", func(j jobs.Job) bool {
					return j.State == c.state && j.Wish == "" && (j.Worker == "" || j.State.Ended())
				})
				if c.state == jobs.Cancelled && (got.Status() != "failed" || got.Error.Code != jobs.CodeCancelled) {
					t.Errorf("%+v", got)
				}
			}
			if c.name == "pause of the queue" {
				<-released
			}
			count := func() (n int) { begun.Range(func(any, any) bool { n++; return true }); return n }
			before := count()
			time.Sleep(100 * time.Millisecond)
			if after := count(); after != before {
				t.Errorf("%d steps began after it stopped", after-before)
			}
			if files := filesOf(t, dir, j.ID); (len(files) > 0) != c.files {
				t.Errorf("left are %v", files)
			}
			if !c.files {
				return
			}
			// It goes on from the last finished step, to the same bytes.
			r.Steps = before + 3
			begun.Clear()
			if _, err := s.Resume(t.Context(), j.ID); err != nil {
				t.Fatal(err)
			}
			if err := s.ResumeQueue(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := wait(t, s, j.ID)
			if video, _ := read(t, s, j.ID, "video"); video != simulate.Video(j.Spec, r.Steps) || count() > 4 || got.Try != 2 || got.Deaths != 0 {
				t.Errorf("%q after %d more steps, try %d, deaths %d", video, count(), got.Try, got.Deaths)
			}
		})
	}
}

// A cancel that comes when the last step is done removes the video too.
func TestCancelBehindTheLastStep(t *testing.T) {
	dir := t.TempDir()
	s := open(t, jobs.Options{Dir: dir})
	g := newGate()
	j := create(t, s, of("u", "p"))
	work(t, s, runnerFunc(func(ctx context.Context, task jobs.Task) (jobs.Output, error) {
		task.Report(jobs.Progress{Phase: "decode"})
		err := os.WriteFile(filepath.Join(task.Dir, "v.avi"), []byte("video"), 0o600)
		_ = g.onStep(task.Job, 0)
		return jobs.Output{Files: map[string]string{"video": "v.avi"}}, err // though it was stopped
	}))
	<-g.reached
	if _, err := s.Cancel(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, j.ID); got.State.Ended() || got.Wish != jobs.WishCancel {
		t.Errorf("while its worker is at work: %+v", got)
	}
	g.pass <- nil
	if got := wait(t, s, j.ID); got.State != jobs.Cancelled || len(got.Files) > 0 {
		t.Errorf("%+v", got)
	}
	until(t, s, j.ID, "tidied up", func(jobs.Job) bool { return len(filesOf(t, dir, j.ID)) == 0 })
}

// runnerFunc is a Runner of one function.
type runnerFunc func(context.Context, jobs.Task) (jobs.Output, error)

func (f runnerFunc) Maker() jobs.Maker { return jobs.Maker{} }
func (f runnerFunc) Release()          {}
func (f runnerFunc) Run(ctx context.Context, t jobs.Task) (jobs.Output, error) {
	return f(ctx, t)
}

// What a runner does wrong fails its job, with the reason, and the next job is made.
func TestFailuresHaveTheirReasons(t *testing.T) {
	kind := fault.NewKind("of-the-test")
	for _, c := range []struct {
		name string
		run  func(task jobs.Task) (jobs.Output, error)
		code string
	}{
		{"an error with a kind", func(jobs.Task) (jobs.Output, error) { return jobs.Output{}, fault.New(kind, nil, "no such thing") }, "of-the-test"},
		{"an error without", func(jobs.Task) (jobs.Output, error) { return jobs.Output{}, errors.New("no such thing") }, "failed"},
		{"a panic", func(jobs.Task) (jobs.Output, error) { panic("no such thing") }, "internal"},
		{"no video", func(jobs.Task) (jobs.Output, error) { return jobs.Output{}, nil }, "internal"},
		{"a video that is not there", func(jobs.Task) (jobs.Output, error) {
			return jobs.Output{Files: map[string]string{"video": "v.avi"}}, nil
		}, "no-such-file"},
		{"a video elsewhere", func(jobs.Task) (jobs.Output, error) {
			return jobs.Output{Files: map[string]string{"video": "../../id"}}, nil
		}, "internal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, jobs.Options{MaxDeaths: 1, Lease: 500 * time.Millisecond})
			bad, good := create(t, s, of("u", "bad")), create(t, s, of("u", "good"))
			sleeper := &simulate.Sleeper{Steps: 1, Step: time.Millisecond}
			work(t, s, runnerFunc(func(ctx context.Context, task jobs.Task) (jobs.Output, error) {
				if task.Job.ID == bad.ID {
					return c.run(task)
				}
				return sleeper.Run(ctx, task)
			}))
			if got := wait(t, s, bad.ID); got.State != jobs.Failed || got.Error.Code != c.code || got.Error.Message == "" {
				t.Errorf("%+v %+v", got, got.Error)
			}
			if got := wait(t, s, good.ID); got.State != jobs.Completed {
				t.Errorf("the next one: %+v", got.Error)
			}
		})
	}
}

// An error that may be no fault of the job is met again before the job fails of it; the worker
// waits in between.
func TestFaultsOfTheMachine(t *testing.T) {
	s := open(t, jobs.Options{MaxDeaths: 2, Lease: 300 * time.Millisecond})
	kind := fault.NewKind("no-devices")
	sick := true
	work(t, s, runnerFunc(func(ctx context.Context, task jobs.Task) (jobs.Output, error) {
		if sick = sick && task.Job.Spec.Prompt == "sick" || task.Job.Try == 1; sick {
			return jobs.Output{}, jobs.OfMachine(fault.New(kind, nil, "no devices are there"))
		}
		return (&simulate.Sleeper{Steps: 1, Step: time.Millisecond}).Run(ctx, task)
	}))
	if got := wait(t, s, create(t, s, of("u", "for a while")).ID); got.State != jobs.Completed || got.Try != 2 {
		t.Errorf("%s after %d tries: %+v", got.State, got.Try, got.Error)
	}
	if got := wait(t, s, create(t, s, of("u", "sick")).ID); got.State != jobs.Failed || got.Error.Code != "no-devices" || got.Try != 2 {
		t.Errorf("%s after %d tries: %+v", got.State, got.Try, got.Error)
	}
}

// A worker that died behind its last step has not worked in vain: the next one takes what is
// there, in the folder of the try or among the outputs.
func TestFinishedVideosAreTaken(t *testing.T) {
	for _, where := range []string{"work", "outputs"} {
		dir := t.TempDir()
		s := open(t, jobs.Options{Dir: dir})
		j := create(t, s, of("u", "p"))
		try := filepath.Join(dir, "work", j.ID+".0")
		if err := os.Mkdir(try, 0o700); err != nil {
			t.Fatal(err)
		}
		video := filepath.Join(try, "v.avi")
		if where == "outputs" {
			video = filepath.Join(dir, "outputs", j.ID+".video.avi")
		}
		for name, text := range map[string]string{video: "a video", filepath.Join(try, "finished.json"): `{"files":{"video":"v.avi"},"notes":["of the first try"]}`} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		work(t, s, runnerFunc(func(context.Context, jobs.Task) (jobs.Output, error) {
			return jobs.Output{}, errors.New("it was made again")
		}))
		got := wait(t, s, j.ID)
		if made, _ := read(t, s, j.ID, "video"); got.State != jobs.Completed || made != "a video" || len(got.Notes) != 1 {
			t.Errorf("in %s: %+v, %q", where, got, made)
		}
	}
}

// Users take turns, priorities go first, and paused jobs are passed over.
func TestJobsAreTakenInTheirOrder(t *testing.T) {
	s := open(t, jobs.Options{})
	var mu sync.Mutex
	var order []string
	var last string
	for _, c := range []struct {
		user, prompt string
		priority     jobs.Priority
	}{{"a", "a1", 0}, {"a", "a2", 0}, {"a", "paused", 0}, {"b", "b1", 0}, {"a", "low", jobs.Low}, {"b", "high", jobs.High}} {
		n := of(c.user, c.prompt)
		n.Priority = c.priority
		j := create(t, s, n)
		if c.prompt == "paused" {
			if _, err := s.Pause(t.Context(), j.ID); err != nil {
				t.Fatal(err)
			}
		}
		if c.prompt == "low" {
			last = j.ID
		}
	}
	work(t, s, &simulate.Sleeper{Steps: 1, Step: time.Millisecond, OnStep: func(j jobs.Job, _ int) error {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, j.Spec.Prompt)
		return nil
	}})
	wait(t, s, last)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"high", "a1", "b1", "a2", "low"}; !slices.Equal(order, want) {
		t.Errorf("taken were %v: want %v", order, want)
	}
}

// Jobs of another model wait, and are said to.
func TestJobsWaitForTheirModel(t *testing.T) {
	s := open(t, jobs.Options{})
	other, mine := of("u", "other"), of("u", "mine")
	other.ModelHash, mine.ModelHash = "aaa", "bbb"
	waits, made := create(t, s, other), create(t, s, mine)
	m := jobs.Maker{Model: "bbb"}
	fates, err := s.Survey(t.Context(), m)
	if err != nil || len(fates) != 2 || fates[0].ID != waits.ID || fates[0].Goes != jobs.Waits || fates[1].Goes != jobs.GoesAnew {
		t.Errorf("%v, %+v", err, fates)
	}
	work(t, s, &simulate.Sleeper{Steps: 1, Step: time.Millisecond, Made: m})
	wait(t, s, made.ID)
	if got := get(t, s, waits.ID); got.State != jobs.Queued || got.Try != 0 {
		t.Errorf("%+v", got)
	}
}

// A video is made by one version: another begins anew.
func TestAnotherVersionBeginsAnew(t *testing.T) {
	s := open(t, jobs.Options{})
	j := create(t, s, of("u", "p"))
	stop := work(t, s, &simulate.Sleeper{Steps: 1000, Step: 5 * time.Millisecond, Made: jobs.Maker{Weft: "1"}})
	before := until(t, s, j.ID, "two steps on", func(j jobs.Job) bool { return j.Furthest >= 2 })
	stop()
	if got := get(t, s, j.ID); got.Status() != "queued" || got.Furthest < before.Furthest || got.Worker != "" || got.Deaths != 0 {
		t.Errorf("handed back: %+v", got)
	}
	var first sync.Once
	begun := -1
	work(t, s, &simulate.Sleeper{Steps: 4, Step: time.Millisecond, Made: jobs.Maker{Weft: "2"}, OnStep: func(_ jobs.Job, step int) error {
		first.Do(func() { begun = step })
		return nil
	}})
	got := wait(t, s, j.ID)
	if video, _ := read(t, s, j.ID, "video"); begun != 0 || video != simulate.Video(j.Spec, 4) || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "weft 1") {
		t.Errorf("begun at %d, notes %q", begun, got.Notes)
	}
}

// An ended job and its files go when their time is over.
func TestEndedJobsExpire(t *testing.T) {
	dir := t.TempDir()
	s := open(t, jobs.Options{Dir: dir, Retention: time.Second, Lease: 200 * time.Millisecond})
	work(t, s, &simulate.Sleeper{Steps: 1, Step: time.Millisecond})
	j := create(t, s, of("u", "p"))
	events, err := s.Events(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, s, j.ID)
	for e := range events {
		if e.Deleted {
			break
		}
	}
	if _, err := s.Get(t.Context(), j.ID); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("expired: %v", err)
	}
	for range 500 {
		if len(filesOf(t, dir, j.ID)) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("left are %v", filesOf(t, dir, j.ID))
}

// Files that no job names are removed, and no others.
func TestOrphansAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s, err := jobs.Open(t.Context(), jobs.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	used, err := s.PutImage(t.Context(), []byte("used"))
	if err != nil {
		t.Fatal(err)
	}
	n := of("u", "p")
	n.Image = used
	j := create(t, s, n)
	young, err := s.PutImage(t.Context(), []byte("young"))
	if err != nil {
		t.Fatal(err)
	}
	old, err := s.PutImage(t.Context(), []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	gone := "video_00000000000000000000000000000000"
	long := time.Now().Add(-2 * time.Hour)
	for _, image := range []string{old, used} {
		if err := os.Chtimes(filepath.Join(dir, "images", image), long, long); err != nil {
			t.Fatal(err)
		}
	}
	stays := []string{"images/" + used, "images/" + young, "outputs/readme.txt", "outputs/" + j.ID + ".video.avi", "work/" + j.ID + ".1", "work/other"}
	goes := []string{"images/" + old, "outputs/" + gone + ".video.avi", "work/" + gone + ".1", "work/" + gone + ".2"}
	for _, name := range append(slices.Clone(stays), goes...) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(t, jobs.Options{Dir: dir})
	there := func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }
	for range 500 {
		if !slices.ContainsFunc(goes, there) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, name := range goes {
		if there(name) {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range stays {
		if !there(name) {
			t.Errorf("%s is gone", name)
		}
	}
}

// A preview comes with the step that it shows.
func TestPreviews(t *testing.T) {
	s := open(t, jobs.Options{})
	j := create(t, s, of("u", "p"))
	if _, err := s.Preview(t.Context(), j.ID); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("before: %v", err)
	}
	g := newGate()
	work(t, s, runnerFunc(func(_ context.Context, task jobs.Task) (jobs.Output, error) {
		err := os.WriteFile(filepath.Join(task.Dir, "p.png"), []byte("a picture"), 0o600)
		task.Report(jobs.Progress{Phase: "denoise", Step: 3, Of: 4, Preview: "p.png"})
		task.Report(jobs.Progress{Phase: "denoise", Step: 4, Of: 4, Memory: 7})
		_ = g.onStep(task.Job, 0)
		return jobs.Output{}, err
	}))
	<-g.reached
	got := until(t, s, j.ID, "with a preview", func(j jobs.Job) bool { return j.PreviewStep > 0 && j.Progress.Step == 4 })
	if raw, err := s.Preview(t.Context(), j.ID); err != nil || string(raw) != "a picture" || got.Progress.Memory != 7 || got.Percent() != 90 {
		t.Errorf("%q, %v, %+v", raw, err, got.Progress)
	}
	g.pass <- nil
}

// Workers whose steps sleep make every video once, whatever their number.
func TestSimulation(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		r, err := simulate.Measure(t.Context(), simulate.Load{Workers: workers, Jobs: 17, Users: 3, Steps: 3, Step: 5 * time.Millisecond})
		if err != nil || r.Completed != 17 || r.Tries != 17 || r.Efficiency <= 0 || r.Efficiency > 1 {
			t.Errorf("%d workers: %v, %+v", workers, err, r)
		}
	}
	if _, err := simulate.Measure(t.Context(), simulate.Load{}); !errors.Is(err, jobs.ErrSpec) {
		t.Errorf("nothing: %v", err)
	}
}
