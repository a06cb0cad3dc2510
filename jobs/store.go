package jobs

import (
	"context"
	"os"
)

// PutImage keeps the bytes of an image, flushed to disk, and returns the hash by which a Spec
// names it. An image that no job names is removed after an hour.
func (s *Store) PutImage(ctx context.Context, b []byte) (hash string, err error) { panic("to come") }

// Create makes a job by one durable write: when Create returns nil, the job is on disk, and
// before that there is none. Where the key of n was used before with the same body, existed is
// true and the job is that one. Errors: ErrConflict, ErrFull, ErrSpec, ErrUnavailable, and
// ErrNotFound for the key of a job that was deleted since.
func (s *Store) Create(ctx context.Context, n New) (j Job, existed bool, err error) {
	panic("to come")
}

// Get returns a job. Error: ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (Job, error) { panic("to come") }

// List returns jobs in the order of their creation. Error: ErrNotFound for After.
func (s *Store) List(ctx context.Context, o ListOptions) (Page, error) { panic("to come") }

// Cancel ends a job that has not ended: at once where no worker has it, else within a step,
// and then Job.Wish is WishCancel until the worker has stopped. Error: ErrNotFound, and ErrState
// for a job that has ended otherwise.
func (s *Store) Cancel(ctx context.Context, id string) (Job, error) { panic("to come") }

// Delete removes a job and its files. A worker that has the job stops within a step, and
// removes what it made. The job is not found from now on. Error: ErrNotFound.
func (s *Store) Delete(ctx context.Context, id string) error { panic("to come") }

// Pause keeps a job from being run until Resume. A worker that has it stops within a step and
// keeps the state. Errors: ErrNotFound, ErrState.
func (s *Store) Pause(ctx context.Context, id string) (Job, error) { panic("to come") }

// Resume lets a paused job be taken again, from where it stopped. Errors: ErrNotFound, ErrState.
func (s *Store) Resume(ctx context.Context, id string) (Job, error) { panic("to come") }

// PauseQueue stops all workers within a step; their jobs go back to the queue with their states,
// and the devices are free. It holds across restarts, until ResumeQueue.
func (s *Store) PauseQueue(ctx context.Context) error { panic("to come") }

// ResumeQueue lets workers take jobs again.
func (s *Store) ResumeQueue(ctx context.Context) error { panic("to come") }

// Counts says how much there is to do.
func (s *Store) Counts(ctx context.Context) (Counts, error) { panic("to come") }

// Events tells what becomes of a job, or of all jobs where id is "": first the revisions after
// the event after (the last of them, where more were made than are kept), then each new one, and
// one where Place changed. For after 0 the first event is the job as it is. The channel is closed
// behind the event with which the job ends, when ctx ends, and when the store is closed. A reader
// who is slow misses events, never the last. Error: ErrNotFound.
func (s *Store) Events(ctx context.Context, id string, after uint64) (<-chan Event, error) {
	panic("to come")
}

// Wait returns a job when it has ended. Errors: ErrNotFound, also where it is deleted meanwhile,
// and ctx's.
func (s *Store) Wait(ctx context.Context, id string) (Job, error) { panic("to come") }

// Preview returns the last preview of a job, a PNG of some kilobytes. Error: ErrNotFound.
func (s *Store) Preview(ctx context.Context, id string) ([]byte, error) { panic("to come") }

// OpenFile opens a file that a job made: "video", or another name of Job.Files. Error:
// ErrNotFound.
func (s *Store) OpenFile(ctx context.Context, id, name string) (*os.File, File, error) {
	panic("to come")
}

// Fate is what becomes of a stored job on a start.
type Fate struct {
	ID string `json:"id"`
	// Goes is "on" from its last step to the same bytes, "on-within-tolerance" on another mesh or
	// engine, "anew" from its first step, or "waits" for a worker of its model.
	Goes string `json:"goes"`
	Why  string `json:"why"`
}

// Survey says of each job that has not ended what becomes of it where workers of m take the
// queue over. It changes nothing.
func (s *Store) Survey(ctx context.Context, m Maker) ([]Fate, error) { panic("to come") }

// Ready reports whether the store can be written: nil, or ErrUnavailable.
func (s *Store) Ready(ctx context.Context) error { panic("to come") }
