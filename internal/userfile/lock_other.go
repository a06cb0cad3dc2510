//go:build !unix

package userfile

import "os"

// lockFile cannot tell a leftover from a file in use here, so nothing counts as a leftover.
func lockFile(*os.File) bool { return false }

// SyncFolder does nothing where folders cannot be flushed.
func SyncFolder(string) error { return nil }

func openWithoutWaiting(path string) (*os.File, error) { return os.Open(path) }

func freeBytes(string) int64 { return -1 }

func isDiskFull(error) bool { return false }
