package checkpoint

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/checkpoint/pth"
	"weft/dtype"
)

// transposedPickle is what torch writes for a transposed tensor: w of shape (2,3) with strides (1,2) and offset 0.
const transposedPickle = "80027d58010000007763746f7263682e5f7574696c730a5f72656275696c645f74656e736f725f76320a2828580700000073746f72616765" +
	"63746f7263680a466c6f617453746f726167650a58010000003058030000006370754b0674514b004b024b03864b014b02868963636f6c6c" +
	"656374696f6e730a4f726465726564446963740a29527452732e"

// zipped makes a .pth of a pickle and storages.
func zipped(t testing.TB, pickle []byte, storages ...[]byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	write := func(name string, b []byte) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: "archive/" + name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("data.pkl", pickle)
	write("byteorder", []byte("little"))
	for i, b := range storages {
		write(fmt.Sprint("data/", i), b)
	}
	write("version", []byte("3\n"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestTransposedPickle(t *testing.T) {
	pickle, err := hex.DecodeString(transposedPickle)
	if err != nil {
		t.Fatal(err)
	}
	data := f32s(0, 1, 2, 3, 4, 5)
	for _, name := range []string{"w.pth", "w.pt", "w"} {
		c := mustOpen(t, put(t, t.TempDir(), name, zipped(t, pickle, data)))
		if got := loadFloats(t, c, "w", dtype.Invalid); !slices.Equal(got, []float32{0, 2, 4, 1, 3, 5}) {
			t.Errorf("%v", got)
		}
		if e, _ := c.Lookup("w"); !slices.Equal(e.Shape, []int{2, 3}) || e.Bytes != 24 || c.BytesRead() != 24 {
			t.Errorf("%+v, %d bytes read", e, c.BytesRead())
		}
	}
	_, err = Open(put(t, t.TempDir(), "w.pth", zipped(t, pickle, data[:20])))
	if f := fieldsOf[pth.Bounds](t, err, pth.ErrStorageBounds); f.Tensor != "w" {
		t.Errorf("%+v", f)
	}
}

// viewOf is a tensor of a .pth.
type viewOf struct {
	name           string
	storage, numel int
	offset         int
	shape, strides []int
	class          string
}

// torchPickle writes a state dict as torch.save does.
func torchPickle(views ...viewOf) []byte {
	var b bytes.Buffer
	text := func(v string) {
		b.WriteByte('X')
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(v))))
		b.WriteString(v)
	}
	num := func(v int) {
		b.Write([]byte{0x8a, 8})
		b.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	nums := func(v []int) {
		b.WriteByte('(')
		for _, x := range v {
			num(x)
		}
		b.WriteByte('t')
	}
	b.WriteString("\x80\x02ccollections\nOrderedDict\n)R(")
	for _, v := range views {
		text(v.name)
		b.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
		text("storage")
		b.WriteString("ctorch\n" + v.class + "\n")
		text(fmt.Sprint(v.storage))
		text("cpu")
		num(v.numel)
		b.WriteString("tQ")
		num(v.offset)
		nums(v.shape)
		nums(v.strides)
		b.WriteString("\x89ccollections\nOrderedDict\n)RtR")
	}
	b.WriteString("u.")
	return b.Bytes()
}

// Any readable strides give what indexing the storage gives, in any slices, converted or not.
func TestStrides(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		storage := make([]byte, 4*4096)
		for i := range 4096 {
			binary.LittleEndian.PutUint32(storage[4*i:], math.Float32bits(float32(i)/8))
		}
		// A dense layout in a random order of dims, some of them padded, some repeated.
		rank := rapid.IntRange(0, 4).Draw(t, "rank")
		shape, strides := make([]int, rank), make([]int, rank)
		order := rapid.Permutation(seq(rank)).Draw(t, "order")
		step := rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "step")
		for _, d := range order {
			shape[d] = rapid.IntRange(1, 5).Draw(t, "size")
			switch rapid.IntRange(0, 5).Draw(t, "how") {
			case 0:
				strides[d] = 0
			case 1:
				strides[d] = step
				step *= shape[d] + rapid.IntRange(0, 1).Draw(t, "padding")
			default:
				strides[d] = step
				step *= shape[d]
			}
		}
		offset := rapid.IntRange(0, 100).Draw(t, "offset")
		last := offset
		for d := range shape {
			last += (shape[d] - 1) * strides[d]
		}
		if last >= 4096 {
			t.Skip("too large")
		}
		path := filepath.Join(dir, "m.pth")
		b := zippedOnce(torchPickle(viewOf{"w", 0, 4096, offset, shape, strides, "FloatStorage"}), storage)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()

		// The tensor, element by element.
		n := 1
		for _, s := range shape {
			n *= s
		}
		plain := make([]byte, 0, 4*n)
		for i := range n {
			at, rest := offset, i
			for d := rank - 1; d >= 0; d-- {
				at += rest % shape[d] * strides[d]
				rest /= shape[d]
			}
			plain = append(plain, storage[4*at:4*at+4]...)
		}
		var parts []Part
		var want [][]byte
		for range 3 {
			p := Part{Name: "w", Runs: make([][][2]int, rank)}
			for d := range p.Runs {
				p.Runs[d] = drawRanges(t, shape[d])
			}
			e, _ := c.Lookup("w")
			ranges, err := p.dimRanges(e)
			if err != nil {
				t.Fatal(err)
			}
			block := cut(plain, shape, 4, ranges)
			if rapid.Bool().Draw(t, "widen") {
				p.As = dtype.F64
				wide := make([]byte, 0, 2*len(block))
				for _, v := range floats(block) {
					wide = binary.LittleEndian.AppendUint64(wide, math.Float64bits(float64(v)))
				}
				block = wide
			}
			p.Dst = make([]byte, len(block))
			parts, want = append(parts, p), append(want, block)
		}
		if _, err := c.Read(context.Background(), parts, ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		for i := range parts {
			if !bytes.Equal(parts[i].Dst, want[i]) {
				t.Fatalf("part %d %v of shape %v strides %v: %x, want %x", i, parts[i].Runs, shape, strides, parts[i].Dst, want[i])
			}
		}
	})
}

