package userfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"weft/fault"
)

// CheckFolder is CheckWritable for a folder that WriteFolder will make. A folder that
// is there is replaced with Force alone, and where owned finds nothing in it that
// such a folder does not have; its error says what that is.
func CheckFolder(o Output, owned func(dir string) error) error {
	target, _, err := findFolder(o, owned)
	if err != nil {
		return err
	}
	dir, unlock, err := createTempFolder(target)
	if err != nil {
		return cannotWrite(o.Path, err)
	}
	unlock()
	if err := removeTemp(dir); err != nil {
		return cannotWrite(o.Path, err)
	}
	return checkRoom(o, target)
}

// WriteFolder lets fill write files into a folder and then gives it its name: it is
// there whole or not at all, and one that it replaces is kept until then. fill flushes
// its files (WriteFile does). Where the name is a symbolic link, the folder that it
// leads to is made. Errors are those of CheckFolder, and what fill returns.
func WriteFolder(o Output, owned, fill func(dir string) error) error {
	target, there, err := findFolder(o, owned)
	if err != nil {
		return err
	}
	removeLeftovers(target)
	dir, unlock, err := createTempFolder(target)
	if err != nil {
		return cannotWrite(o.Path, err)
	}
	defer unlock()
	if err = fill(dir); err == nil {
		if err = SyncFolder(dir); err == nil {
			err = publishFolder(dir, target, there)
		}
	}
	// What has the hidden name now is what is not wanted: an unfinished folder, or the
	// one that stood there before.
	if rerr := removeTemp(dir); err == nil {
		err = rerr
	}
	if err == nil {
		err = SyncFolder(filepath.Dir(target))
	}
	return cannotWrite(o.Path, err)
}

// WriteFile writes a new file in a folder that WriteFolder fills, and flushes it.
func WriteFile(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// findFolder follows an output's name to the folder that will be made, and says
// whether one is there.
func findFolder(o Output, owned func(dir string) error) (target string, there bool, err error) {
	if o.Path == "" {
		return "", false, fault.New(ErrOutput, Path{}, "the output's name is empty: name a folder")
	}
	if target, err = followLinks(filepath.Clean(o.Path)); err != nil {
		return "", false, cannotWrite(o.Path, err)
	}
	up := filepath.Dir(target)
	if st, err := os.Stat(up); err != nil || !st.IsDir() {
		return "", false, fault.New(ErrOutput, Path{Path: o.Path}, "cannot make %s: %s is no folder", o.Path, up)
	}
	st, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return target, false, nil
	case err != nil:
		return "", false, cannotWrite(o.Path, err)
	case !st.IsDir():
		is := NameFileType(st.Mode())
		return "", false, fault.New(ErrExists, Path{o.Path, is}, "cannot make %s: %s is there, which is not replaced; name a folder", o.Path, is)
	}
	if err := owned(target); err != nil {
		return "", false, fault.New(ErrExists, Path{o.Path, "a folder"}, "%s is there and is not replaced: %w", o.Path, err)
	}
	if !o.Force {
		return "", false, alreadyThere(o.Path)
	}
	return target, true, nil
}

// createTempFolder makes the hidden folder and locks it.
func createTempFolder(target string) (dir string, unlock func(), err error) {
	for range 16 {
		dir = filepath.Join(filepath.Dir(target), tempPrefix(target)+rand.Text()[:10]+TempSuffix)
		if err = os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		unfinished.Store(dir, true)
		f, err := os.Open(dir)
		if err != nil {
			continue // another writer took it for a leftover
		}
		lockFile(f)
		if _, err := os.Lstat(dir); err == nil {
			return dir, func() { f.Close() }, nil
		}
		f.Close()
	}
	return "", nil, err
}

// publishFolder gives a finished folder its name, in the place of the one that is
// there, which gets the hidden name: at one stroke where the system can.
func publishFolder(dir, target string, there bool) error {
	if !there {
		return os.Rename(dir, target)
	}
	err := exchange(dir, target)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	aside := dir + ".old"
	if err := os.Rename(target, aside); err != nil {
		return err
	}
	if err := os.Rename(dir, target); err != nil {
		return errors.Join(err, os.Rename(aside, target))
	}
	return os.Rename(aside, dir)
}

// MakeTempFolder makes a folder in the system's place for what is temporary. remove
// takes it away with all that is in it, and so does RemoveUnfinished.
func MakeTempFolder(prefix string) (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", prefix); err != nil {
		return "", nil, cannotWrite(filepath.Join(os.TempDir(), prefix), err)
	}
	unfinished.Store(dir, true)
	return dir, func() { removeTemp(dir) }, nil
}
