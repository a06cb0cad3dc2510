package pth

import (
	"archive/zip"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"weft/fault"
)

// maxPickle is the largest pickle that is read. Those of models of 14 billion
// parameters have 200 KB.
const maxPickle = 100_000_000

// maxDepth bounds the search for a state dict.
const maxDepth = 4

// Archive is the directory of a .pth file.
type Archive struct {
	Tensors []Tensor // in the order of the state dict
	Under   []string // the keys that lead to the state dict, where it is not the file's own value
	Others  []string // keys of the state dict whose values are no tensors
}

// Read reads the directory of a file of the given size; file is its name in messages.
func Read(r io.ReaderAt, size int64, file string) (*Archive, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, format(file, notZip(r))
	}
	root, err := rootOf(z)
	if err != nil {
		return nil, format(file, err.Error())
	}
	entries := map[string]*zip.File{}
	for _, f := range z.File {
		if name, ok := strings.CutPrefix(f.Name, root); ok {
			if entries[name] != nil {
				return nil, format(file, "entry "+f.Name+" twice")
			}
			entries[name] = f
		}
	}
	if order, err := readEntry(entries["byteorder"], 64); err == nil && strings.TrimSpace(string(order)) != "little" {
		return nil, format(file, "its byte order is "+string(order)+"; weft reads little-endian files")
	}
	text, err := readEntry(entries["data.pkl"], maxPickle)
	if err != nil {
		return nil, format(file, "data.pkl: "+err.Error())
	}
	value, err := unpickle(text)
	if err != nil {
		fields := Pickle{File: file, Reason: err.Error()}
		if e := (*pickleError)(nil); errors.As(err, &e) {
			fields.Offset, fields.Reason = e.pos, e.reason
		}
		return nil, fault.New(ErrPickle, fields, "%s: %v", file, err)
	}
	return build(value, entries, size, file)
}

// notZip says what a file is that is no zip.
func notZip(r io.ReaderAt) string {
	var head [2]byte
	if n, _ := r.ReadAt(head[:], 0); n == 2 && head[0] == 0x80 && head[1] <= 5 {
		return "it has the format of torch before 1.6; load and save it again with a newer torch"
	}
	return "it is no zip, as torch.save writes, or is cut short"
}

// rootOf finds the folder in the zip that has the pickle.
func rootOf(z *zip.Reader) (string, error) {
	var roots []string
	for _, f := range z.File {
		if root, ok := strings.CutSuffix(f.Name, "data.pkl"); ok && strings.Count(root, "/") == 1 && strings.HasSuffix(root, "/") {
			roots = append(roots, root)
		}
	}
	if len(roots) != 1 {
		return "", errors.New("it has no data.pkl, as torch.save writes, or several")
	}
	return roots[0], nil
}

// readEntry reads a small entry.
func readEntry(f *zip.File, limit int64) ([]byte, error) {
	if f == nil {
		return nil, errors.New("not there")
	}
	if f.UncompressedSize64 > uint64(limit) {
		return nil, errors.New("too large")
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, limit))
}

// build finds the state dict in a pickle's value and places its tensors.
func build(value any, entries map[string]*zip.File, size int64, file string) (*Archive, error) {
	d, under, err := stateDict(value, file)
	if err != nil {
		return nil, err
	}
	a := &Archive{Under: under}
	var faults fault.List
	seen := map[string]bool{}
	for i, key := range d.keys {
		name, isText := key.(string)
		v, isTensor := d.values[i].(*view)
		switch {
		case !isText || !isTensor:
			if isText {
				a.Others = append(a.Others, name)
			}
			continue
		case seen[name]:
			faults.Add(fault.New(ErrPickle, Pickle{File: file, Reason: "tensor twice"}, "%s: tensor %s twice", file, name))
			continue
		}
		seen[name] = true
		e, err := locate(entries["data/"+v.storage.key], size)
		if err != nil {
			faults.Add(format(file, "the storage "+v.storage.key+" of tensor "+name+": "+err.Error()))
			continue
		}
		t, err := v.resolve(file, name, e)
		faults.Add(err)
		a.Tensors = append(a.Tensors, t)
	}
	return a, faults.Err()
}

// locate gives the place of a stored entry.
func locate(f *zip.File, size int64) (entry, error) {
	switch {
	case f == nil:
		return entry{}, errors.New("not in the file")
	case f.Method != zip.Store:
		return entry{}, errors.New("compressed; torch.save does not compress")
	}
	offset, err := f.DataOffset()
	if err != nil {
		return entry{}, err
	}
	if n := f.CompressedSize64; n > math.MaxInt64 || offset > size || int64(n) > size-offset {
		return entry{}, errors.New("reaches past the end of the file")
	}
	return entry{offset, int64(f.CompressedSize64)}, nil
}

// wrappers are keys under which trainers put the state dict, the likeliest first.
var wrappers = []string{"module", "state_dict", "model", "model_state_dict", "net"}

// stateDict finds the dict that has tensors: the value itself, or one inside it.
func stateDict(value any, file string) (d *dict, under []string, err error) {
	d, ok := value.(*dict)
	for range maxDepth {
		if !ok || d.hasTensors() {
			break
		}
		var keys []string
		inner := map[string]*dict{}
		for i, k := range d.keys {
			name, isText := k.(string)
			if sub, isDict := d.values[i].(*dict); isText && isDict && sub.leadsToTensors(maxDepth, map[*dict]bool{}) {
				keys, inner[name] = append(keys, name), sub
			}
		}
		if len(keys) > 1 {
			for _, w := range wrappers {
				if slices.Contains(keys, w) {
					keys = []string{w}
					break
				}
			}
		}
		if len(keys) > 1 {
			return nil, nil, fault.New(ErrStateDict, Dicts{file, keys}, "%s has tensors under several keys, and none is named %s: %s",
				file, strings.Join(wrappers, ", "), strings.Join(keys, ", "))
		}
		if len(keys) == 0 {
			break
		}
		d, under = inner[keys[0]], append(under, keys[0])
	}
	if !ok || !d.hasTensors() && len(d.keys) > 0 {
		return nil, nil, fault.New(ErrStateDict, Dicts{file, []string{}}, "%s holds no dict of names and tensors", file)
	}
	return d, under, nil
}

func (d *dict) hasTensors() bool {
	return slices.ContainsFunc(d.values, func(v any) bool { _, ok := v.(*view); return ok })
}

// leadsToTensors looks a few levels down. A pickle's dicts may contain each other,
// so each is looked at once.
func (d *dict) leadsToTensors(depth int, seen map[*dict]bool) bool {
	if seen[d] || depth == 0 {
		return false
	}
	seen[d] = true
	return d.hasTensors() || slices.ContainsFunc(d.values, func(v any) bool {
		sub, ok := v.(*dict)
		return ok && sub.leadsToTensors(depth-1, seen)
	})
}
