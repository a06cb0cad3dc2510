//go:build !((linux || darwin) && (amd64 || arm64)) || weft_noxla

package pjrt

import "unsafe"

// Available tells whether this build can load plugins at all.
const Available = false

func openTable(string) (unsafe.Pointer, error) { return nil, ErrUnavailable }

// The rest cannot be reached: without a table there is nothing to call.
func callFunction(uintptr, unsafe.Pointer) unsafe.Pointer { panic("pjrt: call without a plugin") }
func callDeleter(uintptr, unsafe.Pointer)                 { panic("pjrt: call without a plugin") }
func readyCallback() uintptr                              { panic("pjrt: callback without a plugin") }
func foreignCallback(func(*callFrame) unsafe.Pointer) uintptr {
	panic("pjrt: callback without a plugin")
}
