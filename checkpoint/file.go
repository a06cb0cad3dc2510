package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"weft/checkpoint/pth"
	"weft/fault"
	"weft/internal/userfile"
)

// file is one open file of a checkpoint. It stays open until Close, so that
// every read is of the file whose header was checked, even if its name is taken
// by another one meanwhile.
type file struct {
	path   string
	name   string // without folders, as messages and Entry.File have it
	f      *os.File
	size   int64
	opened os.FileInfo  // as it was opened
	read   atomic.Int64 // bytes of data read so far
	h      *header      // of a safetensors file
	// torch is the directory of a .pth file; nil for a safetensors file.
	torch *pth.Archive
}

// openFile opens a safetensors file and reads its header.
func openFile(path string) (*file, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	if f.h, err = readHeader(f.f, f.name, f.size); err != nil {
		f.f.Close()
		return nil, err
	}
	return f, nil
}

// tensorNames lists the names of a file's tensors.
func (f *file) tensorNames() []string {
	var names []string
	if f.torch != nil {
		for _, t := range f.torch.Tensors {
			names = append(names, t.Name)
		}
		return names
	}
	for _, t := range f.h.tensors {
		names = append(names, t.name)
	}
	return names
}

// openRegular opens a file and refuses pipes, devices and folders, which cannot be read
// at any offset.
func openRegular(path string) (*file, error) {
	f, size, err := userfile.Open(path)
	if err != nil {
		return nil, notThere(path, err)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, notThere(path, err)
	}
	return &file{path: path, name: filepath.Base(path), f: f, size: size, opened: st}, nil
}

// notThere makes the error for a path that cannot be opened.
func notThere(path string, err error) error {
	if path == "" {
		return fault.New(ErrNotCheckpoint, Path{Path: path}, "the checkpoint's name is empty: %w", fs.ErrNotExist)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(ErrNotCheckpoint, Path{Path: path}, "no checkpoint at %s: %w", path, fs.ErrNotExist)
	}
	return fault.New(ErrNotCheckpoint, Path{Path: path}, "cannot open checkpoint: %w", err)
}

// fileChanged makes the error for a file that ends before byte need, although it was
// longer when it was opened.
func fileChanged(name string, need int64) error {
	return fault.New(ErrFileChanged, FileChanged{File: name, Need: need},
		"%s became shorter while it was read: byte %d is gone", name, need-1)
}
