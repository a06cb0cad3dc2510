package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/dtype"
	"weft/fault"
	"weft/internal/bystander"
)

func TestHeaderLength(t *testing.T) {
	pointer := "version https://git-lfs.github.com/spec/v1\n" +
		"oid sha256:c393f632913cdc64c13fcd1b039a74f17dd83cc3029c556802c0f2f8792b46f9\nsize 557941479\n"
	for _, test := range []struct {
		name  string
		bytes []byte
		size  int
		sha   string
		kind  error
		check func(t *testing.T, err error)
	}{
		{"pointer", []byte(pointer), 134, "695b13b1450ca009", ErrLFSPointer, func(t *testing.T, err error) {
			if f := fieldsOf[LFSPointer](t, err, ErrLFSPointer); f.Size != 557941479 {
				t.Errorf("size %d", f.Size)
			}
			if errors.Is(err, ErrHeaderTooLarge) {
				t.Error("a pointer is no large header")
			}
		}},
		{"all ones", fileAnnouncing(math.MaxUint64, "{}"), 10, "56eedb32886b9113", ErrHeaderTooLarge, nil},
		{"limit + 1", fileAnnouncing(100000001, "{}"), 10, "e7a5244c52060a12", ErrHeaderTooLarge, nil},
		{"limit", fileAnnouncing(100000000, "{}"), 10, "", ErrHeaderTruncated, nil},
		{"truncated", fileAnnouncing(40, "{}"), 10, "b80d0476bb376318", ErrHeaderTruncated, func(t *testing.T, err error) {
			if f := fieldsOf[Header](t, err, ErrHeaderTruncated); f.Need != 48 || f.Have != 10 {
				t.Errorf("need %d, have %d", f.Need, f.Have)
			}
		}},
		{"7 bytes", []byte{2, 0, 0, 0, 0, 0, 0}, 7, "", ErrHeaderTooSmall, nil},
		{"empty", nil, 0, "", ErrHeaderTooSmall, nil},
		{"no tensors", fileBytes("{}"), 10, "411a485216e432ec", nil, nil},
		{"length 0", fileBytes(""), 8, "", ErrHeaderSyntax, nil},
		{"a zip", []byte("PK\x03\x04\x14\x00\x08\x08..."), 11, "", ErrForeignFormat, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if len(test.bytes) != test.size || test.sha != "" && sha(test.bytes) != test.sha {
				t.Fatalf("the input has %d bytes, %s", len(test.bytes), sha(test.bytes))
			}
			c, err := openBytes(t, test.bytes)
			if !errors.Is(err, test.kind) {
				t.Fatalf("error %v, want %v", err, test.kind)
			}
			if test.kind == nil && len(c.Entries()) != 0 {
				t.Error("tensors in an empty file")
			}
			if test.check != nil {
				test.check(t, err)
			}
		})
	}
}

// The largest header there may be is read: the reference's limit is inclusive.
func TestLargestHeader(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 100 MB")
	}
	text := append([]byte("{}"), bytes.Repeat([]byte(" "), 100000000-2)...)
	c, err := openBytes(t, fileBytes(string(text)))
	if err != nil || len(c.Entries()) != 0 {
		t.Fatal(err)
	}
}

// A length is compared before anything is allocated for it.
func TestHeaderLengthAllocatesNothing(t *testing.T) {
	path := put(t, t.TempDir(), "m.safetensors", fileAnnouncing(99999999, "{}"))
	if got := allocated(func() {
		if _, err := Open(path); err == nil {
			t.Fatal("opened")
		}
	}); got > 64<<10 {
		t.Errorf("%d bytes allocated to refuse 10", got)
	}
}

func tensorJSON(name, dtype string, shape string, lo, hi int) string {
	return fmt.Sprintf(`"%s":{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`, name, dtype, shape, lo, hi)
}

func object(fields ...string) string { return "{" + strings.Join(fields, ",") + "}" }

