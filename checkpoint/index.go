package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/printable"
)

// index is a parsed weight_map: tensor to shard.
type index struct {
	shardOf map[string]string
	total   int64 // metadata.total_size, -1 where it is not given
}

// openIndex opens every shard that the index names. It checks in three steps, each of
// which reports everything it finds: absent shards, then shards that cannot be opened,
// then tensors that are in another shard than the index says.
func (c *Checkpoint) openIndex(path string) error {
	text, err := readIndexFile(path)
	if err != nil {
		return err
	}
	name := filepath.Base(path)
	ix, err := parseIndex(text, name)
	if err != nil {
		return err
	}
	shards := slices.Sorted(maps.Keys(setOf(ix.shardOf)))
	if err := c.checkShardsExist(ix, name, shards); err != nil {
		return err
	}
	var broken fault.List
	for _, shard := range shards {
		open := openFile
		if isTorch(filepath.Join(c.dir, shard)) {
			open = openArchive
		}
		f, err := open(filepath.Join(c.dir, shard))
		broken.Add(err)
		if err == nil {
			c.files = append(c.files, f)
		}
	}
	if err := broken.Err(); err != nil {
		return err
	}
	if err := c.addIndexedTensors(ix, name); err != nil {
		return err
	}
	c.noteUnnamedFiles(shards, name)
	return nil
}

// readIndexFile reads the text of an index. An index larger than the limit for headers is
// refused before it is read.
func readIndexFile(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.f.Close()
	if f.size > maxHeader {
		return nil, indexFault(f.name, &jsontext.SyntaxError{Reason: sprintLine("%d bytes long; the limit is %d", f.size, maxHeader)})
	}
	text := make([]byte, f.size)
	if _, err := io.ReadFull(f.f, text); err != nil {
		return nil, fileChanged(f.name, f.size)
	}
	return text, refuseLFSPointer(text, f.name)
}

func indexFault(name string, e *jsontext.SyntaxError) error {
	return fault.New(ErrIndexSyntax, Syntax{File: name, Offset: e.Pos, Reason: e.Reason}, "%s: byte %d: %s", name, e.Pos, e.Reason)
}

// parseIndex reads an index: an object whose weight_map maps names to files.
func parseIndex(text []byte, name string) (*index, error) {
	s := jsontext.NewScanner(text)
	ix := &index{shardOf: map[string]string{}, total: -1}
	var escapes fault.List
	bad, seen, inner := map[string]bool{}, map[string]bool{}, map[string]bool{}
	s.Space()
	s.Object(func(key string, at int) {
		s.RefuseRepeated(seen, key, at)
		switch key {
		case "weight_map":
			s.Object(func(tensor string, at int) {
				s.RefuseRepeated(inner, tensor, at)
				shard := s.Text()
				if s.OK() && !isPlainName(shard) && !bad[shard] {
					bad[shard] = true
					escapes.Add(fault.New(ErrPathEscape, PathEscape{name, shard},
						"%s: shard %.200q is no plain file name in the index's own folder", name, shard))
				}
				ix.shardOf[tensor] = shard
			})
		case "metadata":
			ix.readTotalSize(s)
		default:
			s.Skip(0)
		}
	})
	s.End()
	if s.OK() && !seen["weight_map"] {
		s.Fail("no weight_map, so this is no checkpoint's index; name the model's folder, or its file of tensors")
	}
	if !s.OK() {
		return nil, indexFault(name, s.Err())
	}
	return ix, escapes.Err()
}

// readTotalSize takes total_size from the index's metadata and skips everything else.
func (ix *index) readTotalSize(s *jsontext.Scanner) {
	if s.Peek() != '{' {
		s.Skip(0)
		return
	}
	seen := map[string]bool{}
	s.Object(func(key string, at int) {
		s.RefuseRepeated(seen, key, at)
		start := s.Pos()
		s.Skip(0)
		if key == "total_size" && s.OK() {
			if t := jsontext.NewScanner(s.Since(start)); t.Peek() >= '0' && t.Peek() <= '9' {
				if v := t.Whole("total_size"); t.OK() {
					ix.total = v
				}
			}
		}
	})
}

// isPlainName reports whether a shard's name is a file in the index's folder.
func isPlainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00") && filepath.IsLocal(name)
}

