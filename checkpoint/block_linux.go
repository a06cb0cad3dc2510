package checkpoint

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocBlock maps anonymous memory. From one huge page up the block begins at a
// multiple of it and asks for huge pages where the kernel has them free
// (hugePagesFree): most of the time of loading goes into the first touch of fresh
// memory, which takes three times as long with 4 KB pages. The end of the block, less
// than a huge page, stays on small pages, so that no memory beyond n bytes is ever used.
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
		if !hugePagesFree(n) {
			return b, nil
		}
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
