package jobs_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"weft/jobs"
)

// pairing is a runner whose jobs compute until the test lets them, and go together by their prompt's
// first letter.
type pairing struct {
	mu      sync.Mutex
	frees   map[string]chan struct{} // closed: the job frees its place
	ends    map[string]chan struct{} // closed: it ends
	running []string
}

func newPairing(prompts ...string) *pairing {
	p := &pairing{frees: map[string]chan struct{}{}, ends: map[string]chan struct{}{}}
	for _, prompt := range prompts {
		p.frees[prompt], p.ends[prompt] = make(chan struct{}), make(chan struct{})
	}
	return p
}

func (p *pairing) Maker() jobs.Maker { return jobs.Maker{} }
func (p *pairing) Release()          {}

func (p *pairing) Joins(j jobs.Job, with []jobs.Job) bool {
	return !slices.ContainsFunc(with, func(o jobs.Job) bool { return o.Spec.Prompt[0] != j.Spec.Prompt[0] })
}

func (p *pairing) Run(ctx context.Context, t jobs.Task) (jobs.Output, error) {
	prompt := t.Job.Spec.Prompt
	p.mu.Lock()
	p.running = append(p.running, prompt)
	p.mu.Unlock()
	select {
	case <-p.frees[prompt]:
		t.Free()
	case <-ctx.Done():
		return jobs.Output{}, ctx.Err()
	}
	<-p.ends[prompt]
	p.mu.Lock()
	p.running = slices.DeleteFunc(p.running, func(s string) bool { return s == prompt })
	p.mu.Unlock()
	return jobs.Output{}, ctx.Err()
}

func (p *pairing) now() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.running))
}

// A worker runs jobs at a time that go together, takes none before the first of the queue, and
// begins another when one says that it may.
func TestJobsThatGoTogether(t *testing.T) {
	s := open(t, jobs.Options{})
	prompts := []string{"a1", "a2", "a3", "b1", "a4"}
	r := newPairing(prompts...)
	for _, prompt := range prompts {
		create(t, s, of("u", prompt))
	}
	ctx, end := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = jobs.NewWorker(s, jobs.WorkerOptions{Parallel: 2}).Run(ctx, r) })
	defer done.Wait()
	defer end()
	want := func(what string, now ...string) {
		t.Helper()
		for range 500 {
			if slices.Equal(r.now(), now) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond) // in which another could begin
		if got := r.now(); !slices.Equal(got, now) {
			t.Fatalf("%s: %v run, want %v", what, got, now)
		}
	}
	want("two places", "a1", "a2")
	close(r.frees["a1"])
	want("one is free", "a1", "a2", "a3")
	close(r.frees["a2"])
	want("b1 does not go with a3, and a4 is behind it", "a1", "a2", "a3")
	close(r.frees["a3"])
	want("no place is held, and b1 may be begun", "a1", "a2", "a3", "b1")
	for _, prompt := range []string{"a1", "a2", "a3"} {
		close(r.ends[prompt])
	}
	want("three have ended", "b1")
	close(r.frees["b1"])
	want("a4 comes last", "a4", "b1")
	close(r.ends["b1"])
	close(r.frees["a4"])
	close(r.ends["a4"])
	want("all have ended")
}
