package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weft/fault"
)

// Keys of the bucket of jobs.
const (
	jobPrefix = "job."  // and the id: a Job
	queueKey  = "queue" // a queueState
)

// queueState is what holds for the whole queue.
type queueState struct {
	Paused bool `json:"paused"`
}

// index is this process's view of the bucket of jobs and of the leases. It follows them, and is
// behind by the moment that a message takes; what is decided by it is decided again by the
// revision of the write that follows.
type index struct {
	mu       sync.Mutex
	jobs     map[string]*Job // with deleted ones, never changed in place
	byAge    ageList         // those that are not gone, in the order of their creation
	live     ageList         // those of them that have not ended
	whole    []string        // ids of ended jobs that are not shortened yet, the last to end last
	ended    *endedFigures   // nil where they have to be found again
	revision uint64          // of the last entry of the bucket of jobs
	paused   bool
	heard    map[string]time.Time // when a lease or a worker was last heard of, by key, on this machine's clock
	changed  chan struct{}        // closed at the next change
	order    []*Job               // of the queue; nil where it has to be found again
	places   map[string]int
	waits    map[string]float64
	readers  map[*reader]bool
	dropped  []Event         // deletions of jobs whose entries are gone
	taking   map[string]bool // jobs that a worker of this process is about to take
	closed   bool
	lease    time.Duration
	unread   map[string]bool             // keys of jobs that cannot be read
	onUnread func(key string, err error) // told of each
}

func newIndex(lease time.Duration, onUnread func(string, error)) *index {
	return &index{jobs: map[string]*Job{}, heard: map[string]time.Time{}, changed: make(chan struct{}),
		readers: map[*reader]bool{}, taking: map[string]bool{}, lease: lease, unread: map[string]bool{}, onUnread: onUnread}
}

// followBucket applies what a watch of a bucket tells until ctx ends. It watches anew when the
// connection was lost, because a watch needs long to find out. loaded is closed when the first
// watch has told what there was.
func (s *Store) followBucket(ctx context.Context, kv jetstream.KeyValue, loaded chan<- struct{}, apply func(jetstream.KeyValueEntry)) {
	once := sync.OnceFunc(func() { close(loaded) })
	for ctx.Err() == nil {
		again := s.connection.next()
		watching, end := context.WithCancel(ctx)
		w, err := kv.WatchAll(watching)
		if err == nil {
			followWatch(w, again, ctx.Done(), once, apply)
			_ = w.Stop()
		}
		if end(); err == nil {
			continue
		}
		select { // the server is not ready
		case <-time.After(watchAgain):
		case <-ctx.Done():
		}
	}
}

// watchAgain is how long to wait before another try to watch.
const watchAgain = 200 * time.Millisecond

// followWatch applies what one watch tells.
func followWatch(w jetstream.KeyWatcher, lost, end <-chan struct{}, loaded func(), apply func(jetstream.KeyValueEntry)) {
	for {
		select {
		case e, open := <-w.Updates():
			switch {
			case !open:
				return
			case e == nil:
				loaded()
			default:
				apply(e)
			}
		case <-lost:
			return
		case <-end:
			return
		}
	}
}

// signal is something that happens again and again, for all who wait for it.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed when it happens next.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// happen closes what next returned.
func (s *signal) happen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// applyEntry takes an entry of the bucket of jobs.
func (x *index) applyEntry(e jetstream.KeyValueEntry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.revision = max(x.revision, e.Revision())
	id, isJob := strings.CutPrefix(e.Key(), jobPrefix)
	switch {
	case isJob && e.Operation() != jetstream.KeyValuePut:
		delete(x.unread, e.Key())
		x.dropJob(id, e.Revision())
	case isJob:
		j, err := readJob(e)
		if err != nil {
			x.unread[e.Key()] = true
			x.onUnread(e.Key(), err)
			break
		}
		delete(x.unread, e.Key())
		x.putJob(j, e.Created())
	case e.Key() == queueKey:
		var q queueState
		if err := json.Unmarshal(e.Value(), &q); err != nil {
			x.onUnread(e.Key(), err)
		}
		x.paused = q.Paused
	}
	x.noteChange()
}

