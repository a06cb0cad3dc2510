package pth

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/printable"
)

const (
	// maxPickle is the largest pickle that is read. Those of models of 14 billion
	// parameters have 200 KB.
	maxPickle = 16 << 20
	// maxUnpacked bounds the ratio of a pickle's size to its compressed size. torch does not
	// compress it, and tools that do reduce it to a tenth.
	maxUnpacked = 50
	// maxEntries bounds the entries of the zip; each storage is one.
	maxEntries = 1 << 20
	// maxDepth bounds the search for a state dict.
	maxDepth = 4
	// maxSearch bounds the values that are looked at to count the tensors inside a value.
	maxSearch = 1 << 20
)

// Archive is the directory of a .pth file.
type Archive struct {
	Tensors []Tensor // in the order of the state dict
	Under   []string // the keys that lead from the file's value to the state dict; empty if it is the state dict
	Others  []string // keys of the state dict whose values are not tensors, and what they are
	Beside  []string // keys beside those of Under, and what their values are
	Strange []string // entries of the zip that torch.save does not write
}

// Read reads the directory of a file of the given size; file is its name in messages.
func Read(r io.ReaderAt, size int64, file string) (*Archive, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, notZipFault(r, size, file)
	}
	if err := checkEnd(r, size, file); err != nil {
		return nil, err
	}
	if n := len(z.File); n > maxEntries {
		return nil, fault.New(ErrLimit, Limit{file, "entries", int64(n), maxEntries}, "%s has %d entries; a file of tensors has at most %d", file, n, maxEntries)
	}
	root, err := findRootFolder(z)
	if err != nil {
		return nil, newFileFault(ErrFormat, file, err.Error())
	}
	a := &Archive{}
	entries := map[string]*zip.File{}
	for _, f := range z.File {
		name, ok := strings.CutPrefix(f.Name, root)
		switch {
		case !ok:
			a.Strange = append(a.Strange, f.Name)
			continue
		case entries[name] != nil:
			return nil, newFileFault(ErrFormat, file, "entry "+f.Name+" twice")
		case name == "constants.pkl":
			return nil, newFileFault(ErrFormat, file, "it is a TorchScript program: load it with torch.jit.load and save its state_dict()")
		case !strings.HasPrefix(name, "data/") && !strings.HasPrefix(name, ".") && !slices.Contains([]string{"data.pkl", "byteorder", "version"}, name):
			a.Strange = append(a.Strange, f.Name)
		}
		entries[name] = f
	}
	if entries["byteorder"] != nil {
		order, err := readEntry(entries["byteorder"], 64)
		switch text := strings.TrimSpace(string(order)); {
		case err != nil:
			return nil, newFileFault(ErrFormat, file, "byteorder: "+err.Error())
		case text != "little":
			return nil, newFileFault(ErrByteOrder, file, fmt.Sprintf("its byte order is %.20q; weft reads little-endian files: load and save it on a machine of that order", text))
		}
	}
	value, err := readPickle(entries["data.pkl"], size, file)
	if err != nil {
		return nil, err
	}
	return a, a.addTensors(value, entries, size, file)
}

