package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"weft/dtype"
	"weft/tensor"
)

var readable = []dtype.DType{
	dtype.Bool, dtype.U8, dtype.I8, dtype.F8E4M3, dtype.F8E5M2, dtype.I16, dtype.U16, dtype.F16, dtype.BF16,
	dtype.I32, dtype.U32, dtype.F32, dtype.F64, dtype.I64, dtype.U64,
}

// drawTensors draws a set of tensors with random bytes.
func drawTensors(t *rapid.T) map[string]*tensor.Tensor {
	all := map[string]*tensor.Tensor{}
	for range rapid.IntRange(0, 5).Draw(t, "tensors") {
		name := rapid.StringN(1, 12, -1).Draw(t, "name")
		if name == metadataKey {
			continue
		}
		v := tensor.New(rapid.SampledFrom(readable).Draw(t, "dtype"), drawShape(t)...)
		seed := rapid.Uint32().Draw(t, "seed")
		for i := range v.Data {
			seed = seed*1664525 + 1013904223
			v.Data[i] = byte(seed >> 24)
		}
		all[name] = v
	}
	return all
}

// What is written is read back, and any slices of it equal slicing in memory,
// however many parts overlap.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.safetensors")
	rapid.Check(t, func(t *rapid.T) {
		all := drawTensors(t)
		meta := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "meta")
		if err := Write(path, all, meta, WriteOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		c, err := Open(path, Exact())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if len(c.Entries()) != len(all) || len(c.Metadata()) != len(meta) {
			t.Fatalf("%d tensors, %d metadata", len(c.Entries()), len(c.Metadata()))
		}
		for k, v := range meta {
			if c.Metadata()[k] != v {
				t.Fatalf("metadata %q is %q, want %q", k, c.Metadata()[k], v)
			}
		}
		var parts []Part
		var want [][]byte
		for name, v := range all {
			e, ok := c.Lookup(name)
			if !ok || e.DType != v.DType || !slices.Equal(e.Shape, v.Shape) || e.Offset%int64(e.DType.Size()) != 0 {
				t.Fatalf("%q is %+v, want %v", name, e, v)
			}
			for range rapid.IntRange(1, 4).Draw(t, "parts") {
				p := Part{Name: name, Runs: make([][][2]int, len(v.Shape))}
				for d := range p.Runs {
					p.Runs[d] = drawRanges(t, v.Shape[d])
				}
				ranges, err := p.dimRanges(e)
				if err != nil {
					t.Fatal(err)
				}
				block := cut(v.Data, v.Shape, v.DType.Size(), ranges)
				if v.DType == dtype.BF16 && rapid.Bool().Draw(t, "widen") {
					p.As = dtype.F32
					wide := make([]byte, 0, 2*len(block))
					for i := 0; i < len(block); i += 2 {
						wide = append(wide, 0, 0, block[i], block[i+1])
					}
					block = wide
				}
				n, err := partSize(c, p)
				if err != nil || n != len(block) {
					t.Fatalf("%d bytes, want %d, %v", n, len(block), err)
				}
				p.Dst = make([]byte, n)
				parts, want = append(parts, p), append(want, block)
			}
		}
		st, err := c.Read(context.Background(), parts, ReadOptions{Workers: rapid.IntRange(0, 3).Draw(t, "workers")})
		if err != nil {
			t.Fatal(err)
		}
		if st.BytesRead > countBytes(c) || st.Parts != len(parts) {
			t.Fatalf("%+v of %d bytes", st, countBytes(c))
		}
		for i, p := range parts {
			if !bytes.Equal(p.Dst, want[i]) {
				t.Fatalf("part %d of %q %v: %x, want %x", i, p.Name, p.Runs, p.Dst, want[i])
			}
		}
	})
}