// checkShardsExist gives an error that lists every absent shard and every tensor that
// the index puts in one of them.
func (c *Checkpoint) checkShardsExist(ix *index, name string, shards []string) error {
	absent := map[string]bool{}
	lost := MissingShard{Index: name, Tensors: []string{}}
	for _, shard := range shards {
		if _, err := os.Stat(filepath.Join(c.dir, shard)); errors.Is(err, fs.ErrNotExist) {
			absent[shard] = true
			lost.Shards = append(lost.Shards, shard)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	for tensor, shard := range ix.shardOf {
		if absent[shard] {
			lost.Tensors = append(lost.Tensors, tensor)
		}
	}
	slices.Sort(lost.Tensors)
	return fault.New(ErrMissingShard, lost, "%s names %s of %d that are not there: %s; they hold %s: %s",
		name, plural(len(lost.Shards), "shard"), len(shards), printable.ListNames(lost.Shards),
		plural(len(lost.Tensors), "tensor"), printable.ListNames(lost.Tensors))
}

// addIndexedTensors makes records of the tensors that the index names. It is an error
// if the headers of the shards do not have each of them exactly where the index says.
func (c *Checkpoint) addIndexedTensors(ix *index, name string) error {
	holders := map[string][]string{}
	for _, f := range c.files {
		for _, name := range f.tensorNames() {
			holders[name] = append(holders[name], f.name)
		}
	}
	var faults fault.List
	for _, tensor := range slices.Sorted(maps.Keys(ix.shardOf)) {
		shard, found := ix.shardOf[tensor], holders[tensor]
		fields := IndexMismatch{Index: name, Tensor: tensor, Shard: shard, Found: append([]string{}, found...)}
		switch {
		case len(found) == 0:
			faults.Add(fault.New(ErrIndexMismatch, fields, "%s puts tensor %q in %s, which lacks it", name, tensor, shard))
		case len(found) > 1:
			faults.Add(fault.New(ErrIndexMismatch, fields, "tensor %q is in %d shards: %s", tensor, len(found), printable.ListNames(found)))
		case found[0] != shard:
			faults.Add(fault.New(ErrIndexMismatch, fields, "%s puts tensor %q in %s; it is in %s", name, tensor, shard, found[0]))
		}
	}
	if err := faults.Err(); err != nil {
		return err
	}
	var left []string
	var bytes int64
	for _, f := range c.files {
		faults.Add(c.addNamed(f, ix))
		for _, name := range f.tensorNames() {
			if _, named := ix.shardOf[name]; !named {
				left = append(left, name)
			} else if r := c.records[name]; r != nil {
				bytes += r.Bytes
			}
		}
	}
	if err := faults.Err(); err != nil {
		return err
	}
	if len(left) > 0 {
		slices.Sort(left)
		c.addNotice("%s in the shards that the index does not name, left out: %s", plural(len(left), "tensor"), printable.ListNames(left))
	}
	if ix.total >= 0 && ix.total != bytes {
		c.addNotice("the index gives a total size of %d bytes; its tensors have %d", ix.total, bytes)
	}
	return nil
}

// addNamed makes records of the tensors of a shard that the index names.
func (c *Checkpoint) addNamed(f *file, ix *index) error {
	if f.torch != nil {
		var faults fault.List
		for _, t := range f.torch.Tensors {
			if _, named := ix.shardOf[t.Name]; named {
				faults.Add(c.addTorch(f, t))
			}
		}
		c.addTorchNotices(f)
		return faults.Err()
	}
	for k, v := range f.h.meta {
		if _, ok := c.meta[k]; !ok {
			c.meta[k] = v
		}
	}
	for _, t := range f.h.tensors {
		if _, named := ix.shardOf[t.name]; named {
			c.addRecord(f, t)
		}
	}
	return nil
}

// noteUnnamedFiles adds a notice for each file of weights in the folder that the index
// does not name.
func (c *Checkpoint) noteUnnamedFiles(shards []string, name string) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	ext := weightsSuffix
	if m := indexName.FindStringSubmatch(name); m != nil && m[3] == "bin" {
		ext = ".bin"
	}
	for _, e := range entries {
		if n := e.Name(); filepath.Ext(n) == ext && !strings.HasPrefix(n, ".") && !slices.Contains(shards, n) {
			c.addNotice("%s is not named by %s and was left out", n, name)
		}
	}
}

// setOf gives the set of the values of m.
func setOf(m map[string]string) map[string]bool {
	set := map[string]bool{}
	for _, v := range m {
		set[v] = true
	}
	return set
}
