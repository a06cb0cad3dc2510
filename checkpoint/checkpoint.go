package checkpoint

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"

	"weft/dtype"
	"weft/fault"
	"weft/internal/userfile"
)

// Role says what a tensor of a checkpoint is for.
type Role uint8

// The roles. Only weights are parameters of a model.
const (
	Weight      Role = iota
	WeightScale      // the factor of an fp8 weight; applied when that is read
	InputScale       // a factor for quantized activations, which weft does not use
	Marker           // says how weights are kept: scaled_fp8, comfy_quant
	Tokenizer        // the bytes of a tokenizer's file
)

// String is "weight", "scale", "input-scale", "marker" or "tokenizer".
func (r Role) String() string {
	return [...]string{"weight", "scale", "input-scale", "marker", "tokenizer"}[r]
}

// Entry describes one tensor.
type Entry struct {
	Name   string      // without the checkpoint's prefix
	Key    string      // as the file has it
	DType  dtype.DType // Invalid for a stored type that weft can only size
	Stored string      // the type's name in the file: "BF16", "F8_E4M3"
	Shape  []int
	File   string // base name
	Offset int64  // in the file
	Bytes  int64
	Role   Role
	Scale  string // the name of the tensor that scales this one, or ""
}

// Elements is the number of elements.
func (e Entry) Elements() int64 {
	n := int64(1)
	for _, s := range e.Shape {
		n *= int64(s)
	}
	return n
}

// record adds to an entry the file that has its bytes and how to read them.
type record struct {
	Entry
	file    *file
	scale   *record
	strided *strided // nil for a row-major tensor
	// unusable is the error for a model that needs this tensor: its scale cannot be
	// applied. It is nil for a tensor that can be read.
	unusable error
}

// Checkpoint is an open checkpoint. Its headers have been read and checked against
// the files. Several goroutines may call its methods at once, except Tie and Close.
type Checkpoint struct {
	path    string // what Open was given
	dir     string // the folder of the files
	files   []*file
	records map[string]*record
	aliases map[string]string // from a tied name to the name that has the record
	names   []string          // of records, sorted
	meta    map[string]string
	prefix  string
	notices []string
}

// options holds the settings that the functions of type Option change.
type options struct {
	exact bool
}

// Option changes how a checkpoint is opened.
type Option func(*options)

// Exact takes every tensor as it is stored: no prefix is stripped and no scale is
// applied. Files of inputs and outputs are opened this way.
func Exact() Option { return func(o *options) { o.exact = true } }

// Open opens the checkpoint at path: a .safetensors file, an index, or a folder.
// In a folder it takes the index if there is one, else diffusion_pytorch_model or
// model, else the only checkpoint, else it lists the candidates. Only headers are read.
func Open(path string, opts ...Option) (*Checkpoint, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	found, err := resolvePath(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{
		path: path, dir: filepath.Dir(found),
		records: map[string]*record{}, aliases: map[string]string{}, meta: map[string]string{},
	}
	if err := c.openPath(found, o); err != nil {
		c.Close()
		return nil, err
	}
	if v := variantOf(filepath.Base(found)); v != "" && found != path {
		c.addNotice("%s is the %s variant, the only one in the folder", filepath.Base(found), v)
	}
	return c, nil
}

// openPath fills c from the file or index at path, strips the common prefix and
// assigns roles.
func (c *Checkpoint) openPath(path string, o options) error {
	var err error
	switch {
	case filepath.Ext(path) == ".json":
		err = c.openIndex(path)
	case isTorch(path):
		err = c.openTorch(path)
	default:
		err = c.openSingle(path)
	}
	if err == nil && !o.exact {
		if err = c.stripPrefix(); err == nil {
			err = c.assignRoles()
		}
	}
	c.sortNames()
	return err
}

// openSingle adds the tensors of one file.
func (c *Checkpoint) openSingle(path string) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, f)
	c.meta = f.h.meta
	for _, t := range f.h.tensors {
		c.addRecord(f, t)
	}
	if m := shardName.FindStringSubmatch(f.name); m != nil && m[3] != "00001" {
		c.addNotice("%s is one shard of several; open the folder or the index for all", f.name)
	}
	return nil
}

