package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// WorkerOptions of NewWorker.
type WorkerOptions struct {
	// ID names the worker in jobs; "" takes the host's name, the process's number and random letters.
	ID string
	// Parallel is how many jobs it runs at a time; 0 is 1.
	Parallel int
}

// Worker takes jobs of a store and runs them.
type Worker struct {
	s       *Store
	id      string
	o       WorkerOptions
	log     *slog.Logger
	running atomic.Int32
}

// NewWorker makes a worker.
func NewWorker(s *Store, o WorkerOptions) *Worker {
	if o.ID == "" {
		host, _ := os.Hostname()
		o.ID = fmt.Sprintf("%s-%d-%s", cmp.Or(host, "host"), os.Getpid(), rand.Text()[:6])
	}
	o.Parallel = max(1, o.Parallel)
	return &Worker{s: s, id: o.ID, o: o, log: s.log.With("worker", o.ID)}
}

// Run takes jobs and runs them until ctx ends; then it stops within a step, gives its jobs back
// with their states, and returns nil. It goes on through failures of the queue's server.
func (w *Worker) Run(ctx context.Context, r Runner) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(w.s.ctx, end)
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { w.sayAlive(ctx) })
	for range w.o.Parallel {
		all.Go(func() { w.runJobs(ctx, r) })
	}
	all.Wait()
	return nil
}

// sayAlive renews the worker's entry until ctx ends, and removes it then.
func (w *Worker) sayAlive(ctx context.Context) {
	key := workerPrefix + keyOf(w.id)
	tick := time.NewTicker(w.s.o.Lease / 4)
	defer tick.Stop()
	for {
		if _, err := w.s.leases.Put(ctx, key, []byte(w.id)); err != nil && ctx.Err() == nil {
			w.log.Warn("the queue does not answer", "error", err)
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		last, end := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer end()
		_ = w.s.leases.Purge(last, key) // else it vanishes by itself
		return
	}
}

// keyOf is a text as a key can have it.
func keyOf(text string) string {
	b := []byte(text)
	for i, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-') {
			b[i] = '_'
		}
	}
	return string(b)
}

// runJobs takes one job after another until ctx ends.
func (w *Worker) runJobs(ctx context.Context, r Runner) {
	idle := false
	for ctx.Err() == nil {
		changed := w.s.index.nextChange()
		job, l := w.takeNext(ctx, r.Maker())
		if job != nil {
			idle = false
			w.running.Add(1)
			w.runTry(ctx, r, job, l)
			w.running.Add(-1)
			continue
		}
		if w.s.index.isPaused() && !idle && w.running.Load() == 0 {
			idle = true
			r.Release()
		}
		select {
		case <-changed:
		case <-time.After(w.s.o.Lease / 4): // a lease may have ended
		case <-ctx.Done():
		}
	}
}

func (x *index) isPaused() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.paused
}

// nextCandidate returns the best job that a worker may take and that it has not tried: of those
// whose worker is not heard of any more, and then of the queue. While a worker of this process
// tries a job, others try the next; done ends that.
func (x *index) nextCandidate(model string, tried map[string]bool) (j *Job, done func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.paused || x.closed {
		return nil, nil
	}
	now := time.Now()
	mayTry := func(j *Job) bool {
		// One that waits and whose lease is held is being taken at this moment.
		return j.Spec.ModelHash == model && !tried[j.ID] && !x.taking[j.ID] && !x.isHeld(leaseKey(j.ID), now)
	}
	i := slices.IndexFunc(x.byAge, func(j *Job) bool { return j.isOwned() && mayTry(j) })
	if i >= 0 {
		j = x.byAge[i]
	} else {
		x.findPlaces()
		if i = slices.IndexFunc(x.order, mayTry); i < 0 {
			return nil, nil
		}
		j = x.order[i]
	}
	tried[j.ID], x.taking[j.ID] = true, true
	return j, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.taking, j.ID)
	}
}

// takeNext takes the best job that can be had. It returns nil where there is none.
func (w *Worker) takeNext(ctx context.Context, m Maker) (*Job, *lease) {
	tried := map[string]bool{}
	for ctx.Err() == nil {
		c, done := w.s.index.nextCandidate(m.Model, tried)
		if c == nil {
			return nil, nil
		}
		j, l, err := w.tryToTake(ctx, c.ID, m)
		done()
		if err != nil {
			if ctx.Err() == nil {
				w.log.Warn("a job cannot be taken", "job", c.ID, "error", err)
			}
			return nil, nil
		}
		if j != nil {
			return j, l
		}
	}
	return nil, nil
}

// tryToTake takes a job with its lease. It returns nil where another worker has it, or it cannot be
// taken any more.
func (w *Worker) tryToTake(ctx context.Context, id string, m Maker) (*Job, *lease, error) {
	l, err := w.s.takeLease(ctx, id, w.id)
	if err != nil || l == nil {
		return nil, nil, err
	}
	j, err := w.takeJob(ctx, id, m)
	if err != nil || j == nil {
		l.giveUp()
		return nil, nil, err
	}
	return j, l, nil
}

// takeJob makes a job that the worker has the lease of the worker's own, by one durable write:
// with it the try counts, whatever becomes of this process. It returns nil where the job cannot be
// taken any more.
func (w *Worker) takeJob(ctx context.Context, id string, m Maker) (*Job, error) {
	var taken, buried bool
	j, err := w.s.change(ctx, id, func(j *Job) error {
		now := time.Now()
		if buried = j.isOwned(); buried {
			j.buryOwner(now, w.s.o.MaxDeaths, w.s.o.Retention)
		}
		err := j.giveToWorker(w.id, m, now)
		if taken = err == nil; taken || buried { // else it has ended or is paused, as its user wanted
			return nil
		}
		return errUnchanged
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case taken:
		return j, nil
	}
	if buried && j.State.Ended() {
		w.log.Info("a job whose worker died has ended", "job", id, "state", j.State, "error", j.Error)
		w.s.removeFiles(j)
	}
	return nil, nil
}
