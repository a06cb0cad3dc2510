//go:build !unix

package plugin

import "io/fs"

func inodeOf(fs.FileInfo) uint64 { return 0 }
