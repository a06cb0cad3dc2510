//go:build (linux || darwin) && (amd64 || arm64) && !weft_noxla

package pjrt

import (
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Available tells whether this build can load plugins at all.
const Available = true

// openTable loads the shared library and returns its PJRT_Api table.
//
// RTLD_LOCAL keeps the library's symbols to itself: two plugins, each with its
// own copy of XLA inside, were run in one process so. The library is never
// closed: XLA leaves threads behind that would return into unmapped code.
func openTable(path string) (unsafe.Pointer, error) {
	returnLargeBlocks()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	entry, err := purego.Dlsym(handle, "GetPjrtApi")
	if err != nil {
		return nil, err
	}
	r, _, _ := purego.SyscallN(entry)
	return foreignPointer(r), nil
}

// callFunction is the only way into a plugin: every PJRT function takes a pointer to an
// argument struct and returns a pointer to an error, or null.
//
// The conversion is written in the call's own argument list on purpose. SyscallN is
// marked go:uintptrescapes, which moves args, and everything that its unsafe.Pointer
// fields refer to, to the heap and keeps it alive during the call.
func callFunction(fn uintptr, args unsafe.Pointer) unsafe.Pointer {
	r, _, _ := purego.SyscallN(fn, uintptr(args))
	return foreignPointer(r)
}

// callDeleter calls a deleter, a C function that takes one pointer and returns nothing.
func callDeleter(fn uintptr, p unsafe.Pointer) { purego.SyscallN(fn, uintptr(p)) }

// readyCallback is the C address of onReady, made once: a process may make
// 2,000 callbacks, never freed, and the 2,001st panics.
var readyCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(err unsafe.Pointer, handle uintptr) {
		withGoFloatMode(func() uintptr { onReady(err, handle); return 0 })
	})
})

// foreignCallback makes a C function of a handler of foreign calls, for RegisterForeign.
func foreignCallback(do func(*callFrame) unsafe.Pointer) uintptr {
	return purego.NewCallback(func(frame *callFrame) uintptr { return withGoFloatMode(func() uintptr { return uintptr(do(frame)) }) })
}
