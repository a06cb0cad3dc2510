package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// keepEvery is how often a process looks for what is due, about.
const keepEvery = time.Minute

// keepOrder removes what has expired and what belongs to nobody, now and then, until the store is
// closed. Every process of a queue does; each step is one that several may take.
func (s *Store) keepOrder() {
	var due time.Time
	for {
		err := s.buryAllDead(s.ctx)
		if now := time.Now(); now.After(due) {
			err = errors.Join(err, s.keepOnce(s.ctx, now))
			due = now.Add(min(keepEvery/2+rand.N(keepEvery), s.o.Retention))
		}
		if err != nil && s.ctx.Err() == nil {
			s.log.Warn("not everything that is due could be done; it is tried again", "error", err)
		}
		select {
		case <-time.After(s.o.Lease):
		case <-s.ctx.Done():
			return
		}
	}
}

// keepOnce does what is due.
func (s *Store) keepOnce(ctx context.Context, now time.Time) error {
	var due []*Job
	s.index.mu.Lock()
	for _, j := range s.index.jobs {
		if j.State.Ended() && now.After(j.Expires) {
			due = append(due, j)
		}
	}
	for key, at := range s.index.heard {
		if now.Sub(at) > 10*s.o.Lease {
			delete(s.index.heard, key)
		}
	}
	s.index.mu.Unlock()
	var errs []error
	for _, j := range due {
		errs = append(errs, s.expire(ctx, j))
	}
	errs = append(errs, s.removeOrphans(ctx, now), s.jobs.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(time.Hour)),
		s.previews.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(time.Hour)))
	return errors.Join(errs...)
}

// expire forgets a job that has ended long ago. The entry goes first: files without an entry are
// found by removeOrphans, and an entry without files would promise a video that is not there.
func (s *Store) expire(ctx context.Context, j *Job) error {
	err := s.jobs.Purge(ctx, jobPrefix+j.ID, jetstream.LastRevision(j.Revision))
	if err != nil {
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return nil // another process was first
		}
		return unavailable(err)
	}
	gone := *j
	gone.Files = nil
	s.removeFiles(&gone)
	s.log.Info("a job has expired", "job", j.ID)
	return nil
}

// buryAllDead takes jobs from workers that are not heard of. Workers that live do so too when
// they look for a job; this is for the time when there is none, or the queue is paused: a job that
// nobody runs is not said to run, and one that is wished away goes.
func (s *Store) buryAllDead(ctx context.Context) error {
	var dead []string
	s.index.mu.Lock()
	for _, j := range s.index.jobs {
		if j.isOwned() && !s.index.isHeld(leaseKey(j.ID), time.Now()) {
			dead = append(dead, j.ID)
		}
	}
	s.index.mu.Unlock()
	var errs []error
	for _, id := range dead {
		errs = append(errs, s.buryDead(ctx, id))
	}
	return errors.Join(errs...)
}

// buryDead takes a job from a worker that lives no more.
func (s *Store) buryDead(ctx context.Context, id string) error {
	l, err := s.takeLease(ctx, id, "")
	if err != nil || l == nil {
		return err
	}
	defer l.giveUp()
	var buried bool
	j, err := s.change(ctx, id, func(j *Job) error {
		if buried = j.isOwned(); !buried {
			return errUnchanged
		}
		j.buryOwner(time.Now(), s.o.MaxDeaths, s.o.Retention)
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil && buried && j.State.Ended() {
		s.removeFiles(j)
	}
	return err
}

// Survey says of each job that has not ended what becomes of it where workers of m take the
// queue over. It changes nothing.
func (s *Store) Survey(_ context.Context, m Maker) ([]Fate, error) {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	var fates []Fate
	for _, j := range s.index.live {
		goes, why := foretell(j, m)
		fates = append(fates, Fate{ID: j.ID, Goes: goes, Why: why})
	}
	return fates, nil
}
