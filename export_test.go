package weft

import "testing"

// SetAvailableMemory makes this machine's memory one of so many bytes for the length of a test.
func SetAvailableMemory(t testing.TB, bytes int64) {
	was := availableMemory
	availableMemory = func() int64 { return bytes }
	t.Cleanup(func() { availableMemory = was })
}
