package jobs

import (
	"context"

	"weft/models"
)

// Task is one try of a job.
type Task struct {
	Job Job
	// Dir is the try's folder, to be kept between tries: what a try before left is there. The
	// Runner writes nothing outside.
	Dir string
	// Image and LastImage are the files of the images that the Spec names; "" is none.
	Image, LastImage string
	// Report tells where the work stands. It does not wait for the disk.
	Report func(Progress)
}

// Output is what a Runner made.
type Output struct {
	// Files are names of files in Task.Dir by what they are: "video", "thumbnail", "spritesheet".
	// Each is written whole.
	Files    map[string]string
	Settings map[string]models.Setting
	Notes    []string
}

// Runner makes videos. It is called by one goroutine at a time unless WorkerOptions.Parallel
// says otherwise.
type Runner interface {
	// Maker says what it makes videos with.
	Maker() Maker
	// Run makes the video of a task, or goes on with it from what is in Task.Dir. When ctx ends it
	// returns within a step, with the state of the last finished step in Task.Dir. An error while
	// ctx has not ended fails the job, with the name of the error's fault.Kind as its code.
	Run(ctx context.Context, t Task) (Output, error)
	// Release frees the devices: the queue is paused. The next Run takes them again.
	Release()
}

// WorkerOptions of NewWorker.
type WorkerOptions struct {
	// ID names the worker in jobs; "" takes the host's name, the process's number and random digits.
	ID string
	// Parallel is how many jobs it runs at a time; 0 is 1.
	Parallel int
}

// Worker takes jobs of a store and runs them.
type Worker struct{}

// NewWorker makes a worker.
func NewWorker(s *Store, o WorkerOptions) *Worker { panic("to come") }

// Run takes jobs and runs them until ctx ends; then it stops within a step, gives its jobs back
// with their states, and returns nil. It goes on through failures of the queue's server.
func (w *Worker) Run(ctx context.Context, r Runner) error { panic("to come") }
