//go:build amd64 && !linux

package cpukernel

// permitTiles says no: how another operating system is asked for tiles is not known here.
func permitTiles() bool { return false }
