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

// The peak is a process's own, and memory that is touched raises it.
func TestPeakResident(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("needs /proc")
	}
	before := PeakResident()
	touched := make([]byte, 64<<20)
	for i := 0; i < len(touched); i += 4096 {
		touched[i] = 1
	}
	if after := PeakResident(); before < 1<<20 || after < before+32<<20 || after > Total() {
		t.Errorf("%d bytes before and %d after %d were touched, of %d", before, after, len(touched), Total())
	}
}
