// Package pjrt is the raw layer over a PJRT plugin's C table: argument structs,
// the calls weft makes, errors with the plugin's own words, events.
//
// Rules that hold in every file here:
//
//  1. Structs are those of the 0.117 header, zeroed, and struct_size is always
//     the full size. A plugin that knows less leaves the rest alone; one that
//     knows more reads only what the size covers. (0.81 writes 112 bytes of
//     memory statistics whatever the size says, so a smaller struct is never
//     passed.)
//  2. Memory is named by unsafe.Pointer fields, never uintptr, so that the
//     collector sees Go memory while a call runs. Nested Go memory is pinned as
//     well; measured, it is not needed today, and it costs nothing.
//  3. A function is called only if its slot lies inside the plugin's table, and
//     only if it is in the map called, by which Missing checks a plugin at load, or in
//     the map optional, whose functions are asked for first.
//  4. Nothing here decides policy; package xla does.
package pjrt

import (
	"errors"
	"fmt"
	"runtime"
	"structs"
	"unsafe"
)

// ErrUnavailable: this build cannot load plugins. Open returns it.
var ErrUnavailable = errors.New("this build of weft has no XLA in it (build tag weft_noxla, or a platform without it)")

// header is the start of the table: struct_size, extension_start, and PJRT_Api_Version
// {struct_size, extension_start, major, minor}.
type header struct {
	_           structs.HostLayout
	size        uintptr
	extension   unsafe.Pointer
	versionSize uintptr
	versionExt  unsafe.Pointer
	major       int32
	minor       int32
}

const slotSize = unsafe.Sizeof(uintptr(0))

// API is a loaded plugin's table.
type API struct {
	table unsafe.Pointer
	path  string
}

// Version is the C API version a plugin says it was built with.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Open loads the library at path and takes its table. It calls nothing in the
// table yet: check the version first, then Initialize.
func Open(path string) (*API, error) {
	t, err := openTable(path)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, fmt.Errorf("GetPjrtApi of %s returned nothing", path)
	}
	return &API{table: t, path: path}, nil
}

// FromTable wraps a table in Go memory, for tests of the version rule.
func FromTable(table unsafe.Pointer, path string) *API { return &API{table: table, path: path} }

// Path is the file the plugin came from.
func (a *API) Path() string { return a.path }

// Version reads the plugin's version.
func (a *API) Version() Version {
	h := (*header)(a.table)
	return Version{int(h.major), int(h.minor)}
}

// TableSize is the bytes of the plugin's table, as it says itself.
func (a *API) TableSize() int { return int((*header)(a.table).size) }

// functionAddress returns the address of f, or 0 if the plugin's table ends before it
// or has a null pointer there.
func (a *API) functionAddress(f fn) uintptr {
	off := unsafe.Sizeof(header{}) + uintptr(f)*slotSize
	if off+slotSize > (*header)(a.table).size {
		return 0
	}
	return *(*uintptr)(unsafe.Add(a.table, off))
}

// invoke calls f with args and turns a PJRT_Error into a Go error.
func invoke[T any](a *API, f fn, args *T) error {
	p := a.functionAddress(f)
	if p == 0 {
		return &Error{Code: CodeUnimplemented, Message: fmt.Sprintf("the plugin's table (%d bytes, API %v) has no %s", a.TableSize(), a.Version(), called[f])}
	}
	e := callFunction(p, unsafe.Pointer(args))
	runtime.KeepAlive(args)
	return a.takeError(e)
}

// foreignPointer makes a pointer from an address that C returned. It reads the word
// through the word's own address in place of converting it, because vet's
// unsafe.Pointer check would report a conversion; the address is not in Go's memory, so
// the collector cannot move it.
func foreignPointer(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// copyText copies n bytes of C memory into a string.
func copyText(p unsafe.Pointer, n uintptr) string {
	if p == nil || n == 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// copyBytes copies n bytes of C memory.
func copyBytes(p unsafe.Pointer, n uintptr) []byte {
	if p == nil || n == 0 {
		return nil
	}
	return append([]byte(nil), unsafe.Slice((*byte)(p), n)...)
}

// copyPointers copies an array of n pointers out of C memory.
func copyPointers(p unsafe.Pointer, n uintptr) []unsafe.Pointer {
	if p == nil || n == 0 {
		return nil
	}
	return append([]unsafe.Pointer(nil), unsafe.Slice((*unsafe.Pointer)(p), n)...)
}

// dataOf returns the address of a slice's first element, or nil for an empty slice.
func dataOf[T any](s []T) unsafe.Pointer {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Pointer(unsafe.SliceData(s))
}

// stringData returns the address of a string's bytes, or nil for an empty string.
func stringData(s string) unsafe.Pointer {
	if s == "" {
		return nil
	}
	return unsafe.Pointer(unsafe.StringData(s))
}

// pin pins the memory at ptr, unless ptr is nil, and returns ptr.
func pin(p *runtime.Pinner, ptr unsafe.Pointer) unsafe.Pointer {
	if ptr != nil {
		p.Pin(ptr)
	}
	return ptr
}
