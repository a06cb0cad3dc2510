package checkpoint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weft/fault"
)

// A file being written is hidden and ends in .tmp: nothing that looks for
// checkpoints takes it for one. The writer holds a lock on it; one that nobody
// holds was left by a writer that was killed, and the next writer of the same
// name removes it.

// writeWhole lets fill write a file and then gives it its name.
func writeWhole(path string, force bool, fill func(f *os.File) error) error {
	if err := mayWrite(path, force); err != nil {
		return err
	}
	removeStale(path)
	f, err := createTemp(path)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = publish(f.Name(), path, force)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// mayWrite refuses what must not be replaced.
func mayWrite(path string, force bool) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !st.Mode().IsRegular() && st.Mode()&fs.ModeSymlink == 0:
		return fault.New(ErrExists, Path{path}, "%s is there and no regular file; it is not replaced", path)
	case !force:
		return exists(path)
	}
	return nil
}

func exists(path string) error {
	return fault.New(ErrExists, Path{path}, "%s exists; it is replaced only by force", path)
}

// tempPrefix begins the names of the files being written for path.
func tempPrefix(path string) string {
	base := filepath.Base(path)
	return "." + base[:min(len(base), 128)] + "."
}

const tempSuffix = ".tmp"

// createTemp makes the hidden file and locks it. Between the two another writer
// may take it for a leftover, so it is checked to be still there.
func createTemp(path string) (*os.File, error) {
	for range 16 {
		name := filepath.Join(filepath.Dir(path), tempPrefix(path)+rand.Text()[:10]+tempSuffix)
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		lock(f)
		if _, err := os.Lstat(name); err == nil {
			return f, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("no temporary file could be made beside %s", path)
}

// publish renames. Without force it must not replace a file that came meanwhile:
// a link fails where a rename would not. Where the file system has no links, a
// last look has to do.
func publish(temp, path string, force bool) error {
	if force {
		return os.Rename(temp, path)
	}
	switch err := os.Link(temp, path); {
	case err == nil:
		return os.Remove(temp)
	case errors.Is(err, fs.ErrExist):
		return exists(path)
	}
	if err := mayWrite(path, false); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// removeStale removes what killed writers of path left.
func removeStale(path string) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix(path)) || !strings.HasSuffix(e.Name(), tempSuffix) || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if f, err := os.OpenFile(name, os.O_RDWR, 0); err == nil {
			if lock(f) {
				os.Remove(name)
			}
			f.Close()
		}
	}
}
