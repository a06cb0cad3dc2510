//go:build darwin && (amd64 || arm64) && !weft_noxla

package pjrt

// returnLargeBlocks is for glibc alone.
func returnLargeBlocks() {}
