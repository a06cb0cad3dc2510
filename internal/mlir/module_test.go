package mlir

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"weft/fault"
)

func readFile(t testing.TB, name string) []byte {
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTwins: a program says the same of itself as text, as bytecode and in an
// export's file.
func TestTwins(t *testing.T) {
	mesh := []Count{{`mesh <["dp"=2, "tp"=4]>`, 8}}
	for name, want := range map[string]Module{
		"bf16_tpu":            {Replicas: 1, Partitions: 1, Platforms: []string{"tpu"}, Devices: 1, Convention: 10},
		"constraint_only_cpu": {Replicas: 1, Partitions: 8, Shardy: true, Counts: mesh},
		"constraint_only_tpu": {Replicas: 1, Partitions: 8, Shardy: true, Counts: mesh},
		"shard_map_tpu":       {Replicas: 1, Partitions: 8, Shardy: true, Counts: mesh, Members: 8},
		"smap":                {Replicas: 1, Partitions: 8, Shardy: true, Counts: mesh, Members: 8},
		"named":               {Replicas: 1, Partitions: 8, Shardy: true, Counts: mesh, Platforms: []string{"cpu"}, Devices: 8, Convention: 10},
		"multi":               {Replicas: 1, Partitions: 1, Platforms: []string{"cpu", "tpu"}, Devices: 1, Convention: 10},
		"gspmd":               {Replicas: 1, Partitions: 8, GSPMD: true, Counts: []Count{{`sharding "{devices=[2,4]<=[8]}"`, 8}}},
		"qr":                  {Replicas: 1, Partitions: 1, Shardy: true, Calls: []string{"lapack_sgeqrf_ffi", "lapack_sorgqr_ffi"}},
		"ir_bytecode":         {Replicas: 1, Partitions: 8, Shardy: true, Counts: mesh}, // text in generic form, bytecode of stablehlo's own dialect
	} {
		files, err := filepath.Glob(filepath.Join("testdata", name+".*"))
		if err != nil || len(files) < 2 {
			t.Fatalf("%s: %v, %v", name, files, err)
		}
		for _, path := range files {
			file := readFile(t, filepath.Base(path))
			got, err := Read(file)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			want := want
			want.Form = map[string]string{".mlir": Text, ".mlirbc": Bytecode, ".jaxexport": Export}[filepath.Ext(path)]
			if want.Form != Export {
				want.Platforms, want.Devices, want.Convention = nil, 0, 0
			}
			if got.Form == Text && !bytes.Equal(got.Code, file) || got.Form != Text && !bytes.HasPrefix(got.Code, bytecodeMagic) {
				t.Errorf("%s: the program begins %q", path, got.Code[:8])
			}
			if (got.Form != Text) != (got.Producer != "") {
				t.Errorf("%s: made by %q", path, got.Producer)
			}
			got.Code, got.Producer = nil, ""
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("%s:\n%+v\nwant\n%+v", path, *got, want)
			}
		}
	}
}