func seq(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func zippedOnce(pickle []byte, storages ...[]byte) []byte {
	return zipped(&testing.T{}, pickle, storages...)
}

func TestTorch(t *testing.T) {
	data := f32s(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	file := func(views ...viewOf) string {
		return put(t, t.TempDir(), "m.pth", zipped(t, torchPickle(views...), data))
	}
	view := func(name string, offset int, shape, strides []int) viewOf {
		return viewOf{name, 0, 12, offset, shape, strides, "FloatStorage"}
	}
	t.Run("prefix and folder", func(t *testing.T) {
		path := file(view("net.a", 0, []int{12}, []int{1}), view("net.b", 4, []int{2}, []int{1}))
		c := mustOpen(t, filepath.Dir(path))
		if got := loadFloats(t, c, "b", dtype.Invalid); c.Prefix() != "net." || !slices.Equal(got, []float32{4, 5}) {
			t.Errorf("prefix %q, b = %v", c.Prefix(), got)
		}
	})
	t.Run("overlapping elements", func(t *testing.T) {
		_, err := Open(file(view("w", 0, []int{5, 4}, []int{1, 2}), view("v", 0, []int{3, 3}, []int{1, 1}), view("u", 0, []int{2, 3}, []int{7, 2})))
		f := fieldsOf[Strides](t, err, ErrStrides)
		if f.Tensor != "w" || strings.Count(err.Error(), "\n") != 2 {
			t.Error(err)
		}
	})
	t.Run("tied", func(t *testing.T) {
		ctx := context.Background()
		c := mustOpen(t, file(view("a", 0, []int{3, 4}, []int{4, 1}), view("b", 0, []int{3, 4}, []int{4, 1}), view("c", 0, []int{4, 3}, []int{1, 4}),
			view("d", 0, []int{4, 3}, []int{3, 1}), view("e", 0, []int{2, 2}, []int{0, 0}), view("f", 1, []int{2, 2}, []int{0, 0})))
		if err := c.Tie(ctx, "a", "b"); err != nil || c.BytesRead() != 0 {
			t.Errorf("one place in the file: %d bytes read, %v", c.BytesRead(), err)
		}
		for _, pair := range [][2]string{{"c", "d"}, {"e", "f"}, {"a", "c"}} {
			if err := c.Tie(ctx, pair[0], pair[1]); !errors.Is(err, ErrTiedMismatch) {
				t.Error(pair, err)
			}
		}
	})
	t.Run("not fetched", func(t *testing.T) {
		_, err := Open(put(t, t.TempDir(), "m.pth", []byte("version https://git-lfs.github.com/spec/v1\nsize 5\n")))
		if !errors.Is(err, ErrLFSPointer) {
			t.Error(err)
		}
	})
	t.Run("no zip", func(t *testing.T) {
		if _, err := Open(put(t, t.TempDir(), "m.pth", data)); !errors.Is(err, pth.ErrNotZip) {
			t.Error(err)
		}
	})
	t.Run("a .pth with the name of a .safetensors", func(t *testing.T) {
		_, err := Open(put(t, t.TempDir(), "m.safetensors", zipped(t, torchPickle(), data)))
		if !errors.Is(err, ErrForeignFormat) || !strings.Contains(err.Error(), ".pth") {
			t.Error(err)
		}
	})
}

// A large transposed tensor goes through many buffers, and a shard of it reads its own bytes only.
func TestTransposedLarge(t *testing.T) {
	const rows, columns = 1500, 700
	storage := make([]byte, 2*rows*columns)
	for i := range rows * columns {
		binary.LittleEndian.PutUint16(storage[2*i:], uint16(i*7)&0x7f7f)
	}
	path := put(t, t.TempDir(), "m.pth", zipped(t, torchPickle(viewOf{"w", 0, rows * columns, 0, []int{rows, columns}, []int{1, rows}, "BFloat16Storage"}), storage))
	c := mustOpen(t, path)
	var parts []Part
	for i := range 4 {
		p := Part{Name: "w", Slices: [][2]int{{i * rows / 4, (i + 1) * rows / 4}, {0, columns}}}
		if i%2 == 1 {
			p.As = dtype.F32
		}
		n, err := partSize(c, p)
		if err != nil {
			t.Fatal(err)
		}
		p.Dst = make([]byte, n)
		parts = append(parts, p)
	}
	st, err := c.Read(context.Background(), parts, ReadOptions{})
	if err != nil || st.BytesRead != int64(len(storage)) {
		t.Fatal(st, err)
	}
	for i, p := range parts {
		for r := range rows / 4 {
			for k := range columns {
				want := binary.LittleEndian.Uint16(storage[2*(k*rows+i*rows/4+r):])
				at := r*columns + k
				if i%2 == 0 && binary.LittleEndian.Uint16(p.Dst[2*at:]) != want || i%2 == 1 && binary.LittleEndian.Uint32(p.Dst[4*at:]) != uint32(want)<<16 {
					t.Fatalf("part %d at %d,%d", i, r, k)
				}
			}
		}
	}
	if st, err = c.Read(context.Background(), parts[:1], ReadOptions{}); err != nil || st.BytesRead != int64(len(storage))/4 {
		t.Error(st, err)
	}
}