// readPickle reads and interprets data.pkl. Its uncompressed size is checked before it is
// read.
func readPickle(f *zip.File, size int64, file string) (any, error) {
	have, limit := f.UncompressedSize64, min(maxPickle, max(64<<10, maxUnpacked*f.CompressedSize64))
	if have > limit {
		have = min(have, math.MaxInt64)
		return nil, fault.New(ErrLimit, Limit{file, "bytes of data.pkl", int64(have), int64(limit)},
			"%s: data.pkl unpacks %d bytes to %d; at most %d are read: a state dict's has some hundred bytes a tensor, and torch does not pack it",
			file, f.CompressedSize64, have, limit)
	}
	text, err := readEntry(f, int64(limit))
	if err != nil {
		return nil, newFileFault(ErrFormat, file, "data.pkl: "+err.Error())
	}
	value, err := unpickle(text, size)
	var e *pickleError
	var foreign *foreignError
	switch {
	case err == nil:
		return value, nil
	case errors.As(err, &foreign):
		return nil, fault.New(ErrReference, References{file, foreign.names},
			"%s refers to %s, which no file of tensors needs: nothing of it was run, and nothing is read; if you trust the file, load it with torch and save its state dict alone",
			file, printable.ListNames(foreign.names))
	case errors.As(err, &e) && e.limit != nil:
		e.limit.File = file
		return nil, fault.New(ErrLimit, *e.limit, "%s: %v; at most %d are read", file, err, e.limit.Limit)
	case errors.As(err, &e):
		return nil, fault.New(ErrPickle, Pickle{file, e.pos, e.reason}, "%s: %v", file, err)
	}
	return nil, err
}

// notZipFault makes the error for a file that is not a zip: it has the format of old
// torch, or it is a zip that is cut short, for which the error gives the least size that
// it had.
func notZipFault(r io.ReaderAt, size int64, file string) error {
	head := make([]byte, min(size, 4))
	if n, err := r.ReadAt(head, 0); err != nil && n < len(head) {
		return newFileFault(ErrNotZip, file, "it cannot be read: "+err.Error())
	}
	switch {
	case len(head) == 4 && string(head) == "PK\x03\x04":
		if need := leastZipSize(r, size); need > size {
			return fault.New(ErrTruncated, Extent{File: file, Need: need, Have: size}, "%s is cut short: need at least %d bytes, have %d; fetch it again", file, need, size)
		}
		return newFileFault(ErrNotZip, file, fmt.Sprintf("it begins as a zip and its directory, at the end, is damaged or not there: cut short, of %d bytes; fetch it again", size))
	case len(head) > 1 && head[0] == 0x80 && head[1] <= 5:
		return newFileFault(ErrLegacy, file, "it has the format of torch before 1.6; load and save it again with a newer torch")
	}
	return newFileFault(ErrNotZip, file, fmt.Sprintf("it is no zip, as torch.save writes: it has %d bytes", size))
}

// leastZipSize gives the least size of a zip of which only the beginning is there. It
// follows the entries to the last one that begins in the file, and adds the least size of
// a directory to the place where that entry would end.
func leastZipSize(r io.ReaderAt, size int64) int64 {
	const header, directory = 30, 22
	at := int64(0)
	for range maxEntries {
		var h [header]byte
		if n, _ := r.ReadAt(h[:], at); n < header || string(h[:4]) != "PK\x03\x04" {
			break
		}
		names := int64(binary.LittleEndian.Uint16(h[26:])) + int64(binary.LittleEndian.Uint16(h[28:]))
		bytes := int64(binary.LittleEndian.Uint32(h[18:]))
		at += header + names
		if bytes == math.MaxUint32 || at > size {
			break
		}
		if at += bytes; at > size {
			break
		}
	}
	return at + directory
}

// checkEnd refuses a file that goes on after the zip's directory.
func checkEnd(r io.ReaderAt, size int64, file string) error {
	const directory, longest = 22, 22 + math.MaxUint16
	tail := make([]byte, min(size, longest))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
		return newFileFault(ErrNotZip, file, "it cannot be read: "+err.Error())
	}
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || at+directory > len(tail) {
		return nil
	}
	end := at + directory + int(binary.LittleEndian.Uint16(tail[at+20:]))
	if end < len(tail) {
		need := size - int64(len(tail)-end)
		return fault.New(ErrTrailingBytes, Extent{File: file, Need: need, Have: size},
			"%s: %d bytes too many after the zip's end: need %d bytes, have %d; fetch it again, or write it anew",
			file, size-need, need, size)
	}
	return nil
}

