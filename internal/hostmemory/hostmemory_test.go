package hostmemory

import (
	"os"
	"testing"
)

func TestMemory(t *testing.T) {
	if _, err := os.Stat("/proc/meminfo"); err != nil {
		t.Skip("needs /proc")
	}
	if total, free := Total(), Available(); total < 1<<24 || free < 1<<20 || total > 1<<60 {
		t.Errorf("%d bytes of memory, %d available", total, free)
	}
	if n := readMeminfo("NoSuchKey"); n != 0 {
		t.Errorf("a key that is not there: %d", n)
	}
}
