package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Keys of the bucket of leases, whose entries vanish when they are not renewed.
const workerPrefix = "worker." // and the worker's id: it lives

// leaseKey is the key of a job's lease.
func leaseKey(id string) string { return "job." + id }

// lease is a worker's right to run a job. It is renewed until it is given up or lost; the server's
// clock alone decides when one that is not renewed ends.
type lease struct {
	s        *Store
	key      string
	owner    string
	revision uint64
	renewed  time.Time // when the last renewal that succeeded was sent

	lost chan struct{} // closed when it is lost
	end  func()        // ends the renewals, and waits until they have ended
}

// takeLease takes the lease of a job, and keeps it. It returns nil where somebody has it.
func (s *Store) takeLease(ctx context.Context, id, owner string) (*lease, error) {
	l := &lease{s: s, key: leaseKey(id), owner: owner + " " + rand.Text(), renewed: time.Now(), lost: make(chan struct{})}
	var err error
	l.revision, err = s.leases.Create(ctx, l.key, []byte(l.owner))
	if errors.Is(err, jetstream.ErrKeyExists) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable(err)
	}
	keeping, end := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { l.keepLease(keeping) })
	l.end = func() { end(); done.Wait() }
	return l, nil
}

// renew renews a lease. It reports false when the lease is lost: somebody else has it, or it
// could not be renewed for so long that somebody may.
func (l *lease) renew(ctx context.Context) bool {
	sent := time.Now()
	ctx, end := context.WithTimeout(ctx, l.s.o.Lease/3)
	defer end()
	revision, err := l.s.leases.Update(ctx, l.key, []byte(l.owner), l.revision)
	switch {
	case err == nil:
		l.revision, l.renewed = revision, sent
		return true
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return l.findOwn(ctx, sent)
	}
	return l.mayBeKept()
}

// findOwn looks whether a lease is still this worker's though its revision is another: the answer
// to a renewal was lost. A lease that has ended and that nobody took is taken again.
func (l *lease) findOwn(ctx context.Context, sent time.Time) bool {
	e, err := l.s.leases.Get(ctx, l.key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		l.revision, err = l.s.leases.Create(ctx, l.key, []byte(l.owner))
	case err == nil && string(e.Value()) == l.owner:
		l.revision, err = l.s.leases.Update(ctx, l.key, []byte(l.owner), e.Revision())
	case err == nil:
		return false // somebody else's
	}
	if err != nil {
		return l.mayBeKept()
	}
	l.renewed = sent
	return true
}

// mayBeKept reports whether a lease that could not be renewed is surely nobody else's yet.
func (l *lease) mayBeKept() bool { return time.Since(l.renewed) < l.s.o.Lease*3/4 }

// giveUp ends a lease. One that cannot be ended ends by itself.
func (l *lease) giveUp() {
	l.end()
	ctx, end := context.WithTimeout(context.WithoutCancel(l.s.ctx), l.s.o.Lease/3)
	defer end()
	_ = l.s.leases.Purge(ctx, l.key, jetstream.LastRevision(l.revision))
}

// keepLease renews a lease until ctx ends, or it is lost.
func (l *lease) keepLease(ctx context.Context) {
	tick := time.NewTicker(l.s.o.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if !l.renew(ctx) && ctx.Err() == nil {
				close(l.lost)
				return
			}
		}
	}
}
