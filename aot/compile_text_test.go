package aot

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/fault"
	"weft/internal/mlir"
)

// TestDevicesOfAProgram: how many devices run a program of somebody else's. What the
// program shows is never passed over for a default.
func TestDevicesOfAProgram(t *testing.T) {
	module := func(attributes string) []byte {
		return []byte("module @m attributes {" + attributes + "} {\n func.func @main() {\n // mhlo.num_replicas = 7 : i32\n } }")
	}
	with := func(attributes, body string) []byte {
		return []byte("module @m attributes {" + attributes + "} {\n" + body + "}")
	}
	const (
		mesh    = `sdy.mesh @m = <["x"=2, "y"=4]> `
		other   = `sdy.mesh @o = <["x"=4]> `
		one     = `sdy.mesh @o = <["x"=1]> `
		sharded = `func.func @main(%a: tensor<8xf32> {mhlo.sharding = "{devices=[8]<=[8]}"}) {}`
		copies  = `func.func @main(%a: tensor<8xf32> {mhlo.sharding = "{replicated}"}) {}`
		gather  = `"stablehlo.all_gather"(%0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}>`
		eight   = "mhlo.num_partitions = 8 : i32"
	)
	bytecode := aotProgram(t, "constraint_only_cpu.mlirbc")
	export := aotProgram(t, "named.jaxexport")
	for _, k := range []struct {
		what                 string
		program              []byte
		o                    TextOptions
		replicas, partitions int    // 0: refused
		says                 string // of the error, or a note
	}{
		{"nothing", []byte("func.func @main() {}"), TextOptions{}, 1, 1, ""},
		{"body", module(""), TextOptions{}, 1, 1, ""},
		{"partitions", module("mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32"), TextOptions{}, 1, 8, ""},
		{"replicas", module("mhlo.num_replicas = 4 : i32"), TextOptions{}, 4, 1, ""},
		{"flag", module("mhlo.num_replicas = 4 : i32"), TextOptions{Replicas: 2}, 2, 1, "mhlo.num_replicas = 4"},
		{"both", module("mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 2 : i32"), TextOptions{}, 0, 0, "2 replicas of 2 partitions"},
		{"too many", module("mhlo.num_partitions = 16 : i32"), TextOptions{}, 0, 0, "16 partitions need 16 devices"},
		{"zero", module("mhlo.num_partitions = 0 : i32"), TextOptions{}, 0, 0, "mhlo.num_partitions = 0"},
		{"huge", module("mhlo.num_partitions = 99999999999999999999 : i32"), TextOptions{}, 0, 0, "99999999999999999999"},
		{"negative", module(""), TextOptions{Partitions: -1}, 0, 0, "-1 partitions"},
		{"contradicted", module(eight), TextOptions{Partitions: 4}, 0, 0, "--partitions 4, and the program says mhlo.num_partitions = 8"},
		{"agreed", module(eight), TextOptions{Partitions: 8}, 1, 8, ""},
		{"replicas against partitions", module(eight), TextOptions{Replicas: 2}, 0, 0, "2 replicas of 8 partitions"},

		{"mesh alone", with("", mesh), TextOptions{}, 1, 8, "no number of partitions"},
		{"mesh and one", with("", mesh+one), TextOptions{}, 1, 8, "no number of partitions"},
		{"mesh of one", with("", one), TextOptions{}, 1, 1, ""},
		{"mesh against 1", with("mhlo.num_partitions = 1 : i32", mesh), TextOptions{}, 0, 0, "give --partitions 8"},
		{"mesh against 1, flag", with("mhlo.num_partitions = 1 : i32", mesh), TextOptions{Partitions: 8}, 1, 8, "mhlo.num_partitions = 1"},
		{"mesh against flag", with("", mesh), TextOptions{Partitions: 2}, 0, 0, "--partitions 2"},
		{"mesh against replicas", with("mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32", mesh), TextOptions{}, 0, 0, "give --replicas 1 --partitions 8"},
		{"mesh against replicas, flags", with("mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32", mesh), TextOptions{Replicas: 1, Partitions: 8}, 1, 8, "mhlo.num_replicas = 8"},
		{"two meshes", with("", mesh+other), TextOptions{}, 0, 0, "give --partitions 8 or 4"},
		{"two meshes, said", with(eight, mesh+other), TextOptions{}, 1, 8, "of 4 devices"},
		{"two meshes, flag", with("", mesh+other), TextOptions{Partitions: 4}, 1, 4, "of 8 devices"},
		{"annotations alone", with("", `func.func @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{}]>})`), TextOptions{}, 0, 0, "give --partitions N"},
		{"annotations, said", with(eight, `func.func @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{}]>})`), TextOptions{}, 1, 8, ""},
		{"mhlo.sharding", with("", sharded), TextOptions{}, 1, 8, "no number of partitions"},
		{"mhlo.sharding against 1", with("mhlo.num_partitions = 1 : i32", sharded), TextOptions{}, 0, 0, "contradicts itself"},
		{"replicated", with("", copies), TextOptions{}, 0, 0, "give --partitions N"},
		{"replicated, flag", with("", copies), TextOptions{Partitions: 4}, 1, 4, ""},
		{"replicated, said", with("mhlo.num_partitions = 1 : i32", copies), TextOptions{}, 1, 1, ""},
		{"collectives", with("", gather), TextOptions{}, 0, 0, "name device 3"},
		{"collectives, flag", with("", gather), TextOptions{Replicas: 4}, 4, 1, ""},
		{"collectives, too few", with("mhlo.num_replicas = 2 : i32", gather), TextOptions{}, 0, 0, "name device 3"},

		{"bytecode", bytecode, TextOptions{}, 1, 8, ""},
		{"bytecode, agreed", bytecode, TextOptions{Partitions: 8}, 1, 8, ""},
		{"bytecode, contradicted", bytecode, TextOptions{Partitions: 4}, 0, 0, "--partitions 4"},
		{"export", export, TextOptions{}, 1, 8, ""},
	} {
		m, err := mlir.Read(k.program)
		if err != nil {
			t.Errorf("%s: %v", k.what, err)
			continue
		}
		r := &TextReport{}
		err = r.countDevices(m, slice(t, "cpu:8"), k.o)
		said := strings.Join(r.Notes, "; ")
		switch {
		case k.replicas == 0:
			if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), k.says) {
				t.Errorf("%s: %v", k.what, err)
			}
		case err != nil || r.Replicas != k.replicas || r.Partitions != k.partitions || !strings.Contains(said, k.says) || k.says == "" && said != "":
			t.Errorf("%s: %d replicas, %d partitions, notes %q, %v", k.what, r.Replicas, r.Partitions, said, err)
		}
	}
}