func TestOffsetsTileTheData(t *testing.T) {
	for _, test := range []struct {
		name   string
		header string
		data   int
		size   int
		sha    string
		bad    []string
	}{
		{"same range", object(tensorJSON("k", "F32", "[2]", 0, 8), tensorJSON("v", "F32", "[2]", 0, 8)), 8, 123, "b8c2ae120be29e7f", []string{"v"}},
		{"hole", object(tensorJSON("k", "F32", "[1]", 0, 4), tensorJSON("v", "F32", "[1]", 8, 12)), 12, 128, "0e8f9b88fd4bcf9c", []string{"v"}},
		{"gap before the first", object(tensorJSON("k", "F32", "[1]", 4, 8)), 8, 70, "88d4f77ead55909a", []string{"k"}},
		{"reversed", object(tensorJSON("k", "F32", "[1]", 4, 0)), 4, 66, "94c81603032095b4", []string{"k"}},
		{"every one is named", object(tensorJSON("a", "F32", "[1]", 4, 0), tensorJSON("b", "F32", "[1]", 1, 5), tensorJSON("c", "F32", "[1]", 3, 7)), 7, 0, "",
			[]string{"a", "b", "c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := fileBytes(test.header, make([]byte, test.data)...)
			if test.sha != "" && (len(b) != test.size || sha(b) != test.sha) {
				t.Fatalf("the input has %d bytes, %s", len(b), sha(b))
			}
			_, err := openBytes(t, b)
			var bad []string
			for _, v := range fault.Violations(err) {
				bad = append(bad, fieldsOf[Offsets](t, v, ErrOffsets).Tensor)
			}
			if !slices.Equal(bad, test.bad) {
				t.Errorf("named %q, want %q: %v", bad, test.bad, err)
			}
		})
	}
	// A file that ends too early or too late is of a kind of its own, with the totals.
	for _, test := range []struct {
		name, header string
		data         int
		kind         error
		tensor       string
		need, have   int64 // of the data
		says         string
	}{
		{"bytes left over", object(tensorJSON("k", "F32", "[1]", 0, 4)), 5, ErrTrailingBytes, "k", 4, 5, "1 byte too many"},
		{"cut short", object(tensorJSON("k", "F32", "[1]", 0, 4), tensorJSON("v", "F32", "[1]", 4, 8), tensorJSON("w", "F32", "[1]", 8, 12)), 5, ErrTruncated, "v",
			12, 5, "2 tensors incomplete"},
		{"no data at all", object(tensorJSON("k", "F32", "[1000000]", 0, 4000000)), 0, ErrTruncated, "k", 4000000, 0, "1 tensor incomplete"},
		{"no tensors, data", "{}", 1, ErrTrailingBytes, "", 0, 1, "1 byte too many"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := fileBytes(test.header, make([]byte, test.data)...)
			_, err := openBytes(t, b)
			if errors.Is(err, ErrOffsets) {
				t.Errorf("of the kind of wrong offsets too: %v", err)
			}
			begin := int64(len(b) - test.data)
			f := fieldsOf[Extent](t, err, test.kind)
			if f.Tensor != test.tensor || f.Need != begin+test.need || f.Have != begin+test.have || !strings.Contains(err.Error(), test.says) ||
				!strings.Contains(err.Error(), fmt.Sprintf("need %d bytes, have %d", f.Need, f.Have)) {
				t.Errorf("%+v: %v", f, err)
			}
		})
	}
	t.Run("header order is free", func(t *testing.T) {
		b := fileBytes(object(tensorJSON("b", "F32", "[1]", 4, 8), tensorJSON("a", "F32", "[1]", 0, 4)), f32s(1, 2)...)
		c, err := openBytes(t, b)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float32{"a": 1, "b": 2} {
			if got := loadFloats(t, c, name, dtype.Invalid); got[0] != want {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
		}
	})
}

func loadFloats(t *testing.T, c *Checkpoint, name string, as dtype.DType) []float32 {
	t.Helper()
	v, err := c.Load(context.Background(), name, as)
	if err != nil {
		t.Fatal(err)
	}
	return floats(v.Data)
}

