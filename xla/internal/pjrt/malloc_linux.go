//go:build linux && (amd64 || arm64) && !weft_noxla

package pjrt

import (
	"os"
	"strings"
	"sync"

	"github.com/ebitengine/purego"

	"weft/internal/hostmemory"
)

// glibc's numbers of the two settings of mallopt.
const (
	mmapThreshold = -3
	arenaMax      = -8
)

// returnLargeBlocks makes glibc give blocks of 1 MB and more back to the system when they are
// freed. XLA's CPU client takes buffers and temporaries from malloc, on many threads. By itself
// glibc raises the size from which blocks are mapped alone to 32 MB, and below it every
// thread's arena keeps what was freed: an autoencoder's decoder at 128 x 128 x 9 pixels had a
// peak of 1.34 GB so, and of 0.72 GB with this, in 6 % less of the processor's time (two
// cores, 2026-12-01). A user who set glibc's own variables decides.
var returnLargeBlocks = sync.OnceFunc(func() {
	if os.Getenv("GLIBC_TUNABLES") != "" {
		return
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "MALLOC_") {
			return
		}
	}
	mallopt, err := purego.Dlsym(purego.RTLD_DEFAULT, "mallopt")
	if err != nil || mallopt == 0 {
		return // another C library
	}
	set := func(what, value int) { purego.SyscallN(mallopt, uintptr(what), uintptr(value)) }
	set(mmapThreshold, 1<<20)
	set(arenaMax, 2)
	returnFreedBlocks()
})

// returnFreedBlocks has hostmemory.Return make glibc give whole pages of freed memory back, in all
// of its arenas: smaller blocks than those above stay there by themselves, between blocks that
// are in use. Compiling leaves most of them.
func returnFreedBlocks() {
	trim, err := purego.Dlsym(purego.RTLD_DEFAULT, "malloc_trim")
	if err != nil || trim == 0 {
		return
	}
	hostmemory.AddAllocator(func() { purego.SyscallN(trim, 0) })
}