// readJob reads a job of a bucket's entry.
func readJob(e jetstream.KeyValueEntry) (*Job, error) {
	j, err := decodeJob(e.Value())
	if err != nil {
		return nil, fmt.Errorf("entry %s: %w", e.Key(), err)
	}
	j.Revision = e.Revision()
	return j, nil
}

// decodeJob reads a job as encodeJob wrote it.
func decodeJob(raw []byte) (*Job, error) {
	var stored struct {
		Version int `json:"v"`
		Job
	}
	if err := json.Unmarshal(raw, &stored); err != nil {
		return nil, fault.New(ErrData, nil, "no job: %w", err)
	}
	if stored.Version != jobVersion {
		return nil, fault.New(ErrData, nil, "a job of version %d: this weft reads version %d", stored.Version, jobVersion)
	}
	return &stored.Job, nil
}

// jobVersion is of the stored form of a job.
const jobVersion = 1

// encodeJob is a job as it is stored.
func encodeJob(j *Job) ([]byte, error) {
	return json.Marshal(struct {
		Version int `json:"v"`
		*Job
	}{jobVersion, j})
}

func (x *index) putJob(j *Job, at time.Time) {
	was := x.jobs[j.ID]
	if was != nil && was.Revision >= j.Revision { // a watch that began anew tells it again
		return
	}
	listed := was != nil && !was.isGone()
	x.replaceJob(j)
	if j.State.Ended() && !j.isGone() {
		x.shortenOldest(j.ID)
	}
	if listed || !j.isGone() {
		x.tellReaders(Event{ID: j.Revision, Job: *j, Deleted: j.isGone(), At: at})
	}
}

// replaceJob puts a job into the lists that it belongs to, in place of what they have of it.
func (x *index) replaceJob(j *Job) {
	if was := x.jobs[j.ID]; was != nil && was.State.Ended() || j.State.Ended() {
		x.ended = nil
	}
	x.jobs[j.ID] = j
	x.byAge.set(j, !j.isGone())
	x.live.set(j, !j.isGone() && !j.State.Ended())
}

// keptWhole is how many ended jobs are kept whole: clients ask for them in the moment after.
const keptWhole = 64

// shortenOldest notes that a job has ended, and shortens the one of those that are whole that ended
// the longest ago.
func (x *index) shortenOldest(id string) {
	x.whole = append(x.whole, id)
	if len(x.whole) <= keptWhole {
		return
	}
	oldest := x.jobs[x.whole[0]]
	if x.whole = slices.Delete(x.whole, 0, 1); oldest != nil && oldest.State.Ended() && !oldest.isGone() && !slices.Contains(x.whole, oldest.ID) {
		x.replaceJob(oldest.shortened())
	}
}

// shortened is an ended job with what order, expectations and expiry need. The rest, some 10 kB of
// prompts and settings, is read from the queue again for those who ask for it.
func (j *Job) shortened() *Job {
	return &Job{ID: j.ID, Body: j.Body, State: j.State, Created: j.Created, Started: j.Started, Taken: j.Taken, Ended: j.Ended, Expires: j.Expires, Try: j.Try,
		Furthest: j.Furthest, Revision: j.Revision, short: true,
		Spec: Spec{User: j.Spec.User, Priority: j.Spec.Priority, Seconds: j.Spec.Seconds, Image: j.Spec.Image, LastImage: j.Spec.LastImage}}
}

// ageList has jobs in the order of their creation.
type ageList []*Job

// set puts a job into the list in place of the one with its id, or takes it out.
func (l *ageList) set(j *Job, in bool) {
	switch i, found := slices.BinarySearchFunc(*l, j, compareAge); {
	case found && in:
		(*l)[i] = j
	case found:
		*l = slices.Delete(*l, i, i+1)
	case in:
		*l = slices.Insert(*l, i, j)
	}
}

// keptDropped is how many deletions are known of jobs whose entries are gone.
const keptDropped = 1000