func TestEmptyTensors(t *testing.T) {
	for _, test := range []struct {
		name, header string
		data         []byte
		size         int
		sha          string
		kind         error
		tensors      int
	}{
		{"marker", object(tensorJSON("scaled_fp8", "F8_E4M3", "[0]", 0, 0), tensorJSON("w", "F32", "[1]", 0, 4)),
			[]byte{0, 0, 0x80, 0x3f}, 132, "cce79ccb129eeb9a", nil, 2},
		{"two empty", object(tensorJSON("a", "F32", "[0,4]", 0, 0), tensorJSON("b", "F32", "[3,0]", 0, 0)), nil, 119, "5e2c3c350dd485d6", nil, 2},
		{"one between", object(tensorJSON("a", "F32", "[1]", 0, 4), tensorJSON("e", "F32", "[0]", 4, 4), tensorJSON("b", "F32", "[1]", 4, 8)), make([]byte, 8), 0, "", nil, 3},
		{"not empty", object(tensorJSON("a", "F32", "[1]", 0, 0)), nil, 62, "4d749b4d68cf31d4", ErrSizeMismatch, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := fileBytes(test.header, test.data...)
			if test.sha != "" && (len(b) != test.size || sha(b) != test.sha) {
				t.Fatalf("the input has %d bytes, %s", len(b), sha(b))
			}
			c, err := openBytes(t, b)
			if test.kind != nil {
				if f := fieldsOf[SizeMismatch](t, err, test.kind); f.Want != 4 || f.Have != 0 || f.Tensor != "a" {
					t.Errorf("%+v", f)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := len(c.Entries()); n != test.tensors {
				t.Errorf("%d tensors, want %d", n, test.tensors)
			}
			for _, e := range c.Entries() {
				v, err := c.Load(context.Background(), e.Name, dtype.Invalid)
				if err != nil || v.Elements() != int(e.Elements()) {
					t.Errorf("%s: %v, %v", e.Name, v, err)
				}
			}
			if e, ok := c.Lookup("scaled_fp8"); ok && (e.Elements() != 0 || e.Role != Marker) {
				t.Errorf("%+v", e)
			}
			if _, ok := c.Lookup("w"); ok && loadFloats(t, c, "w", dtype.F32)[0] != 1 {
				t.Error("w is not 1")
			}
		})
	}
}

var fp8Data = []byte{0x38, 0xb0, 0x7e, 0x7f, 0xc3, 0x64, 0xaa, 0x3a}

func TestScalesAreApplied(t *testing.T) {
	header := func(scale string) string {
		return object(tensorJSON("x.weight", "F8_E4M3", "[4]", 0, 4), tensorJSON(scale, "F32", "[]", 4, 8))
	}
	b := fileBytes(header("x.weight_scale"), fp8Data...)
	if len(b) != 146 || sha(b) != "ca471edf5b7c61b0" {
		t.Fatalf("the input has %d bytes, %s", len(b), sha(b))
	}
	nan := float32(math.NaN())
	for _, scale := range []string{"x.weight_scale", "x.scale_weight"} {
		c, err := openBytes(t, fileBytes(header(scale), fp8Data...))
		if err != nil {
			t.Fatal(err)
		}
		s := float32(0.0013)
		want := []float32{s, -0.5 * s, 448 * s, nan}
		if diff := cmp.Diff(want, loadFloats(t, c, "x.weight", dtype.F32), sameFloats); diff != "" {
			t.Errorf("%s: %s", scale, diff)
		}
		for _, as := range []dtype.DType{dtype.Invalid, dtype.F8E4M3} {
			_, err := c.Load(context.Background(), "x.weight", as)
			if f := fieldsOf[Scale](t, err, ErrUnappliedScale); f.Tensor != "x.weight" {
				t.Errorf("%+v", f)
			}
		}
		if e, _ := c.Lookup("x.weight"); e.Scale != scale {
			t.Errorf("scale is %q", e.Scale)
		}
		// A model that knows only the weight is satisfied: the scale is no stray tensor.
		if extra, err := Require(c, []Want{{"x.weight", []int{4}}}, RequireOptions{}); err != nil || extra != nil {
			t.Error(extra, err)
		}
	}
	t.Run("raw", func(t *testing.T) {
		c, err := openBytes(t, fileBytes(object(tensorJSON("x.weight", "F8_E4M3", "[4]", 0, 4)), fp8Data[:4]...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float32{1, -0.5, 448, nan}, loadFloats(t, c, "x.weight", dtype.F32), sameFloats); diff != "" {
			t.Error(diff)
		}
	})
	for _, test := range []struct {
		name   string
		header string
		data   int
		kind   error
	}{
		{"no weight", object(tensorJSON("x.weight_scale", "F32", "[]", 0, 4)), 4, ErrUnappliedScale},
		{"weight is not fp8", object(tensorJSON("x.weight", "BF16", "[4]", 0, 8), tensorJSON("x.scale_weight", "F32", "[]", 8, 12)), 12, ErrUnappliedScale},
		{"a scale per row", object(tensorJSON("x.weight", "F8_E4M3", "[4]", 0, 4), tensorJSON("x.weight_scale", "F32", "[4]", 4, 20)), 20, ErrUnappliedScale},
		{"a scale in bf16", object(tensorJSON("x.weight", "F8_E4M3", "[4]", 0, 4), tensorJSON("x.weight_scale", "BF16", "[]", 4, 6)), 6, ErrUnappliedScale},
		{"both spellings", object(tensorJSON("x.weight", "F8_E5M2", "[4]", 0, 4), tensorJSON("x.weight_scale", "F32", "[]", 4, 8),
			tensorJSON("x.scale_weight", "F32", "[1]", 8, 12)), 12, ErrTwoScales},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := openBytes(t, fileBytes(test.header, make([]byte, test.data)...))
			if f := fieldsOf[Scale](t, err, test.kind); f.Tensor != "x.weight" || len(f.Scales) == 0 {
				t.Errorf("%+v", f)
			}
		})
	}
	t.Run("input scales", func(t *testing.T) {
		c, err := openBytes(t, fileBytes(object(
			tensorJSON("x.weight", "F8_E4M3", "[4]", 0, 4), tensorJSON("x.weight_scale", "F32", "[]", 4, 8),
			tensorJSON("x.scale_input", "F32", "[]", 8, 12), tensorJSON("x.input_scale", "F32", "[]", 12, 16),
			tensorJSON("y.input_scale", "F32", "[]", 16, 20)), make([]byte, 20)...))
		if err != nil {
			t.Fatal(err)
		}
		roles := map[string]Role{}
		for _, e := range c.Entries() {
			roles[e.Name] = e.Role
		}
		want := map[string]Role{"x.weight": Weight, "x.weight_scale": WeightScale, "x.scale_input": InputScale, "x.input_scale": InputScale, "y.input_scale": Weight}
		if diff := cmp.Diff(want, roles); diff != "" {
			t.Error(diff)
		}
		if n := c.Notices(); len(n) != 1 || !strings.Contains(n[0], "2 scales") {
			t.Errorf("notices %q", n)
		}
	})
}

