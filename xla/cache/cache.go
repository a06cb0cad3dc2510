// Package cache keeps compiled programs on disk.
//
// An entry is one file: magic, length, the key's two digests, SHA-256 of these and the
// payload, payload. One file, because a cache of file pairs stops for ever over one
// orphan; a digest, because a plugin does not check machine code before it runs it; the
// key, because a file's name is not part of it: a program under another's name would
// run as that other. What is not an entry's own is not run, and is replaced.
// Writers make a temporary file, sync it and rename it, so two at once are safe
// and a process killed at any moment leaves an old entry, a new one or none.
// What goes wrong here is a warning: a cache must never fail a run.
package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weft/internal/userdir"
	"weft/internal/userfile"
)

// DefaultLimit is the size a cache is kept under.
const DefaultLimit = 4 << 30

const (
	magic      = "WEFTXLA2" // the digit is the format's version
	headerSize = len(magic) + 8 + 3*sha256.Size
	suffix     = ".weftx"
	tempPrefix = ".tmp-weftx-"
	// strayAge is the age from which a temporary file is taken to have no writer any more.
	strayAge = 10 * time.Minute
)

// Options of Open.
type Options struct {
	// Limit in bytes; 0 is DefaultLimit, negative is none.
	Limit int64
	// MinCompile keeps programs out that took less time to compile.
	MinCompile time.Duration
	// Warn is told what went wrong; nil discards it.
	Warn func(error)
}

// Cache is a folder of compiled programs. Any number of processes may share one.
type Cache struct {
	dir  string
	opts Options

	mu    sync.Mutex
	stats Stats
}

// Stats counts what this process has done with the cache.
type Stats struct {
	Hits    int `json:"hits"`
	Misses  int `json:"misses"`
	Writes  int `json:"writes"`
	Failed  int `json:"failed"` // entries that were broken or could not be written
	Evicted int `json:"evicted"`
}

// Dir returns the folder that programs are kept in: $WEFT_CACHE_DIR, or weft/programs
// in the user's cache folder. Error: userdir.ErrNoHome if the user has none.
func Dir() (string, error) {
	const variable = "WEFT_CACHE_DIR"
	if dir := os.Getenv(variable); dir != "" {
		return dir, nil
	}
	dir, err := userdir.Cache(variable)
	return filepath.Join(dir, "programs"), err
}

// Open opens the cache in dir; "" means Dir(). The folder is created with access for
// its user alone, because the programs in it are run.
func Open(dir string, opts Options) (*Cache, error) {
	if dir == "" {
		var err error
		if dir, err = Dir(); err != nil {
			return nil, fmt.Errorf("the program cache has no folder: %w", err)
		}
	}
	if opts.Limit == 0 {
		opts.Limit = DefaultLimit
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the program cache cannot be opened: %w", err)
	}
	return &Cache{dir: dir, opts: opts}, nil
}

// Folder returns the cache's folder.
func (c *Cache) Folder() string { return c.dir }

// Stats returns the counts so far.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// updateStats changes the counts under the lock.
func (c *Cache) updateStats(f func(*Stats)) {
	c.mu.Lock()
	f(&c.stats)
	c.mu.Unlock()
}

// reportFailure counts an error and passes it to Options.Warn. It is not returned,
// because a cache must never fail a run.
func (c *Cache) reportFailure(err error) {
	c.updateStats(func(s *Stats) { s.Failed++ })
	if c.opts.Warn != nil {
		c.opts.Warn(err)
	}
}

// entryPath returns the file in which the entry of a key is kept.
func (c *Cache) entryPath(k Key) string {
	return filepath.Join(c.dir, hex.EncodeToString(k.Program[:])+suffix)
}

// maxEntryBytes bounds what is read: no program that weft compiles has a hundredth of it.
const maxEntryBytes = 4 << 30

