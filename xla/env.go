package xla

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// The environment belongs to the process, and plugins read it at odd moments,
// so everything that writes it goes through this lock.
//
// Go's os.Setenv does reach a plugin: purego's runtime hooks C's setenv.
var env struct {
	sync.Mutex
	userFlags *string // XLA_FLAGS as the user gave it; nil until first looked at
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
	return want, make()
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