// sameFloats compares bit by bit, except that any NaN equals any other.
var sameFloats = cmp.Comparer(func(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
})

func TestIndexNamesAbsentShard(t *testing.T) {
	one := fileBytes(object(tensorJSON("a", "F32", "[1]", 0, 4)), f32s(1)...)
	index := `{"metadata":{"total_size":8},"weight_map":{"a":"m-00001-of-00002.safetensors","b":"m-00002-of-00002.safetensors"}}`
	dir := t.TempDir()
	put(t, dir, "m-00001-of-00002.safetensors", one)
	path := put(t, dir, "m.safetensors.index.json", []byte(index))
	for _, p := range []string{path, dir} {
		_, err := Open(p)
		f := fieldsOf[MissingShard](t, err, ErrMissingShard)
		if !slices.Equal(f.Shards, []string{"m-00002-of-00002.safetensors"}) || !slices.Equal(f.Tensors, []string{"b"}) {
			t.Errorf("%+v", f)
		}
	}
	t.Run("every absent shard", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, "m.safetensors.index.json", []byte(`{"weight_map":{"a":"2.safetensors","b":"1.safetensors","c":"2.safetensors"}}`))
		_, err := Open(dir)
		f := fieldsOf[MissingShard](t, err, ErrMissingShard)
		if !slices.Equal(f.Shards, []string{"1.safetensors", "2.safetensors"}) || !slices.Equal(f.Tensors, []string{"a", "b", "c"}) {
			t.Errorf("%+v", f)
		}
	})
	t.Run("a file that the index does not name", func(t *testing.T) {
		put(t, dir, "m-00002-of-00002.safetensors", fileBytes(object(tensorJSON("b", "F32", "[1]", 0, 4)), f32s(2)...))
		put(t, dir, "extra.safetensors", fileBytes(object(tensorJSON("z", "F32", "[1]", 0, 4)), f32s(3)...))
		c := mustOpen(t, dir)
		if _, ok := c.Lookup("z"); ok || len(c.Entries()) != 2 {
			t.Error("merged in")
		}
		if n := c.Notices(); len(n) != 1 || !strings.Contains(n[0], "extra.safetensors") {
			t.Errorf("notices %q", n)
		}
		if got := loadFloats(t, c, "b", dtype.Invalid); got[0] != 2 {
			t.Errorf("b = %v", got)
		}
	})
}

