package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/fault"
)

// one is a file with the tensor name.
func one(name string) []byte {
	return fileBytes(object(tensorJSON(name, "F32", "[1]", 0, 4)), f32s(1)...)
}

func TestResolve(t *testing.T) {
	const index = `{"weight_map":{"from-index":"s.safetensors"}}`
	for _, test := range []struct {
		name  string
		files []string
		want  string // the tensor's name: the file's, or "from-index"
		kind  error
		list  []string
	}{
		{"the only one", []string{"x.safetensors", "README.md", "config.json"}, "x.safetensors", nil, nil},
		{"index before all", []string{"model.safetensors", "s.safetensors", "x.safetensors.index.json"}, "from-index", nil, nil},
		{"diffusion before model", []string{"model.safetensors", "diffusion_pytorch_model.safetensors", "a.safetensors"}, "diffusion_pytorch_model.safetensors", nil, nil},
		{"model before others", []string{"model.safetensors", "inputs.safetensors", "weights.pth"}, "model.safetensors", nil, nil},
		{"the preferred index", []string{"s.safetensors", "a.safetensors.index.json", "model.safetensors.index.json"}, "from-index", nil, nil},
		{"two indexes", []string{"s.safetensors", "a.safetensors.index.json", "b.safetensors.index.json"}, "", ErrAmbiguous,
			[]string{"a.safetensors.index.json", "b.safetensors.index.json"}},
		{"two files", []string{"a.safetensors", "b.safetensors"}, "", ErrAmbiguous, []string{"a.safetensors", "b.safetensors"}},
		{"two kinds", []string{"a.safetensors", "b.pth"}, "", ErrAmbiguous, []string{"a.safetensors", "b.pth"}},
		{"leftovers of a killed writer", []string{"a.safetensors", ".a.safetensors.ABC.tmp", ".b.safetensors"}, "a.safetensors", nil, nil},
		{"nothing", []string{"README.md"}, "", ErrNotCheckpoint, nil},
		{"one of two shards", []string{"m-00001-of-00002.safetensors"}, "", ErrMissingShard, nil},
		{"shards without an index", []string{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"}, "", ErrAmbiguous,
			[]string{"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"}},
		{"the one shard of one", []string{"m-00001-of-00001.safetensors"}, "m-00001-of-00001.safetensors", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range test.files {
				switch {
				case strings.HasSuffix(name, ".index.json"):
					put(t, dir, name, []byte(index))
				case name == "s.safetensors":
					put(t, dir, name, one("from-index"))
				default:
					put(t, dir, name, one(name))
				}
			}
			c, err := Open(dir)
			if test.kind != nil {
				if !errors.Is(err, test.kind) {
					t.Fatalf("error %v, want %v", err, test.kind)
				}
				if f, _ := fault.Fields[Candidates](err); test.list != nil && !slices.Equal(f.Candidates, test.list) {
					t.Errorf("candidates %q", f.Candidates)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, ok := c.Lookup(test.want); !ok {
				t.Errorf("opened %q", c.Files())
			}
		})
	}
	t.Run("nothing there", func(t *testing.T) {
		_, err := Open(filepath.Join(t.TempDir(), "x"))
		if !errors.Is(err, ErrNotCheckpoint) || !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("a folder with the name of a file", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "model.safetensors"), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, dir, "x.safetensors", one("x"))
		mustOpen(t, dir)
	})
	t.Run("no file at all", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "1.safetensors"), 0o755); err != nil {
			t.Fatal(err)
		}
		path := put(t, dir, "m.safetensors.index.json", []byte(`{"weight_map":{"a":"1.safetensors"}}`))
		for _, p := range []string{path, os.DevNull} {
			if _, err := Open(p); !errors.Is(err, ErrNotCheckpoint) {
				t.Error(p, err)
			}
		}
	})
	t.Run("the folder above", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "transformer"), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "transformer"), "x.safetensors", one("x"))
		_, err := Open(dir)
		if !errors.Is(err, ErrNotCheckpoint) || !strings.Contains(err.Error(), "transformer") {
			t.Error(err)
		}
	})
	t.Run("links, as in a download cache", func(t *testing.T) {
		dir := t.TempDir()
		blob := put(t, dir, "0a1b", one("x"))
		snapshot := filepath.Join(dir, "snapshot")
		if err := os.Mkdir(snapshot, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(blob, filepath.Join(snapshot, "model.safetensors")); err != nil {
			t.Skip(err)
		}
		c := mustOpen(t, snapshot)
		if e, _ := c.Lookup("x"); e.File != "model.safetensors" {
			t.Errorf("%+v", e)
		}
	})
}

