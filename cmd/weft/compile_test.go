package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"weft"
	"weft/aot"
	"weft/plan"
	"weft/xla/plugin"
)

// TestMain lets the test's own binary be the process that a FILE is compiled in.
func TestMain(m *testing.M) {
	if os.Getenv(asWeft) != "" {
		os.Unsetenv(asWeft) // its worker's environment is that of a worker
		testCommand = func() *cobra.Command {
			return &cobra.Command{Use: "hangs", Run: func(*cobra.Command, []string) { select {} }}
		}
		main()
	}
	if os.Getenv("WEFT_TEST_HANG") != "" && os.Getenv(workerEnv) != "" { // as a compiler over a program too large
		time.Sleep(time.Minute)
	}
	if os.Getenv(workerEnv) == "" {
		os.Exit(m.Run())
	}
	if os.Getenv("WEFT_TEST_ABORT") != "" { // as a compiler does over a failed check
		fmt.Fprintln(os.Stderr, "F0000 check failed: rank >= 0")
		_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
	}
	os.Exit(runCommandLine(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// asWeft has the test's own binary be weft itself, with a command beside that hangs.
const asWeft = "WEFT_TEST_MAIN"

func skipXLA(t testing.TB) {
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
}

// TestCompileAndForward: the two commands of the manual, one after the other.
func TestCompileAndForward(t *testing.T) {
	skipXLA(t)
	dir := filepath.Join(t.TempDir(), "programs")
	compile := []string{"compile", "--model", wanDir, "--size", "64x64", "--frames", "9", "--dtype", "f32", "--on", "cpu:4", "--mesh", "tp=2,sp=2", "--out", dir, "--json"}
	code, out, stderr := weftRun(t, compile...)
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, %s%s", code, out, stderr)
	}
	r := decode[aot.Report](t, out)
	if len(r.Programs) != 6 || r.Bytes() <= r.ResidentWeightBytes || r.ResidentWeightBytes <= 0 || r.Mesh != "dp=1,tp=2,sp=2" {
		t.Errorf("%+v", r)
	}
	for _, key := range []string{"name", "calls", "argument_bytes", "temp_bytes", "output_bytes", "peak_bytes", "flops", "compiler_flops", "compile_seconds"} {
		if !strings.Contains(out, `"`+key+`": `) {
			t.Errorf("the JSON has no %s", key)
		}
	}
	if code, out, _ = weftRun(t, compile...); code != 1 || decode[failure](t, out).Error.Kind != "exists" {
		t.Errorf("a folder that is there: exit %d, %s", code, out)
	}
	result := filepath.Join(t.TempDir(), "out.safetensors")
	forward := []string{"forward", "--model", wanDir, "--inputs", wanDir + "/inputs.safetensors", "--out", result, "--compiled", dir, "--json"}
	code, out, stderr = weftRun(t, forward...)
	if code != 0 {
		t.Fatalf("exit %d, %s%s", code, out, stderr)
	}
	if rep := decode[weft.Report](t, out); rep.Compiled != dir || rep.Mesh != "dp=1,tp=2,sp=2" || rep.Cache.Misses != 0 || rep.Cache.Hits != 0 {
		t.Errorf("%+v", rep)
	}
	got, err := weft.ReadTensors(result)
	if err != nil {
		t.Fatal(err)
	}
	want, err := weft.ReadTensors(wanDir + "/expected.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	g, err := got["out"].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	w, err := want["out"].Float32s()
	if err != nil {
		t.Fatal(err)
	}
	if abs, _ := weft.Difference(g, w); !(abs <= 1e-4) {
		t.Errorf("differs by %g", abs)
	}
	os.Remove(result)
	code, out, _ = weftRun(t, append(forward, "--mesh", "tp=4", "--dtype", "bf16")...)
	f := decode[failure](t, out)
	if code != 2 || f.Error.Kind != "bundle-mismatch" || len(f.Error.Violations) < 2 {
		t.Errorf("another mesh and type: exit %d, %s", code, out)
	}
	if _, err := os.Stat(result); err == nil {
		t.Error("a refused run wrote its output")
	}
}

func TestCompileRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.mlir")
	if err := os.WriteFile(file, []byte("module @p attributes {mhlo.num_partitions = 16 : i32} {}"), 0o644); err != nil {
		t.Fatal(err)
	}
	step := []string{"compile", "--model", "wan2.1-t2v-14b", "--size", "832x480", "--frames", "81", "--mesh", "tp=4", "--on"}
	for _, k := range []struct {
		args []string
		code int
		kind string
		says string
	}{
		{[]string{"compile", "--on", "v4-8"}, 2, "usage", "--model"},
		{[]string{"compile", "--model", "wan2.1-t2v-14b"}, 2, "usage", "on"},
		{append(step, "all"), 2, "usage", "plan --on all"},
		{append(step, "4xmi300x"), 2, "aot-slice", "ROCm"},
		{append(step, "v4-16"), 2, "device-count", "8"},
		{append(step, "v4-9"), 2, "unknown-slice", ""},
		{append(step, "v4-8", "--force"), 2, "usage", "--out"},
		{append(step, "v4-8", "--replicas", "2"), 2, "usage", "FILE"},
		{append(step, "v4-8", "--tile", "release"), 2, "usage", "--phases"},
		{append(step, "v4-8", "--vae-dtype", "bf16"), 2, "usage", "--phases"},
		{append(step, "v4-8", "--tile", "100x256,192x192", "--phases"), 2, "size", "multiple of 8"},
		{append(step, "v4-8", "--out", "/no/such/folder/x"), 1, "output", "/no/such/folder"},
		{[]string{"compile", file, "--on", "v4-8", "--mesh", "tp=4"}, 2, "usage", "--mesh"},
		{[]string{"compile", file, "--on", "cpu:8"}, 2, "aot-options", "16 partitions"},
		{[]string{"compile", file, "--on", "cpu:8", "--partitions", "4", "--replicas", "2"}, 2, "aot-options", "replicas"},
		{[]string{"compile", file + ".not", "--on", "cpu:8"}, 2, "usage", "no such file"},
		{[]string{"compile", filepath.Dir(file), "--on", "cpu:8"}, 2, "usage", "folder"},
	} {
		code, out, _ := weftRun(t, append(k.args, "--json")...)
		f := decode[failure](t, out)
		if code != k.code || f.Error.Kind != k.kind || !strings.Contains(f.Error.Message, k.says) {
			t.Errorf("%v: exit %d, %s", k.args, code, out)
		}
	}
}

// TestCompileFile: programs of others, some broken, each in a process of its own.
func TestCompileFile(t *testing.T) {
	skipXLA(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sum := write("sum.mlir", `module @sum attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  func.func public @main(%a: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %1 = stablehlo.add %0, %a : tensor<1024x1024xf32>
    return %1 : tensor<1024x1024xf32>
  }
}`)
	code, out, stderr := weftRun(t, "compile", sum, "--on", "cpu:8", "--json")
	if code != 0 {
		t.Fatalf("exit %d, %s%s", code, out, stderr)
	}
	const mib = 4 << 20
	r := decode[aot.TextReport](t, out)
	if p := r.Programs[0]; r.Replicas != 4 || r.Partitions != 1 || p.Arguments != mib || p.Outputs != mib || r.Bytes() < 2*mib || r.Fits != plan.Fits || r.HBMLimitBytes == nil {
		t.Errorf("%+v", r)
	}
	if code, out, _ = weftRun(t, "compile", sum, "--on", "cpu:8"); code != 0 || !strings.Contains(out, "it fits") || !strings.Contains(out, "4 devices") {
		t.Errorf("exit %d, %s", code, out)
	}
	for _, k := range []struct{ name, text, kind string }{
		{"rubbish", "rubbish @main() {", "compile-failed"},
		{"value", `func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %b : tensor<4xf32> }`, "compile-failed"},
		{"noise", "\x00\x01\x02\xff", "program-format"},
		{"bytecode", "ML\xefR\x0d\x00\xff\xff", "program-damaged"},
		{"nothing", "", "program-format"},
	} {
		code, out, stderr := weftRun(t, "compile", write(k.name, k.text), "--on", "cpu:2", "--json")
		if f := decode[failure](t, out); code != 1 || f.Error.Kind != k.kind || stderr != "" || k.kind != "compile-failed" && !strings.Contains(f.Error.Message, k.name) {
			t.Errorf("%s: exit %d, %s%s", k.name, code, out, stderr)
		}
	}
	code, out, _ = weftRun(t, "compile", "../../internal/mlir/testdata/bf16_tpu.jaxexport", "--on", "cpu:8", "--json")
	if f := decode[failure](t, out); code != 2 || f.Error.Kind != "program-platform" || !strings.Contains(f.Error.Message, "lowered for tpu") {
		t.Errorf("an export for TPUs on a CPU: exit %d, %s", code, out)
	}
	t.Setenv("WEFT_TEST_ABORT", "1")
	code, out, _ = weftRun(t, "compile", sum, "--on", "cpu:8", "--json")
	if f := decode[failure](t, out); code != 1 || f.Error.Kind != "compiler-ended" || !strings.Contains(f.Error.Message, "check failed") {
		t.Errorf("a compiler that aborts: exit %d, %s", code, out)
	}
}

// TestCompileForms: text, bytecode and an export's file of one program need the same to
// the byte, without a flag; where the program says how many devices it is for, that is it.
func TestCompileForms(t *testing.T) {
	skipXLA(t)
	_, tpu := plugin.Get("tpu")
	for _, k := range []struct {
		name, on             string
		files                []string // how their names end
		partitions           int
		arguments, temp, on1 int64 // on1 is of a device in all, 0 where it is not held to a figure
	}{
		{"constraint_only_cpu", "cpu:8", []string{".mlir", ".mlirbc"}, 8, 100663296, 201326592, 0}, // JAX's own analysis
		{"shard_map_tpu", "cpu:8", []string{".mlir", ".mlirbc"}, 8, 65536, -1, 0},
		{"named", "cpu:8", []string{".mlir", ".jaxexport"}, 8, 2048, -1, 0},
		{"gspmd", "cpu:8", []string{".mlir", ".mlirbc"}, 8, 2048, -1, 0},
		{"ir_bytecode", "cpu:8", []string{".mlir", ".mlirbc"}, 8, 2048, -1, 0},
		{"multi", "cpu:2", []string{".mlir", ".jaxexport"}, 1, 16388, -1, 0},
		{"constraint_only_tpu", "v5e-8", []string{".mlir", ".mlirbc"}, 8, 100663296, 0, 138150912},
		{"bf16_tpu", "v5e-8", []string{".mlir", ".mlirbc", ".jaxexport"}, 1, 1310720, 0, 0},
	} {
		if k.on == "v5e-8" && tpu != nil {
			t.Logf("libtpu is not here (weft engine install tpu): %v", tpu)
			continue
		}
		var first aot.TextReport
		for i, end := range k.files {
			code, out, stderr := weftRun(t, "compile", "../../internal/mlir/testdata/"+k.name+end, "--on", k.on, "--json")
			if code != 0 {
				t.Errorf("%s%s: exit %d, %s%s", k.name, end, code, out, stderr)
				break
			}
			r := decode[aot.TextReport](t, out)
			if i == 0 {
				first = r
			}
			p := r.Programs[0]
			if r.Partitions != k.partitions || p.Arguments != k.arguments || k.temp >= 0 && p.Temp != k.temp || k.on1 > 0 && r.Bytes() != k.on1 {
				t.Errorf("%s%s: %d partitions, %+v, %d bytes a device", k.name, end, r.Partitions, p.Memory, r.Bytes())
			}
			if p.Memory != first.Programs[0].Memory || r.Bytes() != first.Bytes() || r.Partitioner != first.Partitioner {
				t.Errorf("%s%s needs %+v, as text %+v", k.name, end, p.Memory, first.Programs[0].Memory)
			}
		}
	}
}

// TestTryFlags: flags that a plugin ends its process over are said before anything is
// run, by the plugin's own words.
func TestTryFlags(t *testing.T) {
	skipXLA(t)
	for _, k := range []struct{ flags, says string }{
		{"--xla_backend_optimization_level=abc", "Couldn't interpret value abc for flag xla_backend_optimization_level"},
		{"--v=1", "Unknown flag in XLA_FLAGS: --v=1"}, // a word that the plugin's file has, and no flag
		{"--xla_cpu_enable_fast_math=false", ""},
	} {
		c := exec.Command(os.Args[0], "compile", "../../internal/mlir/testdata/bf16_tpu.mlir", "--on", "cpu:1", "--json")
		c.Env = append(os.Environ(), "XLA_FLAGS="+k.flags, asWeft+"=1")
		out, err := c.Output()
		if k.says == "" {
			if err != nil {
				t.Errorf("%s: %v, %s", k.flags, err, out)
			}
			continue
		}
		if f := decode[failure](t, string(out)); c.ProcessState.ExitCode() != 1 || f.Error.Kind != "xla-flag" || !strings.Contains(f.Error.Message, k.says) {
			t.Errorf("%s: %v, %s", k.flags, err, out)
		}
	}
}

// TestLastWords: what is shown of a process that its compiler ended.
func TestLastWords(t *testing.T) {
	for stderr, want := range map[string]string{
		"": "", "one\ntwo\n": "one",
		"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\nF0000 00:00:1796103961.1 29005 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --v=1\nusage\n": "Unknown flag in XLA_FLAGS: --v=1",
		"I0000 00:00:1.5 1 a.cc:74] count 1\nE0000 00:00:1.5 1 b.cc:63] no [value]\nF0000 00:00:1.5 1 c.cc:1] failed\n":                                                                                 "no [value]",
		"WARNING: only\n": "WARNING: only",
	} {
		if got := lastWords(stderr); got != want {
			t.Errorf("%q: %q, want %q", stderr, got, want)
		}
	}
}

// TestCompileTooBig: libtpu's refusal in plain words.
func TestCompileTooBig(t *testing.T) {
	skipXLA(t)
	if _, err := plugin.Get("tpu"); err != nil {
		t.Skipf("libtpu is not here (weft engine install tpu): %v", err)
	}
	file := filepath.Join(t.TempDir(), "big.mlir")
	const whole = "tensor<65536x65536xbf16>"
	text := strings.ReplaceAll(`module @big { func.func public @main(%a: T, %b: T) -> T {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (T, T) -> T
  return %0 : T } }`, "T", whole)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := weftRun(t, "compile", file, "--on", "v5e-8", "--json")
	f := decode[failure](t, out)
	if code != 1 || f.Error.Kind != "out-of-memory" || f.Error.Fields["asked_bytes"].(float64) < 24<<30 || f.Error.Fields["limit_bytes"].(float64) > 16<<30 || stderr != "" {
		t.Errorf("exit %d, %s%s", code, out, stderr)
	}
}

// --phases adds a list and changes nothing else that the JSON has.
func TestCompilePhases(t *testing.T) {
	skipXLA(t)
	if os.Getenv("WEFT_LONG_TESTS") == "" {
		t.Skip("compiles an encoder and a decoder of full size; package aot's test compiles phases always")
	}
	args := []string{"compile", "--model", wanDir, "--size", "64x64", "--frames", "1", "--on", "cpu:2", "--mesh", "tp=2"}
	code, out, stderr := weftRun(t, append(args, "--json", "--phases")...)
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, %s%s", code, out, stderr)
	}
	r := decode[aot.Report](t, out)
	if len(r.Phases) != 3 || r.Phases[1].Name != "denoise" || *r.Phases[1].Runs[0].HBMBytesPerDevice != *r.HBMBytesPerDevice {
		t.Errorf("%+v", r.Phases)
	}
	text := compiledText(&r)
	for _, want := range []string{"phase     compiled    planned", "dp=1,tp=2,sp=1, umt5-xxl", "decode "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && !strings.Contains(line, "compiled by") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	code, out, _ = weftRun(t, append(args, "--json")...)
	if code != 0 || strings.Contains(out, `"phases"`) {
		t.Errorf("exit %d, phases that nobody asked for: %s", code, out)
	}
}