// wanNames are the names of the official fixture.
func wanNames(t *testing.T) map[string][]int {
	c := mustOpen(t, "../testdata/wan21_t2v/model.safetensors")
	names := map[string][]int{}
	for _, e := range c.Entries() {
		names[e.Name] = e.Shape
	}
	return names
}

// sparse writes a file of float32 tensors.
func sparse(t *testing.T, names map[string][]int) string {
	t.Helper()
	var entries []Entry
	for name, shape := range names {
		entries = append(entries, Entry{Name: name, DType: dtype.F32, Shape: shape})
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := CreateSparse(path, entries...); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrefixedKeys(t *testing.T) {
	const prefix = "model.diffusion_model."
	bare := wanNames(t)
	prefixed := map[string][]int{}
	for name, shape := range bare {
		prefixed[prefix+name] = shape
	}
	with := func(change func(m map[string][]int)) string {
		m := map[string][]int{}
		for k, v := range prefixed {
			m[k] = v
		}
		change(m)
		return sparse(t, m)
	}
	namesOf := func(c *Checkpoint) map[string][]int {
		m := map[string][]int{}
		for _, e := range c.Entries() {
			m[e.Name] = e.Shape
		}
		return m
	}

	all := mustOpen(t, with(func(map[string][]int) {}))
	if diff := cmp.Diff(bare, namesOf(all)); diff != "" || all.Prefix() != prefix || len(all.Notices()) != 1 {
		t.Errorf("prefix %q, notices %q: %s", all.Prefix(), all.Notices(), diff)
	}
	if e, _ := all.Lookup("head.modulation"); e.Key != prefix+"head.modulation" {
		t.Errorf("key %q", e.Key)
	}
	for _, odd := range []string{"head.modulation", "blocks.0.modulation", "patch_embedding.weight"} {
		_, err := Open(with(func(m map[string][]int) { delete(m, prefix+odd); m[odd] = bare[odd] }))
		if f := fieldsOf[MixedPrefix](t, err, ErrMixedPrefix); !slices.Equal(f.Keys, []string{odd}) || f.Prefix != prefix {
			t.Errorf("%+v", f)
		}
	}
	const vace = "vace_blocks.0.after_proj.bias"
	c := mustOpen(t, with(func(m map[string][]int) { m[prefix+vace] = []int{96} }))
	if _, ok := c.Lookup(vace); !ok {
		t.Error("the variant's key is lost")
	}

	var want []Want
	for name, shape := range bare {
		want = append(want, Want{name, shape})
	}
	if _, err := Require(all, want, RequireOptions{}); err != nil {
		t.Error(err)
	}
	_, err := Require(all, append(want, Want{"absent.1", nil}, Want{"absent.2", []int{3}}), RequireOptions{})
	if f := fieldsOf[Tensors](t, err, ErrMissingTensors); !slices.Equal(f.Tensors, []string{"absent.1", "absent.2"}) {
		t.Errorf("%+v", f)
	}
	_, err = Require(c, want, RequireOptions{})
	if f := fieldsOf[Tensors](t, err, ErrUnexpectedTensors); !slices.Equal(f.Tensors, []string{vace}) {
		t.Errorf("%+v", f)
	}
	passed, err := Require(c, want, RequireOptions{Ignore: []bystander.Kind{{Name: "another half", Globs: []string{"vace_*"}}}})
	if err != nil || len(passed) != 1 || passed[0].Kind != "another half" || !slices.Equal(passed[0].Names, []string{vace}) {
		t.Error(passed, err)
	}
}

func TestTie(t *testing.T) {
	shared := Entry{Name: "shared.weight", DType: dtype.BF16, Shape: []int{256384, 4096}}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := CreateSparse(path, shared, Entry{Name: "x", DType: dtype.BF16, Shape: []int{1}}); err != nil {
		t.Fatal(err)
	}
	c := mustOpen(t, path)
	const tied = "encoder.embed_tokens.weight"
	ctx := context.Background()
	if err := c.Tie(ctx, "shared.weight", tied); err != nil {
		t.Fatal(err)
	}
	if _, err := Require(c, []Want{{tied, []int{256384, 4096}}, {"x", []int{1}}}, RequireOptions{}); err != nil {
		t.Error(err)
	}
	if countBytes(c) != 2100297728+2 || len(c.Entries()) != 2 {
		t.Errorf("%d bytes in %d tensors", countBytes(c), len(c.Entries()))
	}
	// Two names asked for in one Read are read once.
	dst := [2][]byte{make([]byte, 8192), make([]byte, 8192)}
	row := [][2]int{{7, 8}, {0, 4096}}
	st, err := c.Read(ctx, []Part{{Name: "shared.weight", Slices: row, Dst: dst[0]}, {Name: tied, Slices: row, Dst: dst[1]}}, ReadOptions{})
	if err != nil || st.BytesRead != 8192 {
		t.Errorf("%+v, %v", st, err)
	}

	both := func(second byte) *Checkpoint {
		b := fileBytes(object(tensorJSON(tied, "U8", "[2]", 0, 2), tensorJSON("shared.weight", "U8", "[2]", 2, 4)), 1, 2, 1, second)
		c, err := openBytes(t, b)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	same := both(2)
	if err := same.Tie(ctx, "shared.weight", tied); err != nil || countBytes(same) != 2 {
		t.Errorf("%d bytes, %v", countBytes(same), err)
	}
	if e, ok := same.Lookup(tied); !ok || e.Name != "shared.weight" {
		t.Errorf("%+v", e)
	}
	err = both(3).Tie(ctx, "shared.weight", tied)
	if f := fieldsOf[Tied](t, err, ErrTiedMismatch); !slices.Equal(f.Tensors, []string{"shared.weight", tied}) {
		t.Errorf("%+v", f)
	}
}

// openLargeTensor is one tensor of 32768 bytes.
func openLargeTensor(t *testing.T) (*Checkpoint, []byte) {
	data := make([]byte, 32768)
	for i := range 8192 {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(i)))
	}
	c, err := openBytes(t, fileBytes(object(tensorJSON("w", "F32", "[8,1024]", 0, 32768)), data...))
	if err != nil {
		t.Fatal(err)
	}
	return c, data
}

func TestShardsReadTheirBytesOnce(t *testing.T) {
	const devices = 8
	rows := func(i int) [][2]int { return [][2]int{{i, i + 1}, {0, 1024}} }
	columns := func(i int) [][2]int { return [][2]int{{0, 8}, {128 * i, 128 * (i + 1)}} }
	whole := func(int) [][2]int { return nil }
	for _, test := range []struct {
		name    string
		slices  func(i int) [][2]int
		as      dtype.DType
		one     int64 // bytes that one host of eight reads
		replica int   // devices that want the same
	}{
		{"rows", rows, dtype.Invalid, 4096, 1},
		{"rows twice", rows, dtype.Invalid, 4096, 2},
		{"columns", columns, dtype.Invalid, 4096, 1},
		{"columns thrice", columns, dtype.Invalid, 4096, 3},
		{"columns as bf16", columns, dtype.BF16, 4096, 2},
		{"replicated", whole, dtype.Invalid, 32768, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, data := openLargeTensor(t)
			var parts []Part
			for i := range devices {
				for range test.replica {
					p := Part{Name: "w", Slices: test.slices(i), As: test.as}
					n, err := partSize(c, p)
					if err != nil {
						t.Fatal(err)
					}
					p.Dst = make([]byte, n)
					parts = append(parts, p)
				}
			}
			before := c.BytesRead()
			st, err := c.Read(context.Background(), parts, ReadOptions{})
			if err != nil || st.BytesRead != 32768 || c.BytesRead()-before != 32768 {
				t.Fatalf("%+v, counted %d, %v", st, c.BytesRead()-before, err)
			}
			for i, p := range parts {
				if want := cut(data, []int{8, 1024}, 4, mustRanges(t, c, p)); test.as == dtype.Invalid && !bytes.Equal(p.Dst, want) {
					t.Errorf("part %d is wrong", i)
				}
			}
			// One host of eight, one device each.
			for i := range devices {
				if st, err := c.Read(context.Background(), parts[i*test.replica:i*test.replica+1], ReadOptions{}); err != nil || st.BytesRead != test.one {
					t.Errorf("host %d reads %d bytes, want %d, %v", i, st.BytesRead, test.one, err)
				}
			}
		})
	}
}

