package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// errUnchanged is what a change returns that leaves a job as it is.
var errUnchanged = errors.New("nothing changes")

// change reads a job, changes it, and writes it if nobody else has written it meanwhile; else it
// begins again. The change is on disk when it returns nil.
func (s *Store) change(ctx context.Context, id string, f func(j *Job) error) (*Job, error) {
	for {
		j, err := s.read(ctx, id)
		if err != nil {
			return nil, err
		}
		revision := j.Revision
		if err := f(j); errors.Is(err, errUnchanged) {
			return j, nil
		} else if err != nil {
			return j, err
		}
		switch j.Revision, err = s.writeJob(ctx, j, revision); {
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
			continue
		case err != nil:
			return nil, unavailable(err)
		}
		return j, nil
	}
}

// catchUpFor is how long a change that is on disk waits for this process's view of the queue to
// have it. The view is behind by less than a millisecond, and by seconds when the server's
// connection was lost.
const catchUpFor = 2 * time.Second

// catchUp waits until what was written is seen by those who ask this process, if that is soon.
func (s *Store) catchUp(ctx context.Context, revision uint64) {
	ctx, end := context.WithTimeout(ctx, catchUpFor)
	defer end()
	_ = s.index.waitFor(ctx, revision)
}

// writeJob writes a job whose last revision is known, and returns the new one. With a deleted job
// all its revisions go, because the user's words are in them.
func (s *Store) writeJob(ctx context.Context, j *Job, revision uint64) (uint64, error) {
	raw, err := encodeJob(j)
	if err != nil {
		return 0, err
	}
	if j.State != deleted {
		return s.jobs.Update(ctx, jobPrefix+j.ID, raw, revision)
	}
	m := nats.NewMsg("$KV." + s.jobs.Bucket() + "." + jobPrefix + j.ID)
	m.Data = raw
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	ack, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision))
	var refused *jetstream.APIError
	if errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return 0, jetstream.ErrKeyRevisionMismatch
	}
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// changeFound is change of a job that is not gone, as its user is answered.
func (s *Store) changeFound(ctx context.Context, id string, f func(j *Job) error) (Job, error) {
	j, err := s.change(ctx, id, func(j *Job) error {
		if j.isGone() {
			return notFound(id)
		}
		return f(j)
	})
	if err != nil {
		return Job{}, err
	}
	s.catchUp(ctx, j.Revision)
	return s.present(j), nil
}

// Cancel ends a job that has not ended: at once where no worker has it, else within a step,
// and then Job.Wish is WishCancel until the worker has stopped. Error: ErrNotFound, and ErrState
// for a job that has ended otherwise.
func (s *Store) Cancel(ctx context.Context, id string) (Job, error) {
	j, err := s.changeFound(ctx, id, func(j *Job) error { return j.cancel(time.Now(), s.o.Retention) })
	if err == nil && j.State == Cancelled {
		s.removeFiles(&j)
	}
	return j, err
}

// Delete removes a job and its files. A worker that has the job stops within a step, and
// removes what it made. The job is not found from now on. Error: ErrNotFound.
func (s *Store) Delete(ctx context.Context, id string) error {
	j, err := s.change(ctx, id, func(j *Job) error {
		if j.isGone() {
			return notFound(id)
		}
		return j.remove(time.Now(), s.o.Retention)
	})
	if err != nil {
		return err
	}
	s.catchUp(ctx, j.Revision)
	if j.State == deleted {
		s.removeFiles(j)
	}
	return nil
}

// Pause keeps a job from being run until Resume. A worker that has it stops within a step and
// keeps the state. Errors: ErrNotFound, ErrState.
func (s *Store) Pause(ctx context.Context, id string) (Job, error) {
	return s.changeFound(ctx, id, (*Job).pause)
}

// Resume lets a paused job be taken again, from where it stopped. Errors: ErrNotFound, ErrState.
func (s *Store) Resume(ctx context.Context, id string) (Job, error) {
	return s.changeFound(ctx, id, (*Job).resume)
}

// PauseQueue stops all workers within a step; their jobs go back to the queue with their states,
// and the devices are free. It holds across restarts, until ResumeQueue.
func (s *Store) PauseQueue(ctx context.Context) error { return s.setPaused(ctx, true) }

// ResumeQueue lets workers take jobs again.
func (s *Store) ResumeQueue(ctx context.Context) error { return s.setPaused(ctx, false) }

func (s *Store) setPaused(ctx context.Context, paused bool) error {
	raw, err := json.Marshal(queueState{paused})
	if err != nil {
		return err
	}
	revision, err := s.jobs.Put(ctx, queueKey, raw)
	if err != nil {
		return unavailable(err)
	}
	s.catchUp(ctx, revision)
	return nil
}
