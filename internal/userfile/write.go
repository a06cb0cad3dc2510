package userfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"weft/fault"
)

// What can be wrong with a file that is to be written. The fields are Path, and
// Space for ErrDiskFull.
var (
	// ErrExists: the file is there, and nobody asked to replace it; or what is
	// there must not be replaced.
	ErrExists = fault.NewKind("exists")
	// ErrOutput: the file cannot be made where it was asked for.
	ErrOutput = fault.NewKind("output")
	// ErrDiskFull: there is no room for it.
	ErrDiskFull = fault.NewKind("disk-full")
)

// Space is what a file needs and what its file system has. Need is 0 where a write
// failed whose end was not known.
type Space struct {
	Path string `json:"path"`
	Need int64  `json:"need_bytes,omitempty"`
	Free int64  `json:"free_bytes"`
}

// Output is a file to be written.
type Output struct {
	Path  string
	Force bool // take the place of a file that is there
	// Bytes is how large the file will be, or at least; 0 is not known.
	Bytes int64
	// Keep are files that are being read: the output never takes the place of one.
	Keep []string
}

// CheckWritable finds before any work what would make Write fail at its end: a
// name that is empty or leads to no file, a file that is there, a folder that is
// not or takes no new files, too little room, a file that is still to be read. It
// leaves nothing behind. Errors: ErrExists, ErrOutput, ErrDiskFull.
func CheckWritable(o Output) error {
	target, err := findTarget(o)
	if err != nil {
		return err
	}
	f, err := createTemp(target)
	if err != nil {
		return cannotWrite(o.Path, err)
	}
	f.Close()
	if err := removeTemp(f.Name()); err != nil {
		return cannotWrite(o.Path, err)
	}
	return checkRoom(o, target)
}

// checkRoom finds a disk that an output does not fit on.
func checkRoom(o Output, target string) error {
	if free := freeBytes(filepath.Dir(target)); o.Bytes > 0 && free >= 0 && free < o.Bytes {
		return fault.New(ErrDiskFull, Space{o.Path, o.Bytes, free}, "%s needs %d bytes, and its disk has %d left", o.Path, o.Bytes, free)
	}
	return nil
}

// A file being written has no name until it is whole, where the system can do that;
// else it is hidden and ends in .tmp: nothing that looks for checkpoints takes it for
// one. The writer holds a lock on it; one that nobody
// holds was left by a writer that was killed, and the next writer of the same
// name removes it.

// Write lets fill write a file and then gives it its name. Where the name is a
// symbolic link, the file that it leads to is written and the link stays. Errors
// are those of CheckWritable, and what fill returns.
func Write(o Output, fill func(f *os.File) error) error {
	target, err := findTarget(o)
	if err != nil {
		return err
	}
	removeLeftovers(target)
	f, name := openUnnamed(filepath.Dir(target)), ""
	if f == nil {
		if f, err = createTemp(target); err != nil {
			return cannotWrite(o.Path, err)
		}
		name = f.Name()
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil && name == "" {
		lockFile(f) // before others see it
		name = hiddenName(target)
		unfinished.Store(name, true)
		err = nameFile(f, name)
	}
	if err == nil {
		err = publish(f, name, o, target)
	}
	if err != nil && name != "" {
		removeTemp(name)
	}
	unfinished.Delete(name)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = SyncFolder(filepath.Dir(target))
	}
	return cannotWrite(o.Path, err)
}

// findTarget follows an output's name to the file that will be written, and
// refuses what must not be replaced.
func findTarget(o Output) (string, error) {
	if o.Path == "" {
		return "", fault.New(ErrOutput, Path{}, "the output's name is empty: name a file")
	}
	target, err := followLinks(o.Path)
	if err != nil {
		return "", cannotWrite(o.Path, err)
	}
	dir := filepath.Dir(target)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return "", fault.New(ErrOutput, Path{Path: o.Path}, "cannot write %s: %s is no folder", o.Path, dir)
	}
	if base := filepath.Base(target); base == "." || base == ".." || strings.HasSuffix(o.Path, string(filepath.Separator)) {
		return "", fault.New(ErrOutput, Path{Path: o.Path}, "cannot write %s: that is the name of a folder; name a file", o.Path)
	}
	st, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return target, nil
	case err != nil:
		return "", cannotWrite(o.Path, err)
	case !st.Mode().IsRegular():
		is := NameFileType(st.Mode())
		return "", fault.New(ErrExists, Path{o.Path, is}, "cannot write %s: %s is there, which is not replaced; name a file", o.Path, is)
	}
	for _, kept := range o.Keep {
		if other, err := os.Stat(kept); err == nil && os.SameFile(st, other) {
			return "", fault.New(ErrExists, Path{Path: o.Path}, "%s is read by this very command (%s): it is not replaced; name another file", o.Path, kept)
		}
	}
	if !o.Force {
		return "", alreadyThere(o.Path)
	}
	return target, nil
}