// big writes one bf16 tensor whose reads take every path, and gives its data.
func big(t testing.TB, rows, columns int) (*Checkpoint, []byte) {
	t.Helper()
	v := tensor.New(dtype.BF16, rows, columns)
	seed := uint32(1)
	for i := range v.Data {
		seed = seed*1664525 + 1013904223
		v.Data[i] = byte(seed>>24) & 0x3f // no NaN
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := Write(path, map[string]*tensor.Tensor{"w": v}, nil, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, path), v.Data
}

// grid of shards: rows in r parts, columns in k parts, each wanted by n devices.
func shards(shape []int, r, k, n int) []Part {
	var parts []Part
	for i := range r {
		for j := range k {
			for range n {
				parts = append(parts, Part{Name: "w", Slices: [][2]int{
					{i * shape[0] / r, (i + 1) * shape[0] / r}, {j * shape[1] / k, (j + 1) * shape[1] / k}}})
			}
		}
	}
	return parts
}

// Tensors larger than a chunk, over every kind of split: direct, scattered and buffered.
func TestLargeSplits(t *testing.T) {
	shape := []int{3001, 4100} // 24.6 MB, and nothing divides
	c, data := big(t, shape[0], shape[1])
	for _, split := range [][3]int{{1, 1, 1}, {4, 1, 1}, {1, 4, 1}, {1, 4, 2}, {2, 2, 1}, {3, 3, 2}, {1, 64, 1}, {1, 1, 3}, {7, 1, 2}} {
		for _, as := range []dtype.DType{dtype.Invalid, dtype.F32} {
			t.Run(fmt.Sprint(split, as), func(t *testing.T) {
				parts := shards(shape, split[0], split[1], split[2])
				for i := range parts {
					parts[i].As = as
					n, err := partSize(c, parts[i])
					if err != nil {
						t.Fatal(err)
					}
					b, err := Alloc(n)
					if err != nil {
						t.Fatal(err)
					}
					defer b.Free()
					parts[i].Dst = b.Bytes()
				}
				var last int64
				st, err := c.Read(context.Background(), parts, ReadOptions{Progress: func(n int64) {
					if n <= last {
						t.Errorf("progress goes from %d to %d", last, n)
					}
					last = n
				}})
				if err != nil || st.BytesRead != int64(len(data)) || last != st.BytesRead {
					t.Fatalf("%+v, progress %d, %v", st, last, err)
				}
				for i, p := range parts {
					want := cutRows(data, shape, p.Slices)
					got := p.Dst
					if as == dtype.F32 {
						narrow := make([]byte, len(got)/2)
						if err := narrowBF16(narrow, got); err != nil {
							t.Fatal(err)
						}
						got = narrow
					}
					if !bytes.Equal(got, want) {
						t.Fatalf("part %d is wrong", i)
					}
				}
			})
		}
	}
}

// cutRows slices a bf16 matrix.
func cutRows(data []byte, shape []int, s [][2]int) []byte {
	var out []byte
	for r := s[0][0]; r < s[0][1]; r++ {
		out = append(out, data[2*(r*shape[1]+s[1][0]):2*(r*shape[1]+s[1][1])]...)
	}
	return out
}

// Parts that overlap without being equal still cost each byte once.
func TestOverlap(t *testing.T) {
	c, data := big(t, 600, 2000)
	parts := []Part{
		{Name: "w", Slices: [][2]int{{0, 400}, {0, 2000}}},
		{Name: "w", Slices: [][2]int{{200, 600}, {0, 1500}}},
		{Name: "w", Slices: [][2]int{{0, 600}, {1000, 1001}}},
	}
	for i := range parts {
		n, _ := partSize(c, parts[i])
		parts[i].Dst = make([]byte, n)
	}
	st, err := c.Read(context.Background(), parts, ReadOptions{})
	if want := int64(2 * (400*2000 + 200*1500)); err != nil || st.BytesRead != want {
		t.Errorf("%+v, want %d bytes, %v", st, want, err)
	}
	for i, p := range parts {
		if !bytes.Equal(p.Dst, cutRows(data, []int{600, 2000}, p.Slices)) {
			t.Errorf("part %d is wrong", i)
		}
	}
}

func TestCancel(t *testing.T) {
	c, data := big(t, 4096, 4096)
	dst := make([]byte, len(data))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if st, err := c.Read(ctx, []Part{{Name: "w", Dst: dst}}, ReadOptions{}); !errors.Is(err, context.Canceled) || st.BytesRead != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	st, err := c.Read(ctx, []Part{{Name: "w", Dst: dst}}, ReadOptions{Workers: 1, Progress: func(int64) { cancel() }})
	if !errors.Is(err, context.Canceled) || st.BytesRead > 2*chunkBytes {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestAlloc(t *testing.T) {
	for _, n := range []int{0, 1, 63, 4096, 5000, hugePage - 1, hugePage, hugePage + 1, 3*hugePage + 4097} {
		b, err := Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		v := b.Bytes()
		if len(v) != n || cap(v) != n || v == nil {
			t.Errorf("%d bytes: len %d, cap %d", n, len(v), cap(v))
		}
		if n > 0 && uintptr(unsafe.Pointer(&v[0]))%Alignment != 0 {
			t.Errorf("%d bytes at %p", n, &v[0])
		}
		for i := range v {
			if v[i] != 0 {
				t.Fatal("not zero")
			}
			v[i] = 1
		}
		for range 2 {
			if err := b.Free(); err != nil {
				t.Error(err)
			}
		}
		if b.Bytes() != nil {
			t.Error("bytes after Free")
		}
	}
	var none *Block
	if err := none.Free(); err != nil {
		t.Error(err)
	}
}

// The peak of memory beside the shards does not grow with the file.
func TestMemoryBound(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("needs /proc")
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := CreateSparse(path, Entry{Name: "w", DType: dtype.F32, Shape: []int{1 << 14, 1 << 14}}); err != nil { // 1 GiB
		t.Fatal(err)
	}
	c := mustOpen(t, path)
	// A device of 64 that holds a column; all of the file is walked, as floats and converted.
	p := Part{Name: "w", Slices: [][2]int{{0, 1 << 14}, {256, 512}}, As: dtype.BF16}
	n, err := partSize(c, p)
	if err != nil {
		t.Fatal(err)
	}
	p.Dst = make([]byte, n)
	if got := allocated(func() {
		st, err := c.Read(context.Background(), []Part{p}, ReadOptions{})
		if err != nil || st.BytesRead != int64(2*n) {
			t.Fatal(st, err)
		}
	}); got > 4<<20 {
		t.Errorf("%d bytes allocated in one Read", got)
	}
}
