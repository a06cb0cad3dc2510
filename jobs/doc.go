// Package jobs is a durable queue of videos to be made, and the workers that make them. A job
// whose creation was confirmed is never lost, and is made once, whatever process is killed at
// whatever instant.
//
// # Where what is
//
// The queue is a NATS JetStream server, in this process or elsewhere (Options.NATS). It has three
// buckets: jobs, an entry each; leases, whose entries vanish unless they are renewed; and previews.
// Files are in the data folder (Options.Dir): images that jobs read, the states of jobs that run,
// and what completed jobs made. Workers on several machines mount one data folder; a mark in it and
// in the queue says that they belong together. It is a folder and not an object store because a
// step's state is written after each step, by renaming, and is read by the next try alone.
//
// # States
//
//	queued ─ taken ─▶ (queued, with Worker) ─ first report ─▶ running ─▶ completed
//	   ▲ ▲                  │        │                          │  └───▶ failed
//	   │ └── handed back ◀──┴────────┼──── stopped, or died ◀───┘
//	resume                           └─▶ cancelled
//	   │
//	paused
//
// A job is changed by whoever has it: the worker whose Worker and Try it bears, or, where it has
// none, anybody. What users want of a job that a worker has is a Wish, which the worker fulfils
// within a step. Every change is a write that names the revision it is based on, so of two only one
// is made (transitions.go has all of them).
//
// # Who has a job
//
// A worker first makes the job's lease, which only one can, and then writes itself into the job:
// from this write on the try counts. It renews the lease every quarter of its time. A lease that is
// not renewed vanishes by the server's clock; then another worker takes the job and goes on from
// the last finished step. A worker that was only slow finds that the job bears another try, and
// that the folder of its own try has another name. A job whose workers died MaxDeaths times in a
// row, without a step between, fails with CodeWorkerDied.
//
// JetStream's own work queues are not used for this. They hand messages out in their order, where
// jobs have priorities, users that take turns, and pauses. And a consumer writes its delivery
// counts up to 100 ms after a delivery, unawaited: a request that kills the process which holds
// both the worker and the server would be delivered without end.
//
// # Order of writes
//
// The server flushes each write before it confirms it (SyncAlways).
//
//	create    image: write, flush, rename, flush the folder; then the job: write, flush, confirm
//	take      lease; then the job with Worker and Try; then the try's folder is renamed
//	step      latents and sampler's state: write, flush, rename, flush the folder; then the job
//	complete  video: flush, rename to outputs, flush the folder; then the job; then states are removed
//	expire    the job; then its files
//
// So a job names no file that is not whole and on disk. Files that no job names (a process was
// killed between two writes) are removed later by any process.
package jobs
