//go:build unix

package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/internal/userfile"
)

// Nothing that a folder may hold under a checkpoint's names is waited for.
func TestSurprisesInAFolder(t *testing.T) {
	pipe := func(path string) {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		make func(dir string)
		says string
	}{
		{"a pipe as checkpoint", func(dir string) { pipe(filepath.Join(dir, "model.safetensors")) }, "named pipe"},
		{"a pipe as .pth", func(dir string) { pipe(filepath.Join(dir, "model.pth")) }, "named pipe"},
		{"a device as checkpoint", func(dir string) { os.Symlink("/dev/zero", filepath.Join(dir, "model.safetensors")) }, "a device"},
		{"a pipe as index", func(dir string) { pipe(filepath.Join(dir, "model.safetensors.index.json")) }, "named pipe"},
		{"a pipe as shard", func(dir string) {
			pipe(filepath.Join(dir, "x.safetensors"))
			put(t, dir, "model.safetensors.index.json", []byte(`{"weight_map":{"a":"x.safetensors"}}`))
		}, "named pipe"},
		{"a pipe as config", func(dir string) {
			put(t, dir, "model.safetensors", one("a"))
			pipe(filepath.Join(dir, "config.json"))
		}, "named pipe"},
		{"a device as config", func(dir string) {
			put(t, dir, "model.safetensors", one("a"))
			os.Symlink("/dev/zero", filepath.Join(dir, "config.json"))
		}, "a device"},
		{"a folder as config", func(dir string) {
			put(t, dir, "model.safetensors", one("a"))
			os.Mkdir(filepath.Join(dir, "config.json"), 0o700)
		}, "a folder"},
		{"a large config", func(dir string) {
			put(t, dir, "model.safetensors", one("a"))
			put(t, dir, "config.json", make([]byte, MaxConfig+1))
		}, "at most 4194304"},
	} {
		dir := t.TempDir()
		test.make(dir)
		done := make(chan error, 1)
		go func() {
			c, err := Open(dir)
			if err == nil {
				_, _, err = c.ConfigJSON()
				c.Close()
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: %v", test.name, err)
			}
			if strings.HasSuffix(test.name, "config") && !errors.Is(err, userfile.ErrNotRegular) && !errors.Is(err, userfile.ErrTooLarge) {
				t.Errorf("%s: %v", test.name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: waits", test.name)
		}
	}
}
