// Package hostmemory says how much memory this machine has for a process, and how much
// this process has had.
package hostmemory

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Total is the machine's memory in bytes, 0 where it is not known.
func Total() int64 { return readMeminfo("MemTotal") }

// Available is how many bytes a process can still get without another one being
// ended for it, by the kernel's own estimate: what is free or can be given up, the
// swap, and no more than the limit of the control group. It is 0 where that is not known.
func Available() int64 {
	n := readMeminfo("MemAvailable")
	if n == 0 {
		return Total()
	}
	n += readMeminfo("SwapFree")
	if text, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
			n = min(n, limit)
		}
	}
	return n
}

// PeakResident is the largest resident memory that this process has had, in bytes, or 0
// on a system that does not tell.
func PeakResident() int64 { return readKilobytes("/proc/self/status", "VmHWM") }

// Resident is the resident memory of this process in bytes, or 0 on a system that does not
// tell.
func Resident() int64 { return readKilobytes("/proc/self/status", "VmRSS") }

// ResetPeak makes PeakResident begin anew at what is resident now. It reports whether the
// system can do that.
func ResetPeak() bool { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil }

var allocators struct {
	sync.Mutex
	give []func()
}

// AddAllocator adds an allocator beside the collector's, such as that of a library: give gives
// what it holds of freed memory back to the system. It is called by Return.
func AddAllocator(give func()) {
	allocators.Lock()
	defer allocators.Unlock()
	allocators.give = append(allocators.give, give)
}

// Return gives the memory that this process has freed back to the system: the collector's, after
// a collection, and that of other allocators. It takes milliseconds, and longer with a large heap.
func Return() {
	debug.FreeOSMemory()
	allocators.Lock()
	defer allocators.Unlock()
	for _, give := range allocators.give {
		give()
	}
}

// readMeminfo gives a value of /proc/meminfo in bytes, 0 where it is not told.
func readMeminfo(key string) int64 { return readKilobytes("/proc/meminfo", key) }

// readKilobytes gives the value of a key in a file of the kernel's whose lines are
// "key: n kB", in bytes, or 0 where it is not told.
func readKilobytes(path, key string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
