package checkpoint

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/fault"
	"weft/internal/userfile"
)

// archiveOf is a zip of one entry.
func archiveOf(t testing.TB, name string, content []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	w, err := z.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// A file of another format is refused by its name, whatever its ending is.
func TestForeignFiles(t *testing.T) {
	safetensors := one("a")
	gguf := append([]byte("GGUF\x03\x00\x00\x00"), make([]byte, 100)...)
	tar := make([]byte, 1024)
	copy(tar[257:], "ustar")
	copy(tar, "pickle")
	for _, test := range []struct {
		file    string
		content []byte
		says    string
	}{
		{"m.gguf", gguf, "GGUF"},
		{"m.safetensors", gguf, "GGUF"},
		{"m.pth", gguf, "GGUF"},
		{"m", gguf, "GGUF"},
		{"m.safetensors", []byte("\x89HDF\r\n\x1a\n and more"), "HDF5"},
		{"m.engine", append([]byte("ftrt"), make([]byte, 100)...), "TensorRT"},
		{"m.onnx", []byte("\x08\x07\x12\x07pytorch, and so on"), "ONNX"},
		{"m.msgpack", []byte("\x82\xa6params\x01\x01\x01\x01"), "Flax"},
		{"m.distcp", archiveOf(t, "x/data.pkl", []byte{1}), "distributed"},
		{"m.npz", archiveOf(t, "x.npy", []byte{1}), "NumPy"},
		{"m.safetensors", []byte("<!DOCTYPE html><html>not found"), "web page"},
		{"m.bin", []byte("<html><body>log in</body></html>"), "web page"},
		{"m.safetensors", []byte("<?xml version='1.0'?><Error>"), "XML"},
		{"m.safetensors", []byte(`{"error":"Entry not found"}`), "JSON"},
		{"m.safetensors", []byte("Invalid username or password."), "a text"},
		{"m.safetensors", make([]byte, 4096), "zeros"},
		{"m.safetensors", archiveOf(t, "m.safetensors", safetensors), "zip archive that holds m.safetensors"},
		{"m.ckpt", archiveOf(t, "m.safetensors", safetensors), "zip archive that holds m.safetensors"},
		{"m.zip", archiveOf(t, "readme", []byte{1}), "zip archive"},
		{"m.pt", archiveOf(t, "m/constants.pkl", []byte{1}), "TorchScript"},
		{"m.pth", safetensors, "safetensors file"},
		{"m.pt", tar, "tar archive"},
		{"m.safetensors", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00"), "gzip"},
		{"m.pt", []byte("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."), "before 1.6"},
		{"m.pt", []byte("\x80\x04\x95\x10\x00\x00\x00\x00\x00"), "pickle"},
		{"spiece.model", []byte("\x0a\x0e\x0a\x05<pad>\x15\x00\x00"), "tokenizer"},
	} {
		_, err := Open(put(t, t.TempDir(), test.file, test.content))
		f, ok := fault.Fields[Foreign](err)
		if !errors.Is(err, ErrForeignFormat) || !ok || !strings.Contains(f.Format, test.says) || f.Instead == "" || !strings.Contains(err.Error(), f.Instead) {
			t.Errorf("%s, %.20q: %v", test.file, test.content, err)
		}
	}
}

func TestForeignFolders(t *testing.T) {
	for _, test := range []struct {
		files []string
		says  string
	}{
		{[]string{".metadata", "__0_0.distcp", "__1_0.distcp"}, "distributed checkpoint (DCP)"},
		{[]string{"__0_0.distcp"}, "without its .metadata"},
		{[]string{"_METADATA", "d", "manifest.ocdbt"}, "Orbax"},
		{[]string{"flax_model.msgpack", "config.json"}, "Flax"},
		{[]string{"wan-Q4_K_M.gguf", "README.md"}, "GGUF"},
		{[]string{"model.onnx"}, "ONNX"},
		{[]string{"x.index", "x.data-00000-of-00001"}, "TensorFlow"},
	} {
		dir := t.TempDir()
		for _, name := range test.files {
			put(t, dir, name, []byte("x"))
		}
		if _, err := Open(dir); !errors.Is(err, ErrForeignFormat) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %v", test.files, err)
		}
	}
}

// The checkpoint without a variant's name is taken, or the only variant, and said.
func TestVariants(t *testing.T) {
	for _, test := range []struct {
		files []string // an index is of all shards in the list
		want  string   // tensor, "" for an error
		note  string
	}{
		{[]string{"diffusion_pytorch_model.fp16.safetensors"}, "diffusion_pytorch_model.fp16.safetensors", "fp16 variant"},
		{[]string{"diffusion_pytorch_model.fp16.safetensors", "diffusion_pytorch_model.safetensors"}, "diffusion_pytorch_model.safetensors", ""},
		{[]string{"model.fp16-00001-of-00002.safetensors", "model.fp16-00002-of-00002.safetensors", "model.safetensors.index.fp16.json"},
			"model.fp16-00001-of-00002.safetensors", "fp16 variant"},
		{[]string{"model-00001-of-00002.fp16.safetensors", "model-00002-of-00002.fp16.safetensors", "model.safetensors.index.fp16.json"},
			"model-00001-of-00002.fp16.safetensors", "fp16 variant"},
		{[]string{"m.bf16-00001-of-00001.safetensors", "m.bf16.safetensors.index.json"}, "m.bf16-00001-of-00001.safetensors", "bf16 variant"},
		{[]string{"model.safetensors", "model.fp16-00001-of-00001.safetensors", "model.fp16.safetensors.index.json"}, "model.safetensors", ""},
		{[]string{"m.fp16.safetensors", "m.ema.safetensors"}, "", "several variants"},
		{[]string{"model.fp16-00001-of-00002.safetensors"}, "", "lacks"},
		{[]string{"Wan2.1_VAE.safetensors"}, "Wan2.1_VAE.safetensors", ""},
	} {
		dir := t.TempDir()
		weights := []string{}
		for _, name := range test.files {
			if !strings.HasSuffix(name, ".json") {
				put(t, dir, name, one(name))
				weights = append(weights, `"`+name+`":"`+name+`"`)
			}
		}
		for _, name := range test.files {
			if strings.HasSuffix(name, ".json") {
				shards := slices.DeleteFunc(slices.Clone(weights), func(w string) bool { return !strings.Contains(w, "-of-") })
				put(t, dir, name, []byte(`{"weight_map":{`+strings.Join(shards, ",")+`}}`))
			}
		}
		c, err := Open(dir)
		if test.want == "" {
			if err == nil || !strings.Contains(err.Error(), test.note) {
				t.Errorf("%q: %v", test.files, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", test.files, err)
			continue
		}
		notices := strings.Join(c.Notices(), "\n")
		if _, ok := c.Lookup(test.want); !ok || (test.note != "") != strings.Contains(notices, "variant") || !strings.Contains(notices, test.note) {
			t.Errorf("%q: opened %v, %s", test.files, c.Files(), notices)
		}
		c.Close()
	}
}

// A file may hold more than memory does, as long as that is not asked for.
func TestLoadNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.safetensors")
	if err := CreateSparse(path, Entry{Name: "x", DType: dtype.F32, Shape: []int{2, 3}}, Entry{Name: "huge", DType: dtype.F32, Shape: []int{1 << 40}}); err != nil {
		t.Skip(err)
	}
	all, _, others, err := LoadNamed(t.Context(), path, func([]string) []string { return []string{"x"} })
	if err != nil || len(all) != 1 || all["x"].Elements() != 6 || len(others) != 1 || others[0] != "huge" {
		t.Errorf("%v, %v, %v", all, others, err)
	}
	_, _, err = LoadFile(t.Context(), path)
	if f, ok := fault.Fields[Memory](err); !errors.Is(err, ErrMemory) || !ok || f.Need != 4<<40+24 || f.Have <= 0 || f.Tensors[0] != "huge" {
		t.Errorf("%+v, %v", f, err)
	}
	if _, _, err := LoadFile(t.Context(), filepath.Dir(path)); !errors.Is(err, userfile.ErrNotRegular) {
		t.Errorf("a folder: %v", err)
	}
	c := mustOpen(t, path)
	if _, err := c.Load(t.Context(), "huge", dtype.BF16); !errors.Is(err, ErrMemory) {
		t.Error(err)
	}
	if _, err := c.Load(t.Context(), "absent", dtype.BF16); err == nil || errors.Is(err, ErrMemory) {
		t.Error(err)
	}
}

// Tokenizers are known by their names and by being bytes, wherever they lie.
func TestTokenizers(t *testing.T) {
	b := fileBytes(object(tensorJSON("spiece_model", "U8", "[4]", 0, 4), tensorJSON("text_encoders.umt5xxl.spiece_model", "U8", "[1]", 4, 5),
		tensorJSON("tokenizer_json", "U8", "[1]", 5, 6),
		tensorJSON("tokenizer.model", "I8", "[1]", 6, 7), tensorJSON("tekken_model", "U8", "[1]", 7, 8), tensorJSON("hf_asset__tokenizer_config_json", "U8", "[1]", 8, 9),
		tensorJSON("vocab.weight", "F32", "[1]", 9, 13), tensorJSON("w", "U8", "[1]", 13, 14), tensorJSON("tokenizer", "U8", "[1,1]", 14, 15)), make([]byte, 15)...)
	c, err := openBytes(t, b)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range c.Entries() {
		if e.Role == Tokenizer {
			got = append(got, e.Name)
		}
	}
	want := []string{"hf_asset__tokenizer_config_json", "spiece_model", "tekken_model", "text_encoders.umt5xxl.spiece_model", "tokenizer.model", "tokenizer_json"}
	if !slices.Equal(got, want) || len(c.Notices()) != len(want) {
		t.Errorf("%q, want %q; %q", got, want, c.Notices())
	}
}

// The markers and scales that repacks have, and the forms of weights that are refused.
func TestScaleSpellings(t *testing.T) {
	weight := tensorJSON("x.weight", "F8_E4M3", "[4]", 0, 4)
	for _, test := range []struct {
		name   string
		fields []string
		kind   error
	}{
		{"scale_weight", []string{weight, tensorJSON("x.scale_weight", "F32", "[]", 4, 8)}, nil},
		{"weight_scale and comfy_quant", []string{weight, tensorJSON("x.weight_scale", "F32", "[1]", 4, 8), tensorJSON("x.comfy_quant", "U8", "[8]", 8, 16)}, nil},
		{"scales of activations", []string{weight, tensorJSON("x.weight_scale", "F32", "[]", 4, 8), tensorJSON("x.input_scale", "F32", "[]", 8, 12),
			tensorJSON("x.scale_input", "F32", "[]", 12, 16)}, nil},
		{"a marker behind a prefix", []string{tensorJSON("model.diffusion_model.x.weight", "F8_E4M3", "[4]", 0, 4),
			tensorJSON("model.diffusion_model.scaled_fp8", "F8_E4M3", "[2]", 4, 6)}, nil},
		{"a scale a row of a vector", []string{weight, tensorJSON("x.weight_scale", "F32", "[2]", 4, 12)}, ErrUnappliedScale},
		{"a scale a row", []string{tensorJSON("x.weight", "F8_E4M3", "[2,2]", 0, 4), tensorJSON("x.weight_scale", "F32", "[2,1]", 4, 12)}, nil},
		{"a scale a row, flat", []string{tensorJSON("x.weight", "F8_E5M2", "[2,2]", 0, 4), tensorJSON("x.scale_weight", "F32", "[2]", 4, 12)}, nil},
		{"a scale a column", []string{tensorJSON("x.weight", "F8_E4M3", "[2,2]", 0, 4), tensorJSON("x.weight_scale", "F32", "[1,2]", 4, 12)}, ErrUnappliedScale},
		{"a scale a block", []string{tensorJSON("x.weight", "F8_E4M3", "[2,2]", 0, 4), tensorJSON("x.weight_scale", "F32", "[2,2,1]", 4, 20)}, ErrUnappliedScale},
		{"no rows", []string{tensorJSON("x.weight", "F8_E4M3", "[0,2]", 0, 0), tensorJSON("x.weight_scale", "F32", "[0,1]", 0, 0),
			tensorJSON("z", "U8", "[1]", 0, 1)}, ErrUnappliedScale},
		{"a scale of no weight", []string{tensorJSON("x.weight_scale", "F32", "[]", 0, 4)}, ErrUnappliedScale},
		{"inverse scales", []string{weight, tensorJSON("x.weight_scale_inv", "F32", "[]", 4, 8)}, ErrQuantized},
		{"nvfp4", []string{tensorJSON("x.weight", "U8", "[4]", 0, 4), tensorJSON("x.weight_scale", "F8_E4M3", "[4]", 4, 8),
			tensorJSON("x.weight_scale_2", "F32", "[]", 8, 12)}, ErrQuantized},
		{"mxfp8", []string{weight, tensorJSON("x.weight_scale", "F8_E8M0", "[4]", 4, 8)}, ErrQuantized},
		{"int8", []string{tensorJSON("x.weight", "I8", "[4]", 0, 4), tensorJSON("x.weight_scale", "F32", "[]", 4, 8)}, ErrQuantized},
		{"a LoRA", []string{tensorJSON("x.lora_A.weight", "F32", "[]", 0, 4), tensorJSON("x.lora_B.weight", "F32", "[]", 4, 8)}, ErrAdapter},
		{"kohya's LoRA", []string{tensorJSON("lora_unet_blocks_0_attn.lora_down.weight", "F32", "[]", 0, 4),
			tensorJSON("lora_unet_blocks_0_attn.alpha", "F32", "[]", 4, 8)}, ErrAdapter},
	} {
		size := 0
		for _, f := range test.fields {
			end := f[strings.LastIndexByte(f, ',')+1 : strings.LastIndexByte(f, ']')]
			n := 0
			for _, c := range end {
				n = 10*n + int(c-'0')
			}
			size = max(size, n)
		}
		c, err := openBytes(t, fileBytes(object(test.fields...), make([]byte, size)...))
		if !errors.Is(err, test.kind) || (test.kind == nil) != (err == nil) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil {
			continue
		}
		for _, e := range c.Entries() {
			if (e.Role == Weight) != strings.HasSuffix(e.Name, "x.weight") {
				t.Errorf("%s: %s is a %s", test.name, e.Name, e.Role)
			}
		}
	}
}

// FuzzChoose: whatever a folder's files are called, one of them is taken, or none.
func FuzzChoose(f *testing.F) {
	for _, names := range []string{"model.safetensors", "a.fp16.safetensors\nb.bin.index.json", "m-00001-of-00002.safetensors\nm.safetensors.index.fp16.json",
		".metadata\n__0_0.distcp", "x.gguf"} {
		f.Add(names)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names := strings.Split(text, "\n")
		name, err := chooseCheckpoint("/nowhere", slices.Clone(names), nil)
		if err == nil && !slices.Contains(names, name) || err != nil && name != "" {
			t.Errorf("%q of %q, %v", name, names, err)
		}
	})
}

// FuzzForeign: naming a file never fails, however it begins.
func FuzzForeign(f *testing.F) {
	f.Add([]byte("GGUF"), "m.safetensors")
	f.Add([]byte("PK\x03\x04"), "m.ckpt")
	f.Add(binary.LittleEndian.AppendUint64(nil, 1<<40), "x.onnx")
	f.Add(archiveOf(f, "a/data.pkl", []byte{1}), "x.zip")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		err := refuseForeignFile(b[:min(len(b), 512)], bytes.NewReader(b), int64(len(b)), name)
		if _, ok := fault.Fields[Foreign](err); err != nil && !ok {
			t.Error(err)
		}
	})
}

