//go:build unix

package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock on f unless another process has it. It ends with the process.
func lock(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// syncDir flushes a folder, so that a rename in it survives a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
