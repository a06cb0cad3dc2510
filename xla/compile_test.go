package xla

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/dtype"
	"weft/fault"
	"weft/xla/cache"
)

// TestOptionBytes holds the hand-written proto to the bytes that were tried on
// all four plugins, with the override for excess precision after them.
func TestOptionBytes(t *testing.T) {
	o, err := CompileOptions{Replicas: 4}.checkOptions([]int{0, 1, 2, 3}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	want := "1a12200428014a0c080410011a060a0400010203" + "3a" + "20" + "0a1a" + hex.EncodeToString([]byte(excessPrecision)) + "1202" + "1000"
	if got := hex.EncodeToString(o.encodeProto()); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
}

// TestCompileOptions: whatever a plugin would abort for, or take in silence, is refused first.
func TestCompileOptions(t *testing.T) {
	known := []int{0, 1, 2, 3}
	for _, k := range []struct {
		o    CompileOptions
		want string // "" is accepted
	}{
		{CompileOptions{}, ""},
		{CompileOptions{Replicas: 4}, ""},
		{CompileOptions{DeviceIDs: []int{3, 1}}, ""},
		{CompileOptions{Replicas: 5}, "5 replicas need 5 devices; a test has 4"},
		{CompileOptions{Replicas: -1}, "-1 replicas"},
		{CompileOptions{Replicas: 1 << 20}, "1048576 replicas"},
		{CompileOptions{Replicas: 4, DeviceIDs: []int{0, 1}}, "2 device ids are given for 4 replicas"},
		{CompileOptions{Replicas: 2, DeviceIDs: []int{1, 1}}, "device 1 is assigned twice"},
		{CompileOptions{Replicas: 4, DeviceIDs: []int{0, 1, 2, 99}}, "device 99 is not one of a test's: [0 1 2 3]"},
		{CompileOptions{Overrides: map[string]any{"xla_a": []int{1}}}, "has type []int"},
		{CompileOptions{Overrides: map[string]any{"xla a": true}}, "is no option's name"},
		{CompileOptions{Args: []ArgSpec{{dtype.Invalid, []int{1}, false}}}, "argument 0 has no element type"},
		{CompileOptions{Outputs: []ArgSpec{{dtype.F32, []int{-1}, false}}}, "output 0 has an impossible shape"},
	} {
		_, err := k.o.checkOptions(known, "a test")
		if k.want == "" && err != nil || k.want != "" && (!errors.Is(err, ErrCompileOption) || !strings.Contains(err.Error(), k.want)) {
			t.Errorf("%+v: %v, want %q", k.o, err, k.want)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	c := newClient(t, 2)
	broken := strings.Replace(addOne, "stablehlo.add %a, %c", "stablehlo.add %a, %nowhere", 1)
	for _, k := range []struct {
		text string
		o    CompileOptions
		kind *fault.Kind
		want string
	}{
		{broken, CompileOptions{}, ErrCompile, "use of undeclared SSA value"}, // the plugin's own words
		{strings.Replace(addOne, "stablehlo.add", "stablehlo.and", 1), CompileOptions{}, ErrCompile, "stablehlo.and"},
		{addOne, CompileOptions{Overrides: map[string]any{"xla_no_such_option": true}}, ErrCompile, "xla_no_such_option"},
		{addOne, CompileOptions{Overrides: map[string]any{excessPrecision: "maybe"}}, ErrCompile, ""},
		{addOne, CompileOptions{Replicas: 3}, ErrCompileOption, "the client has 2"},
		{addOne, CompileOptions{Args: []ArgSpec{}, Outputs: []ArgSpec{{dtype.F32, []int{4}, false}}}, ErrCompileOption, "0 arguments are given, the text has 1"},
		{addOne, CompileOptions{Args: []ArgSpec{{dtype.F32, []int{4}, true}}, Outputs: []ArgSpec{{dtype.F32, []int{4}, false}}}, ErrCompileOption, "donated true"},
		{addOne, CompileOptions{Args: []ArgSpec{{dtype.F32, []int{4}, false}}, Outputs: []ArgSpec{{dtype.F32, []int{5}, false}}}, ErrCompileOption, "f32[5]"},
		{"nonsense", CompileOptions{}, ErrCompileOption, "no function @main"},
		{"", CompileOptions{}, ErrCompileOption, "no function @main"},
		{"@main() -> tensor<f32>", CompileOptions{}, ErrCompile, ""},
	} {
		_, err := c.Compile(t.Context(), []byte(k.text), k.o)
		if !errors.Is(err, k.kind) || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%.40q %+v: %v; want %v with %q", k.text, k.o, err, k.kind, k.want)
		}
	}
	run(t, compile(t, c, addOne, CompileOptions{}), put(t, c, []int{0}, []int{4}, value)) // it lives
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Compile(ctx, []byte(addOne), CompileOptions{}); err != nil && !errors.Is(err, ErrCancelled) {
		t.Errorf("a cancelled compile: %v", err)
	}
}

func TestSignature(t *testing.T) {
	args, outs, err := Signature([]byte(`module @m attributes {mhlo.num_replicas = 4 : i32} {
  func.func private @helper(%a: tensor<9xf32>) -> tensor<9xf32> { return %a : tensor<9xf32> }
  func.func public @main(%arg0: tensor<2x3xbf16> {jax.buffer_donor = true, mhlo.sharding = "{replicated}, (x)"}, %arg1: tensor<i1>,
      %arg2: tensor<0x4xui8>, %arg3: tensor<4xf8E4M3FN> {tf.aliasing_output = 1 : i32}) -> (tensor<2x3xbf16> {jax.result_info = "a, b"}, tensor<4xf8E4M3FN>) {`))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(args, outs); got != "[bf16[2 3] i1[] ui8[0 4] f8E4M3FN[4]] [bf16[2 3] f8E4M3FN[4]]" {
		t.Error(got)
	}
	if !args[0].Donated || args[1].Donated || !args[3].Donated {
		t.Errorf("%+v", args)
	}
	for _, bad := range []string{"", "@main(", "@main(%a: tensor<?xf32>)", "@main(%a: f32)", "@main(%a: tensor<2xq9>)", "@main() -> (tensor<f32>"} {
		if _, _, err := Signature([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzSignature(f *testing.F) {
	f.Add([]byte(addOneDonated))
	f.Add([]byte("@main(%a: tensor<2x3xbf16> {x = \"y\"}) -> (tensor<f32>, tensor<1xi1>)"))
	f.Fuzz(func(t *testing.T, b []byte) { _, _, _ = Signature(b) })
}

// TestStatistics: what a program tells of itself.
func TestStatistics(t *testing.T) {
	c := newClient(t, 2)
	x := compile(t, c, `module @mm { func.func public @main(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [1] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1 : tensor<64x64xf32> } }`, CompileOptions{Replicas: 2})
	m, err := x.Memory()
	if err != nil || m.Arguments != 2*64*64*4 || m.Outputs != 64*64*4 || m.Temp < 64*64*4 || m.Alias != 0 {
		t.Errorf("%+v (%v)", m, err)
	}
	if sum := m.Arguments + m.Outputs + m.Temp - m.Alias; m.TotalAllocation != -1 && m.TotalAllocation != 0 && m.TotalAllocation != sum {
		t.Errorf("total allocation %d, the sum is %d", m.TotalAllocation, sum)
	}
	if code, format, err := x.Optimized(); err != nil || len(code) == 0 || format != "hlo_with_config" {
		t.Errorf("%d bytes of %q (%v)", len(code), format, err)
	}
	if f, err := x.Fingerprint(); err != nil || f == "" {
		t.Errorf("fingerprint %q (%v)", f, err)
	}
	cost, err := x.Cost()
	if f, _ := fault.Fields[PluginFailure](err); err != nil && f.Code != "unimplemented" || err == nil && cost["flops"] == nil {
		t.Errorf("%v (%v)", cost, err)
	}
	if x.Name() != "mm" {
		t.Errorf("named %q", x.Name())
	}
	if a := c.Plugin().Attributes(); len(a) == 0 {
		t.Error("no attributes")
	}
}

func init() {
	children["load"] = func() {
		data, err := os.ReadFile(os.Getenv("WEFT_TEST_FILE"))
		fatal(err)
		c, err := NewCPU(4)
		fatal(err)
		spec := []ArgSpec{{dtype.F32, []int{2}, false}}
		x, err := c.Load(context.Background(), data, CompileOptions{DeviceIDs: []int{3, 1}, Args: spec, Outputs: spec})
		fatal(err)
		var args [][]*Buffer
		for _, id := range []int{3, 1} {
			b, err := c.Put(f32s(float32(id), 10), dtype.F32, []int{2}, id)
			fatal(err)
			args = append(args, []*Buffer{b})
		}
		outs, _, err := x.Execute(context.Background(), args)
		fatal(err)
		for _, row := range outs {
			v, err := row[0].Tensor(context.Background())
			fatal(err)
			fmt.Println("device", row[0].Device(), floats(v.Data))
		}
		// Damaged, or for devices that are not here: errors.
		_, err = c.Load(context.Background(), data[:len(data)/2], CompileOptions{DeviceIDs: []int{3, 1}, Args: spec, Outputs: spec})
		fmt.Println("cut:", errors.Is(err, ErrCompile))
		_, err = c.Load(context.Background(), data, CompileOptions{DeviceIDs: []int{0, 1}, Args: spec, Outputs: spec})
		fmt.Println("elsewhere:", errors.Is(err, ErrCompileOption))
		_, err = c.Load(context.Background(), data, CompileOptions{DeviceIDs: []int{3, 1}, Args: spec})
		fmt.Println("outputs:", errors.Is(err, ErrCompileOption))
	}
}

// TestSerialize writes a program in one process and runs it in another.
func TestSerialize(t *testing.T) {
	c := newClient(t, 4)
	x := compile(t, c, allReduce(groups(2, 2), 2, false), CompileOptions{DeviceIDs: []int{3, 1}})
	data, err := x.Serialize()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out := child(t, "load", "WEFT_TEST_FILE="+file)
	for _, want := range []string{"device 3 [4 20]\ndevice 1 [4 20]", "cut: true", "elsewhere: true", "outputs: true"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in:\n%s", code, want, out)
		}
	}
}

// TestCache: the second compile is a hit, a damaged entry a miss that is
// replaced, and other flags, devices or text another entry.
func TestCache(t *testing.T) {
	c := newClient(t, 2)
	dir := t.TempDir()
	var warned []error
	k, err := cache.Open(dir, cache.Options{Warn: func(err error) { warned = append(warned, err) }})
	if err != nil {
		t.Fatal(err)
	}
	text := allReduce(groups(2, 2), 2, false)
	try := func(o CompileOptions, text string, want cache.Stats) {
		t.Helper()
		o.Cache = k
		x := compile(t, c, text, o)
		outs := run(t, x, put(t, c, x.Devices(), []int{2}, func(d, i int) float32 { return 1 }))
		if got := read(t, outs[0][0]); got[1] != 2 {
			t.Errorf("%v", got)
		}
		x.Close()
		if got := k.Stats(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	two := CompileOptions{Replicas: 2}
	try(two, text, cache.Stats{Misses: 1, Writes: 1})
	try(two, text, cache.Stats{Hits: 1, Misses: 1, Writes: 1})
	try(CompileOptions{DeviceIDs: []int{1, 0}}, text, cache.Stats{Hits: 1, Misses: 2, Writes: 2})
	try(two, text+"\n", cache.Stats{Hits: 1, Misses: 3, Writes: 3})
	try(CompileOptions{Replicas: 2, Overrides: map[string]any{excessPrecision: true}}, text, cache.Stats{Hits: 1, Misses: 4, Writes: 4})
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		if err := os.Truncate(f, 100); err != nil {
			t.Fatal(err)
		}
	}
	try(two, text, cache.Stats{Hits: 1, Misses: 5, Writes: 5, Failed: 1})
	try(two, text, cache.Stats{Hits: 2, Misses: 5, Writes: 5, Failed: 1})
	if len(warned) != 1 {
		t.Errorf("warnings: %v", warned)
	}
	// An entry whole by its digest that the plugin refuses is no failure either.
	k.Put(c.cacheKey([]byte(text), mustEncode(t, c, two), []int{0, 1}), []byte("not a program"), time.Hour)
	try(two, text, cache.Stats{Hits: 2, Misses: 6, Writes: 7, Failed: 2})
}

func mustEncode(t *testing.T, c *Client, o CompileOptions) []byte {
	t.Helper()
	o, err := o.checkOptions(c.deviceIDs(), "the client")
	if err != nil {
		t.Fatal(err)
	}
	return o.encodeProto()
}

// TestClients: clients of several sizes in one process, one after another and at once.
func TestClients(t *testing.T) {
	engine(t)
	for _, n := range []int{1, 8, 2, 16, 3} {
		c := newClient(t, n)
		if got := c.deviceIDs(); len(got) != n || !slices.IsSorted(got) {
			t.Errorf("%d devices asked for: %v", n, got)
		}
		if c.Platform() != "cpu" || c.Devices()[0].Kind == "" {
			t.Errorf("%q %+v", c.Platform(), c.Devices()[0])
		}
		x := compile(t, c, allReduce(groups(n, n), 2, false), CompileOptions{Replicas: n})
		outs := run(t, x, put(t, c, x.Devices(), []int{2}, func(d, i int) float32 { return 1 }))
		if got := read(t, outs[n-1][0]); got[0] != float32(n) {
			t.Errorf("%v on %d devices", got, n)
		}
	}
}
