package xla

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/xla/plugin"
)

func TestHasTPU(t *testing.T) {
	for _, k := range []struct {
		vendor, device string
		want           bool
	}{{"0x1ae0", "0x005e", true}, {"0x1ae0", "0x0042", false}, {"0x10de", "0x005e", false}, {"", "", false}} {
		dir := t.TempDir()
		dev := filepath.Join(dir, "0000:00:05.0")
		if err := os.Mkdir(dev, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]string{"vendor": k.vendor, "device": k.device} {
			if err := os.WriteFile(filepath.Join(dev, name), []byte(v+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := hasTPU(dir); got != k.want {
			t.Errorf("%+v: %v", k, got)
		}
	}
}

// TestDriven: what a plugin drives is told by its pin, else by its file's name.
func TestDriven(t *testing.T) {
	for _, k := range []struct{ name, path, want string }{
		{"cpu", "/x/whatever.so", "cpu"}, {"cpu-openxla", "/x/y.so", "cpu"}, {"tpu", "/x/y.so", "tpu"}, {"cuda", "/x/y.so", "cuda"},
		{"libtpu", "/x/libtpu.so", "tpu"}, {"xla_cuda_plugin", "/x/xla_cuda_plugin.so", "cuda"}, {"mine", "/gpu/mine.so", "cpu"},
	} {
		if got := deviceKindOf(plugin.Installed{Name: k.name, Path: k.path}); got != k.want {
			t.Errorf("%+v: %s", k, got)
		}
	}
}

func TestTPUBounds(t *testing.T) {
	for value, ok := range map[string]bool{"": true, "2,2,1": true, "1, 1, 1": true, "2,2": false, "2x2x1": false, "a,b,c": false, "q": false} {
		err := checkTPUBounds(func(name string) string {
			if name == "TPU_PROCESS_BOUNDS" {
				return value
			}
			return ""
		})
		if ok != (err == nil) || err != nil && (!errors.Is(err, ErrXLAFlag) || !strings.Contains(err.Error(), "TPU_PROCESS_BOUNDS")) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