func mustRanges(t testing.TB, c *Checkpoint, p Part) [][][2]int {
	t.Helper()
	e, _ := c.Lookup(p.Name)
	r, err := p.dimRanges(e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cut slices a tensor in memory, element by element.
func cut(data []byte, shape []int, elem int, ranges [][][2]int) []byte {
	if len(shape) == 0 {
		return slices.Clone(data[:elem])
	}
	inner := elem
	for _, s := range shape[1:] {
		inner *= s
	}
	list := ranges[0]
	if list == nil {
		list = [][2]int{{0, shape[0]}}
	}
	var out []byte
	for _, r := range list {
		for i := r[0]; i < r[1]; i++ {
			out = append(out, cut(data[i*inner:(i+1)*inner], shape[1:], elem, ranges[1:])...)
		}
	}
	return out
}

// A file that disappears under an open checkpoint is still read; one that shrinks is an error.
func TestFileChanged(t *testing.T) {
	c, _ := openLargeTensor(t)
	path := c.Files()[0]
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	for _, p := range []Part{
		{Name: "w", Dst: make([]byte, 32768)},
		{Name: "w", As: dtype.BF16, Dst: make([]byte, 16384)},
	} {
		_, err := c.Read(context.Background(), []Part{p}, ReadOptions{})
		fieldsOf[FileChanged](t, err, ErrFileChanged)
	}
	parts := []Part{
		{Name: "w", Slices: [][2]int{{0, 8}, {0, 512}}, Dst: make([]byte, 16384)},
		{Name: "w", Slices: [][2]int{{0, 8}, {512, 1024}}, Dst: make([]byte, 16384)},
	}
	_, err := c.Read(context.Background(), parts, ReadOptions{})
	fieldsOf[FileChanged](t, err, ErrFileChanged)
}
