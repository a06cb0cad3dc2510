// Package cache keeps compiled programs on disk.
package cache

// Cache is a folder of compiled programs.
type Cache struct{}