// TestBytecode: what bytecode says that no text stands beside, in every version of the format.
func TestBytecode(t *testing.T) {
	mesh := []Count{{`mesh <["dp"=2, "tp"=4]>`, 8}}
	for name, want := range map[string]Module{
		"mesh_only.v0":   {Shardy: true, Counts: mesh},
		"mesh_only.v1":   {Shardy: true, Counts: mesh},
		"mesh_only.v2":   {Shardy: true, Counts: mesh},
		"mesh_only.v3":   {Shardy: true, Counts: mesh},
		"mesh_only.v4":   {Shardy: true, Counts: mesh},
		"mesh_only.v5":   {Shardy: true, Counts: mesh},
		"all_reduce":     {Members: 4},
		"all_reduce.v0":  {Members: 4},
		"tpu_call":       {Calls: []string{"tpu_custom_call"}},
		"tpu_call.v0":    {Calls: []string{"tpu_custom_call"}},
		"several_meshes": {Replicas: 1, Partitions: 8, Shardy: true, Counts: mesh, Uncounted: []string{"a mesh without axes"}}, // one device, or none
		"inline_mesh":    {Replicas: 1, Shardy: true, Counts: mesh},
		"frontend":       {Replicas: 1, Shardy: true, Counts: mesh}, // xla.sdy.meshes
		"replicated":     {Replicas: 1, GSPMD: true, Uncounted: []string{`sharding "{replicated}"`}},
		"wide":           {Replicas: 1, Partitions: 8, Shardy: true, Counts: mesh}, // an i64
		"negative":       {Replicas: 1, Shardy: true, Counts: mesh, Illegal: []string{"mhlo.num_partitions = -3"}},
		"words_only":     {Replicas: 1, Partitions: 1}, // in a string and in locations
	} {
		got, err := Read(readFile(t, name+".mlirbc"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want.Form, got.Code, got.Producer = Bytecode, nil, ""
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", name, *got, want)
		}
	}
}

// TestText: what a text says, and what only looks like it.
func TestText(t *testing.T) {
	mesh := func(n int, what string) Module {
		return Module{Shardy: true, Counts: []Count{{what, n}}}
	}
	for _, k := range []struct {
		what, text string
		want       Module
	}{
		{"nothing", `func.func @main() { return }`, Module{}},
		{"attributes", `module @m attributes {mhlo.num_partitions = 8 : i32, "mhlo.num_replicas" = 2 : i32} {}`, Module{Partitions: 8, Replicas: 2}},
		{"behind the body", `"builtin.module"() ({ }) {mhlo.num_partitions = 4 : i32} : () -> ()`, Module{Partitions: 4}},
		{"of a function", `module { func.func @f() attributes {mhlo.num_partitions = 4 : i32} { } }`, Module{}},
		{"of a function without a module", `func.func @f() attributes {mhlo.num_partitions = 4 : i32} { }`, Module{}},
		{"zero, huge", `module attributes {mhlo.num_partitions = 0 : i32, mhlo.num_replicas = 99999999999999999999 : i32} {}`,
			Module{Illegal: []string{"mhlo.num_partitions = 0", "mhlo.num_replicas = 99999999999999999999"}}},
		{"comment", "// sdy.mesh @m = <[\"x\"=8]>\nmodule {} // mhlo.sharding = \"{devices=[8]<=[8]}\"", Module{}},
		{"location", `module { func.func @f() { } loc("sdy.mesh"(fused<"mhlo.sharding">["a)":1:2])) } loc("sdy.x")` + "\n#loc3 = loc(\"sdy.y\"(#loc))", Module{}},
		{"string", `module { func.func @f() -> (tensor<f32> {jax.result_info = "#sdy.mesh<[\"x\"=8]>, mhlo.num_partitions = 8"}) }`, Module{}},
		{"mesh", `module { sdy.mesh @"a b" = <["x"=2, "y"=4], device_ids=[7,6,5,4,3,2,1,0]> }`, mesh(8, `mesh <["x"=2, "y"=4]>`)},
		{"mesh, generic", `"builtin.module"() ({ "sdy.mesh"() <{mesh = #sdy.mesh<["x"=8]>, sym_name = "m"}> : () -> () }) : () -> ()`, mesh(8, `mesh <["x"=8]>`)},
		{"mesh in a sharding", `func.func @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>})`, mesh(2, `mesh <["x"=2]>`)},
		{"mesh of one", `module { sdy.mesh @m = <["x"=1]> }`, mesh(1, `mesh <["x"=1]>`)},
		{"no axes", `module { sdy.mesh @m = <[], device_ids=[3]> }`, Module{Shardy: true, Uncounted: []string{`mesh "<[], device_ids=[3]> }"`}}},
		{"another form", `module { sdy.mesh @m = <{x = 2}> }`, Module{Shardy: true, Uncounted: []string{`mesh "<{x = 2}> }"`}}},
		{"several", `module { sdy.mesh @a = <["x"=4]> sdy.mesh @b = <["y"=2, "z"=2]> sdy.mesh @c = <["x"=8]> }`,
			Module{Shardy: true, Counts: []Count{{`mesh <["x"=8]>`, 8}, {`mesh <["x"=4]>`, 4}}}},
		{"as frontend attributes", `module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{m = #sdy.mesh<[\22x\22=2, \"y\"=4]>}"}} {}`,
			mesh(8, `mesh <["x"=2, "y"=4]>`)},
		{"mhlo.sharding", `func.func @f(%a: tensor<8xf32> {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"})`,
			Module{GSPMD: true, Counts: []Count{{`sharding "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"`, 8}}}},
		{"mhlo.sharding, replicated", `func.func @f(%a: tensor<8xf32> {mhlo.sharding = "{replicated}"})`, Module{GSPMD: true, Uncounted: []string{`sharding "{replicated}"`}}},
		{"mhlo.sharding, tuple", `"x"() {mhlo.sharding = "{{replicated}, {devices=[4]0,1,2,3}}"}`,
			Module{GSPMD: true, Counts: []Count{{`sharding "{{replicated}, {devices=[4]0,1,2,3}}"`, 4}}}},
		{"mhlo.sharding, binary", `"x"() {mhlo.sharding = "\08\03\1A\02\02\04\22\02\00\01"}`,
			Module{GSPMD: true, Counts: []Count{{`sharding "\b\x03\x1a\x02\x02\x04\"\x02\x00\x01"`, 8}}}},
		{"calls", `stablehlo.custom_call @b(%0) {} stablehlo.custom_call @"a"(%0) "stablehlo.custom_call"(%0) <{call_target_name = "c"}>`, Module{Calls: []string{"a", "b", "c"}}},
		{"groups", `"stablehlo.all_gather"(%0) {replica_groups = dense<[[0, 2], [1, 5]]> : tensor<2x2xi64>, other = dense<77> : tensor<i64>}`, Module{Members: 6}},
		{"Latin-1", "// caf\xe9\nmodule attributes {mhlo.num_partitions = 2 : i32} {}", Module{Partitions: 2}},
		{"not closed", `module attributes {x = "`, Module{}},
	} {
		got, err := Read([]byte(k.text))
		if err != nil {
			t.Errorf("%s: %v", k.what, err)
			continue
		}
		got.Form, got.Code = "", nil
		if !reflect.DeepEqual(*got, k.want) {
			t.Errorf("%s:\n%+v\nwant\n%+v", k.what, *got, k.want)
		}
	}
}

// TestOtherFiles are named for what they are.
func TestOtherFiles(t *testing.T) {
	for is, file := range map[string]string{
		"gzip": "\x1f\x8b\x08\x00", "zip": "PK\x03\x04", "HLO text": "HloModule f\n", "safetensors": "\x10\x00\x00\x00\x00\x00\x00\x00{\"a\":{}}",
		"UTF-16": "\xff\xfem\x00", "not known here": "\x00\x01\x02\xff", "ELF": "\x7fELF\x02", "pickle": "\x80\x04\x95",
	} {
		_, err := Read([]byte(file))
		if f, ok := fault.Fields[Format](err); !errors.Is(err, ErrFormat) || !ok || !strings.Contains(f.Is, is) {
			t.Errorf("%s: %v", is, err)
		}
	}
}

// TestCut: a file that was cut short anywhere is an error with its place, never a
// program that says less.
func TestCut(t *testing.T) {
	for _, name := range []string{"shard_map_tpu.mlirbc", "qr.mlirbc", "ir_bytecode.mlirbc", "mesh_only.v0.mlirbc", "mesh_only.v2.mlirbc"} {
		whole := readFile(t, name)
		for n := range len(whole) {
			_, err := Read(whole[:n])
			d, ok := fault.Fields[Damage](err)
			if n < len(bytecodeMagic) {
				ok = n == 0 || errors.Is(err, ErrFormat)
			}
			if !ok || d.Byte > n {
				t.Fatalf("%s cut to %d bytes: %v", name, n, err)
			}
		}
		if _, err := Read(append(whole[:len(whole):len(whole)], 0)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s and a byte: %v", name, err)
		}
	}
	whole := readFile(t, "named.jaxexport")
	end := bytes.Index(whole, bytecodeMagic) + 855
	for n := range end {
		if _, err := Read(whole[:n]); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) && n > 1 {
			t.Fatalf("an export cut to %d bytes: %v", n, err)
		}
	}
}