// A scale for each row is that of the row, however the tensor is cut up and read.
func TestRowScales(t *testing.T) {
	const rows, cols = 37, 1021
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, rows*cols)
	want := make([]float32, rows*cols)
	var scales []float32
	for i := range rows {
		scales = append(scales, float32(random.NormFloat64()))
		for k := range cols {
			b := byte(random.Uint32())
			if b&0x7f == 0x7f {
				b = 0 // no NaN
			}
			data[i*cols+k] = b
			want[i*cols+k] = float32(fp8Value(dtype.F8E4M3, b) * float64(scales[i]))
		}
	}
	header := object(tensorJSON("x.weight", "F8_E4M3", "[37,1021]", 0, rows*cols), tensorJSON("x.weight_scale", "F32", "[37,1]", rows*cols, rows*cols+4*rows))
	c, err := openBytes(t, fileBytes(header, append(slices.Clone(data), f32s(scales...)...)...))
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range [][2][2]int{{{0, rows}, {0, cols}}, {{5, 20}, {0, cols}}, {{0, rows}, {100, 700}}, {{36, 37}, {1020, 1021}}, {{3, 31}, {1, 1020}}} {
		n, m := cut[0][1]-cut[0][0], cut[1][1]-cut[1][0]
		dst := make([]byte, 4*n*m)
		if _, err := c.Read(t.Context(), []Part{{Name: "x.weight", As: dtype.F32, Slices: cut[:], Dst: dst}}, ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		for i, got := range floats(dst) {
			if w := want[(cut[0][0]+i/m)*cols+cut[1][0]+i%m]; got != w {
				t.Fatalf("%v: element %d is %v, want %v", cut, i, got, w)
			}
		}
	}
	// Several parts of one Read, some of them the same.
	left, right, again := make([]byte, 4*rows*500), make([]byte, 4*rows*(cols-500)), make([]byte, 4*rows*500)
	parts := []Part{{Name: "x.weight", As: dtype.F32, Slices: [][2]int{{0, rows}, {0, 500}}, Dst: left},
		{Name: "x.weight", As: dtype.F32, Slices: [][2]int{{0, rows}, {500, cols}}, Dst: right},
		{Name: "x.weight", As: dtype.F32, Slices: [][2]int{{0, rows}, {0, 500}}, Dst: again}}
	if _, err := c.Read(t.Context(), parts, ReadOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, got := range floats(left) {
		if w := want[i/500*cols+i%500]; got != w {
			t.Fatalf("left element %d is %v, want %v", i, got, w)
		}
	}
	for i, got := range floats(right) {
		if w := want[i/(cols-500)*cols+500+i%(cols-500)]; got != w {
			t.Fatalf("right element %d is %v, want %v", i, got, w)
		}
	}
	if !bytes.Equal(left, again) {
		t.Error("two parts of one selection differ")
	}
	if _, err := c.Load(t.Context(), "x.weight", dtype.Invalid); !errors.Is(err, ErrUnappliedScale) {
		t.Errorf("read as fp8: %v", err)
	}
}
