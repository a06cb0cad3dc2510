package xla

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"weft/fault"
)

// The environment belongs to the process, and plugins read it at odd moments,
// so everything that writes it goes through this lock.
//
// Go's os.Setenv does reach a plugin: purego's runtime hooks C's setenv.
var env struct {
	sync.Mutex
	userFlags   *string // XLA_FLAGS as the user gave it; nil until first looked at
	hostDevices int     // what NewCPU(0) means; 0 is 1
	clients     int     // ever made
}

// SetHostDevices sets how many devices NewCPU(0) gives. Once a client exists it
// can no longer change anything, and says so instead of doing nothing.
func SetHostDevices(n int) error {
	if n < 1 {
		return fault.New(ErrDeviceCount, DeviceCount{Need: n, Have: 0}, "%d host devices asked for; at least 1 is needed", n)
	}
	env.Lock()
	defer env.Unlock()
	have := max(1, env.hostDevices)
	if env.clients > 0 && n != have {
		return fault.New(ErrBackendStarted, BackendStarted{Want: n, Have: have},
			"host devices are %d and cannot become %d: a client has been made already; set them before the first, or open a client with its own count", have, n)
	}
	env.hostDevices = n
	return nil
}

// hostDevices returns the number of devices of a client that names none.
func hostDevices() int {
	env.Lock()
	defer env.Unlock()
	return max(1, env.hostDevices)
}

// withThreads runs make with NPROC set so that a client of n devices gets a
// thread pool that its collectives cannot fill.
//
// Measured with all three CPU plugins: NPROC is read when a client is made, by
// each client for itself (2,000 chained all-reduces in flight on 8 devices run
// with 16 and hang with none, whatever an earlier client in the process had).
// Twice the devices is enough. A larger value the user has set is kept.
func withThreads(n int, make func() error) (threads int, err error) {
	env.Lock()
	defer env.Unlock()
	old, had := os.LookupEnv("NPROC")
	want := max(2*n, runtime.NumCPU())
	if v, err := strconv.Atoi(old); err == nil {
		want = max(2*n, v)
	}
	os.Setenv("NPROC", strconv.Itoa(want))
	defer func() {
		if had {
			os.Setenv("NPROC", old)
		} else {
			os.Unsetenv("NPROC")
		}
	}()
	if err = make(); err == nil {
		env.clients++
	}
	return want, err
}

// UserFlags returns XLA_FLAGS without the flags that weft adds. A process that another
// weft started has inherited those.
func UserFlags() string {
	env.Lock()
	defer env.Unlock()
	if env.userFlags == nil {
		v := os.Getenv("XLA_FLAGS")
		for _, name := range []string{terminateFlag, warnFlag} { // in the order they were added, backwards
			v = strings.TrimSpace(strings.TrimSuffix(v, addedFlag(name)))
		}
		env.userFlags = &v
	}
	return *env.userFlags
}

// setDefault sets a variable that the user has not set.
func setDefault(name, value string) {
	if _, ok := os.LookupEnv(name); !ok {
		os.Setenv(name, value)
	}
}