// TestHostile: numbers that are larger than the file take neither memory nor time.
func TestHostile(t *testing.T) {
	section := func(id byte, content string) string {
		return string([]byte{id, byte(len(content)<<1 | 1)}) + content
	}
	huge := "\x00\xff\xff\xff\xff\xff\xff\xff\x7f"
	file := func(strings, dialects, attrs, offsets, ir string) string {
		return "ML\xefR\x0dX\x00" + section(0, strings) + section(1, dialects) + section(2, attrs) + section(3, offsets) + section(4, ir)
	}
	export := readFile(t, "named.jaxexport")
	far := bytes.Clone(export)
	binary.LittleEndian.PutUint32(far, 1<<31)
	vtable := bytes.Clone(export)
	binary.LittleEndian.PutUint32(vtable[binary.LittleEndian.Uint32(export):], 1<<31)
	devices := bytes.Clone(export)
	root := binary.LittleEndian.Uint32(export)
	vt := root - binary.LittleEndian.Uint32(export[root:])
	binary.LittleEndian.PutUint32(devices[root+uint32(binary.LittleEndian.Uint16(export[vt+4+2*exportDevices:])):], 1<<31)
	for what, b := range map[string]string{
		"strings":        file(huge, "\x01", "", "\x01\x01", ""),
		"a string":       file("\x03"+huge, "\x01", "", "\x01\x01", ""),
		"dialects":       file("\x01", huge, "", "\x01\x01", ""),
		"attributes":     file("\x01", "\x01\x01", "", huge, ""),
		"empty groups":   file("\x03\x05a\x00", "\x03\x01\x01", "", "\x03\x01\x01\x01", ""),
		"a section":      "ML\xefR\x0dX\x00\x00" + huge,
		"an alignment":   "ML\xefR\x0dX\x00\x80\x01" + huge,
		"another number": "ML\xefR" + huge + "X\x00",
		"an operation":   file("\x03\x05a\x00", "\x03\x01\x03\x01\x03\x01", "", "\x01\x01", huge),
		"a root":         string(far), "a list of fields": string(vtable), "the devices": string(devices),
	} {
		if _, err := Read([]byte(b)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzBytecode: no bytes make a panic, and what is wrong has its place in the file.
func FuzzBytecode(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.mlirbc")
	for _, path := range files {
		f.Add(readFile(f, filepath.Base(path)))
	}
	f.Fuzz(func(t *testing.T, b []byte) { tryRead(t, append(bytecodeMagic[:4:4], b...)); tryRead(t, b) })
}

// FuzzExport is FuzzBytecode for the flatbuffer around it.
func FuzzExport(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.jaxexport")
	for _, path := range files {
		f.Add(readFile(f, filepath.Base(path)))
	}
	f.Fuzz(tryRead)
}

// FuzzText: no text makes a panic.
func FuzzText(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.mlir")
	for _, path := range files {
		f.Add(readFile(f, filepath.Base(path)))
	}
	f.Add([]byte(`module attributes {xla.sdy.meshes = "{m = #sdy.mesh<[\22x\22=2]>}"} { sdy.mesh @m = <["x"=2`))
	f.Fuzz(tryRead)
}

func tryRead(t *testing.T, b []byte) {
	m, err := Read(b)
	if err != nil {
		if d, ok := fault.Fields[Damage](err); !errors.Is(err, ErrFormat) && (!ok || d.Byte < 0 || d.Byte > len(b)) {
			t.Fatal(err)
		}
		return
	}
	if len(m.Code) > len(b) || m.Partitions < 0 || m.Replicas < 0 || m.Members < 0 || m.Partitions > maxDevices || len(m.Counts) > len(b) {
		t.Fatalf("%+v", m)
	}
}
