package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"weft/internal/userfile"
)

// Facts are known of a plugin's file without loading it.
type Facts struct {
	Path    string          `json:"path"`
	Bytes   int64           `json:"bytes"`
	ModTime int64           `json:"mod_time"` // nanoseconds
	Inode   uint64          `json:"inode"`
	SHA256  string          `json:"sha256"`
	Has     map[string]bool `json:"has"` // whether a name occurs in the file as a C string
}

// Examine hashes the regular file at path and looks for names in it. A library has a
// few hundred megabytes (0.2 s to hash here), so the result is stored in a file beside
// the library, or under Root if the library's folder is not weft's. It is trusted as
// long as path, size, time and inode stay the same.
//
// The names are those of flags: XLA keeps each flag's name as a C string in the
// library, and ends the process over a flag that it does not know.
func Examine(path string, names ...string) (Facts, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Facts{}, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return Facts{}, err
	}
	if !st.Mode().IsRegular() {
		return Facts{}, CheckLibrary(path) // says what it is; to read it might wait for ever
	}
	now := Facts{Path: path, Bytes: st.Size(), ModTime: st.ModTime().UnixNano(), Inode: inodeOf(st), Has: map[string]bool{}}
	side := factsPath(path)
	var old Facts
	if b, err := userfile.Read(side, maxManifestBytes); err == nil && json.Unmarshal(b, &old) == nil &&
		old.Path == now.Path && old.Bytes == now.Bytes && old.ModTime == now.ModTime && old.Inode == now.Inode && len(old.SHA256) == 64 {
		missing := false
		for _, n := range names {
			_, ok := old.Has[n]
			missing = missing || !ok
		}
		if !missing {
			return old, nil
		}
		for n := range old.Has { // one pass answers for all names asked so far
			names = append(names, n)
		}
	}
	if err := now.scanFile(names); err != nil {
		return Facts{}, err
	}
	if b, err := json.Marshal(now); err == nil && side != "" {
		if os.MkdirAll(filepath.Dir(side), 0o755) == nil {
			_ = writeFile(side, b) // only costs time when it fails
		}
	}
	return now, nil
}

// scanFile hashes the file and looks for the names, in one pass.
func (f *Facts) scanFile(names []string) error {
	file, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	longest := 0
	for _, n := range names {
		f.Has[n] = false
		longest = max(longest, len(n)+1)
	}
	h := sha256.New()
	buf := make([]byte, longest+1<<20) // the tail of the last block stays in front
	keep := 0
	for {
		n, err := io.ReadFull(file, buf[keep:])
		h.Write(buf[keep : keep+n])
		window := buf[:keep+n]
		for name, has := range f.Has {
			if !has && bytes.Contains(window, append([]byte(name), 0)) {
				f.Has[name] = true
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
		keep = copy(buf, window[len(window)-longest:])
	}
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

// factsPath returns the file in which the facts of the library at path are stored, or
// "" if there is no folder for it.
func factsPath(path string) string {
	root := Root()
	if root == "" {
		return ""
	}
	if rel, err := filepath.Rel(root, path); err == nil && !strings.HasPrefix(rel, "..") {
		return path + ".facts.json"
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(root, ".facts", hex.EncodeToString(sum[:8])+".json")
}
