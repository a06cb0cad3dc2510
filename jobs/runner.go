package jobs

import (
	"context"

	"weft/models"
)

// Task is one try of a job.
type Task struct {
	Job Job
	// Dir is the try's folder. It has what the try before left, unless that was of another version
	// of weft. The Runner writes nothing outside.
	Dir string
	// Image and LastImage are the files of the images that the Spec names; "" is none.
	Image, LastImage string
	// Report tells where the work stands. It does not wait for the disk. The first report makes the
	// job one that runs: it comes when the first program runs, and not before.
	Report func(Progress)
	// Free says that another job may be begun beside the rest of this one.
	Free func()
}

// Output is what a Runner made.
type Output struct {
	// Files are names of files in Task.Dir by what they are: "video", "thumbnail", "spritesheet".
	// Each is written whole.
	Files    map[string]string         `json:"files"`
	Settings map[string]models.Setting `json:"settings,omitempty"`
	Notes    []string                  `json:"notes,omitempty"`
}

// Runner makes videos. It is called by one goroutine at a time unless WorkerOptions.Parallel says
// otherwise, or the Runner calls Task.Free.
type Runner interface {
	// Maker says what it makes videos with.
	Maker() Maker
	// Run makes the video of a task, or goes on with it from what is in Task.Dir. When ctx ends it
	// returns within a step, with the state of the last finished step in Task.Dir. An error while
	// ctx has not ended fails the job, with the name of the error's fault.Kind as its code. One of
	// OfMachine fails it only when it came MaxDeaths times.
	Run(ctx context.Context, t Task) (Output, error)
	// Release frees the devices: the queue is paused. The next Run takes them again.
	Release()
}

// Joiner is a Runner that gains by running some jobs at a time.
type Joiner interface {
	// Joins reports whether a job goes together with those that compute now. One that does not is
	// taken when they have ended.
	Joins(j Job, with []Job) bool
}

// machineError is an error that may be no fault of the job.
type machineError struct{ error }

func (e machineError) Unwrap() error { return e.error }

// OfMachine marks a Runner's error as one that the next job would meet too, such as devices that
// are not there. The worker waits before it takes another job. Full disks need no mark.
func OfMachine(err error) error { return machineError{err} }
