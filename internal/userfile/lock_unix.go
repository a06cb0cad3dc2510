//go:build unix

package userfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes the lock on f unless another process has it. It ends with the process.
func lockFile(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// SyncFolder flushes a folder, so that a rename in it survives a power cut.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// openWithoutWaiting opens a file to read. A named pipe that took the file's place
// since it was looked at is opened too, but never waited for.
func openWithoutWaiting(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// freeBytes is what the file system of a folder still takes from this user, or -1
// where it does not tell.
func freeBytes(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return -1
	}
	return int64(min(uint64(st.Bavail), 1<<62/uint64(max(1, st.Bsize)))) * int64(st.Bsize)
}

// isDiskFull says whether a write failed because there was no room for it.
func isDiskFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
