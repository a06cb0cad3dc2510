package jobs

import (
	"encoding/json"
	"time"

	"weft/models"
)

// Priority orders the queue before everything else does. Within one priority, users take turns.
type Priority int

// The priorities.
const (
	Low    Priority = -1
	Normal Priority = 0
	High   Priority = 1
)

// Spec is what a video is made of. It is settled when the job is created and never changes, so
// that every try of every worker makes the same bytes.
type Spec struct {
	// Model is the name of the model, and ModelHash the hash of the headers and the configurations
	// of its parts. A worker takes jobs of its own ModelHash alone.
	Model     string `json:"model"`
	ModelHash string `json:"model_hash"`

	Prompt string `json:"prompt"`
	// Negative is what the video is guided away from; nil is the release's own.
	Negative *string `json:"negative,omitempty"`
	// Image and LastImage are hashes that Store.PutImage gave; "" is none. Fit says how they fill
	// the frames, as picture.Fit; "" is the release's own way.
	Image     string `json:"image,omitempty"`
	LastImage string `json:"last_image,omitempty"`
	Fit       string `json:"fit,omitempty"`

	// Request is a request.Request as its MarshalJSON writes it. Its seed is not read: Seed is.
	// It is kept as text, so that a job stays readable for a version of weft that would refuse it.
	Request json.RawMessage `json:"request,omitempty"`
	Seed    uint64          `json:"seed"`

	// What pipeline.Options has besides the request, as the flags of weft generate write it.
	NoTruncate      bool    `json:"no_truncate,omitempty"`
	Crop            *[2]int `json:"crop,omitempty"` // width and height
	Tiles           string  `json:"tiles,omitempty"`
	AutoencoderType string  `json:"vae_dtype,omitempty"`
	Preview         int     `json:"preview,omitempty"` // a preview every so many steps; 0 is none
	// Container ends the video's name: "mp4", "webm", "avi" or "png".
	Container string `json:"container"`

	// Seconds and Bytes are what a plan expects the video to take: seconds on one worker, and
	// bytes on the device that holds the most. 0 is not known.
	Seconds float64 `json:"plan_seconds,omitempty"`
	Bytes   int64   `json:"plan_bytes,omitempty"`
	// Settings are those that were taken, each with its source, as far as they are known when the
	// job is created. Size, frames and frames a second of answers are read here.
	Settings map[string]models.Setting `json:"settings,omitempty"`

	// User is who asked; "" is one user too. Users of one priority take turns.
	User     string   `json:"user,omitempty"`
	Priority Priority `json:"priority,omitempty"`
}

// New is a job to be created.
type New struct {
	Spec
	// Key makes the creation idempotent for one User; "" does not. Body is a hash of what was
	// sent: the same key with another body is ErrConflict.
	Key  string
	Body string
	// By is what the creating process runs (Store.Survey compares it with what a later one does).
	By Maker
}

// Maker says what makes videos: two of the same make the same bytes.
type Maker struct {
	Weft   string `json:"weft"`             // version
	Model  string `json:"model_hash"`       // Spec.ModelHash
	Mesh   string `json:"mesh,omitempty"`   // as mesh.FormatAxes writes it
	Engine string `json:"engine,omitempty"` // name of what runs programs
}

// Progress is what a Runner reports.
type Progress struct {
	Phase string `json:"phase,omitempty"` // text, image, denoise, decode
	Step  int    `json:"step"`            // steps or frames that are done
	Of    int    `json:"of"`              // 0 is not known
	// Left is how many seconds the rest of the phase will take; 0 is not known.
	Left float64 `json:"seconds_left,omitempty"`
	// Memory is the most that the worker's process had resident during this job, in bytes.
	Memory int64 `json:"memory_bytes,omitempty"`
	// Preview names a small PNG in Task.Dir that shows the latents; "" where there is no new one.
	Preview string `json:"-"`
}

// File is a file that a job made, in the data folder's folder of outputs.
type File struct {
	Name        string `json:"name"`
	SHA256      string `json:"sha256"`
	Size        int64  `json:"size"`
	ContentType string `json:"content_type"`
}

// Failure is why a job failed. Code is one of the Code constants, or the name of a fault.Kind.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Codes of failures that are not of a kind of package fault.
const (
	// CodeCancelled: a user ended the job.
	CodeCancelled = "cancelled"
	// CodeWorkerDied: each of the allowed tries in a row ended with the death of its worker, and
	// none got a step further.
	CodeWorkerDied = "worker-died"
)

// Counts are how many jobs are in each state, and how long those that wait will take.
type Counts struct {
	Queued  int `json:"queued"` // those that a worker may take, without paused ones
	Paused  int `json:"paused"`
	Running int `json:"running"` // those that a worker has taken
	// Seconds is how long the jobs that wait and what is left of those that run are expected to
	// take on one worker: plans' times, scaled by what the last jobs took. Workers share it.
	Seconds float64 `json:"seconds"`
	Workers int     `json:"workers"` // that said within a lease that they live
	// QueuePaused: no job is taken until Store.ResumeQueue.
	QueuePaused bool `json:"queue_paused"`
}

// Page is a part of a list.
type Page struct {
	Jobs    []Job
	HasMore bool
}

// ListOptions of Store.List.
type ListOptions struct {
	After string // id of the job before the first; "" begins at the beginning
	Limit int    // 0 is all
	Desc  bool   // the newest first
	// Sees, where set, says whose jobs are listed.
	Sees func(user string) bool
	// States, where set, are the states of the jobs that are listed.
	States []State
}

// Event is a job as a revision left it. An event has the whole state, so a reader who missed
// some has missed nothing with the next one.
type Event struct {
	// ID grows with every change of the store, across restarts.
	ID  uint64
	Job Job
	// Deleted: the job is gone; no further event comes.
	Deleted bool
	At      time.Time
}
