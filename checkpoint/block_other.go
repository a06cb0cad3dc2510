//go:build !linux

package checkpoint

import "unsafe"

// allocBlock takes memory from the heap and aligns it.
func allocBlock(n int) (*Block, error) {
	if n <= 0 {
		return &Block{data: []byte{}}, nil
	}
	m := make([]byte, n+Alignment)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(m))) & (Alignment - 1))
	return &Block{data: m[skip : skip+n : skip+n]}, nil
}

func unmapMemory([]byte) error { return nil }