// TestPartitionsFields: an error over a number has all of them.
func TestPartitionsFields(t *testing.T) {
	m, err := mlir.Read(aotProgram(t, "constraint_only_cpu.mlirbc"))
	if err != nil {
		t.Fatal(err)
	}
	f, ok := fault.Fields[Partitions](new(TextReport).countDevices(m, slice(t, "cpu:8"), TextOptions{Partitions: 4}))
	if !ok || f.Given != 4 || f.Said != 8 || !slices.Equal(f.Shown, []int{8}) {
		t.Errorf("%+v", f)
	}
}

func aotProgram(t testing.TB, name string) []byte {
	b, err := os.ReadFile(filepath.Join("../internal/mlir/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPlatformOfAProgram: one that was lowered for other hardware is refused by that name.
func TestPlatformOfAProgram(t *testing.T) {
	call := func(target string) []byte {
		return []byte("func.func @f() { stablehlo.custom_call @" + target + "() }")
	}
	for _, k := range []struct {
		program []byte
		on      string
		has     string // "": taken
	}{
		{aotProgram(t, "bf16_tpu.jaxexport"), "cpu:8", "tpu"},
		{aotProgram(t, "bf16_tpu.jaxexport"), "v5e-8", ""},
		{aotProgram(t, "named.jaxexport"), "v5e-8", "cpu"},
		{aotProgram(t, "named.jaxexport"), "h100x4", "cpu"},
		{aotProgram(t, "multi.jaxexport"), "cpu:8", ""},
		{aotProgram(t, "multi.jaxexport"), "v5e-8", ""},
		{aotProgram(t, "bf16_tpu.mlirbc"), "cpu:8", ""}, // does not say
		{aotProgram(t, "qr.mlirbc"), "cpu:8", ""},
		{aotProgram(t, "qr.mlirbc"), "v5e-8", "cpu"},
		{call("tpu_custom_call"), "cpu:8", "tpu"},
		{call("tpu_custom_call"), "v5e-8", ""},
		{call("cu_threefry2x32_ffi"), "v5e-8", "cuda"},
		{call("Sharding"), "cpu:8", ""},
	} {
		m, err := mlir.Read(k.program)
		if err != nil {
			t.Fatal(err)
		}
		err = new(TextReport).checkPlatform(m, slice(t, k.on), TextOptions{Name: "p"})
		f, _ := fault.Fields[Platform](err)
		if k.has == "" && err != nil || k.has != "" && (!errors.Is(err, ErrPlatform) || !slices.Equal(f.Has, []string{k.has})) {
			t.Errorf("%s on %s: %v, want %q", m.Calls, k.on, err, k.has)
		}
	}
}

// FuzzDevices: no bytes make a panic, or more devices than there are.
func FuzzDevices(f *testing.F) {
	f.Add([]byte("module @m attributes {mhlo.num_partitions = 8 : i32} {}"), 0, 0)
	f.Add(aotProgram(f, "constraint_only_cpu.mlirbc"), 1, 8)
	f.Add(aotProgram(f, "named.jaxexport"), 0, 0)
	on := slice(f, "v5e-8")
	f.Fuzz(func(t *testing.T, program []byte, replicas, partitions int) {
		m, err := mlir.Read(program)
		if err != nil {
			return
		}
		r := &TextReport{}
		err = r.countDevices(m, on, TextOptions{Replicas: replicas, Partitions: partitions})
		if err == nil && (r.Replicas < 1 || r.Partitions < 1 || r.Replicas > 8 || r.Partitions > 8 || r.Replicas*r.Partitions > 8) {
			t.Errorf("%d replicas, %d partitions of 8 devices", r.Replicas, r.Partitions)
		}
	})
}
