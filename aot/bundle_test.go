package aot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/fault"
	"weft/internal/userfile"
)

// written is a bundle in a folder of its own.
func written(t testing.TB) (dir string, c *Compilation) {
	t.Helper()
	needXLA(t)
	c, err := Compile(context.Background(), tiny(t), forSlice(options(t, "tp=2"), slice(t, "cpu:2")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	dir = filepath.Join(t.TempDir(), "bundle")
	if err := c.Write(dir, false); err != nil {
		t.Fatal(err)
	}
	return dir, c
}

// copied is a bundle's folder again, free to be damaged.
func copied(t testing.TB, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(out, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDamage: a bundle in which a byte is not as it was written is not read, and
// every such file is named.
func TestDamage(t *testing.T) {
	dir, c := written(t)
	b, err := OpenBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !b.Mesh().Equal(c.Step.Graph.Mesh) || len(b.Programs) != len(c.Report.Programs) || b.Report.Bytes() != c.Report.Bytes() {
		t.Errorf("read back as %+v", b.Manifest)
	}
	block := b.Programs[0]
	for _, p := range b.Programs {
		if p.Program == "block" {
			block = p
		}
	}
	flip := func(name string) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			data, err := os.ReadFile(path)
			if err == nil {
				data[len(data)/2] ^= 1
				err = os.WriteFile(path, data, 0o644)
			}
			return err
		}
	}
	manifest := func(f func(string) string) func(string) error {
		return func(dir string) error {
			path := filepath.Join(dir, ManifestName)
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(f(string(data))), 0o644)
		}
	}
	for _, k := range []struct {
		what   string
		damage func(dir string) error
		says   []string
	}{
		{"executable", flip(block.Executable.Name), []string{block.Executable.Name, "changed since"}},
		{"text", flip(block.Text.Name), []string{block.Text.Name}},
		{"two", func(d string) error {
			return errors.Join(flip(block.Executable.Name)(d), os.Remove(filepath.Join(d, b.Programs[1].Text.Name)))
		}, []string{block.Executable.Name, b.Programs[1].Text.Name}},
		{"cut", func(d string) error { return os.Truncate(filepath.Join(d, block.Executable.Name), 10) }, []string{"10 bytes"}},
		{"no manifest", func(d string) error { return os.Remove(filepath.Join(d, ManifestName)) }, []string{"no bundle"}},
		{"no JSON", manifest(func(s string) string { return s[:len(s)/2] }), []string{"not a manifest"}},
		{"format", manifest(func(s string) string { return strings.Replace(s, `"format": 1`, `"format": 7`, 1) }), []string{"format 7"}},
		{"mesh", manifest(func(s string) string { return strings.Replace(s, `"mesh": "dp=1,tp=2`, `"mesh": "dp=1,tp=3`, 1) }), []string{"3"}},
		{"path", manifest(func(s string) string { return strings.Replace(s, `"`+block.Text.Name, `"../`+block.Text.Name, 1) }), []string{"plain names"}},
	} {
		d := copied(t, dir)
		if err := k.damage(d); err != nil {
			t.Fatal(k.what, err)
		}
		_, err := OpenBundle(d)
		if !errors.Is(err, ErrBundle) {
			t.Errorf("%s: %v", k.what, err)
			continue
		}
		for _, want := range k.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %q", k.what, want, err)
			}
		}
		if k.what == "two" && len(fault.Violations(err)) != 2 {
			t.Errorf("two damaged files give %d violations: %v", len(fault.Violations(err)), err)
		}
	}
}

// TestWrite: a folder that is there is kept unless force is given, and then only
// a bundle is replaced; a failure leaves nothing behind.
func TestWrite(t *testing.T) {
	dir, c := written(t)
	if err := c.Write(dir, false); !errors.Is(err, userfile.ErrExists) {
		t.Errorf("written over: %v", err)
	}
	if err := c.Write(dir, true); err != nil {
		t.Error(err)
	}
	extra := filepath.Join(dir, "extra")
	if err := os.WriteFile(extra, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// Whose file that is nobody knows, so it is not taken away.
	if err := c.Write(dir, true); !errors.Is(err, userfile.ErrExists) || !strings.Contains(err.Error(), "extra") {
		t.Errorf("a folder with a file that no bundle has: %v", err)
	}
	if _, err := os.Stat(extra); err != nil {
		t.Error(err)
	}
	if _, err := OpenBundle(dir); err != nil {
		t.Error(err)
	}
	mine := filepath.Join(filepath.Dir(dir), "mine")
	if err := os.Mkdir(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(mine, true); !errors.Is(err, userfile.ErrExists) {
		t.Errorf("a folder that is no bundle is replaced: %v", err)
	}
	if err := c.Write(filepath.Join(dir, "no", "such"), false); !errors.Is(err, userfile.ErrOutput) {
		t.Errorf("below a folder that is not there: %v", err)
	}
	// A program that is gone cannot be written: no half of a bundle stays.
	c.Compiled["block"].Close()
	late := filepath.Join(filepath.Dir(dir), "late")
	if err := c.Write(late, false); err == nil {
		t.Error("a closed program is written")
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if n := e.Name(); n != "bundle" && n != "mine" {
			t.Errorf("%s is left", n)
		}
	}
}

// FuzzManifest: no bytes make a panic, and what is taken for a manifest has a mesh.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"mesh":"tp=2","devices":[{"id":0},{"id":1}],"programs":[{"program":"p","text":{"file":"a"},"executable":{"file":"b"}}]}`))
	f.Add([]byte(`{"format":1,"mesh":"tp=2","devices":[],"programs":[{}]}`))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data, "m")
		if err != nil {
			if !errors.Is(err, ErrBundle) {
				t.Errorf("%v is of no kind", err)
			}
			return
		}
		(&Bundle{Manifest: *m}).Mesh()
	})
}