// addRecord makes a record of t.
func (c *Checkpoint) addRecord(f *file, t tensorInfo) {
	c.records[t.name] = &record{file: f, Entry: Entry{
		Name: t.name, Key: t.name, DType: t.dtype, Stored: t.stored, Shape: t.shape,
		File: f.name, Offset: f.h.data + t.begin, Bytes: t.end - t.begin,
	}}
}

// sortNames sets names to the sorted names of the records.
func (c *Checkpoint) sortNames() {
	c.names = c.names[:0]
	for name := range c.records {
		c.names = append(c.names, name)
	}
	sort.Strings(c.names)
}

// Entries lists every tensor, sorted by name: weights, and what stands beside them (see Role).
func (c *Checkpoint) Entries() []Entry {
	all := make([]Entry, len(c.names))
	for i, name := range c.names {
		all[i] = c.records[name].Entry
	}
	return all
}

// Lookup finds a tensor by its name, or by a name that Tie made equal to it.
func (c *Checkpoint) Lookup(name string) (Entry, bool) {
	if r := c.findRecord(name); r != nil {
		return r.Entry, true
	}
	return Entry{}, false
}

// findRecord finds a record by its name or by a tied one; nil means that there is none.
func (c *Checkpoint) findRecord(name string) *record {
	if to, ok := c.aliases[name]; ok {
		name = to
	}
	return c.records[name]
}

// Metadata gives the __metadata__ of the files. Where several shards have one key, the
// value of the first shard counts.
func (c *Checkpoint) Metadata() map[string]string { return c.meta }

// Path is what Open was given.
func (c *Checkpoint) Path() string { return c.path }

// Prefix is what was stripped from every key, or "".
func (c *Checkpoint) Prefix() string { return c.prefix }

// Files lists the paths of the files that hold tensors.
func (c *Checkpoint) Files() []string {
	paths := make([]string, len(c.files))
	for i, f := range c.files {
		paths[i] = f.path
	}
	return paths
}

// Notices gives a line for each thing that Open did or left out without being asked to.
func (c *Checkpoint) Notices() []string { return slices.Clone(c.notices) }

// addNotice adds a line to Notices.
func (c *Checkpoint) addNotice(format string, args ...any) {
	c.notices = append(c.notices, sprintLine(format, args...))
}

// BytesRead counts the bytes of tensor data read since Open.
func (c *Checkpoint) BytesRead() int64 {
	var n int64
	for _, f := range c.files {
		n += f.read.Load()
	}
	return n
}

// ConfigJSON gives the text of the config.json beside the checkpoint or, without one,
// the text that the files' metadata have under "config", as single-file releases of
// LTX do, or "gemma_config", as LTX-2.5's text encoder does; where names its place. Without either, raw is nil and there is no error.
func (c *Checkpoint) ConfigJSON() (raw []byte, where string, err error) {
	path := filepath.Join(c.dir, "config.json")
	b, err := userfile.Read(path, MaxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		if text, ok := c.configMetadata(); ok {
			if n := len(text); n > MaxConfig {
				return nil, c.path, fault.New(userfile.ErrTooLarge, userfile.TooLarge{Path: c.path, Bytes: int64(n), Limit: MaxConfig},
					"%s has a config of %d bytes in its metadata: such a text has at most %d", c.path, n, MaxConfig)
			}
			return []byte(text), c.path + " (metadata)", nil
		}
		return nil, "", nil
	}
	if err != nil {
		return nil, path, err
	}
	if err := refuseLFSPointer(b, path); err != nil {
		return nil, path, err
	}
	return b, path, nil
}

// configMetadata is the configuration among the metadata: "config", or what LTX-2.5's text encoder
// has it as.
func (c *Checkpoint) configMetadata() (text string, ok bool) {
	for _, key := range []string{"config", "gemma_config"} {
		if text, ok = c.meta[key]; ok {
			return text, true
		}
	}
	return "", false
}

// MaxConfig is the largest config.json that is read, in bytes. Released ones have up
// to 10 KB; those that list every layer's quantization have some hundred.
const MaxConfig = 4 << 20

// Close closes the files.
func (c *Checkpoint) Close() error {
	var all fault.List
	for _, f := range c.files {
		all.Add(f.f.Close())
	}
	c.files = nil
	return all.Err()
}
