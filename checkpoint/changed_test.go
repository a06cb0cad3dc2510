package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/dtype"
	"weft/tensor"
)

// CheckUnchanged names the file and the tensor of every change, and nothing of a file that is
// as it was opened.
func TestCheckUnchanged(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"":            func(string) error { return nil },
		"has":         func(path string) error { return os.Truncate(path, 100) },
		"was written": func(path string) error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) },
		"another file has its": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("x"), 0o600))
		},
		"no such file": os.Remove,
	} {
		path := filepath.Join(t.TempDir(), "a.safetensors")
		x := tensor.New(dtype.F32, 8)
		if err := Write(path, map[string]*tensor.Tensor{"x": x, "y": x}, nil, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		c, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		err = c.CheckUnchanged([]Part{{Name: "y"}, {Name: "x"}, {Name: "nothing"}})
		c.Close()
		if what == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		f := fieldsOf[FileChanged](t, err, ErrFileChanged)
		if f.File != "a.safetensors" || f.Tensor != "y" || !strings.Contains(f.Change, what) {
			t.Errorf("%s: %+v", what, f)
		}
	}
}
