package checkpoint

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"weft/dtype"
)

// FuzzHeader opens any bytes as a file. What is accepted must be consistent and
// readable; written again, it must be read as the same.
func FuzzHeader(f *testing.F) {
	for _, name := range []string{"model.safetensors", "inputs.safetensors"} {
		b, err := os.ReadFile(filepath.Join(fixture, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 64<<10)])
	}
	for _, header := range []string{
		"", "{}", " {}", object(tensorJSON("a", "F32", "[1]", 0, 4)),
		object(tensorJSON("k", "F32", "[2]", 0, 8), tensorJSON("v", "F32", "[2]", 0, 8)),
		object(tensorJSON("scaled_fp8", "F8_E4M3", "[0]", 0, 0), tensorJSON("w", "F32", "[1]", 0, 4)),
		object(tensorJSON("x.weight", "F8_E4M3", "[4]", 0, 4), tensorJSON("x.weight_scale", "F32", "[]", 4, 8)),
		object(tensorJSON("net.a", "BF16", "[2,1]", 0, 4), tensorJSON("net.b", "F6_E2M3", "[4]", 4, 7)),
		object(tensorJSON("a", "F32", "[4294967296,4294967296]", 0, 4)), object(tensorJSON("a", "F32", "[1]", 4, 0)),
		`{"__metadata__":{"\ud83d\ude00":"\n"},"a":{"shape":[],"dtype":"BOOL","data_offsets":[0,1],"x":[{}]}}`,
	} {
		f.Add(fileBytes(header, 1, 0, 0x80, 0x3f, 5, 6, 7, 8))
		f.Add(fileBytes(header, 1, 2, 3, 4))
		f.Add(fileBytes(header))
	}
	f.Add(fileAnnouncing(1<<64-1, "{}"))
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\nsize 12\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bytes.NewReader(b), "in", int64(len(b)))
		if err != nil {
			return
		}
		path := put(t, dir, "in.safetensors", b)
		for _, opts := range [][]Option{nil, {Exact()}} {
			c, err := Open(path, opts...)
			if err != nil {
				continue
			}
			checkOpened(t, c, int64(len(b)))
			c.Close()
		}
		checkRewritten(t, h)
	})
}

// checkRewritten lays the tensors out again and demands the same ones back.
func checkRewritten(t *testing.T, h *header) {
	var entries []Entry
	for _, x := range h.tensors {
		entries = append(entries, Entry{Name: x.name, DType: x.dtype, Stored: x.stored, Shape: x.shape})
	}
	head, data, err := layOut(entries, h.meta)
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseHeader(head[8:], "again")
	if err == nil {
		err = validateHeader(again, "again", data)
	}
	if err != nil || len(head)%8 != 0 {
		t.Fatalf("laid out again, %d bytes: %v", len(head), err)
	}
	type tensor struct {
		stored string
		shape  string
		bytes  int64
	}
	of := func(h *header) map[string]tensor {
		m := map[string]tensor{}
		for _, x := range h.tensors {
			m[x.name] = tensor{x.stored, shapeText(x.shape), x.end - x.begin}
		}
		return m
	}
	if !maps.Equal(of(h), of(again)) || !maps.Equal(h.meta, again.meta) {
		t.Fatalf("laid out again: %v, want %v", of(again), of(h))
	}
}

// checkOpened checks what Open promises.
func checkOpened(t *testing.T, c *Checkpoint, size int64) {
	var sum int64
	for _, e := range c.Entries() {
		sum += e.Bytes
		if e.Offset < 8 || e.Bytes < 0 || e.Offset+e.Bytes > size {
			t.Fatalf("%+v lies outside a file of %d bytes", e, size)
		}
		if e.DType != dtype.Invalid && e.Elements()*int64(e.DType.Size()) != e.Bytes {
			t.Fatalf("%+v has the wrong size", e)
		}
		as := e.DType
		if e.Scale != "" {
			as = dtype.F32
		}
		if as == dtype.Invalid || e.Bytes > 1<<20 {
			continue
		}
		if _, err := c.Load(context.Background(), e.Name, as); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
	}
	if sum > size {
		t.Fatalf("%d bytes of tensors in a file of %d", sum, size)
	}
}

// FuzzIndex opens any bytes as an index beside two shards.
func FuzzIndex(f *testing.F) {
	for _, text := range []string{
		"", "{}", `{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`,
		`{"metadata":{"total_size":8},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`,
		`{"weight_map":{"a":"2.safetensors"}}`, `{"weight_map":{"a":"3.safetensors"}}`, `{"weight_map":{"a":"../1.safetensors"}}`,
		`{"weight_map":{"\u0061":"1\u002esafetensors"},"x":[1,{"y":null}]}`, `{"weight_map":{"a":"i.safetensors.index.json"}}`,
		`{"weight_map":{"a":".."}}`, `{"weight_map":{"a":"1.safetensors","a":"1.safetensors"}}`,
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	put(f, dir, "1.safetensors", one("a"))
	put(f, dir, "2.safetensors", one("b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Open(put(t, dir, "i.safetensors.index.json", b))
		if err != nil {
			return
		}
		defer c.Close()
		for _, e := range c.Entries() {
			if e.Name != "a" && e.Name != "b" || e.Bytes != 4 {
				t.Fatalf("%+v", e)
			}
		}
		for _, path := range c.Files() {
			if filepath.Dir(path) != dir {
				t.Fatalf("reads %s", path)
			}
		}
	})
}