// Get returns the payload of an entry, if there is one. An entry that is damaged, or
// that belongs to another key, is removed and counts as a miss.
func (c *Cache) Get(k Key) ([]byte, bool) {
	path := c.entryPath(k)
	b, err := userfile.Read(path, maxEntryBytes)
	if err == nil {
		var payload []byte
		if payload, err = k.openEntry(b); err == nil {
			now := time.Now()
			_ = os.Chtimes(path, now, now) // what is used is young
			c.updateStats(func(s *Stats) { s.Hits++ })
			return payload, true
		}
		c.dropEntry(k, err)
	} else if !errors.Is(err, os.ErrNotExist) {
		c.reportFailure(fmt.Errorf("program cache: %w", err))
	}
	c.updateStats(func(s *Stats) { s.Misses++ })
	return nil, false
}

// Reject turns a hit into a miss because the payload could not be used, and removes the
// entry.
func (c *Cache) Reject(k Key, why error) {
	c.updateStats(func(s *Stats) { s.Hits--; s.Misses++ })
	c.dropEntry(k, why)
}

// dropEntry removes an entry and reports why.
func (c *Cache) dropEntry(k Key, why error) {
	os.Remove(c.entryPath(k))
	c.reportFailure(fmt.Errorf("program cache: entry %x is not used, and is replaced: %w", k.Program[:6], why))
}

// openEntry returns the payload of an entry after checking that the bytes are complete
// and that they belong to this key.
func (k Key) openEntry(b []byte) ([]byte, error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%d bytes without a header", len(b))
	}
	payload := b[headerSize:]
	if n := binary.LittleEndian.Uint64(b[len(magic):]); n != uint64(len(payload)) {
		return nil, fmt.Errorf("%d bytes where %d should be", len(payload), n)
	}
	own := Key{Program: [sha256.Size]byte(b[len(magic)+8:]), Plugin: [sha256.Size]byte(b[len(magic)+8+sha256.Size:])}
	if !bytes.Equal(own.entryHeader(payload), b[:headerSize]) {
		return nil, errors.New("the digest is not that of the bytes")
	}
	switch {
	case own.Plugin != k.Plugin:
		return nil, fmt.Errorf("it was compiled by another plugin, as entry %x", own.Program[:6])
	case own.Program != k.Program:
		return nil, fmt.Errorf("it is entry %x under another name", own.Program[:6])
	}
	return payload, nil
}

// entryHeader makes the header of an entry with this payload.
func (k Key) entryHeader(payload []byte) []byte {
	h := binary.LittleEndian.AppendUint64([]byte(magic), uint64(len(payload)))
	h = append(append(h, k.Program[:]...), k.Plugin[:]...)
	sum := sha256.New()
	sum.Write(h)
	sum.Write(payload)
	return sum.Sum(h)
}

// Put writes an entry and then removes old ones until the cache is within its limit.
// took is the time that compiling took.
func (c *Cache) Put(k Key, payload []byte, took time.Duration) {
	if took < c.opts.MinCompile {
		return
	}
	size := int64(headerSize + len(payload))
	if c.opts.Limit > 0 && size > c.opts.Limit {
		c.reportFailure(fmt.Errorf("program cache: an entry of %d bytes is over the limit of %d", size, c.opts.Limit))
		return
	}
	if err := c.writeEntry(k, payload); err != nil {
		c.reportFailure(fmt.Errorf("program cache: entry not written: %w", err))
		return
	}
	c.updateStats(func(s *Stats) { s.Writes++ })
	c.evictOldest(filepath.Base(c.entryPath(k)))
}

// writeEntry writes an entry's file completely or not at all.
func (c *Cache) writeEntry(k Key, payload []byte) error {
	// The folder may have been cleared away since Open.
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(c.dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	_, err1 := f.Write(k.entryHeader(payload))
	_, err2 := f.Write(payload)
	if err = errors.Join(err1, err2, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), c.entryPath(k))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
