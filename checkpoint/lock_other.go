//go:build !unix

package checkpoint

import "os"

// lock cannot tell a leftover from a file in use here, so nothing counts as a leftover.
func lock(*os.File) bool { return false }

func syncDir(string) error { return nil }
