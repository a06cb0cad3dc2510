//go:build !amd64

package pjrt

// withGoFloatMode calls do. Functions of this process are called on x86-64 alone.
func withGoFloatMode(do func() uintptr) uintptr { return do() }
