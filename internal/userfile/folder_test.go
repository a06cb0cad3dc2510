package userfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// ours is a folder with the file "a" alone.
func ours(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && (len(entries) != 1 || entries[0].Name() != "a") {
		err = errors.New("other things are in it")
	}
	return err
}

func fillWith(text string) func(string) error {
	return func(dir string) error { return WriteFile(filepath.Join(dir, "a"), []byte(text)) }
}

func TestFolders(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	file := put(t, at("file"), "x")
	for _, name := range []string{"good", "bad", "empty", "target"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, at("good/a"), "old")
	put(t, at("target/a"), "old")
	put(t, at("bad/a"), "old")
	put(t, at("bad/b"), "old")
	makePipe(t, at("pipe"))
	for _, test := range []struct {
		name string
		o    Output
		kind error
	}{
		{"new", Output{Path: at("new")}, nil},
		{"new with a slash", Output{Path: at("new2") + "/"}, nil},
		{"there", Output{Path: at("good")}, ErrExists},
		{"there, replaced", Output{Path: at("good"), Force: true}, nil},
		{"a link to a folder", Output{Path: link(t, "target", at("link")), Force: true}, nil},
		{"a link to nothing yet", Output{Path: link(t, "later", at("dangling"))}, nil},
		{"another's", Output{Path: at("bad"), Force: true}, ErrExists},
		{"empty", Output{Path: at("empty"), Force: true}, ErrExists},
		{"a file", Output{Path: file, Force: true}, ErrExists},
		{"a pipe", Output{Path: at("pipe"), Force: true}, ErrExists},
		{"below a file", Output{Path: at("file/x"), Force: true}, ErrOutput},
		{"below nothing", Output{Path: at("no/x"), Force: true}, ErrOutput},
		{"no name", Output{Force: true}, ErrOutput},
		{"no room", Output{Path: at("roomy"), Bytes: 1 << 61}, ErrDiskFull},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := namesIn(t, dir)
			err := inTime(t, func() error { return CheckFolder(test.o, ours) })
			if test.kind == nil && err != nil || !errors.Is(err, test.kind) && test.kind != nil {
				t.Errorf("error %v, want %v", err, test.kind)
			}
			if after := namesIn(t, dir); !slices.Equal(before, after) {
				t.Errorf("it left %q, before %q", after, before)
			}
			if test.o.Bytes > 0 {
				return
			}
			broken := errors.New("broken")
			if test.kind == nil {
				if err := WriteFolder(test.o, ours, func(d string) error { fillWith("half")(d); return broken }); !errors.Is(err, broken) {
					t.Errorf("a broken fill: %v", err)
				}
				if after := namesIn(t, dir); !slices.Equal(before, after) {
					t.Errorf("a broken fill left %q, before %q", after, before)
				}
			}
			err = WriteFolder(test.o, ours, fillWith("new"))
			if (err == nil) != (test.kind == nil) {
				t.Errorf("written: %v", err)
			}
			if err == nil {
				if b, rerr := os.ReadFile(filepath.Join(test.o.Path, "a")); rerr != nil || string(b) != "new" {
					t.Errorf("%q %v", b, rerr)
				}
			}
			for _, name := range namesIn(t, dir) {
				if name[0] == '.' {
					t.Errorf("left %s", name)
				}
			}
		})
	}
	if st, err := os.Lstat(at("link")); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", st, err)
	}
	if b, _ := os.ReadFile(at("bad/b")); string(b) != "old" {
		t.Error("another's folder was changed")
	}
}

// A killed writer's folder is removed by the next one.
func TestFolderLeftovers(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, ".out.DEAD.tmp")
	if err := os.Mkdir(left, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(left, "a"), "half")
	if err := WriteFolder(Output{Path: filepath.Join(dir, "out")}, ours, fillWith("x")); err != nil {
		t.Fatal(err)
	}
	if names := namesIn(t, dir); !slices.Equal(names, []string{"out"}) {
		t.Errorf("left %q", names)
	}
}

// A process that ends at once takes with it what it has not finished.
func TestRemoveUnfinished(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, remove, err := MakeTempFolder("test-")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "x"), "x")
	kept, removeKept, err := MakeTempFolder("test-")
	if err != nil {
		t.Fatal(err)
	}
	removeKept()
	out := t.TempDir()
	err = Write(Output{Path: filepath.Join(out, "out")}, func(f *os.File) error {
		f.WriteString("half")
		RemoveUnfinished()
		return nil
	})
	if names := namesIn(t, out); err == nil && !slices.Equal(names, []string{"out"}) || err != nil && len(names) != 0 {
		t.Errorf("%v, left %q", err, names)
	}
	os.Remove(filepath.Join(out, "out"))
	for _, d := range []string{dir, kept} {
		if _, err := os.Stat(d); err == nil {
			t.Errorf("%s is left", d)
		}
	}
	remove()
	if err := writeBytes(Output{Path: filepath.Join(out, "out")}, []byte("x")); err != nil {
		t.Fatal(err)
	}
	RemoveUnfinished()
	if names := namesIn(t, out); !slices.Equal(names, []string{"out"}) {
		t.Errorf("what is finished is removed: %q", names)
	}
}

// While a file is being written there is nothing of it to be seen, or a hidden file.
func TestNothingIsSeenOfAnUnfinishedFile(t *testing.T) {
	dir := t.TempDir()
	probe := openUnnamed(dir)
	if probe == nil {
		t.Skip("every file has a name here")
	}
	probe.Close()
	err := Write(Output{Path: filepath.Join(dir, "out")}, func(f *os.File) error {
		if names := namesIn(t, dir); len(names) != 0 {
			t.Errorf("%q is seen", names)
		}
		_, err := f.WriteString("x")
		return err
	})
	if names := namesIn(t, dir); err != nil || !slices.Equal(names, []string{"out"}) {
		t.Errorf("%v, %q", err, names)
	}
	if st, err := os.Stat(filepath.Join(dir, "out")); err != nil || st.Mode().Perm()&0o600 != 0o600 {
		t.Errorf("%v %v", st, err)
	}
}
