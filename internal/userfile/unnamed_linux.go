package userfile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed opens a new file in a folder that has no name yet: a process that is
// killed leaves nothing of it. nil where the file system has no such files.
func openUnnamed(dir string) *os.File {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o666)
	if err != nil {
		return nil
	}
	if _, err := os.Stat(ownName(f)); err != nil { // it could get no name later
		f.Close()
		return nil
	}
	return f
}

// nameFile gives an unnamed file a name that is free.
func nameFile(f *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, ownName(f), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
}

func ownName(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
