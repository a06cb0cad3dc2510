package userfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/fault"
)

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func link(t *testing.T, to, path string) string {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Skip(err)
	}
	return path
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// inTime fails where a call waits for something: a pipe without a writer, say.
func inTime(t *testing.T, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
		return nil
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := put(t, filepath.Join(dir, "file"), "12345")
	pipe := filepath.Join(dir, "pipe")
	makePipe(t, pipe)
	for _, test := range []struct {
		name, path string
		limit      int64
		kind       error
		is         string
	}{
		{"a file", file, 5, nil, ""},
		{"a link to a file", link(t, "file", filepath.Join(dir, "link")), 5, nil, ""},
		{"one byte too large", file, 4, ErrTooLarge, ""},
		{"a pipe", pipe, 5, ErrNotRegular, "a named pipe"},
		{"a link to a pipe", link(t, pipe, filepath.Join(dir, "to-pipe")), 5, ErrNotRegular, "a named pipe"},
		{"a device", link(t, "/dev/zero", filepath.Join(dir, "zero")), 5, ErrNotRegular, "a device"},
		{"a folder", dir, 5, ErrNotRegular, "a folder"},
		{"nothing", filepath.Join(dir, "no"), 5, ErrAbsent, ""},
		{"a link to nothing", link(t, "nowhere", filepath.Join(dir, "dangling")), 5, ErrAbsent, ""},
		{"links in a circle", link(t, "circle", filepath.Join(dir, "circle")), 5, ErrUnreadable, ""},
		{"below a file", filepath.Join(file, "x"), 5, ErrUnreadable, ""},
		{"no name", "", 5, ErrAbsent, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b []byte
			err := inTime(t, func() (err error) { b, err = Read(test.path, test.limit); return })
			if test.kind == nil && (err != nil || string(b) != "12345") || !errors.Is(err, test.kind) && test.kind != nil {
				t.Fatalf("%q, error %v, want %v", b, err, test.kind)
			}
			if f, _ := fault.Fields[Path](err); f.Is != test.is {
				t.Errorf("it is %q, want %q", f.Is, test.is)
			}
			if test.kind == ErrAbsent && !errors.Is(err, fs.ErrNotExist) {
				t.Error("not fs.ErrNotExist")
			}
		})
	}
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestCheckWritable(t *testing.T) {
	dir := t.TempDir()
	file := put(t, filepath.Join(dir, "file"), "x")
	pipe := filepath.Join(dir, "pipe")
	makePipe(t, pipe)
	before := []string{}
	for _, test := range []struct {
		name string
		o    Output
		kind error
	}{
		{"new", Output{Path: filepath.Join(dir, "y")}, nil},
		{"there", Output{Path: file}, ErrExists},
		{"there, replaced", Output{Path: file, Force: true}, nil},
		{"a folder", Output{Path: dir, Force: true}, ErrExists},
		{"a pipe", Output{Path: pipe, Force: true}, ErrExists},
		{"a link to a device", Output{Path: link(t, "/dev/null", filepath.Join(dir, "null")), Force: true}, ErrExists},
		{"a link to a file", Output{Path: link(t, "file", filepath.Join(dir, "link")), Force: true}, nil},
		{"a link to a file, not replaced", Output{Path: filepath.Join(dir, "link")}, ErrExists},
		{"a link to nothing yet", Output{Path: link(t, "later", filepath.Join(dir, "dangling"))}, nil},
		{"links in a circle", Output{Path: link(t, "circle", filepath.Join(dir, "circle")), Force: true}, ErrOutput},
		{"a link to a stream", Output{Path: link(t, fmt.Sprintf("/proc/self/fd/%d", openFile(t, file).Fd()), filepath.Join(dir, "stream")), Force: true}, ErrOutput},
		{"no folder", Output{Path: filepath.Join(dir, "no", "y"), Force: true}, ErrOutput},
		{"below a file", Output{Path: filepath.Join(file, "y"), Force: true}, ErrOutput},
		{"no name", Output{Force: true}, ErrOutput},
		{"a folder's name", Output{Path: filepath.Join(dir, "y") + "/"}, ErrOutput},
		{"read by the same command", Output{Path: file, Force: true, Keep: []string{file}}, ErrExists},
		{"a link to what is read", Output{Path: filepath.Join(dir, "link"), Force: true, Keep: []string{file}}, ErrExists},
		{"no room", Output{Path: filepath.Join(dir, "y"), Bytes: 1 << 61}, ErrDiskFull},
	} {
		t.Run(test.name, func(t *testing.T) {
			before = namesIn(t, dir)
			err := inTime(t, func() error { return CheckWritable(test.o) })
			if test.kind == nil && err != nil || !errors.Is(err, test.kind) && test.kind != nil {
				t.Errorf("error %v, want %v", err, test.kind)
			}
			if after := namesIn(t, dir); !slices.Equal(before, after) {
				t.Errorf("it left %q, before %q", after, before)
			}
		})
	}
}

// The file that a link leads to is written, and the link stays one.
func TestWriteThroughLinks(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	target := put(t, filepath.Join(there, "target"), "old")
	if err := os.Chmod(target, 0o600); err != nil {
		t.Fatal(err)
	}
	first := link(t, "second", filepath.Join(dir, "first"))
	link(t, filepath.Join("there", "target"), filepath.Join(dir, "second"))
	if err := writeBytes(Output{Path: first, Force: true}, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "new" {
		t.Errorf("%q %v", b, err)
	}
	if st, err := os.Lstat(first); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", st, err)
	}
	if st, err := os.Stat(target); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v %v", st.Mode(), err)
	}
	for _, d := range []string{dir, there} {
		for _, name := range namesIn(t, d) {
			if strings.HasSuffix(name, TempSuffix) {
				t.Errorf("left %s", name)
			}
		}
	}
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	file := put(t, filepath.Join(dir, "file"), "old")
	broken := errors.New("broken")
	if err := Write(Output{Path: file, Force: true}, func(f *os.File) error {
		f.WriteString("half")
		return broken
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if b, _ := os.ReadFile(file); string(b) != "old" {
		t.Errorf("%q", b)
	}
	if names := namesIn(t, dir); len(names) != 1 {
		t.Errorf("left %q", names)
	}
}

// A leftover of a killed writer is removed by the next one; a file in use is not.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, ".out.DEAD.tmp"), "half")
	put(t, filepath.Join(dir, ".other.DEAD.tmp"), "half")
	busy, err := os.Create(filepath.Join(dir, ".out.BUSY.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if !lockFile(busy) {
		t.Skip("no locks here")
	}
	if err := writeBytes(Output{Path: filepath.Join(dir, "out")}, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if left, want := namesIn(t, dir), []string{".other.DEAD.tmp", ".out.BUSY.tmp", "out"}; !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
}

// writeBytes is Write of bytes that are at hand.
func writeBytes(o Output, b []byte) error {
	return Write(o, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
}
