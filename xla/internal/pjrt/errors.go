package pjrt

import (
	"fmt"
	"structs"
	"unsafe"
)

// Code is a PJRT error code; the numbers are absl's.
type Code int32

// The codes that package xla looks at.
const (
	CodeInvalidArgument   Code = 3
	CodeResourceExhausted Code = 8
	CodeUnimplemented     Code = 12
)

var codeNames = [...]string{"ok", "cancelled", "unknown", "invalid argument", "deadline exceeded", "not found", "already exists",
	"permission denied", "resource exhausted", "failed precondition", "aborted", "out of range", "unimplemented", "internal",
	"unavailable", "data loss", "unauthenticated"}

func (c Code) String() string {
	if c >= 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %d", int32(c))
}

// Error is an error a plugin returned, in its own words.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%v)", e.Message, e.Code) }

type errorArgs struct { // PJRT_Error_Destroy_Args, and the start of the next two
	_    structs.HostLayout
	size uintptr
	ext  unsafe.Pointer
	err  unsafe.Pointer
}

type errorMessageArgs struct {
	_ structs.HostLayout
	errorArgs
	message     unsafe.Pointer // out
	messageSize uintptr        // out
}

type errorCodeArgs struct {
	_ structs.HostLayout
	errorArgs
	code int32 // out
}

// takeError reads and frees a PJRT_Error; nil stays nil.
func (a *API) takeError(p unsafe.Pointer) error {
	if p == nil {
		return nil
	}
	e := &Error{Code: 2}
	m := &errorMessageArgs{errorArgs: errorArgs{err: p}}
	m.size = unsafe.Sizeof(*m)
	if f := a.functionAddress(fnErrorMessage); f != 0 {
		callFunction(f, unsafe.Pointer(m))
		e.Message = copyText(m.message, m.messageSize)
	}
	c := &errorCodeArgs{errorArgs: errorArgs{err: p}}
	c.size = unsafe.Sizeof(*c)
	if f := a.functionAddress(fnErrorGetCode); f != 0 {
		// GetCode can itself return an error; it would describe nothing we can act on.
		callFunction(f, unsafe.Pointer(c))
		e.Code = Code(c.code)
	}
	d := &errorArgs{err: p}
	d.size = unsafe.Sizeof(*d)
	if f := a.functionAddress(fnErrorDestroy); f != 0 {
		callFunction(f, unsafe.Pointer(d))
	}
	return e
}
