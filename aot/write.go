package aot

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weft/fault"
)

// ErrExists: a bundle's folder that is there already.
var ErrExists = fault.NewKind("output-exists")

// CheckWritable says whether Write may make dir: before an hour of compiling. A
// folder that is there takes force, and is then a bundle: nothing else is replaced.
func CheckWritable(dir string, force bool) error {
	_, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		up, err := os.Stat(filepath.Dir(filepath.Clean(dir)))
		if err != nil {
			return fault.New(ErrBundle, nil, "%s cannot be made: %w", dir, err)
		}
		if !up.IsDir() {
			return fault.New(ErrBundle, nil, "%s cannot be made: %s is no folder", dir, filepath.Dir(dir))
		}
		return nil
	}
	if err != nil {
		return fault.New(ErrBundle, nil, "%w", err)
	}
	if !force {
		return fault.New(ErrExists, nil, "%s exists; --force replaces it", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, ManifestName)); err != nil {
		return fault.New(ErrExists, nil, "%s exists and is no bundle of compiled programs (no %s in it): it is not replaced", dir, ManifestName)
	}
	return nil
}

// Write writes the bundle of a compilation: a folder with each program's text and
// executable, and the manifest. It appears whole or not at all: a hidden folder
// beside it is filled, flushed and renamed. A bundle that stood there is kept until
// the new one is whole. Errors: ErrExists, ErrBundle.
func (c *Compilation) Write(dir string, force bool) (err error) {
	if err := CheckWritable(dir, force); err != nil {
		return err
	}
	m, err := c.manifest()
	if err != nil {
		return err
	}
	dir = filepath.Clean(dir)
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".tmp-")
	if err != nil {
		return fault.New(ErrBundle, nil, "%w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	for _, name := range c.Step.Graph.ProgramNames() {
		code, err := c.Compiled[name].Serialize()
		if err != nil {
			return err
		}
		f := File{Program: name, Text: blob(fileName(name)+".mlir", []byte(c.Texts[name])), Executable: blob(fileName(name)+".bin", code)}
		for b, data := range map[Blob][]byte{f.Text: []byte(c.Texts[name]), f.Executable: code} {
			if err := writeSynced(filepath.Join(temp, b.Name), data); err != nil {
				return err
			}
		}
		m.Programs = append(m.Programs, f)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(temp, ManifestName), append(text, '\n')); err != nil {
		return err
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return fault.New(ErrBundle, nil, "%w", err)
	}
	return replace(temp, dir)
}

// replace puts a finished folder in a place that may be taken.
func replace(temp, dir string) error {
	old := temp + ".old"
	err := os.Rename(dir, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(ErrBundle, nil, "%w", err)
	}
	stood := err == nil
	if err := os.Rename(temp, dir); err != nil {
		if stood {
			err = errors.Join(err, os.Rename(old, dir))
		}
		return fault.New(ErrBundle, nil, "%w", err)
	}
	if stood {
		if err := os.RemoveAll(old); err != nil {
			return fault.New(ErrBundle, nil, "%s is written; what stood there before is left: %w", dir, err)
		}
	}
	return syncDir(filepath.Dir(dir))
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fault.New(ErrBundle, nil, "%w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return fault.New(ErrBundle, nil, "%w", err)
	}
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fault.New(ErrBundle, nil, "%w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fault.New(ErrBundle, nil, "%w", err)
	}
	return nil
}

// fileName is a program's name as a file's.
func fileName(program string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, program)
}
