package checkpoint

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// bins are two .bin shards with tensors a and b in the first and c in the second.
func bins(t testing.TB, dir string) {
	t.Helper()
	view := func(name string, n, offset int) viewOf {
		return viewOf{name: name, class: "FloatStorage", numel: 4, shape: []int{n}, strides: []int{1}, offset: offset}
	}
	put(t, dir, "pytorch_model-00001-of-00002.bin", zipped(t, torchPickle(view("a", 3, 0), view("b", 1, 3)), f32s(1, 2, 3, 4)))
	put(t, dir, "pytorch_model-00002-of-00002.bin", zipped(t, torchPickle(view("c", 4, 0)), f32s(5, 6, 7, 8)))
}

const binIndex = `{"metadata":{"total_size":32},"weight_map":{"a":"pytorch_model-00001-of-00002.bin","b":"pytorch_model-00001-of-00002.bin","c":"pytorch_model-00002-of-00002.bin"}}`

// Shards that torch.save wrote, with the index that names them.
func TestTorchIndex(t *testing.T) {
	dir := t.TempDir()
	bins(t, dir)
	path := put(t, dir, "pytorch_model.bin.index.json", []byte(binIndex))
	for _, what := range []string{dir, path} {
		c := mustOpen(t, what)
		if len(c.Notices()) != 0 || len(c.Files()) != 2 {
			t.Errorf("%s: notices %v, files %v", what, c.Notices(), c.Files())
		}
		for name, want := range map[string][]float32{"a": {1, 2, 3}, "b": {4}, "c": {5, 6, 7, 8}} {
			e, ok := c.Lookup(name)
			dst := make([]byte, 4*len(want))
			if _, err := c.Read(t.Context(), []Part{{Name: name, Dst: dst}}, ReadOptions{}); !ok || err != nil {
				t.Fatal(name, ok, err)
			}
			if got := floats(dst); !slices.Equal(got, want) || e.Bytes != int64(len(dst)) {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	}

	// Beside safetensors, those are taken.
	put(t, dir, "model.safetensors", one("z"))
	if _, ok := mustOpen(t, dir).Lookup("z"); !ok {
		t.Error("the safetensors file is not taken")
	}
}

func TestTorchIndexRefuses(t *testing.T) {
	for _, c := range []struct {
		what, index string
		kind        error
		says        []string
	}{
		{"a tensor that is not there", strings.Replace(binIndex, `"c":`, `"d":`, 1), ErrIndexMismatch, []string{`"d"`, "00002-of-00002.bin", "lacks"}},
		{"in the other shard", strings.Replace(binIndex, `"b":"pytorch_model-00001`, `"b":"pytorch_model-00002`, 1), ErrIndexMismatch,
			[]string{`"b"`, "it is in pytorch_model-00001"}},
		{"a shard that is not there", strings.Replace(binIndex, `00002-of`, `00003-of`, 1), ErrMissingShard, []string{"00003-of-00002.bin", "c"}},
		{"a path out of the folder", strings.Replace(binIndex, `"c":"`, `"c":"../`, 1), ErrPathEscape, []string{"../"}},
	} {
		dir := t.TempDir()
		bins(t, dir)
		put(t, dir, "pytorch_model.bin.index.json", []byte(c.index))
		_, err := Open(dir)
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", c.what, err)
		}
		for _, s := range c.says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", c.what, err, s)
			}
		}
	}

	// Shards without an index, all of them and not.
	dir := t.TempDir()
	bins(t, dir)
	if _, err := Open(dir); !errors.Is(err, ErrAmbiguous) {
		t.Errorf("no index: %v", err)
	}
	dir = t.TempDir()
	put(t, dir, "pytorch_model-00002-of-00002.bin", zipped(t, torchPickle(), f32s(1)))
	if _, err := Open(dir); !errors.Is(err, ErrMissingShard) || !strings.Contains(err.Error(), "pytorch_model-00001-of-00002.bin") {
		t.Errorf("no first shard: %v", err)
	}

	// What is left out is told; a broken shard is named.
	dir = t.TempDir()
	bins(t, dir)
	put(t, dir, "pytorch_model.bin.index.json", []byte(`{"weight_map":{"a":"pytorch_model-00001-of-00002.bin"}}`))
	if n := mustOpen(t, dir).Notices(); len(n) != 2 || !strings.Contains(n[0], "b") || !strings.Contains(n[1], "00002-of-00002.bin") {
		t.Errorf("notices %q", n)
	}
	put(t, dir, "pytorch_model-00001-of-00002.bin", []byte("PK\x03\x04 and no archive"))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "pytorch_model-00001") {
		t.Errorf("a broken shard: %v", err)
	}
}
