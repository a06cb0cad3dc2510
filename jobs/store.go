package jobs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"weft/fault"
)

// idPrefix begins the id of a job; 32 hex digits follow.
const idPrefix = "video_"

// newID makes the id of a job: of random bits, or of the user's idempotency key and of a secret
// of this queue, so that the same key makes the same id, and nobody else can tell which.
func (s *Store) newID(user, key string) string {
	var b [16]byte
	if key == "" {
		rand.Read(b[:]) // which never fails
	} else {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", s.salt, user, key))
		copy(b[:], sum[:])
	}
	return idPrefix + hex.EncodeToString(b[:])
}

// isID reports whether a text has the form of an id, so that none leads elsewhere.
func isID(id string) bool {
	digits, ok := strings.CutPrefix(id, idPrefix)
	raw, err := hex.DecodeString(digits)
	return ok && err == nil && len(raw) == 16 && strings.ToLower(digits) == digits
}

func notFound(id string) error {
	return fault.New(ErrNotFound, OfJob{ID: id}, "there is no video %.60q: it was never made, or is deleted or expired", id)
}

// containers are the endings that a video may have.
var containers = []string{"mp4", "webm", "avi", "png"}

// checkSpec reports every reason why a job cannot be one.
func (s *Store) checkSpec(n New) error {
	var l fault.List
	if !slices.Contains(containers, n.Container) {
		l.Add(fault.New(ErrSpec, nil, "container %q: want one of %v", n.Container, containers))
	}
	if n.Priority != clampPriority(n.Priority) {
		l.Add(fault.New(ErrSpec, nil, "priority %d: want %d to %d", n.Priority, Low, High))
	}
	if n.Key != "" && n.Body == "" {
		l.Add(fault.New(ErrSpec, nil, "an idempotency key without a hash of the body: nothing would tell two bodies apart"))
	}
	for _, hash := range []string{n.Image, n.LastImage} {
		if hash != "" {
			l.Add(s.touchImage(hash))
		}
	}
	return l.Err()
}

// Create makes a job by one durable write: when Create returns nil, the job is on disk, and
// before that there is none. Where the key of n was used before with the same body, existed is
// true and the job is that one. Errors: ErrConflict, ErrFull, ErrSpec, ErrUnavailable, and
// ErrNotFound for the key of a job that was deleted since.
func (s *Store) Create(ctx context.Context, n New) (j Job, existed bool, err error) {
	if n.Key != "" {
		if j, err := s.findCreated(ctx, n); err == nil || !errors.Is(err, ErrNotFound) || errors.Is(err, errGone) {
			return j, err == nil, err
		}
	}
	if err := s.checkSpec(n); err != nil {
		return Job{}, false, err
	}
	s.creating.Lock()
	defer s.creating.Unlock()
	if err := s.checkRoom(); err != nil {
		return Job{}, false, err
	}
	// Rounded as it is stored, so that what is answered now is what is read later.
	made := &Job{ID: s.newID(n.User, n.Key), Spec: n.Spec, By: n.By, Body: n.Body, State: Queued, Settings: n.Settings, Created: time.Now().UTC().Round(0)}
	raw, err := encodeJob(made)
	if err != nil {
		return Job{}, false, fault.New(ErrSpec, nil, "the job cannot be stored: %w", err)
	}
	if limit := s.conn.MaxPayload() - entryRoom; int64(len(raw)) > limit {
		return Job{}, false, fault.New(ErrSpec, nil, "the job has %d bytes with its prompts: the queue takes %d", len(raw), limit)
	}
	revision, err := s.jobs.Create(ctx, jobPrefix+made.ID, raw)
	switch {
	case errors.Is(err, jetstream.ErrKeyExists) && n.Key != "":
		j, err := s.findCreated(ctx, n) // another request with the key came first
		return j, err == nil, err
	case err != nil && n.Key == "":
		// The write may have been made though no answer came, and then somebody would wait for a
		// video that nobody can name.
		s.withdraw(made.ID)
		return Job{}, false, unavailable(err)
	case err != nil:
		return Job{}, false, unavailable(err)
	}
	made.Revision = revision
	s.catchUp(ctx, revision)
	return s.present(made), false, nil
}

// entryRoom is what a job's entry may grow by: progress, settings, notes.
const entryRoom = 128 << 10

// withdraw removes a job whose creation was not confirmed, if it can.
func (s *Store) withdraw(id string) {
	ctx, end := context.WithTimeout(s.ctx, 5*time.Second)
	defer end()
	_ = s.jobs.Purge(ctx, jobPrefix+id)
}

// errGone marks the job of a key that was deleted since.
var errGone = errors.New("it was deleted")

// findCreated looks for the job that an idempotency key made before.
func (s *Store) findCreated(ctx context.Context, n New) (Job, error) {
	id := s.newID(n.User, n.Key)
	j, err := s.read(ctx, id)
	switch {
	case err != nil:
		return Job{}, err
	case j.Body != n.Body:
		return Job{}, fault.New(ErrConflict, OfJob{j.ID, j.State}, "the idempotency key was sent before with another body, and made %s: send the same body, or another key", j.ID)
	case j.isGone():
		return Job{}, fault.New(ErrNotFound, OfJob{j.ID, j.State}, "the idempotency key made video %s before, and %w: send another key", j.ID, errGone)
	}
	return s.present(j), nil
}

