package jobs

import "weft/fault"

// What can be wrong.
var (
	// ErrNotFound: there is no job of this id, or it was deleted. The fields are OfJob.
	ErrNotFound = fault.NewKind("job-not-found")
	// ErrConflict: an idempotency key that another body was sent with. The fields are OfJob.
	ErrConflict = fault.NewKind("idempotency-conflict")
	// ErrState: a job is in a state in which that cannot be done. The fields are OfJob.
	ErrState = fault.NewKind("job-state")
	// ErrFull: as many jobs wait as may. The fields are Full.
	ErrFull = fault.NewKind("queue-full")
	// ErrSpec: a job that cannot be one: no container, an image that was not put.
	ErrSpec = fault.NewKind("job-spec")
	// ErrLocked: another server has the data folder. The fields are Locked.
	ErrLocked = fault.NewKind("data-folder-locked")
	// ErrData: the data folder is not the one that belongs to the queue, or cannot be used.
	ErrData = fault.NewKind("data-folder")
	// ErrUnavailable: the queue's server does not answer. The same call may succeed later.
	ErrUnavailable = fault.NewKind("queue-unavailable")
	// ErrClosed: the store was closed.
	ErrClosed = fault.NewKind("queue-closed")
)

// OfJob is the job that an error is about.
type OfJob struct {
	ID    string `json:"id"`
	State State  `json:"state,omitempty"`
}

// Full says how full the queue is, and when there will be room.
type Full struct {
	Queued  int     `json:"queued"`
	Limit   int     `json:"limit"`
	Seconds float64 `json:"retry_after_seconds"` // 0 is not known
}

// Locked says who has the data folder. PID is 0 where that is not known.
type Locked struct {
	Folder string `json:"folder"`
	PID    int    `json:"pid"`
}
