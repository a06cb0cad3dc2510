package pth

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/fault"
)

// transposedPickle is what torch writes for a transposed tensor: w of shape (2,3) with strides (1,2) and offset 0.
const transposedPickle = "80027d58010000007763746f7263682e5f7574696c730a5f72656275696c645f74656e736f725f76320a2828580700000073746f72616765" +
	"63746f7263680a466c6f617453746f726167650a58010000003058030000006370754b0674514b004b024b03864b014b02868963636f6c6c" +
	"656374696f6e730a4f726465726564446963740a29527452732e"

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pack makes a zip as torch.save does. Entries are stored unless their name begins with "z:".
func pack(t testing.TB, entries ...any) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for i := 0; i < len(entries); i += 2 {
		name, method := entries[i].(string), zip.Store
		if rest, ok := strings.CutPrefix(name, "z:"); ok {
			name, method = rest, zip.Deflate
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(entries[i+1].([]byte)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func read(b []byte) (*Archive, error) {
	return Read(bytes.NewReader(b), int64(len(b)), "x.pth")
}

// noise is text that does not pack, in one instruction that skips it.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return append(binary.LittleEndian.AppendUint32([]byte{'B'}, uint32(n)), b...)
}

var six = func() []byte {
	var b []byte
	for _, bits := range []uint32{0, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000} {
		b = binary.LittleEndian.AppendUint32(b, bits)
	}
	return b
}()

func TestTransposedPickle(t *testing.T) {
	pickle := unhex(t, transposedPickle)
	sum := sha256.Sum256(pickle)
	if len(pickle) != 138 || hex.EncodeToString(sum[:])[:16] != "2897d6eea81a5e39" {
		t.Fatal("the pickle is not the one that torch wrote")
	}
	file := func(data []byte) []byte {
		return pack(t, "archive/data.pkl", pickle, "archive/byteorder", []byte("little"), "archive/data/0", data, "archive/version", []byte("3\n"))
	}
	b := file(six)
	a, err := read(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Tensors) != 1 {
		t.Fatalf("%+v", a)
	}
	w := a.Tensors[0]
	if w.Name != "w" || w.DType != dtype.F32 || !slices.Equal(w.Shape, []int{2, 3}) || !slices.Equal(w.Strides, []int{1, 2}) {
		t.Errorf("%+v", w)
	}
	if !bytes.Equal(b[w.Offset:w.Offset+24], six) {
		t.Error("the offset is not where the data is")
	}
	_, err = read(file(six[:20]))
	if f, ok := fault.Fields[Bounds](err); !errors.Is(err, ErrStorageBounds) || !ok || f.Need != 24 || f.Have != 20 || f.Tensor != "w" {
		t.Errorf("%+v, %v", f, err)
	}
}

// script writes a pickle in the letters of protocol 2.
type script struct{ bytes.Buffer }

func (s *script) raw(b ...byte) *script { s.Write(b); return s }

func (s *script) text(v string) *script {
	s.WriteByte('X')
	s.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(v))))
	s.WriteString(v)
	return s
}

func (s *script) int(v int64) *script {
	s.Write([]byte{0x8a, 8})
	s.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	return s
}

func (s *script) ints(v ...int64) *script {
	s.WriteByte('(')
	for _, x := range v {
		s.int(x)
	}
	return s.raw('t')
}

func (s *script) global(module, name string) *script {
	fmt.Fprintf(s, "c%s\n%s\n", module, name)
	return s
}

// tensor pushes a call that rebuilds a tensor of storage "0".
func (s *script) tensor(class string, numel, offset int64, shape, strides []int64) *script {
	s.global("torch._utils", "_rebuild_tensor_v2").raw('(')
	s.raw('(').text("storage").global("torch", class).text("0").text("cpu").int(numel).raw('t', 'Q')
	s.int(offset).ints(shape...).ints(strides...).raw(0x89).global("collections", "OrderedDict").raw(')', 'R', 't')
	return s.raw('R')
}

