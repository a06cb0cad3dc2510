package xla

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weft/xla/internal/pjrt"
	"weft/xla/plugin"
)

func init() {
	children["aot"] = func() {
		ctx := context.Background()
		for _, k := range []struct {
			name string
			n    int
		}{{"v4:2x2x1", 4}, {"v5e:2x4", 8}, {"v5p:2x2x1", 4}, {"v6e:2x4", 8}, {"tpu7x:2x2x1", 8}} {
			topo, err := OpenTopology(ctx, k.name, TopologyOptions{Install: true})
			fatal(err)
			d := topo.Devices()
			fmt.Printf("%s %d %+v\n", k.name, len(d), d[len(d)-1])
			if len(d) != k.n {
				fatal(fmt.Errorf("%s has %d devices, want %d", k.name, len(d), k.n))
			}
			topo.Close()
		}
		topo, err := OpenTopology(ctx, "v4:2x2x1", TopologyOptions{})
		fatal(err)
		// A CPU client in the same process does not get in the way.
		c, err := Open(ctx, Options{Plugin: "cpu", Devices: 2, Install: true})
		fatal(err)
		defer c.Close()
		for _, k := range collectives(4) {
			// 8 devices are more than there are; two groups of two of them will do.
			text := strings.NewReplacer(groups(8, 4), groups(4, 4), "tensor<8x2xi64>", "tensor<4x2xi64>", ",[4,5],[5,6],[6,7],[7,4]", "").Replace(k.program(4))
			x, err := topo.Compile(ctx, []byte(text), CompileOptions{Replicas: 4})
			fatal(err)
			m, err := x.Memory()
			fatal(err)
			data, err := x.Serialize()
			fatal(err)
			cost, err := x.Cost()
			fatal(err)
			fmt.Printf("%s: %+v, %d bytes serialised, %d figures of cost, %.2f s\n", x.Name(), m, len(data), len(cost), x.Seconds)
			x.Close()
		}
		_, err = topo.Compile(ctx, []byte(addOne), CompileOptions{DeviceIDs: []int{0, 99}, Replicas: 2})
		fmt.Println("outside:", errors.Is(err, ErrCompileOption))
		_, err = topo.Compile(ctx, []byte(strings.Replace(addOne, "stablehlo.add", "stablehlo.and", 1)), CompileOptions{})
		fmt.Println("refused:", errors.Is(err, ErrCompile), err)
		_, err = OpenTopology(ctx, "v4:nonsense", TopologyOptions{})
		fmt.Println("nonsense:", errors.Is(err, ErrPlugin), err)
		topo.Close()
		_, err = topo.Compile(ctx, []byte(addOne), CompileOptions{})
		fmt.Println("closed:", errors.Is(err, ErrClosed))
		run, err := c.Compile(ctx, []byte(addOne), CompileOptions{})
		fatal(err)
		run.Close()
	}
}

// TestAllPlugins runs this package's tests with each CPU plugin in turn, and
// the ahead-of-time ones with libtpu. It fetches 330 MB: WEFT_ALL_PLUGINS=1.
func TestAllPlugins(t *testing.T) {
	if os.Getenv("WEFT_ALL_PLUGINS") != "1" {
		t.Skip("WEFT_ALL_PLUGINS=1 runs every plugin")
	}
	for _, name := range []string{"cpu", "cpu-openxla", "cpu-compat"} {
		t.Run(name, func(t *testing.T) {
			i, err := plugin.Install(t.Context(), name, plugin.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := Load(name) // three in one process
			if err != nil {
				t.Fatal(err)
			}
			pin, _ := plugin.Lookup(name)
			if e := p.Engine(); e.API != pin.API || e.SHA256 != i.SHA256 || len(e.SHA256) != 64 {
				t.Errorf("%+v, the pin says API %s", e, pin.API)
			}
			cmd := exec.Command(os.Args[0], "-test.short", "-test.timeout=5m")
			cmd.Env = append(os.Environ(), "WEFT_PLUGIN="+name, "WEFT_ALL_PLUGINS=", "XLA_FLAGS=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	t.Run("tpu", func(t *testing.T) {
		if _, err := plugin.Install(t.Context(), "tpu", plugin.Options{}); err != nil {
			t.Fatal(err)
		}
		code, out := child(t, "aot", "XLA_FLAGS=")
		for _, want := range []string{"outside: true", "refused: true", "nonsense: true", "closed: true"} {
			if code != 0 || !strings.Contains(out, want) {
				t.Fatalf("exit %d, no %q in:\n%s", code, want, out)
			}
		}
		t.Log(out)
	})
}

// TestChangedEngine: a library that is not what was installed is not loaded.
func TestChangedEngine(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("WEFT_ENGINE_DIR", dir)
	pin, err := plugin.Lookup("cpu-compat")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, pin.Name+"-"+pin.Version)
	lib := filepath.Join(at, filepath.FromSlash(pin.Library))
	if err := os.MkdirAll(filepath.Dir(lib), 0o755); err != nil {
		t.Fatal(err)
	}
	manifest, _ := json.Marshal(map[string]any{"pin": pin, "sha256": strings.Repeat("0", 64), "bytes": 5})
	if err := errors.Join(os.WriteFile(lib, []byte("other"), 0o644), os.WriteFile(filepath.Join(at, "weft-engine.json"), manifest, 0o644)); err != nil {
		t.Fatal(err)
	}
	want := plugin.ErrBadHash
	if !pjrt.Available {
		want = ErrNoXLA
	}
	if _, err := Load(pin.Name); !errors.Is(err, want) {
		t.Error(err)
	}
}
