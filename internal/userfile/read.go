// Package userfile reads and writes the files that people name: on the command
// line, in an index, beside a model.
//
// A name can lead anywhere: to a named pipe that nobody writes to, to a device
// that never ends, to a folder, to a file larger than memory. Open takes regular
// files alone and says what else it found; Read knows the size before it reads.
// Write goes to a temporary file beside the file that the name leads to, flushes
// it and renames it, so that a file is there whole or not at all; CheckWritable
// finds before any work what would make it fail.
package userfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"weft/fault"
)

// What can be wrong with a file that is to be read. The fields are Path, and
// TooLarge for ErrTooLarge.
var (
	ErrAbsent     = fault.NewKind("no-such-file")
	ErrNotRegular = fault.NewKind("not-a-regular-file")
	ErrUnreadable = fault.NewKind("unreadable-file")
	ErrTooLarge   = fault.NewKind("file-too-large")
)

// Path is the file that an error is about. Is says what was found there where it
// was no regular file: "a named pipe", "a folder".
type Path struct {
	Path string `json:"path"`
	Is   string `json:"is,omitempty"`
}

// TooLarge is a file that is larger than anything of its kind.
type TooLarge struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Limit int64  `json:"limit"`
}

// Open opens a regular file to read and gives its size. It looks before it opens
// and again after, so it never waits for a pipe and never opens a device. Errors:
// ErrAbsent (also fs.ErrNotExist), ErrNotRegular, ErrUnreadable.
func Open(path string) (*os.File, int64, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, 0, cannotRead(path, err)
	}
	if err := checkRegular(path, st); err != nil {
		return nil, 0, err
	}
	f, err := openWithoutWaiting(path)
	if err != nil {
		return nil, 0, cannotRead(path, err)
	}
	if st, err = f.Stat(); err != nil {
		f.Close()
		return nil, 0, cannotRead(path, err)
	}
	if err := checkRegular(path, st); err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// Read reads a whole regular file of at most limit bytes. Errors are those of
// Open, and ErrTooLarge before anything is read.
func Read(path string, limit int64) ([]byte, error) {
	f, size, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, tooLarge(path, size, limit)
	}
	// The size is a hint alone: a file may grow, and those of /proc say 0.
	b := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, cannotRead(path, err)
	}
	if int64(b.Len()) > limit {
		return nil, tooLarge(path, int64(b.Len()), limit)
	}
	return b.Bytes(), nil
}

// CheckRegular is Open without opening: for files that something else opens.
func CheckRegular(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return cannotRead(path, err)
	}
	return checkRegular(path, st)
}

func checkRegular(path string, st fs.FileInfo) error {
	if st.Mode().IsRegular() {
		return nil
	}
	is := NameFileType(st.Mode())
	return fault.New(ErrNotRegular, Path{path, is}, "%s is %s: want a regular file", path, is)
}

// NameFileType says in words what a name leads to: "a folder".
func NameFileType(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

func tooLarge(path string, size, limit int64) error {
	return fault.New(ErrTooLarge, TooLarge{path, size, limit}, "%s has %d bytes: such a file has at most %d", path, size, limit)
}

func cannotRead(path string, err error) error {
	switch {
	case path == "":
		return fault.New(ErrAbsent, Path{Path: path}, "the file's name is empty%w", unspoken{fs.ErrNotExist})
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(ErrAbsent, Path{Path: path}, "there is no file %s%w", path, unspoken{fs.ErrNotExist})
	}
	return fault.New(ErrUnreadable, Path{Path: path}, "%s cannot be read: %w", path, reasonOf(err))
}

// unspoken is an error that errors.Is finds behind a message that says as much already.
type unspoken struct{ error }

// Error is empty.
func (unspoken) Error() string { return "" }

// Unwrap gives the error.
func (u unspoken) Unwrap() error { return u.error }

// reasonOf leaves the operation and the path out of an error of package os: the
// message has them already.
func reasonOf(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err
	}
	return fmt.Errorf("%w", err)
}