// followLinks gives the file that a name leads to, which need not be there yet.
func followLinks(path string) (string, error) {
	for range 40 {
		st, err := os.Lstat(path)
		if err != nil || st.Mode()&fs.ModeSymlink == 0 {
			return path, nil // what is wrong with it, others say
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(path, "/proc/") {
			// As /dev/stdout does. Such a link names what a stream of this process was
			// opened as: another file there would not be what the stream writes to.
			return "", fmt.Errorf("it is an open stream (%s); name a file", path)
		}
		if !filepath.IsAbs(to) {
			// Not joined by name: ".." of a linked folder is its own parent.
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", err
			}
			to = filepath.Join(dir, to)
		}
		path = to
	}
	return "", errors.New("its links go round in a circle")
}

func alreadyThere(path string) error {
	return fault.New(ErrExists, Path{Path: path}, "%s exists; --force replaces it", path)
}

// cannotWrite gives an error that writing met its kind; those that have one keep it.
func cannotWrite(path string, err error) error {
	var known *fault.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case isDiskFull(err):
		return fault.New(ErrDiskFull, Space{Path: path, Free: max(0, freeBytes(filepath.Dir(path)))}, "%s cannot be written: %w", path, reasonOf(err))
	}
	return fault.New(ErrOutput, Path{Path: path}, "cannot write %s: %w", path, reasonOf(err))
}

// CannotWriteStream is a stream's error as that of a file: ErrDiskFull where what
// it goes to is full, else ErrOutput. name is what its user calls it: "stdout".
func CannotWriteStream(name string, err error) error {
	kind := ErrOutput
	if isDiskFull(err) {
		kind = ErrDiskFull
	}
	return fault.New(kind, Path{Path: name}, "%s cannot be written: %w; what was printed is not whole", name, reasonOf(err))
}

// unfinished are the hidden files that are being written, by name.
var unfinished sync.Map

// removeTemp removes a hidden file that will not be finished.
func removeTemp(name string) error {
	unfinished.Delete(name)
	return os.RemoveAll(name)
}

// RemoveUnfinished removes the hidden files of everything that is being written. It
// is for a process that ends at once, without waiting for its writers.
func RemoveUnfinished() {
	unfinished.Range(func(name, _ any) bool {
		os.RemoveAll(name.(string))
		return true
	})
}

// tempPrefix begins the names of the files being written for path.
func tempPrefix(path string) string {
	base := filepath.Base(path)
	return "." + base[:min(len(base), 128)] + "."
}

// TempSuffix ends the names of files that are being written.
const TempSuffix = ".tmp"

// hiddenName is one that a file being written for path may have.
func hiddenName(path string) string {
	return filepath.Join(filepath.Dir(path), tempPrefix(path)+rand.Text()[:10]+TempSuffix)
}

// createTemp makes the hidden file and locks it. Between the two another writer
// may take it for a leftover, so it is checked to be still there.
func createTemp(path string) (*os.File, error) {
	for range 16 {
		name := hiddenName(path)
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		unfinished.Store(name, true)
		lockFile(f)
		if _, err := os.Lstat(name); err == nil {
			return f, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("no temporary file could be made beside %s", path)
}

// publish renames. Without force it must not replace a file that came meanwhile:
// a link fails where a rename would not. Where the file system has no links, a
// last look has to do. A file that is replaced hands on its permissions.
func publish(temp *os.File, name string, o Output, target string) error {
	if o.Force {
		if st, err := os.Stat(target); err == nil {
			if err := temp.Chmod(st.Mode().Perm()); err != nil {
				return err
			}
		}
		return os.Rename(name, target)
	}
	switch err := os.Link(name, target); {
	case err == nil:
		return os.Remove(name)
	case errors.Is(err, fs.ErrExist):
		return alreadyThere(o.Path)
	}
	if _, err := findTarget(o); err != nil {
		return err
	}
	return os.Rename(name, target)
}

// removeLeftovers removes what killed writers of path left.
func removeLeftovers(path string) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix(path)) || !strings.HasSuffix(e.Name(), TempSuffix) || !e.Type().IsRegular() && !e.IsDir() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if f, err := os.Open(name); err == nil {
			if lockFile(f) {
				os.RemoveAll(name)
			}
			f.Close()
		}
	}
}