// checkRoom refuses a job where as many wait as may.
func (s *Store) checkRoom() error {
	s.index.mu.Lock()
	c := s.index.countJobs()
	s.index.mu.Unlock()
	if waiting := c.Queued + c.Paused; waiting >= s.o.MaxQueued {
		// A place is free when the first of those that run or wait has ended.
		seconds := c.Seconds / float64(max(1, c.Queued+c.Running)) / float64(max(1, c.Workers))
		return fault.New(ErrFull, Full{waiting, s.o.MaxQueued, seconds}, "%d jobs wait, and as many may: try again when one has ended", waiting)
	}
	return nil
}

// present is a job as it is answered.
func (s *Store) present(j *Job) Job {
	out := *j
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	s.index.fillPlace(&out)
	return out
}

// read reads a job from the queue, with deleted ones.
func (s *Store) read(ctx context.Context, id string) (*Job, error) {
	if !isID(id) {
		return nil, notFound(id)
	}
	e, err := s.jobs.Get(ctx, jobPrefix+id)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, notFound(id)
	case err != nil:
		return nil, unavailable(err)
	}
	return readJob(e)
}

// Get returns a job. Error: ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (Job, error) {
	j, err := s.find(ctx, id)
	if err == nil && j.isGone() {
		err = notFound(id)
	}
	if err != nil {
		return Job{}, err
	}
	return s.present(j), nil
}

// find returns a job of this process's view of the queue, which is behind by the moment that a
// message takes, and reads it from the queue where the view has not all of it: reads wait there
// while other writes are flushed. Without a connection the view may be old, and the queue is asked.
func (s *Store) find(ctx context.Context, id string) (*Job, error) {
	if j := s.index.job(id); j != nil && !j.short && s.conn.IsConnected() {
		return j, nil
	}
	return s.read(ctx, id)
}

// List returns jobs in the order of their creation. Error: ErrNotFound for After.
func (s *Store) List(ctx context.Context, o ListOptions) (Page, error) {
	page, err := s.index.list(o)
	if err != nil {
		return page, err
	}
	return page, s.completeJobs(ctx, page.Jobs)
}

// list lists what the view has of jobs.
func (x *index) list(o ListOptions) (Page, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	page := Page{Jobs: []Job{}}
	at, step := 0, 1
	if o.Desc {
		at, step = len(x.byAge)-1, -1
	}
	if o.After != "" {
		after := x.jobs[o.After]
		if after == nil || after.isGone() {
			return page, notFound(o.After)
		}
		i, _ := slices.BinarySearchFunc(x.byAge, after, compareAge)
		at = i + step
	}
	for ; at >= 0 && at < len(x.byAge); at += step {
		j := x.byAge[at]
		if o.Sees != nil && !o.Sees(j.Spec.User) || len(o.States) > 0 && !slices.Contains(o.States, j.State) {
			continue
		}
		if o.Limit > 0 && len(page.Jobs) == o.Limit {
			page.HasMore = true
			break
		}
		out := *j
		x.fillPlace(&out)
		page.Jobs = append(page.Jobs, out)
	}
	return page, nil
}

// readsAtATime is how many jobs of a list are read at the same time.
const readsAtATime = 8

// completeJobs reads from the queue what the view has not of some jobs. One that is gone meanwhile
// stays as short as it is.
func (s *Store) completeJobs(ctx context.Context, list []Job) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(readsAtATime)
	for i := range list {
		if !list[i].short {
			continue
		}
		work.Go(func() error {
			j, err := s.read(ctx, list[i].ID)
			if err == nil && !j.isGone() {
				list[i] = *j
			}
			if errors.Is(err, ErrNotFound) {
				err = nil
			}
			return err
		})
	}
	return work.Wait()
}

// Counts says how much there is to do.
func (s *Store) Counts(context.Context) (Counts, error) {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	return s.index.countJobs(), nil
}

// Wait returns a job when it has ended. Errors: ErrNotFound, also where it is deleted meanwhile,
// and ctx's.
func (s *Store) Wait(ctx context.Context, id string) (Job, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	events, err := s.Events(ctx, id, 0)
	if err != nil {
		return Job{}, err
	}
	for e := range events {
		switch {
		case e.Deleted:
			return Job{}, notFound(id)
		case e.Job.State.Ended():
			return e.Job, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return Job{}, err
	}
	return Job{}, closedError()
}

// Preview returns the last preview of a job, a PNG of some kilobytes. Error: ErrNotFound.
func (s *Store) Preview(ctx context.Context, id string) ([]byte, error) {
	if _, err := s.Get(ctx, id); err != nil {
		return nil, err
	}
	e, err := s.previews.Get(ctx, id)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, fault.New(ErrNotFound, OfJob{ID: id}, "video %s has no preview", id)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return e.Value(), nil
}

// OpenFile opens a file that a job made: "video", or another name of Job.Files. Error:
// ErrNotFound.
func (s *Store) OpenFile(ctx context.Context, id, name string) (*os.File, File, error) {
	j, err := s.Get(ctx, id)
	if err != nil {
		return nil, File{}, err
	}
	file, ok := j.Files[name]
	if !ok {
		return nil, File{}, fault.New(ErrNotFound, OfJob{id, j.State}, "video %s is %s: it has no %s", id, describeState(&j), name)
	}
	f, err := os.Open(s.folder.outputPath(file.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, File{}, fault.New(ErrNotFound, OfJob{id, j.State}, "the %s of video %s is not in the data folder any more: somebody removed it", name, id)
	}
	if err != nil {
		return nil, File{}, fault.New(ErrData, nil, "the %s of video %s cannot be read: %w", name, id, err)
	}
	return f, file, nil
}
