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
	"time"
)

// WorkerOptions of NewWorker.
type WorkerOptions struct {
	// ID names the worker in jobs; "" takes the host's name, the process's number and random letters.
	ID string
	// Parallel is how many jobs it computes at a time; 0 is 1. As many again may be past what they
	// need the devices for (Task.Free). A Runner that is a Joiner says which jobs go together.
	Parallel int
}

// Worker takes jobs of a store and runs them.
type Worker struct {
	s   *Store
	id  string
	o   WorkerOptions
	log *slog.Logger

	mu        sync.Mutex
	computing map[string]*Job // that have a place
	running   int             // tries, with those that have freed their place
	freed     signal          // a place is free, or a try has ended
}

// NewWorker makes a worker.
func NewWorker(s *Store, o WorkerOptions) *Worker {
	if o.ID == "" {
		host, _ := os.Hostname()
		o.ID = fmt.Sprintf("%s-%d-%s", cmp.Or(host, "host"), os.Getpid(), rand.Text()[:6])
	}
	o.Parallel = max(1, o.Parallel)
	return &Worker{s: s, id: o.ID, o: o, log: s.log.With("worker", o.ID), computing: map[string]*Job{}}
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
	all.Go(func() { w.runJobs(ctx, r) })
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

// runJobs takes one job after another until ctx ends, and then waits for those that run.
func (w *Worker) runJobs(ctx context.Context, r Runner) {
	var tries sync.WaitGroup
	defer tries.Wait()
	idle := false
	for ctx.Err() == nil {
		changed, freed := w.s.index.nextChange(), w.freed.next()
		fits := w.placesFor(r)
		if fits == nil {
			changed = nil // whatever comes has to wait for a place
		}
		if job, l := w.takeNext(ctx, r.Maker(), fits); job != nil {
			idle = false
			free := w.occupyPlace(job)
			tries.Go(func() {
				defer w.noteEnd(free)
				w.runTry(ctx, r, job, l, free)
			})
			continue
		}
		if w.s.index.isPaused() && !idle && w.isIdle() {
			idle = true
			r.Release()
		}
		select {
		case <-changed:
		case <-freed:
		case <-time.After(w.s.o.Lease / 4): // a lease may have ended
		case <-ctx.Done():
		}
	}
}

// occupyPlace gives a job one of the places; free gives it back.
func (w *Worker) occupyPlace(j *Job) (free func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.computing[j.ID] = j
	w.running++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		delete(w.computing, j.ID)
		w.mu.Unlock()
		w.freed.happen()
	})
}

// noteEnd notes that a try has ended.
func (w *Worker) noteEnd(free func()) {
	free()
	w.mu.Lock()
	w.running--
	w.mu.Unlock()
	w.freed.happen()
}

func (w *Worker) isIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running == 0
}

// placesFor says which job may be taken now: nil where no place is free.
func (w *Worker) placesFor(r Runner) func(j *Job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.computing) >= w.o.Parallel || w.running >= 2*w.o.Parallel {
		return nil
	}
	var with []Job
	for _, j := range w.computing {
		with = append(with, *j)
	}
	joiner, ok := r.(Joiner)
	if len(with) == 0 || !ok {
		return func(*Job) bool { return true }
	}
	return func(j *Job) bool { return joiner.Joins(*j, with) }
}

func (x *index) isPaused() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.paused
}

// nextCandidate returns the best job that a worker may take and that it has not tried: of those
// whose worker is not heard of any more, and then of the queue. It returns none where this job does
// not fit to those that run: no other is taken before it. While a worker of this process tries a
// job, others try the next; done ends that.
func (x *index) nextCandidate(model string, tried map[string]bool, fits func(*Job) bool) (j *Job, done func()) {
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
	i := slices.IndexFunc(x.live, func(j *Job) bool { return j.isOwned() && mayTry(j) })
	if i >= 0 {
		j = x.live[i]
	} else {
		x.findPlaces()
		if i = slices.IndexFunc(x.order, mayTry); i < 0 {
			return nil, nil
		}
		j = x.order[i]
	}
	if !fits(j) {
		return nil, nil
	}
	tried[j.ID], x.taking[j.ID] = true, true
	return j, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.taking, j.ID)
	}
}

// takeNext takes the best job that can be had and that fits. It returns nil where there is none.
func (w *Worker) takeNext(ctx context.Context, m Maker, fits func(*Job) bool) (*Job, *lease) {
	tried := map[string]bool{}
	for ctx.Err() == nil && fits != nil {
		c, done := w.s.index.nextCandidate(m.Model, tried, fits)
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
