package jobs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"weft/fault"
	"weft/internal/userfile"
)

// folder is a data folder.
//
//	lock                who has it
//	id                  to which queue it belongs
//	queue/              the NATS server's files, where it is in this process
//	images/HASH         images that jobs read, by the SHA-256 of their bytes
//	work/ID.TRY/        what the try of a job leaves: the state of its last finished step
//	outputs/ID.WHAT.EXT files that completed jobs made
type folder struct{ dir string }

// The folders within a data folder.
const (
	imageFolder  = "images"
	workFolder   = "work"
	outputFolder = "outputs"
)

func (f folder) path(names ...string) string {
	return filepath.Join(append([]string{f.dir}, names...)...)
}

// makeFolder makes a data folder. Prompts are in it, so it is its owner's alone.
func makeFolder(dir string) (folder, error) {
	if dir == "" {
		return folder{}, fault.New(ErrData, nil, "no data folder is named")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return folder{}, fault.New(ErrData, nil, "the data folder %s: %w", dir, err)
	}
	f := folder{abs}
	for _, name := range []string{"", imageFolder, workFolder, outputFolder} {
		if err := os.MkdirAll(f.path(name), 0o700); err != nil {
			return f, fault.New(ErrData, nil, "the data folder %s cannot be made: %w", dir, err)
		}
	}
	return f, syncAll(f.dir, filepath.Dir(f.dir))
}

// syncAll flushes folders.
func syncAll(dirs ...string) error {
	for _, dir := range dirs {
		if err := userfile.SyncFolder(dir); err != nil {
			return fault.New(ErrData, nil, "the folder %s cannot be flushed to disk: %w", dir, err)
		}
	}
	return nil
}

// syncFolders flushes a folder and all folders below it, so that files that were made in them
// keep their names after a power cut.
func syncFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return syncAll(path)
	})
}

// writePID writes the number of this process to the file that is locked.
func writePID(path string) error {
	return os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
}

// lockedError names the process that has a data folder.
func lockedError(dir, path string) error {
	raw, _ := os.ReadFile(path)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
	who := "another process"
	if pid > 0 {
		who = "process " + strconv.Itoa(pid)
	}
	return fault.New(ErrLocked, Locked{dir, pid}, "the data folder %s is in use by %s: end it, or name another folder", dir, who)
}

// readOrMakeID returns the folder's id. One that has none gets the one that is given.
func (f folder) readOrMakeID(fresh string) (string, error) {
	path := f.path(dataFile)
	err := userfile.Write(userfile.Output{Path: path}, func(file *os.File) error {
		_, err := file.WriteString(fresh + "\n")
		return err
	})
	if err != nil && !errors.Is(err, userfile.ErrExists) {
		return "", fault.New(ErrData, nil, "the data folder %s: %w", f.dir, err)
	}
	raw, err := userfile.Read(path, 1<<10)
	if err != nil {
		return "", fault.New(ErrData, nil, "the data folder %s: %w", f.dir, err)
	}
	id := string(bytes.TrimSpace(raw))
	if id == "" {
		return "", fault.New(ErrData, nil, "the data folder %s: its file %q is empty", f.dir, dataFile)
	}
	return id, nil
}

// outputPath is where a file of a job is.
func (f folder) outputPath(name string) string { return f.path(outputFolder, name) }

// imagePath is where the image of a hash is.
func (f folder) imagePath(hash string) string { return f.path(imageFolder, hash) }

// nameOfTry is the name of the folder of a try.
func nameOfTry(id string, try int) string { return id + "." + strconv.Itoa(try) }

// splitTry reads the name of a try's folder.
func splitTry(name string) (id string, try int, ok bool) {
	id, number, found := strings.Cut(name, ".")
	try, err := strconv.Atoi(number)
	return id, try, found && err == nil
}

// openTry gives a try what the tries before it left, under a name of its own. A worker that was
// taken for dead and goes on finds its folder gone, and cannot write into this one. Where afresh
// is set, what is there is removed.
func (f folder) openTry(id string, try int, afresh bool) (string, error) {
	dir := f.path(workFolder, nameOfTry(id, try))
	last, names := 0, []string{}
	entries, err := os.ReadDir(f.path(workFolder))
	if err != nil {
		return "", fault.New(ErrData, nil, "the folder of running jobs cannot be read: %w", err)
	}
	for _, e := range entries {
		if of, n, ok := splitTry(e.Name()); ok && of == id && n <= try {
			last, names = max(last, n), append(names, e.Name())
		}
	}
	for _, name := range names {
		was := f.path(workFolder, name)
		if name != nameOfTry(id, last) || afresh {
			err = errors.Join(err, os.RemoveAll(was))
		} else if last != try {
			err = errors.Join(err, os.Rename(was, dir))
		}
	}
	if err = errors.Join(err, os.MkdirAll(dir, 0o700)); err != nil {
		return "", fault.New(ErrData, nil, "the folder of a job cannot be made: %w", err)
	}
	return dir, syncAll(f.path(workFolder))
}
