//go:build !amd64

package cpukernel

import "weft/dtype"

// available is empty: the routines are for x86-64.
func available() []Level { return nil }

// routinesOf is never called, because there is no level.
func routinesOf(l Level, _ dtype.DType) routines {
	panic("cpukernel: no routines of level " + l.String())
}