// findRootFolder gives the folder in the zip that has the pickle, with its slash.
func findRootFolder(z *zip.Reader) (string, error) {
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

// addTensors finds the state dict in a pickle's value and adds its tensors, each with its
// place in the file.
func (a *Archive) addTensors(value any, entries map[string]*zip.File, size int64, file string) error {
	look := &search{left: maxSearch}
	d, err := a.findStateDict(value, look, file)
	if err != nil {
		return err
	}
	var faults fault.List
	seen := map[string]bool{}
	for i, key := range d.keys {
		name, isText := key.(string)
		if !isText {
			name = look.describeValue(key)
		}
		value := d.values[i]
		if !isTensor(value) {
			if look.tensorsIn(value) > 0 && !slices.Contains(trainerKeys, name) {
				faults.Add(fault.New(ErrStateDict, Dicts{file, []string{name}},
					"%s: %s is %s, beside tensors: a state dict has names and tensors; save what is wanted alone", file, name, look.describeValue(value)))
			}
			a.Others = append(a.Others, printable.ClipName(name)+" ("+look.describeValue(value)+")")
			continue
		}
		if !isText {
			faults.Add(fault.New(ErrKey, Value{file, name, "no text"}, "%s: a tensor has the key %s, which is no text; save it under a name", file, name))
			continue
		}
		if seen[name] {
			faults.Add(fault.New(ErrPickle, Pickle{File: file, Reason: "tensor twice"}, "%s: tensor %s twice", file, name))
			continue
		}
		seen[name] = true
		v, ok := value.(*view)
		if !ok {
			is := value.(*refused).is
			faults.Add(fault.New(ErrTensorKind, Value{file, name, is},
				"%s: %s is %s, which weft does not read; save it as a plain tensor (dense, on the CPU, .detach().clone())", file, name, is))
			continue
		}
		e, err := v.findStorage(entries, size, file, name)
		if err != nil {
			faults.Add(err)
			continue
		}
		t, err := v.resolveTensor(file, name, e)
		faults.Add(err)
		a.Tensors = append(a.Tensors, t)
	}
	return faults.Err()
}

// findStorage gives the place of a tensor's storage in the file.
func (v *view) findStorage(entries map[string]*zip.File, size int64, file, name string) (entry, error) {
	f := entries["data/"+v.storage.key]
	bad := func(reason string) (entry, error) {
		return entry{}, fault.New(ErrStorage, Value{file, name, reason}, "%s: the storage %s of tensor %s is %s", file, v.storage.key, name, reason)
	}
	if f == nil {
		return entry{}, fault.New(ErrMissingStorage, Value{file, name, v.storage.key}, "%s: the storage %s of tensor %s is not in the file; fetch it again", file,
			v.storage.key, name)
	}
	if f.Method != zip.Store {
		return bad("compressed; torch.save does not compress")
	}
	offset, err := f.DataOffset()
	if err != nil {
		return bad("damaged: " + err.Error())
	}
	if n := f.CompressedSize64; n > math.MaxInt64 || offset > size || int64(n) > size-offset {
		return bad("reaching past the end of the file")
	}
	return entry{offset, int64(f.CompressedSize64)}, nil
}

var (
	// wrappers are keys under which trainers store the state dict, the most likely first.
	wrappers = []string{"module", "state_dict", "model", "model_state_dict", "net", "generator", "transformer", "dit"}
	// trainerKeys are keys of the other values that trainers store.
	trainerKeys = []string{"optimizer", "optimizers", "optimizer_state_dict", "optimizer_states", "lr_scheduler", "lr_schedulers", "scheduler", "scaler", "grad_scaler", "amp",
		"rng_state", "rng_states", "random_states", "cuda_rng_state", "torch_rng_state", "random_rng_state", "callbacks", "loops", "hyper_parameters", "args", "config",
		"epoch", "step", "global_step", "iteration", "critic", "discriminator", "loss_scaler", "client_lr_scheduler"}
)

// findStateDict finds the dict that has the tensors: the value itself, or a dict inside it.
func (a *Archive) findStateDict(value any, look *search, file string) (*dict, error) {
	d, ok := value.(*dict)
	if !ok {
		return nil, fault.New(ErrStateDict, Dicts{file, []string{}}, "%s holds %s, and no dict of names and tensors", file, look.describeValue(value))
	}
	for range maxDepth {
		var keys []string
		inner := map[string]*dict{}
		for i, k := range d.keys {
			name, isText := k.(string)
			if sub, isDict := d.values[i].(*dict); isText && isDict && sub.leadsToTensors(maxDepth, map[*dict]bool{}) {
				keys, inner[name] = append(keys, name), sub
			}
		}
		keys = likeliestKey(keys, d.hasTensors())
		if len(keys) > 1 {
			return nil, fault.New(ErrStateDict, Dicts{file, keys}, "%s has tensors under several keys, and none is named %s: %s; save one of them alone",
				file, strings.Join(wrappers, ", "), printable.ListNames(keys))
		}
		if len(keys) == 0 {
			break
		}
		for i, k := range d.keys {
			if k != any(keys[0]) {
				name, isText := k.(string)
				if !isText {
					name = look.describeValue(k)
				}
				a.Beside = append(a.Beside, printable.ClipName(name)+" ("+look.describeValue(d.values[i])+")")
			}
		}
		d, a.Under = inner[keys[0]], append(a.Under, keys[0])
	}
	if !d.hasTensors() && len(d.keys) > 0 {
		return nil, fault.New(ErrStateDict, Dicts{file, []string{}}, "%s holds no dict of names and tensors", file)
	}
	return d, nil
}

// likeliestKey picks the key of the state dict among the keys of dicts with tensors. Where
// there are tensors beside these dicts, they may be the state dict themselves, so only the
// name of a wrapper counts.
func likeliestKey(keys []string, tensorsBeside bool) []string {
	for _, w := range wrappers {
		if slices.Contains(keys, w) {
			return []string{w}
		}
	}
	if tensorsBeside {
		return nil
	}
	if rest := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return slices.Contains(trainerKeys, k) }); len(rest) > 0 {
		return rest
	}
	return keys
}