// dropJob forgets a job whose entry is gone since a revision.
func (x *index) dropJob(id string, revision uint64) {
	if len(x.dropped) == keptDropped {
		x.dropped = slices.Delete(x.dropped, 0, keptDropped/2)
	}
	x.dropped = append(x.dropped, Event{ID: revision, Job: Job{ID: id, State: deleted}, Deleted: true, At: time.Now()})
	was := x.jobs[id]
	if was == nil {
		return
	}
	if was.State.Ended() {
		x.ended = nil
	}
	delete(x.jobs, id)
	x.byAge.set(was, false)
	x.live.set(was, false)
	if !was.isGone() {
		x.tellReaders(Event{ID: x.revision, Job: *was, Deleted: true, At: time.Now()})
	}
}

// noteChange wakes those who wait for one.
func (x *index) noteChange() {
	x.order, x.places, x.waits = nil, nil, nil
	close(x.changed)
	x.changed = make(chan struct{})
}

// applyLease notes when a lease was heard of.
func (x *index) applyLease(e jetstream.KeyValueEntry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, known := x.heard[e.Key()]
	lives := e.Operation() == jetstream.KeyValuePut
	if lives {
		x.heard[e.Key()] = time.Now()
	} else {
		delete(x.heard, e.Key())
	}
	if known != lives {
		x.noteChange() // a worker came or went
	}
}

// isHeld reports whether the lease of a key was heard of within its time.
func (x *index) isHeld(key string, now time.Time) bool {
	at, ok := x.heard[key]
	return ok && now.Sub(at) <= x.lease
}

// waitFor waits until the view has a revision.
func (x *index) waitFor(ctx context.Context, revision uint64) error {
	for {
		x.mu.Lock()
		done, changed := x.revision >= revision || x.closed, x.changed
		x.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nextChange is closed when something changes.
func (x *index) nextChange() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.changed
}

// job returns a job, nil where there is none.
func (x *index) job(id string) *Job {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.jobs[id]
}

// findPlaces finds the order of the queue, and each job's place and wait.
func (x *index) findPlaces() {
	if x.order != nil {
		return
	}
	ended := x.endedFigures()
	x.order = orderQueue(x.live, ended.turns)
	x.places, x.waits = map[string]int{}, map[string]float64{}
	now, expected := time.Now(), ended.expected
	c := x.countJobs()
	ahead := c.Seconds
	for _, j := range x.order {
		ahead -= expected.seconds(j, now)
	}
	for i, j := range x.order {
		x.places[j.ID] = i + 1
		x.waits[j.ID] = max(0, ahead) / float64(max(1, c.Workers))
		ahead += expected.seconds(j, now)
	}
}

// endedFigures are what follows from the jobs that have ended.
type endedFigures struct {
	expected expectation
	turns    map[turn]time.Time // when the last of each user was taken
}

// endedFigures finds them again when a job has ended, or one that had is gone.
func (x *index) endedFigures() *endedFigures {
	if x.ended != nil {
		return x.ended
	}
	var ended []*Job
	for _, j := range x.byAge {
		if j.State.Ended() {
			ended = append(ended, j)
		}
	}
	x.ended = &endedFigures{learnExpectation(ended), lastTurns(nil, ended)}
	return x.ended
}

// fillPlace fills in what is found when a job is read.
func (x *index) fillPlace(j *Job) {
	x.findPlaces()
	j.Place, j.Wait = x.places[j.ID], x.waits[j.ID]
}

func (x *index) countJobs() Counts {
	c := Counts{QueuePaused: x.paused}
	now, expected := time.Now(), x.endedFigures().expected
	for _, j := range x.live {
		switch {
		case j.isOwned():
			c.Running++
			c.Seconds += expected.seconds(j, now)
		case j.State == Queued:
			c.Queued++
			c.Seconds += expected.seconds(j, now)
		case j.State == Paused:
			c.Paused++
		}
	}
	for key := range x.heard {
		if strings.HasPrefix(key, workerPrefix) && x.isHeld(key, now) {
			c.Workers++
		}
	}
	return c
}

// close ends all readers, and everyone who waits.
func (x *index) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	x.closed = true
	for r := range x.readers {
		r.endReading()
	}
	x.noteChange()
}
