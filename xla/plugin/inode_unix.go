//go:build unix

package plugin

import (
	"io/fs"
	"syscall"
)

// inodeOf returns the number of a file's inode.
func inodeOf(st fs.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino)
	}
	return 0
}
