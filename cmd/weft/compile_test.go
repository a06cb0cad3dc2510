package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"weft"
	"weft/aot"
	"weft/xla/plugin"
)

// TestMain lets the test's own binary be the process that a FILE is compiled in.
func TestMain(m *testing.M) {
	if os.Getenv("WEFT_TEST_MAIN") != "" { // the test's own binary as weft itself
		os.Unsetenv("WEFT_TEST_MAIN") // its worker's environment is that of a worker
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
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

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
	if len(r.Programs) != 6 || r.HBMBytesPerDevice <= r.ResidentWeightBytes || r.ResidentWeightBytes <= 0 || r.Mesh != "dp=1,tp=2,sp=2" {
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
		{append(step, "h100x4"), 2, "aot-slice", "GPU"},
		{append(step, "v4-16"), 2, "device-count", "8"},
		{append(step, "v4-9"), 2, "unknown-slice", ""},
		{append(step, "v4-8", "--force"), 2, "usage", "--out"},
		{append(step, "v4-8", "--replicas", "2"), 2, "usage", "FILE"},
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
	if p := r.Programs[0]; r.Replicas != 4 || r.Partitions != 1 || p.Arguments != mib || p.Outputs != mib || r.HBMBytesPerDevice < 2*mib || !r.Fits || r.HBMLimitBytes == 0 {
		t.Errorf("%+v", r)
	}
	if code, out, _ = weftRun(t, "compile", sum, "--on", "cpu:8"); code != 0 || !strings.Contains(out, "it fits") || !strings.Contains(out, "4 devices") {
		t.Errorf("exit %d, %s", code, out)
	}
	for name, text := range map[string]string{
		"rubbish": "rubbish @main() {", "noise": "\x00\x01\x02\xff", "bytecode": "ML\xefR\x0d\x00\xff\xff", "value": `func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %b : tensor<4xf32> }`,
	} {
		code, out, stderr := weftRun(t, "compile", write(name, text), "--on", "cpu:2", "--json")
		if f := decode[failure](t, out); code != 1 || f.Error.Kind != "compile-failed" || stderr != "" {
			t.Errorf("%s: exit %d, %s%s", name, code, out, stderr)
		}
	}
	t.Setenv("WEFT_TEST_ABORT", "1")
	code, out, _ = weftRun(t, "compile", sum, "--on", "cpu:8", "--json")
	if f := decode[failure](t, out); code != 1 || f.Error.Kind != "compiler-ended" || !strings.Contains(f.Error.Message, "check failed") {
		t.Errorf("a compiler that aborts: exit %d, %s", code, out)
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
