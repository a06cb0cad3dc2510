package generate

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// niceness is what is added to that of threads that compute.
const niceness = 5

// giveWay lets what this goroutine computes give way to other threads, those that answer clients
// among them: its thread has a lower priority from now on, and so have the threads that it starts,
// as an engine's are. The goroutine keeps the thread until it ends, and the thread ends with it.
func giveWay() {
	runtime.LockOSThread()
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil { // of this thread: 20 minus its niceness
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-now+niceness, 19)) // which everyone may
	}
}
