package jobs

import (
	"context"
	"log/slog"
	"time"
)

// Options of Open.
type Options struct {
	// Dir is the data folder: files that jobs read and made, states of jobs that run, and, unless
	// NATS is given, the queue. It is made where it is not there. Workers on several machines share
	// one folder.
	Dir string
	// NATS is the URL of a server with JetStream; "" runs one in this process, which listens on no
	// port and has the folder to itself.
	NATS string
	// Credentials is a file of NATS credentials, where the server wants some.
	Credentials string
	// Replicas is how many servers of a cluster keep each change; 0 is 1.
	Replicas int

	// MaxQueued is how many jobs may wait; 0 is DefaultMaxQueued.
	MaxQueued int
	// Retention is for how long an ended job and its files are kept; 0 is DefaultRetention.
	Retention time.Duration
	// MaxDeaths is how many tries in a row may end with their worker's death, without getting a
	// step further, before a job fails; 0 is DefaultMaxDeaths.
	MaxDeaths int
	// Lease is for how long a worker that is not heard of keeps its job; 0 is DefaultLease.
	Lease time.Duration

	Log *slog.Logger // nil logs nothing
}

// What Options take where nothing is said.
const (
	DefaultMaxQueued = 1000
	DefaultRetention = 7 * 24 * time.Hour
	DefaultMaxDeaths = 5
	DefaultLease     = 10 * time.Second
)

// Store keeps the jobs. Its methods may be called from several goroutines. A change that a
// method reports as done is on disk.
type Store struct{}

// Open opens the store of a data folder. Errors: ErrLocked, ErrData, ErrUnavailable.
func Open(ctx context.Context, o Options) (*Store, error) { panic("to come") }

// Close ends the store, and the server in this process. Workers are ended before.
func (s *Store) Close() error { panic("to come") }
