package checkpoint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"weft/checkpoint/pth"
	"weft/fault"
	"weft/internal/printable"
)

// torchSuffixes are the usual endings of the names of files that torch.save writes.
var torchSuffixes = []string{".pth", ".pt", ".bin", ".ckpt"}

// isTorch says whether a file is a .pth file, by its name or, if the name has another
// ending, by its first bytes.
func isTorch(path string) bool {
	switch ext := filepath.Ext(path); {
	case slices.Contains(torchSuffixes, ext):
		return true
	case ext == weightsSuffix:
		return false
	}
	f, err := openRegular(path)
	if err != nil {
		return false
	}
	defer f.f.Close()
	var head [4]byte
	_, err = f.f.ReadAt(head[:], 0)
	return err == nil && string(head[:]) == "PK\x03\x04"
}

// openArchive opens a .pth file and reads where its tensors are.
func openArchive(path string) (*file, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	head := make([]byte, min(f.size, 512))
	if _, err = f.f.ReadAt(head, 0); err == io.EOF {
		err = nil
	}
	if err == nil {
		err = refuseLFSPointer(head, f.name)
	}
	if err == nil && len(head) > 8 && head[8] == '{' && binary.LittleEndian.Uint64(head) <= maxHeader {
		err = foreignFault(f.name, "a safetensors file", "rename it so that it ends in .safetensors")
	}
	if err == nil && !slices.Contains(torchSuffixes, filepath.Ext(f.name)) {
		err = refuseForeignName(f.name)
	}
	if err == nil && !strings.HasPrefix(string(head), "PK\x03\x04") {
		err = refuseForeignFile(head, f.f, f.size, f.name)
	}
	if err == nil {
		if f.torch, err = pth.Read(f.f, f.size, f.name); errors.Is(err, pth.ErrFormat) {
			err = cmp.Or(refuseZip(f.f, f.size, f.name), err)
		}
	}
	if err != nil {
		f.f.Close()
		return nil, err
	}
	return f, nil
}

// openTorch adds the tensors of a .pth file.
func (c *Checkpoint) openTorch(path string) error {
	f, err := openArchive(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, f)
	var faults fault.List
	for _, t := range f.torch.Tensors {
		faults.Add(c.addTorch(f, t))
	}
	c.addTorchNotices(f)
	return faults.Err()
}

// addTorchNotices adds notices about everything in a .pth file that is left out.
func (c *Checkpoint) addTorchNotices(f *file) {
	if len(f.torch.Under) > 0 {
		c.addNotice("the tensors are under the key %s of %s", printable.ListNames(f.torch.Under), f.name)
	}
	if n := len(f.torch.Beside); n > 0 {
		c.addNotice("%s beside that key, left out: %s", plural(n, "value"), printable.ListNames(f.torch.Beside))
	}
	if n := len(f.torch.Others); n > 0 {
		c.addNotice("%s of %s that are no tensors, left out: %s", plural(n, "value"), f.name, printable.ListNames(f.torch.Others))
	}
	if n := len(f.torch.Strange); n > 0 {
		c.addNotice("%s of %s that torch.save does not write, left out: %s", plural(n, "file"), f.name, printable.ListNames(f.torch.Strange))
	}
}

// addTorch makes a record of a tensor of a .pth file.
func (c *Checkpoint) addTorch(f *file, t pth.Tensor) error {
	_, bits, ok := storedType(t.Stored)
	if !ok {
		return fault.New(ErrDType, DType{f.name, t.Name, t.Stored}, "%s: tensor %s has the unknown dtype %s", f.name, t.Name, t.Stored)
	}
	bytes, _, _ := storedBytes(t.Shape, bits)
	r := &record{file: f, Entry: Entry{
		Name: t.Name, Key: t.Name, DType: t.DType, Stored: t.Stored, Shape: t.Shape, File: f.name, Offset: t.Offset, Bytes: bytes,
	}}
	s, plain, ok := newStrided(t.Shape, t.Strides)
	if !ok {
		return fault.New(ErrStrides, Strides{f.name, t.Name, t.Shape, t.Strides},
			"%s: tensor %s of shape %s has strides %s, whose elements overlap or are no multiples of each other; save a contiguous copy",
			f.name, t.Name, shapeText(t.Shape), shapeText(t.Strides))
	}
	if !plain {
		r.strided = s
	}
	c.records[t.Name] = r
	return nil
}
