package checkpoint

import (
	"bufio"
	"os"

	"weft/fault"
	"weft/internal/userfile"
	"weft/tensor"
)

// WriteOptions change how a file is written.
type WriteOptions struct {
	Force bool // take the place of a file that is there
}

// Write writes a safetensors file. The same tensors give the same bytes. The file appears
// whole or not at all: it is written to a hidden file in the same folder, flushed to the
// disk and renamed.
func Write(path string, tensors map[string]*tensor.Tensor, meta map[string]string, o WriteOptions) error {
	entries := make([]Entry, 0, len(tensors))
	var faults fault.List
	for name, t := range tensors {
		e := Entry{Name: name, DType: t.DType, Stored: t.DType.Safetensors(), Shape: t.Shape}
		if err := setEntryBytes(&e); err == nil && e.Bytes != int64(len(t.Data)) {
			faults.Add(fault.New(ErrSizeMismatch, SizeMismatch{Tensor: name, Want: e.Bytes, Have: int64(len(t.Data))},
				"tensor %q, %v, needs %d bytes and has %d", name, t, e.Bytes, len(t.Data)))
		}
		entries = append(entries, e)
	}
	head, _, err := layOut(entries, meta)
	faults.Add(err)
	if err := faults.Err(); err != nil {
		return err
	}
	return userfile.Write(userfile.Output{Path: path, Force: o.Force}, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<20)
		if _, err := w.Write(head); err != nil {
			return err
		}
		for _, e := range entries {
			if _, err := w.Write(tensors[e.Name].Data); err != nil {
				return err
			}
		}
		return w.Flush()
	})
}

// CreateSparse writes a file that has a header and, as data, a hole: every value is zero
// and the data takes no space on the disk, so that a test can have a model of any size.
// It uses Name, DType (or Stored) and Shape of each entry.
func CreateSparse(path string, entries ...Entry) error {
	entries = append([]Entry{}, entries...)
	head, data, err := layOut(entries, nil)
	if err != nil {
		return err
	}
	return userfile.Write(userfile.Output{Path: path}, func(f *os.File) error {
		if _, err := f.Write(head); err != nil {
			return err
		}
		return f.Truncate(int64(len(head)) + data)
	})
}