func (d *dict) hasTensors() bool { return slices.ContainsFunc(d.values, isTensor) }

// leadsToTensors says whether a dict has tensors, or dicts that lead to tensors, down to a
// depth. The dicts of a pickle may contain each other, so each is looked at once.
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

// search counts tensors in values that may contain each other; left is the number of
// values that it may still look at.
type search struct{ left int }

// tensorsIn counts the tensors in a value, until the search has looked at maxSearch values.
func (s *search) tensorsIn(v any) int { return s.countWithin(v, 0) }

func (s *search) countWithin(v any, depth int) int {
	const deepest = 16
	if s.left--; s.left < 0 || depth > deepest {
		return 0
	}
	var items []any
	switch v := v.(type) {
	case *view, *refused:
		return 1
	case tuple:
		items = v
	case *list:
		items = v.items
	case *dict:
		items = v.values
	case *opaque:
		items = v.holds
	}
	n := 0
	for _, item := range items {
		if s.left < 0 {
			break
		}
		n += s.countWithin(item, depth+1)
	}
	return n
}

// describeValue says in words what a value is.
func (s *search) describeValue(v any) string {
	what := ""
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return fmt.Sprint(v)
	case int64, float64:
		return fmt.Sprint(v)
	case string:
		return "text"
	case *view:
		return "a tensor"
	case *refused:
		return v.is
	case global:
		return v.module + "." + v.name
	case tuple:
		what = "a tuple"
	case *list:
		what = "a list"
	case *dict:
		what = "a dict"
	case *opaque:
		what = v.is
	default:
		return "a value"
	}
	if n := s.tensorsIn(v); n > 0 {
		what += fmt.Sprintf(" with %d tensors", n)
		if n == 1 {
			what = strings.TrimSuffix(what, "s")
		}
	}
	return what
}