func program(f func(s *script)) []byte {
	s := &script{}
	s.raw(0x80, 2)
	f(s)
	return s.raw('.').Bytes()
}

func file(t testing.TB, pickle []byte) []byte {
	return pack(t, "a/data.pkl", pickle, "a/data/0", six)
}

func TestBounds(t *testing.T) {
	const big = 1 << 62
	for _, test := range []struct {
		name           string
		offset         int64
		shape, strides []int64
		ok             bool
	}{
		{"whole", 0, []int64{6}, []int64{1}, true},
		{"scalar", 5, nil, nil, true},
		{"scalar past the end", 6, nil, nil, false},
		{"one too many", 0, []int64{7}, []int64{1}, false},
		{"offset", 1, []int64{5}, []int64{1}, true},
		{"offset past the end", 1, []int64{6}, []int64{1}, false},
		{"expanded", 0, []int64{1000, 6}, []int64{0, 1}, true},
		{"transposed", 0, []int64{2, 3}, []int64{1, 2}, true},
		{"strides too large", 0, []int64{2, 3}, []int64{4, 1}, false},
		{"every other", 0, []int64{3}, []int64{2}, true},
		{"empty", 0, []int64{0, 5}, []int64{5, 1}, true},
		{"empty, far away", 1000, []int64{3, 0}, []int64{1 << 40, 1}, true},
		{"negative stride", 5, []int64{6}, []int64{-1}, false},
		{"negative dim", 0, []int64{-1}, []int64{1}, false},
		{"negative offset", -1, []int64{1}, []int64{1}, false},
		{"too few strides", 0, []int64{2, 3}, []int64{1}, false},
		{"reach overflows", 0, []int64{3}, []int64{big}, false},
		{"sum overflows", 1<<63 - 1, []int64{2}, []int64{1}, false},
		{"elements overflow", 0, []int64{big, big}, []int64{0, 0}, false},
		{"bytes overflow", 0, []int64{big}, []int64{0}, false},
		{"bytes of the reach overflow", 0, []int64{2}, []int64{big}, false},
	} {
		a, err := read(file(t, program(func(s *script) {
			s.raw('}').text("w").tensor("FloatStorage", 6, test.offset, test.shape, test.strides).raw('s')
		})))
		if test.ok != (err == nil) || err != nil && !errors.Is(err, ErrStorageBounds) {
			t.Errorf("%s: %+v, %v", test.name, a, err)
		}
	}
}

// names lists the tensors of an archive.
func names(a *Archive) string {
	var all []string
	for _, t := range a.Tensors {
		all = append(all, t.Name)
	}
	return strings.Join(all, " ")
}