func TestIndex(t *testing.T) {
	for _, test := range []struct {
		name, index string
		kind        error
		notices     int
	}{
		{"plain", `{"metadata":{"total_size":8},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`, nil, 0},
		{"white space before", " \n{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}\n", nil, 0},
		{"other total", `{"metadata":{"total_size":9},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`, nil, 1},
		{"a total that is no number", `{"metadata":{"total_size":"9","x":[1]},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`, nil, 0},
		{"a float total", `{"metadata":{"total_size":8.0},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`, nil, 0},
		{"no metadata", `{"metadata":null,"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`, nil, 0},
		{"a file left out", `{"weight_map":{"a":"1.safetensors"}}`, nil, 1},
		{"a tensor left out", `{"weight_map":{"b":"2.safetensors"}}`, nil, 1},
		{"nothing", `{"weight_map":{}}`, nil, 2},
		{"no weight_map", `{"metadata":{}}`, ErrIndexSyntax, 0},
		{"weight_map is an array", `{"weight_map":[]}`, ErrIndexSyntax, 0},
		{"key twice", `{"weight_map":{"a":"1.safetensors","a":"1.safetensors"}}`, ErrIndexSyntax, 0},
		{"weight_map twice", `{"weight_map":{"a":"1.safetensors"},"weight_map":{}}`, ErrIndexSyntax, 0},
		{"shard is a number", `{"weight_map":{"a":1}}`, ErrIndexSyntax, 0},
		{"cut", `{"weight_map":{"a":"1.safe`, ErrIndexSyntax, 0},
		{"empty", ``, ErrIndexSyntax, 0},
		{"pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", ErrLFSPointer, 0},
		{"in the other file", `{"weight_map":{"a":"2.safetensors","b":"2.safetensors"}}`, ErrIndexMismatch, 0},
		{"in no file", `{"weight_map":{"z":"2.safetensors","b":"2.safetensors"}}`, ErrIndexMismatch, 0},
		{"in two files", `{"weight_map":{"a":"1.safetensors","b":"2.safetensors","z":"3.safetensors"}}`, ErrIndexMismatch, 0},
		{"above", `{"weight_map":{"a":"../1.safetensors"}}`, ErrPathEscape, 0},
		{"absolute", `{"weight_map":{"a":"/etc/passwd"}}`, ErrPathEscape, 0},
		{"below", `{"weight_map":{"a":"x/1.safetensors"}}`, ErrPathEscape, 0},
		{"backslash", `{"weight_map":{"a":"x\\1.safetensors"}}`, ErrPathEscape, 0},
		{"dots", `{"weight_map":{"a":".."}}`, ErrPathEscape, 0},
		{"itself", `{"weight_map":{"a":""}}`, ErrPathEscape, 0},
		{"zero byte", `{"weight_map":{"a":"1\u0000.safetensors"}}`, ErrPathEscape, 0},
		{"an index as shard", `{"weight_map":{"a":"m.safetensors.index.json"}}`, ErrForeignFormat, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "1.safetensors", one("a"))
			put(t, dir, "2.safetensors", fileBytes(object(tensorJSON("b", "F32", "[1]", 0, 4)), f32s(1)...))
			if test.name == "a tensor left out" {
				put(t, dir, "2.safetensors", fileBytes(object(tensorJSON("b", "F32", "[1]", 0, 4), tensorJSON("c", "F32", "[1]", 4, 8)), f32s(1, 2)...))
				os.Remove(filepath.Join(dir, "1.safetensors"))
			}
			if test.name == "in two files" {
				put(t, dir, "3.safetensors", fileBytes(object(tensorJSON("a", "F32", "[1]", 0, 4), tensorJSON("z", "F32", "[1]", 4, 8)), f32s(1, 2)...))
			}
			put(t, dir, "m.safetensors.index.json", []byte(test.index))
			c, err := Open(dir)
			if !errors.Is(err, test.kind) || test.kind == nil && err != nil {
				t.Fatalf("error %v, want %v", err, test.kind)
			}
			if err == nil {
				if len(c.Notices()) != test.notices {
					t.Errorf("notices %q, want %d", c.Notices(), test.notices)
				}
				c.Close()
			}
		})
	}
}

