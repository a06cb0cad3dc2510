package jobs

import (
	"time"

	"weft/models"
)

// State is where a job stands. Package doc has the transitions.
type State string

// The states. Those that end a job are Completed, Failed and Cancelled.
const (
	// Queued: no worker runs it. One may have taken it (Job.Worker) and not begun.
	Queued State = "queued"
	// Paused: as Queued, and no worker takes it until Store.Resume.
	Paused State = "paused"
	// Running: a worker's first phase has begun.
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	// deleted is what is left of a job that a user removed, until its idempotency key is forgotten.
	deleted State = "deleted"
)

// Ended reports whether a job of this state never changes again.
func (s State) Ended() bool {
	return s == Completed || s == Failed || s == Cancelled || s == deleted
}

// Wish is what a user wants of a job that a worker has. The worker fulfils it within a step.
type Wish string

// The wishes.
const (
	WishCancel Wish = "cancel"
	WishPause  Wish = "pause"
	wishDelete Wish = "delete"
)

// Status is the word that clients know for a state: "queued", "in_progress", "completed" or
// "failed". Paused is queued, and Cancelled is failed with CodeCancelled.
func (j Job) Status() string {
	switch j.State {
	case Running:
		return "in_progress"
	case Completed:
		return "completed"
	case Failed, Cancelled, deleted:
		return "failed"
	}
	return "queued"
}

// Percent is how much of a job is done, from 0 to 100. 100 is of a completed job alone.
func (j Job) Percent() int {
	const begun, denoised, most = 5, 90, 99 // what text and image take, what denoising ends with
	p := j.Progress
	share := func(from, to int) int {
		if p.Of <= 0 {
			return from
		}
		return from + (to-from)*min(max(p.Step, 0), p.Of)/p.Of
	}
	switch {
	case j.State == Completed:
		return 100
	case p.Phase == phaseDenoise:
		return share(begun, denoised)
	case p.Phase == phaseDecode:
		return share(denoised, most)
	case p.Phase != "":
		return 1
	}
	return 0
}

// Job is one video to be made, or made.
type Job struct {
	ID   string `json:"id"` // 128 random bits: "video_" and 32 hex digits
	Spec Spec   `json:"spec"`
	By   Maker  `json:"by"` // what the job was created for
	// Body is the hash of what was sent, New.Body.
	Body string `json:"body,omitempty"`

	State State    `json:"state"`
	Wish  Wish     `json:"wish,omitempty"` // of a job that a worker has
	Error *Failure `json:"error,omitempty"`

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"` // when the first phase of the first try began
	Taken   time.Time `json:"taken,omitzero"`   // when the last worker took it
	Ended   time.Time `json:"ended,omitzero"`   // completed, failed or cancelled
	Expires time.Time `json:"expires,omitzero"` // when job and files are removed; of an ended job

	// Worker has taken the job; "" where none has. RanOn is what the last try ran on.
	Worker string `json:"worker,omitempty"`
	RanOn  Maker  `json:"ran_on,omitzero"`
	// Try numbers the times that a worker took the job, from 1. Deaths counts the tries in a row
	// that ended with the death of their worker and got no step further than those before.
	Try    int `json:"try"`
	Deaths int `json:"deaths,omitempty"`
	// Afresh: what the tries before left is not gone on from, because another version left it.
	Afresh bool `json:"afresh,omitempty"`
	// Progress is of the try under way, or of the last one.
	Progress Progress `json:"progress,omitzero"`
	// Furthest is the largest number of denoising steps that were finished, by any try, and
	// FurthestTaken what it was when the last try began.
	Furthest      int `json:"furthest,omitempty"`
	FurthestTaken int `json:"furthest_taken,omitempty"`
	// PreviewStep is the step whose preview Store.Preview has; 0 where there is none.
	PreviewStep int `json:"preview_step,omitempty"`

	// Files are what a completed job made: "video", and what else the Runner gave.
	Files map[string]File `json:"files,omitempty"`
	// Settings are those that the video was made with, each with its source.
	Settings map[string]models.Setting `json:"settings,omitempty"`
	Notes    []string                  `json:"notes,omitempty"`

	// What follows is found when the job is read, and not stored.

	// Place is how many jobs are taken before this one, plus one; 0 where it waits for no worker.
	Place int `json:"-"`
	// Wait is for how many seconds the job is expected to wait; 0 is not known.
	Wait float64 `json:"-"`
	// Revision is the id of the event that left the job as it is.
	Revision uint64 `json:"-"`
	// short says that the index has left out what its order does not need (shortened).
	short bool
}
