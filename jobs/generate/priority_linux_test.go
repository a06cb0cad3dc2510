package generate

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A thread that computes has a lower priority, and those of other goroutines keep theirs.
func TestThreadsThatComputeGiveWay(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	priority := func() int {
		p, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // 20 minus the niceness
		if err != nil {
			t.Error(err)
		}
		return p
	}
	before := priority()
	computes, other := make(chan int), make(chan int)
	go func() { giveWay(); computes <- priority() }()
	if got, want := <-computes, max(before-niceness, 1); got != want {
		t.Errorf("a thread that computes has priority %d, want %d", got, want)
	}
	go func() { runtime.LockOSThread(); other <- priority() }()
	if got := <-other; got != before || priority() != before {
		t.Errorf("another thread has priority %d, this one %d: both had %d", got, priority(), before)
	}
}
