package checkpoint

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocBlock maps anonymous memory. From one huge page up the block begins at a
// multiple of it and asks for huge pages: touching fresh memory is most of the
// cost of loading, and with 4 KB pages three times as much. The last part of a
// page is left to small ones, so that nothing beyond n is ever resident.
func allocBlock(n int) (*Block, error) {
	if n <= 0 {
		return &Block{data: []byte{}}, nil
	}
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	if n >= hugePage {
		size += hugePage
	}
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	b := &Block{data: m[:n:n], mapping: m}
	if n >= hugePage {
		addr := uintptr(unsafe.Pointer(unsafe.SliceData(m)))
		skip := int(-addr & (hugePage - 1))
		b.data = m[skip : skip+n : skip+n]
		// An error means that the kernel has no huge pages; the memory serves all the same.
		_ = unix.Madvise(m[skip:skip+n/hugePage*hugePage], unix.MADV_HUGEPAGE)
	}
	return b, nil
}

func unmapMemory(m []byte) error {
	if m == nil {
		return nil
	}
	return unix.Munmap(m)
}