// Every broken shard is named, not the first alone.
func TestBrokenShards(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "1.safetensors", []byte("version https://git-lfs.github.com/spec/v1\nsize 5\n"))
	put(t, dir, "2.safetensors", one("b"))
	put(t, dir, "3.safetensors", nil)
	put(t, dir, "m.safetensors.index.json", []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"3.safetensors"}}`))
	_, err := Open(dir)
	if !errors.Is(err, ErrLFSPointer) || !errors.Is(err, ErrHeaderTooSmall) || len(fault.Violations(err)) != 2 {
		t.Error(err)
	}
}

// Every violation of one header and of one index is reported.
func TestAllViolations(t *testing.T) {
	_, err := openBytes(t, fileBytes(object(
		tensorJSON("a", "F33", "[1]", 0, 4), tensorJSON("b", "F32", "[2]", 4, 8),
		tensorJSON("c", "F32", "[1]", 9, 5), tensorJSON("d", "F32", "[4294967296,4294967296]", 8, 12)), make([]byte, 12)...))
	for _, kind := range []error{ErrDType, ErrSizeMismatch, ErrOffsets, ErrSizeOverflow} {
		if !errors.Is(err, kind) {
			t.Errorf("no %v in %v", kind, err)
		}
	}
	dir := t.TempDir()
	put(t, dir, "1.safetensors", one("a"))
	put(t, dir, "m.safetensors.index.json", []byte(`{"weight_map":{"x":"1.safetensors","y":"1.safetensors"}}`))
	_, err = Open(dir)
	if len(fault.Violations(err)) != 2 {
		t.Error(err)
	}
}

func TestPrefix(t *testing.T) {
	for _, test := range []struct {
		name   string
		keys   []string
		opts   []Option
		want   []string
		prefix string
		odd    []string // of ErrMixedPrefix
	}{
		{"none", []string{"a", "b.c"}, nil, []string{"a", "b.c"}, "", nil},
		{"net", []string{"net.a", "net.b"}, nil, []string{"a", "b"}, "net.", nil},
		{"twice", []string{"module.net.a", "module.net.b"}, nil, []string{"a", "b"}, "module.net.", nil},
		{"a module called so", []string{"net.a", "b", "c"}, nil, []string{"b", "c", "net.a"}, "", nil},
		{"mixed", []string{"net.a", "net.b", "c"}, nil, nil, "net.", []string{"c"}},
		{"half", []string{"net.a", "c"}, nil, nil, "net.", []string{"c"}},
		{"mixed inside", []string{"module.net.a", "module.net.b", "module.c"}, nil, nil, "module.net.", []string{"c"}},
		{"siblings", []string{"model.diffusion_model.a", "vae.x", "vae.y", "first_stage_model.z", "scaled_fp8"}, nil,
			[]string{"a", "first_stage_model.z", "scaled_fp8", "vae.x", "vae.y"}, "model.diffusion_model.", nil},
		{"exact", []string{"net.a", "net.b"}, []Option{Exact()}, []string{"net.a", "net.b"}, "", nil},
		{"model is no prefix", []string{"model.a", "model.b"}, nil, []string{"model.a", "model.b"}, "", nil},
		{"a key that is the prefix", []string{"net.", "net.a"}, nil, []string{"", "a"}, "net.", nil},
		{"no tensors", nil, nil, nil, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var fields []string
			for i, k := range test.keys {
				fields = append(fields, tensorJSON(k, "U8", "[1]", i, i+1))
			}
			c, err := openBytes(t, fileBytes(object(fields...), make([]byte, len(test.keys))...), test.opts...)
			if test.odd != nil {
				if f := fieldsOf[MixedPrefix](t, err, ErrMixedPrefix); !slices.Equal(f.Keys, test.odd) || f.Prefix != test.prefix {
					t.Errorf("%+v", f)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range c.Entries() {
				got = append(got, e.Name)
			}
			if !slices.Equal(got, test.want) || c.Prefix() != test.prefix {
				t.Errorf("%q with prefix %q, want %q with %q", got, c.Prefix(), test.want, test.prefix)
			}
		})
	}
	t.Run("two keys become one", func(t *testing.T) {
		_, err := openBytes(t, fileBytes(object(tensorJSON("net.vae.a", "U8", "[1]", 0, 1), tensorJSON("vae.a", "U8", "[1]", 1, 2)), 1, 2))
		if f := fieldsOf[Tensor](t, err, ErrDuplicateTensor); f.Tensor != "vae.a" {
			t.Errorf("%+v", f)
		}
	})
}

func TestRequire(t *testing.T) {
	c, err := openBytes(t, fileBytes(object(tensorJSON("a", "U8", "[2,3]", 0, 6), tensorJSON("b", "U8", "[]", 6, 7), tensorJSON("c", "U8", "[1]", 7, 8)), make([]byte, 8)...))
	if err != nil {
		t.Fatal(err)
	}
	want := []Want{{"A", []int{3, 2}}, {"B", nil}, {"M", nil}}
	extra, err := Require(c, want, RequireOptions{Alias: strings.ToLower})
	if len(extra) != 0 || len(fault.Violations(err)) != 3 {
		t.Fatal(extra, err)
	}
	if f := fieldsOf[Shape](t, err, ErrShape); f.Tensor != "a" || !slices.Equal(f.Want, []int{3, 2}) || !slices.Equal(f.Have, []int{2, 3}) {
		t.Errorf("%+v", f)
	}
	if !errors.Is(err, ErrMissingTensors) || !errors.Is(err, ErrUnexpectedTensors) {
		t.Error(err)
	}
	if c.BytesRead() != 0 {
		t.Error("data was read")
	}
}

// Opening and failing closes what was opened.
func TestNoLeak(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("needs /proc")
		}
		return len(list)
	}
	dir := t.TempDir()
	put(t, dir, "1.safetensors", one("a"))
	put(t, dir, "2.safetensors", nil)
	put(t, dir, "m.safetensors.index.json", []byte(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`))
	before := count()
	for range 10 {
		if _, err := Open(dir); err == nil {
			t.Fatal("opened")
		}
	}
	if after := count(); after > before {
		t.Errorf("%d files open before, %d after", before, after)
	}
}