func TestStateDict(t *testing.T) {
	one := func(s *script) *script { return s.tensor("FloatStorage", 6, 0, []int64{6}, []int64{1}) }
	for _, test := range []struct {
		name  string
		write func(s *script)
		want  string // "names | under | others"
		kind  error
	}{
		{"plain", func(s *script) { one(s.raw('}', '(').text("a")); one(s.text("b")).raw('u') }, "a b | | ", nil},
		{"ordered", func(s *script) { one(s.global("collections", "OrderedDict").raw(')', 'R').text("a")).raw('s') }, "a | | ", nil},
		{"ordered, from pairs", func(s *script) {
			one(s.global("collections", "OrderedDict").raw(']').text("a")).raw(0x86, 'a', 0x85, 'R')
		}, "a | | ", nil},
		{"with a version beside", func(s *script) {
			one(s.raw('}').text("a")).raw('s').raw('}').text("_metadata").raw('N', 's', 'b')
		}, "a | | ", nil},
		{"parameters", func(s *script) {
			one(s.raw('}').text("a").global("torch._utils", "_rebuild_parameter").raw('(')).raw(0x88, 'N', 't', 'R', 's')
		}, "a | | ", nil},
		{"other values", func(s *script) {
			one(s.raw('}', '(').text("a")).text("step").int(3).text("net.x._extra_state").global("_io", "BytesIO").raw('C', 1, 0, 0x85, 'R', 'u')
		}, "a | | step (3) net.x._extra_state (_io.BytesIO)", nil},
		{"under a key", func(s *script) {
			one(s.raw('}', '(').text("epoch").int(3).text("module").raw('}').text("a")).raw('s', 'u')
		}, "a | module | ", nil},
		{"under two keys", func(s *script) {
			one(s.raw('}').text("state").raw('}').text("ema").raw('}').text("a")).raw('s', 's', 's')
		}, "a | state ema | ", nil},
		{"the likelier key", func(s *script) {
			one(s.raw('}', '(').text("optimizer").raw('}').text("m")).raw('s')
			one(s.text("state_dict").raw('}').text("a")).raw('s', 'u')
		}, "a | state_dict | ", nil},
		{"two keys alike", func(s *script) {
			one(s.raw('}', '(').text("g").raw('}').text("m")).raw('s')
			one(s.text("h").raw('}').text("a")).raw('s', 'u')
		}, "", ErrStateDict},
		{"empty", func(s *script) { s.raw('}') }, " | | ", nil},
		{"a list", func(s *script) { s.raw(']') }, "", ErrStateDict},
		{"numbers only", func(s *script) { s.raw('}').text("a").int(1).raw('s') }, "", ErrStateDict},
		{"a dict in itself", func(s *script) { s.raw('}', 'q', 0).text("a").raw('h', 0, 's') }, "", ErrStateDict},
		{"tensor twice", func(s *script) { one(s.raw('}', '(').text("a")); one(s.text("a")).raw('u') }, "", ErrPickle},
		{"a function of the system", func(s *script) {
			one(s.raw('}', '(').text("a")).text("b").global("os", "system").text("false").raw(0x85, 'R', 'u')
		}, "", ErrReference},
		{"nothing on the stack", func(s *script) { s.raw('0') }, "", ErrPickle},
		{"no mark", func(s *script) { s.raw('t') }, "", ErrPickle},
		{"nothing remembered", func(s *script) { s.raw('h', 7) }, "", ErrPickle},
		{"unknown instruction", func(s *script) { s.raw(0xff) }, "", ErrPickle},
		{"text past the end", func(s *script) { s.raw('X', 0xff, 0xff, 0xff, 0xff) }, "", ErrPickle},
		{"long text past the end", func(s *script) { s.raw(0x8d, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) }, "", ErrPickle},
		{"protocol 6", func(s *script) { s.raw(0x80, 6) }, "", ErrPickle},
		{"unknown storage", func(s *script) { s.raw('}').text("a").tensor("QInt8Storage", 6, 0, nil, nil).raw('s') }, "", ErrStorageType},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := read(file(t, program(test.write)))
			if test.kind != nil {
				if !errors.Is(err, test.kind) {
					t.Fatalf("%+v, error %v, want %v", a, err, test.kind)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := names(a) + " | " + strings.Join(a.Under, " ") + " | " + strings.Join(a.Others, " ")
			if strings.ReplaceAll(got, "  ", " ") != strings.ReplaceAll(test.want, "  ", " ") {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestTypes(t *testing.T) {
	for class, want := range classes {
		a, err := read(file(t, program(func(s *script) { s.raw('}').text("a").tensor(class, 2, 0, []int64{2}, []int64{1}).raw('s') })))
		if err != nil || a.Tensors[0].Stored != want {
			t.Errorf("%s: %+v, %v", class, a, err)
		}
	}
	a, err := read(file(t, program(func(s *script) {
		s.raw('}').text("a").global("torch._utils", "_rebuild_tensor_v3").raw('(')
		s.raw('(').text("storage").global("torch.storage", "UntypedStorage").text("0").text("cpu").int(24).raw('t', 'Q')
		s.int(4).ints(3).ints(1).raw(0x89, 'N').global("torch", "float8_e4m3fn").raw('t', 'R', 's')
	})))
	if err != nil || a.Tensors[0].DType != dtype.F8E4M3 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestFormat(t *testing.T) {
	good := program(func(s *script) { s.raw('}').text("a").tensor("FloatStorage", 6, 0, []int64{6}, []int64{1}).raw('s') })
	for _, test := range []struct {
		name  string
		bytes []byte
		kind  error
		want  string
	}{
		{"empty", nil, ErrNotZip, "no zip"},
		{"old torch", []byte{0x80, 2, 0x8a, 10}, ErrLegacy, "before 1.6"},
		{"a zip of other things", pack(t, "x.txt", []byte("hi")), ErrFormat, "no data.pkl"},
		{"two pickles", pack(t, "a/data.pkl", good, "b/data.pkl", good), ErrFormat, "several"},
		{"big-endian", pack(t, "a/data.pkl", good, "a/byteorder", []byte("big"), "a/data/0", six), ErrByteOrder, "byte order"},
		{"no storage", pack(t, "a/data.pkl", good), ErrMissingStorage, "not in the file"},
		{"compressed storage", pack(t, "a/data.pkl", good, "z:a/data/0", six), ErrStorage, "compressed"},
		{"entry twice", pack(t, "a/data.pkl", good, "a/data/0", six, "a/data/0", six), ErrFormat, "twice"},
		{"cut in an entry", pack(t, "a/data.pkl", good, "a/data/0", make([]byte, 1000))[:500], ErrNotZip, "cut short"},
		{"cut at the directory", func() []byte { b := pack(t, "a/data.pkl", good, "a/data/0", six); return b[:len(b)-1] }(), ErrNotZip, "cut short"},
		{"bytes after the end", append(pack(t, "a/data.pkl", good, "a/data/0", six), 1, 2, 3, 4), ErrTrailingBytes, "4 bytes too many"},
		{"another pickle's program", pack(t, "a/data.pkl", good, "a/constants.pkl", good, "a/data/0", six), ErrFormat, "TorchScript"},
		{"a bomb", pack(t, "z:a/data.pkl", bytes.Repeat([]byte{'N'}, 99_000_000)), ErrLimit, "99000000"},
		{"a bomb within the limit", pack(t, "a/data.pkl", bytes.Repeat([]byte{'}'}, 5_000_000)), ErrLimit, "2000000 values"},
		{"a packed bomb within the limit", pack(t, "z:a/data.pkl", append(bytes.Repeat([]byte("}0"), 30_000), bytes.Repeat([]byte("}}"), 1_000_000)...)[:65_000]),
			ErrPickle, "needed"},
		{"a bomb packed ten times", pack(t, "z:a/data.pkl", append(bytes.Repeat([]byte("}"), 200_000), noise(50_000)...)), ErrLimit, "values"},
		{"memories without end", pack(t, "a/data.pkl", append([]byte{'N'}, bytes.Repeat([]byte{0x94}, 5_000_000)...)), ErrLimit, "2000000 values"},
		{"a long byte order", pack(t, "a/data.pkl", good, "a/byteorder", bytes.Repeat([]byte("little"), 100), "a/data/0", six), ErrFormat, "byteorder"},
	} {
		if _, err := read(test.bytes); !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// What is refused names what was asked for, wherever it stands.
func TestReferences(t *testing.T) {
	one := func(s *script) *script { return s.tensor("FloatStorage", 6, 0, []int64{6}, []int64{1}) }
	call := func(s *script, module, name string) *script {
		return s.global(module, name).text("false").raw(0x85, 'R')
	}
	for _, test := range []struct {
		name  string
		write func(s *script)
		want  string
	}{
		{"before", func(s *script) { one(call(s, "os", "system").raw('0', '}').text("a")).raw('s') }, "os.system"},
		{"beside", func(s *script) { call(one(s.raw('}', '(').text("a")).text("b"), "posix", "system").raw('u') }, "posix.system"},
		{"after", func(s *script) { call(one(s.raw('}').text("a")).raw('s'), "builtins", "eval").raw('0') }, "builtins.eval"},
		{"never called", func(s *script) { one(s.global("subprocess", "Popen").raw('0', '}').text("a")).raw('s') }, "subprocess.Popen"},
		{"by two texts", func(s *script) { one(s.text("os").text("system").raw(0x93, '0', '}').text("a")).raw('s') }, "os.system"},
		{"by INST", func(s *script) {
			s.raw('(').text("x").WriteString("ios\nsystem\n")
			one(s.raw('0', '}').text("a")).raw('s')
		}, "os.system"},
		{"by OBJ", func(s *script) {
			one(s.raw('(').global("os", "system").text("x").raw('o', '0', '}').text("a")).raw('s')
		}, "os.system"},
		{"in a nested dict", func(s *script) {
			one(call(s.raw('}', '(').text("m").raw('}').text("x"), "os", "popen").raw('s').text("a")).raw('u')
		}, "os.popen"},
		{"as a storage's class", func(s *script) {
			s.raw('(').text("storage").global("evil", "Storage").text("0").text("cpu").int(6).raw('t', 'Q', '0', '}')
		}, "evil.Storage"},
		{"as an object's class", func(s *script) { one(s.global("torch.nn", "Linear").raw(')', 0x81, '0', '}').text("a")).raw('s') }, "torch.nn.Linear"},
		{"by a number", func(s *script) { one(s.raw(0x82, 7, '0', '}').text("a")).raw('s') }, "copyreg.extension_7"},
		{"getattr", func(s *script) { one(s.global("builtins", "getattr").raw('0', '}').text("a")).raw('s') }, "builtins.getattr"},
		{"loads", func(s *script) { one(s.global("torch.storage", "_load_from_bytes").raw('0', '}').text("a")).raw('s') }, "torch.storage._load_from_bytes"},
		{"a hook", func(s *script) { one(s.global("torch.utils.data", "DataLoader").raw('0', '}').text("a")).raw('s') }, "torch.utils.data.DataLoader"},
		{"before a fault", func(s *script) { s.global("os", "system").raw(0xff) }, "os.system"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := read(file(t, program(test.write)))
			f, ok := fault.Fields[References](err)
			if !errors.Is(err, ErrReference) || !ok || !slices.Equal(f.References, []string{test.want}) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v", f, err)
			}
		})
	}
	good := program(func(s *script) { one(s.raw('}').text("a")).raw('s') })
	_, err := read(file(t, append(slices.Clone(good), program(func(s *script) { call(s, "os", "system") })...)))
	if !errors.Is(err, ErrReference) || !strings.Contains(err.Error(), "os.system") {
		t.Errorf("behind the end: %v", err)
	}
	if _, err = read(file(t, append(slices.Clone(good), 0))); !errors.Is(err, ErrPickle) || !strings.Contains(err.Error(), "after the end") {
		t.Errorf("a byte behind the end: %v", err)
	}
	_, err = read(file(t, program(func(s *script) {
		one(call(call(s, "os", "system"), "os", "popen").raw('0', '0', '}').text("a")).raw('s')
	})))
	if f, _ := fault.Fields[References](err); !slices.Equal(f.References, []string{"os.system", "os.popen"}) {
		t.Errorf("two of them: %v", err)
	}
}

// What would have been a weight is an error by its name, and what is no weight is named.
func TestTensorKinds(t *testing.T) {
	storage := func(s *script, class, location string) *script {
		return s.raw('(').text("storage").global("torch", class).text("0").text(location).int(6).raw('t', 'Q')
	}
	plain := func(s *script) *script { return s.tensor("FloatStorage", 6, 0, []int64{6}, []int64{1}) }
	v2 := func(s *script) *script {
		storage(s.global("torch._utils", "_rebuild_tensor_v2").raw('('), "FloatStorage", "cpu").int(0).ints(6).ints(1).raw(0x89)
		return s.global("collections", "OrderedDict").raw(')', 'R')
	}
	call := func(module, name string) func(s *script) *script {
		return func(s *script) *script { return s.global(module, name).raw(')', 'R') }
	}
	for _, test := range []struct {
		name  string
		value func(s *script) *script
		kind  error  // nil: read, or left out
		want  string // in the error, or in what is left out; "" for a tensor
	}{
		{"plain", plain, nil, ""},
		{"on a GPU", func(s *script) *script {
			storage(s.global("torch._utils", "_rebuild_tensor_v2").raw('('), "FloatStorage", "cuda:3").int(0).ints(6).ints(1)
			return s.raw(0x89, 'N', 't', 'R')
		}, nil, ""},
		{"a GPU's storage class", func(s *script) *script {
			s.global("torch._utils", "_rebuild_tensor").raw('(', '(').text("storage").global("torch.cuda", "FloatStorage").text("0").text("cuda:0")
			return s.int(6).raw('t', 'Q').int(0).ints(6).ints(1).raw('t', 'R')
		}, nil, ""},
		{"a parameter", func(s *script) *script {
			return plain(s.global("torch._utils", "_rebuild_parameter").raw('(')).raw(0x88, 'N', 't', 'R')
		}, nil, ""},
		{"a parameter by its class", func(s *script) *script {
			s.global("torch._tensor", "_rebuild_from_type_v2").raw('(').global("torch._utils", "_rebuild_tensor_v2").global("torch.nn.parameter", "Parameter")
			storage(s.raw('('), "FloatStorage", "cpu").int(0).ints(6).ints(1)
			return s.raw(0x89, 'N', 't', '}', 't', 'R')
		}, nil, ""},
		{"a class of its own", func(s *script) *script {
			s.global("torch._tensor", "_rebuild_from_type_v2").raw('(').global("torch._utils", "_rebuild_tensor_v2").global("numpy", "dtype")
			storage(s.raw('('), "FloatStorage", "cpu").int(0).ints(6).ints(1)
			return s.raw(0x89, 'N', 't', '}', 't', 'R')
		}, ErrTensorKind, "numpy.dtype"},
		{"quantized", call("torch._utils", "_rebuild_qtensor"), ErrTensorKind, "quantized"},
		{"sparse", call("torch._utils", "_rebuild_sparse_tensor"), ErrTensorKind, "sparse"},
		{"sparse rows", call("torch._utils", "_rebuild_sparse_csr_tensor"), ErrTensorKind, "sparse"},
		{"nested", call("torch._utils", "_rebuild_nested_tensor"), ErrTensorKind, "nested"},
		{"meta", call("torch._utils", "_rebuild_meta_tensor_no_storage"), ErrTensorKind, "meta"},
		{"a meta storage", func(s *script) *script {
			storage(s.global("torch._utils", "_rebuild_tensor_v2").raw('('), "FloatStorage", "meta").int(0).ints(6).ints(1)
			return s.raw(0x89, 'N', 't', 'R')
		}, ErrTensorKind, "meta"},
		{"a wrapper", call("torch._utils", "_rebuild_wrapper_subclass"), ErrTensorKind, "class of its own"},
		{"never initialized", call("torch.nn.parameter", "UninitializedParameter"), ErrTensorKind, "never initialized"},
		{"a NumPy array", call("numpy.core.multiarray", "_reconstruct"), ErrTensorKind, "NumPy array"},
		{"a NumPy array of version 2", call("numpy._core.multiarray", "_reconstruct"), ErrTensorKind, "NumPy array"},
		{"conjugate", func(s *script) *script { return v2(s).raw('}').text("conj").raw(0x88, 's', 't', 'R') }, ErrTensorKind, "conj"},
		{"negative", func(s *script) *script { return v2(s).raw('}').text("neg").raw(0x88, 's', 't', 'R') }, ErrTensorKind, "neg"},
		{"bits that are not set", func(s *script) *script { return v2(s).raw('}').text("neg").raw(0x89, 's', 't', 'R') }, nil, ""},
		{"complex", func(s *script) *script { return s.tensor("ComplexDoubleStorage", 6, 0, []int64{1}, []int64{1}) }, ErrStorageType, "ComplexDoubleStorage"},
		{"wrong arguments", func(s *script) *script { return s.global("torch._utils", "_rebuild_tensor_v2").raw('N', 0x85, 'R') }, ErrPickle, "_rebuild_tensor_v2"},
		{"no arguments", func(s *script) *script { return s.global("torch._utils", "_rebuild_tensor_v2").raw('N', 'R') }, ErrPickle, "no tuple"},
		{"a persistent id of another kind", func(s *script) *script { return s.text("x").raw('Q') }, ErrPickle, "persistent id"},
		{"a parameter of nothing", func(s *script) *script { return s.global("torch._utils", "_rebuild_parameter").raw('N', 0x85, 'R') }, ErrPickle, "parameter"},
		{"a list of tensors", func(s *script) *script { return plain(s.raw(']')).raw('a') }, ErrStateDict, "a list with 1 tensor"},
		{"a dict of tensors", func(s *script) *script { return plain(s.raw('}').text("y")).raw('s') }, ErrStateDict, "a dict with 1 tensor"},
		{"an object with tensors", func(s *script) *script {
			return plain(s.global("argparse", "Namespace").raw(')', 'R', '}').text("y")).raw('s', 'b')
		}, ErrStateDict, "argparse.Namespace with 1 tensor"},
		{"a NumPy number", call("numpy.core.multiarray", "scalar"), nil, "x (a NumPy number)"},
		{"an object", call("argparse", "Namespace"), nil, "x (argparse.Namespace)"},
		{"a path", call("pathlib", "PosixPath"), nil, "x (pathlib.PosixPath)"},
		{"a set", func(s *script) *script { return s.raw(0x8f) }, nil, "x (a set)"},
		{"None", func(s *script) *script { return s.raw('N') }, nil, "x (None)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := read(file(t, program(func(s *script) {
				test.value(plain(s.raw('}', '(').text("w")).text("x")).raw('u')
			})))
			if test.kind != nil {
				if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%+v, %v", a, err)
				}
				if f, ok := fault.Fields[Value](err); ok && f.Tensor != "x" {
					t.Errorf("%+v", f)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(a.Others, ", "); got != test.want || (test.want == "") != (names(a) == "w x") {
				t.Errorf("tensors %q, left out %q", names(a), got)
			}
		})
	}
	a, err := read(file(t, program(func(s *script) { plain(plain(s.raw('}', '(').text("w")).int(7)).raw('u') })))
	if f, _ := fault.Fields[Value](err); !errors.Is(err, ErrKey) || f.Tensor != "7" {
		t.Errorf("a number as key: %+v, %v", a, err)
	}
	a, err = read(file(t, program(func(s *script) {
		plain(plain(s.raw('}', '(').text("model").raw('}').text("w")).raw('s').text("rng_state"))
		s.text("epoch").int(3).text("optimizer")
		plain(s.raw('}').text("m")).raw('s', 'u')
	})))
	if err != nil || names(a) != "w" || strings.Join(a.Beside, ", ") != "rng_state (a tensor), epoch (3), optimizer (a dict with 1 tensor)" {
		t.Errorf("a trainer's file: %+v, %v", a, err)
	}
}

// A tuple that holds another twice, many times over, holds more values than there are.
func TestSharedTuples(t *testing.T) {
	a, err := read(file(t, program(func(s *script) {
		s.tensor("FloatStorage", 6, 0, []int64{6}, []int64{1}).raw('q', 0, '0')
		s.raw('(')
		for range 1000 {
			s.raw('h', 0)
		}
		s.raw('t')
		for range 12 {
			s.raw('q', 1, '0', '(')
			for range 1000 {
				s.raw('h', 1)
			}
			s.raw('t')
		}
		s.raw('q', 2, '0', '}', '(').text("optimizer").raw('h', 2).text("w").raw('h', 0, 'u')
	})))
	if err != nil || names(a) != "w" {
		t.Errorf("%+v, %v", a, err)
	}
}

// A list that serves for many dicts would take memory without end.
func TestAmplification(t *testing.T) {
	b := program(func(s *script) {
		s.raw(']', 'q', 0, '(')
		for range 1000 {
			s.raw('N', 'N', 0x86)
		}
		s.raw('e', '0')
		for range 100000 {
			s.global("collections", "OrderedDict").raw('h', 0, 0x85, 'R', '0')
		}
		s.raw('}')
	})
	if _, err := unpickle(b, int64(len(b))); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Error(err)
	}
}

func FuzzPickle(f *testing.F) {
	f.Add(unhex(f, transposedPickle))
	f.Add(program(func(s *script) {
		s.raw('}').text("w").tensor("FloatStorage", 6, 0, []int64{2, 3}, []int64{1, 2}).raw('s')
	}))
	f.Add(program(func(s *script) { s.raw('}', 'q', 0).text("a").raw('h', 0, 's') }))
	f.Add([]byte("\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s."))
	f.Add([]byte("(dp0\nS'a'\np1\nI01\ns."))
	f.Add([]byte("\x80\x02}cos\nsystem\nX\x01\x00\x00\x00a\x85R0."))
	f.Add([]byte("\x80\x02}(lp0\n(ios\nsystem\n."))
	f.Add([]byte("\x80\x04\x8c\x02os\x8c\x06system\x930}\x8f(K\x01\x90."))
	f.Add(program(func(s *script) {
		s.raw('}').text("w").global("torch._tensor", "_rebuild_from_type_v2").raw('(').global("torch._utils", "_rebuild_tensor_v2").global("torch", "Tensor")
		s.tensor("FloatStorage", 6, 0, []int64{6}, []int64{1}).raw('}', 't', 'R', 's')
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newMachine(b, int64(len(b)))
		m.runToStop()
		if m.values > maxValues+1 || m.values > 2*len(b) {
			t.Fatalf("%d values of %d bytes", m.values, len(b))
		}
		value, err := unpickle(b, int64(len(b)))
		if len(m.foreign) > 0 && err == nil {
			t.Fatalf("references to %v are no error", m.foreign)
		}
		if err != nil {
			return
		}
		z := pack(t, "a/data.pkl", b, "a/data/0", six)
		a, err := read(z)
		if err != nil {
			return
		}
		_ = value
		for _, x := range a.Tensors {
			last, n := int64(0), int64(x.DType.Size())
			for i, s := range x.Shape {
				if s == 0 {
					n = 0
				}
				last += int64(s-1) * int64(x.Strides[i])
			}
			if n > 0 && (x.Offset < 0 || x.Offset+(last+1)*n > int64(len(z))) {
				t.Fatalf("%+v lies outside %d bytes", x, len(z))
			}
		}
	})
}

// FuzzArchive reads any bytes as a file: what is listed lies inside of it.
func FuzzArchive(f *testing.F) {
	good := program(func(s *script) {
		s.raw('}').text("w").tensor("FloatStorage", 6, 0, []int64{2, 3}, []int64{3, 1}).raw('s')
	})
	f.Add(file(f, good))
	f.Add(append(file(f, good), 1, 2, 3))
	f.Add(file(f, good)[:200])
	f.Add(pack(f, "a/data.pkl", good, "a/byteorder", []byte("little"), "a/data/0", six, "a/.data/serialization_id", []byte("1")))
	f.Add(pack(f, "z:a/data.pkl", good, "b/x", six))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := read(b)
		if err != nil {
			return
		}
		for _, x := range a.Tensors {
			n := int64(x.DType.Size())
			for i, s := range x.Shape {
				if s == 0 {
					n = 0
				}
				if i > 0 && x.Strides[i] < 0 {
					t.Fatalf("%+v", x)
				}
			}
			if n > 0 && (x.Offset < 0 || x.Offset+n > int64(len(b))) {
				t.Fatalf("%+v lies outside of %d bytes", x, len(b))
			}
		}
	})
}
