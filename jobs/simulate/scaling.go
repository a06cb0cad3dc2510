package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"weft/fault"
	"weft/jobs"
)

// Load is a simulation to run.
type Load struct {
	Workers int           `json:"workers"`
	Jobs    int           `json:"jobs"`  // whole rounds of the workers show the queue's own cost
	Users   int           `json:"users"` // who ask for them in turn; 0 is 1
	Steps   int           `json:"steps"` // of each job
	Step    time.Duration `json:"step_nanoseconds"`
	// Dir is the data folder, which is left as it is at the end; "" is a temporary one.
	Dir string `json:"-"`
	// Log, where set, is the store's and the workers'.
	Log *slog.Logger `json:"-"`
}

// Report is what a simulation took.
type Report struct {
	Load
	Seconds float64 `json:"seconds"` // from the first job taken to the last one ended
	// Slept is how many seconds all jobs slept, and Efficiency which share of the workers' time
	// that was: 1 is a queue that costs nothing.
	Slept      float64 `json:"slept_seconds"`
	Efficiency float64 `json:"efficiency"`
	Created    float64 `json:"create_seconds"` // to create all jobs, before any is taken
	Completed  int     `json:"completed"`
	Tries      int     `json:"tries"` // of all jobs; more than Jobs if any was tried twice
}

// Rate is how many jobs a second were made.
func (r Report) Rate() float64 { return float64(r.Jobs) / r.Seconds }

// Measure creates jobs in a queue of its own, runs workers whose steps sleep until all have ended,
// and checks each video.
func Measure(ctx context.Context, l Load) (Report, error) {
	if l.Workers < 1 || l.Jobs < 1 || l.Steps < 1 || l.Step <= 0 {
		return Report{}, fault.New(jobs.ErrSpec, nil, "%d workers, %d jobs of %d steps of %v: want 1 or more of each", l.Workers, l.Jobs, l.Steps, l.Step)
	}
	if l.Dir == "" {
		dir, err := os.MkdirTemp("", "weft-simulate-")
		if err != nil {
			return Report{}, err
		}
		defer os.RemoveAll(dir)
		l.Dir = dir
	}
	s, err := jobs.Open(ctx, jobs.Options{Dir: l.Dir, MaxQueued: l.Jobs, Log: l.Log})
	if err != nil {
		return Report{}, err
	}
	defer s.Close()
	r := Report{Load: l, Slept: float64(l.Jobs) * float64(l.Steps) * l.Step.Seconds()}
	began := time.Now()
	ids, err := createJobs(ctx, s, l)
	if err != nil {
		return r, err
	}
	r.Created = time.Since(began).Seconds()

	ctx, end := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer end()
	began = time.Now()
	for i := range l.Workers {
		w := jobs.NewWorker(s, jobs.WorkerOptions{ID: fmt.Sprintf("simulated-%d", i)})
		workers.Go(func() { _ = w.Run(ctx, &Sleeper{Steps: l.Steps, Step: l.Step}) })
	}
	for _, id := range ids {
		j, err := s.Wait(ctx, id)
		if err != nil {
			return r, err
		}
		r.Seconds, r.Tries = time.Since(began).Seconds(), r.Tries+j.Try
		if err := checkVideo(ctx, s, j, l.Steps); err != nil {
			return r, err
		}
		r.Completed++
	}
	r.Efficiency = r.Slept / float64(l.Workers) / r.Seconds
	return r, nil
}

// createJobs creates the jobs of a simulation.
func createJobs(ctx context.Context, s *jobs.Store, l Load) ([]string, error) {
	var ids []string
	for i := range l.Jobs {
		j, _, err := s.Create(ctx, jobs.New{Spec: jobs.Spec{Model: "sleeper", Prompt: fmt.Sprintf("video %d", i), Seed: uint64(i), Container: "avi",
			User: fmt.Sprintf("user %d", i%max(1, l.Users)), Seconds: (time.Duration(l.Steps) * l.Step).Seconds()}})
		if err != nil {
			return nil, err
		}
		ids = append(ids, j.ID)
	}
	return ids, nil
}

// checkVideo refuses a job whose video is not the one that its Spec makes.
func checkVideo(ctx context.Context, s *jobs.Store, j jobs.Job, steps int) error {
	if j.State != jobs.Completed {
		return fault.New(jobs.ErrState, jobs.OfJob{ID: j.ID, State: j.State}, "job %s is %s, not completed: %v", j.ID, j.State, j.Error)
	}
	f, file, err := s.OpenFile(ctx, j.ID, "video")
	if err != nil {
		return err
	}
	defer f.Close()
	want := Video(j.Spec, steps)
	got := make([]byte, len(want)+1)
	n, _ := f.Read(got)
	if string(got[:n]) != want || file.Size != int64(len(want)) {
		return fault.New(fault.ErrInternal, nil, "the video of job %s is %q: want %q", j.ID, got[:n], want)
	}
	return nil
}
