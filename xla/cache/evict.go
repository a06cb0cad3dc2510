package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// file is one file in the cache's folder.
type file struct {
	name string
	size int64
	time time.Time
}

// evictOldest removes files until the rest is within the limit. Files that are not
// complete entries go first, then entries, the oldest first in each group. The file
// named keep is not removed.
//
// Only files with names that a cache gives are considered, because a user may keep
// other things in the folder.
func (c *Cache) evictOldest(keep string) {
	if c.opts.Limit <= 0 {
		return
	}
	list, err := os.ReadDir(c.dir)
	if err != nil {
		c.reportFailure(fmt.Errorf("program cache: %w", err))
		return
	}
	var files []file
	var total int64
	for _, e := range list {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() || !isCacheFile(e.Name()) {
			continue
		}
		files = append(files, file{e.Name(), st.Size(), st.ModTime()})
		total += st.Size()
	}
	if total <= c.opts.Limit {
		return
	}
	order := map[string]int{} // 0 goes first
	for _, f := range files {
		order[f.name] = 1
		if !c.isWholeEntry(f) {
			order[f.name] = 0
		}
	}
	sort.Slice(files, func(i, j int) bool {
		a, b := files[i], files[j]
		if order[a.name] != order[b.name] {
			return order[a.name] < order[b.name]
		}
		return a.time.Before(b.time)
	})
	for _, f := range files {
		if total <= c.opts.Limit {
			break
		}
		// A young temporary file has a writer.
		if f.name == keep || strings.HasPrefix(f.name, tempPrefix) && time.Since(f.time) < strayAge {
			continue
		}
		if err := os.Remove(filepath.Join(c.dir, f.name)); err == nil {
			c.updateStats(func(s *Stats) { s.Evicted++ })
		} else if !os.IsNotExist(err) { // another process may have been first
			c.reportFailure(fmt.Errorf("program cache: %w", err))
			continue
		}
		total -= f.size
	}
}

// nameDigits are the hexadecimal digits that an entry's name begins with.
const nameDigits = 2 * sha256.Size

// isCacheFile reports whether a cache, of this version or another, gives files such a
// name: a temporary file's, or one that begins with a key.
func isCacheFile(name string) bool {
	if strings.HasPrefix(name, tempPrefix) {
		return true
	}
	if len(name) < nameDigits {
		return false
	}
	for _, r := range name[:nameDigits] {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}

// isWholeEntry reports whether a file has the name, the header and the length of an
// entry.
func (c *Cache) isWholeEntry(f file) bool {
	if len(f.name) != nameDigits+len(suffix) || !strings.HasSuffix(f.name, suffix) {
		return false
	}
	r, err := os.Open(filepath.Join(c.dir, f.name))
	if err != nil {
		return false
	}
	defer r.Close()
	head := make([]byte, headerSize)
	if _, err := r.ReadAt(head, 0); err != nil {
		return false
	}
	return string(head[:len(magic)]) == magic && int64(binary.LittleEndian.Uint64(head[len(magic):])) == f.size-int64(headerSize)
}
