package jobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// keptEvents is how many events wait for a slow reader, unless each is the last of its job. Each
// has the whole state, so older ones can go.
const keptEvents = 128

// reader is one who follows events.
type reader struct {
	id string // of a job, or "" for all

	mu     sync.Mutex
	queue  []Event
	ended  bool
	place  int           // that was told last
	signal chan struct{} // of size 1: something came
}

// addEvent hands an event to a reader.
func (r *reader) addEvent(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	if len(r.queue) >= keptEvents {
		r.dropOldest()
	}
	r.queue, r.place = append(r.queue, e), e.Job.Place
	if r.id != "" && (e.Deleted || e.Job.State.Ended()) {
		r.ended = true
	}
	r.wakeReader()
}

// dropOldest makes room: the oldest event goes of which there is a newer one of the same job. Where
// there is none, each event is the last of its job, and all are kept.
func (r *reader) dropOldest() {
	last := map[string]int{}
	for i, e := range r.queue {
		last[e.Job.ID] = i
	}
	for i, e := range r.queue {
		if last[e.Job.ID] > i {
			r.queue = slices.Delete(r.queue, i, i+1)
			return
		}
	}
}

func (r *reader) wakeReader() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

func (r *reader) endReading() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.wakeReader()
}

// takeAll takes what has come, and reports whether nothing more will.
func (r *reader) takeAll() ([]Event, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := r.queue
	r.queue = nil
	return events, r.ended
}

// tellReaders hands an event to those who follow the job.
func (x *index) tellReaders(e Event) {
	for r := range x.readers {
		if r.id == "" || r.id == e.Job.ID {
			e.Job.Place, e.Job.Wait = 0, 0 // tellPlaces says them a moment later
			r.addEvent(e)
		}
	}
}

// tellPlaces hands jobs that wait to those who follow one of them and were told another place.
func (x *index) tellPlaces() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for r := range x.readers {
		j := x.jobs[r.id]
		if j == nil || j.State != Queued || j.isOwned() {
			continue
		}
		x.findPlaces()
		if x.places[j.ID] == r.lastPlace() {
			continue
		}
		now := *j
		x.fillPlace(&now)
		r.addEvent(Event{ID: x.revision, Job: now, At: time.Now()})
	}
}

func (r *reader) lastPlace() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.place
}

func (r *reader) setPlace(place int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.place = place
}

// unknownPlace is what a reader was told last who may have missed it.
const unknownPlace = -1

// placesEvery is how often changed places are told at most.
const placesEvery = 100 * time.Millisecond

// followPlaces tells changed places until ctx ends.
func (x *index) followPlaces(ctx context.Context) {
	for {
		changed := x.nextChange()
		x.tellPlaces()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(placesEvery):
		case <-ctx.Done():
			return
		}
	}
}

// Events tells what becomes of a job, or of all jobs where id is "": first the revisions after
// the event after (the last of them, where more were made than are kept), then each new one, and
// for one job also each new Place. For after 0 the first event is the job as it is. The channel is
// closed behind the event with which the job ends, when ctx ends, and when the store is closed. A
// reader who is slow misses events, never the last. Error: ErrNotFound.
func (s *Store) Events(ctx context.Context, id string, after uint64) (<-chan Event, error) {
	if id != "" {
		if _, err := s.Get(ctx, id); err != nil {
			return nil, err
		}
	}
	r := &reader{id: id, place: unknownPlace, signal: make(chan struct{}, 1)}
	now, err := s.index.addReader(r)
	if err != nil {
		return nil, err
	}
	past := slices.DeleteFunc(slices.Clone(now), func(e Event) bool { return e.Deleted })
	if after == 0 && id != "" && len(now) == 1 {
		r.setPlace(now[0].Job.Place)
	}
	if after > 0 {
		if past, err = s.eventsSince(ctx, id, after, now); err != nil {
			s.index.removeReader(r)
			return nil, err
		}
	}
	s.index.tellPlaces()
	out := make(chan Event)
	go func() {
		defer close(out)
		defer s.index.removeReader(r)
		r.deliver(ctx, s, past, out)
	}()
	return out, nil
}

// addReader makes a reader one who follows, and returns what there is before its first event.
func (x *index) addReader(r *reader) ([]Event, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, closedError()
	}
	var now []Event
	for _, j := range x.byAge {
		if r.id == "" || r.id == j.ID {
			e := Event{ID: j.Revision, Job: *j, At: time.Now()}
			x.fillPlace(&e.Job)
			now = append(now, e)
		}
	}
	if r.id == "" {
		now = append(now, x.listGone()...)
	}
	if r.id != "" && len(now) == 1 && now[0].Job.State.Ended() {
		r.ended = true
		r.wakeReader()
	}
	if r.id != "" && len(now) == 0 {
		return nil, notFound(r.id)
	}
	x.readers[r] = true
	return now, nil
}

// listGone lists the deletions that are known.
func (x *index) listGone() []Event {
	gone := slices.Clone(x.dropped)
	for _, j := range x.jobs {
		if j.isGone() {
			gone = append(gone, Event{ID: j.Revision, Job: *j, Deleted: true, At: time.Now()})
		}
	}
	return gone
}

func (x *index) removeReader(r *reader) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.readers, r)
}

// deliver sends what was and then what comes, until nothing more will, or ctx or the store ends.
func (r *reader) deliver(ctx context.Context, s *Store, events []Event, out chan<- Event) {
	for ended := false; ; events, ended = r.takeAll() {
		for _, e := range events {
			if e.Job.short && !e.Deleted {
				whole := []Job{e.Job}
				if s.completeJobs(ctx, whole) != nil || whole[0].short {
					continue // the queue is away, and the reader will be; or the job is gone, which is told next
				}
				e.Job = whole[0]
			}
			select {
			case out <- e:
			case <-ctx.Done():
				return
			case <-s.ctx.Done():
				return
			}
		}
		if ended {
			return
		}
		select {
		case <-r.signal:
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// eventsSince lists the events after one, of what is kept of them, up to those of now.
func (s *Store) eventsSince(ctx context.Context, id string, after uint64, now []Event) ([]Event, error) {
	var past []Event
	for _, e := range now {
		if e.ID <= after && id != "" && !e.Job.State.Ended() {
			continue // nothing was missed
		}
		if e.ID <= after && id == "" {
			continue
		}
		if id != "" {
			older, err := s.jobs.History(ctx, jobPrefix+id)
			if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
				return nil, unavailable(err)
			}
			for _, o := range older {
				if o.Revision() <= after || o.Revision() >= e.ID || o.Operation() != jetstream.KeyValuePut {
					continue
				}
				if j, err := readJob(o); err == nil {
					past = append(past, Event{ID: o.Revision(), Job: *j, At: o.Created()})
				}
			}
		}
		past = append(past, e)
	}
	slices.SortStableFunc(past, func(a, b Event) int { return cmp.Compare(a.ID, b.ID) })
	return past, nil
}
