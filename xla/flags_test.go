package xla

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"weft/fault"
	"weft/xla/internal/pjrt"
)

func TestParseFlags(t *testing.T) {
	for _, k := range []struct {
		value string
		at    int // of the error; -1 for none
		names string
	}{
		{"", -1, ""},
		{"  \t", -1, ""},
		{"--xla_a=1", -1, "xla_a"},
		{" --xla_a --xla_b=x,y\n--xla_c=", -1, "xla_a xla_b xla_c"},
		{`--xla_a="one two" --xla_b='3 4'`, -1, "xla_a xla_b"},
		{"/etc/flags", 0, ""}, // a file, which readFlags reads
		{"-\u2013xla_force_host_platform_device_count=4", 1, ""},
		{"--xla_a=1 \u2014xla_b=2", 10, ""},
		{"--xla_a=1 xla_b=2", 10, ""},
		{"-xla_a=1", 0, ""},
		{"--xla_a --", 8, ""},
		{"--xla-a=1", 0, ""},
		{"--xla_a=\x00", 8, ""},
		{`--xla_a="1`, 0, ""},
	} {
		flags, err := parseFlags(k.value, "XLA_FLAGS")
		if k.at >= 0 {
			f, ok := fault.Fields[Flag](err)
			if !errors.Is(err, ErrXLAFlag) || !ok || f.Byte != k.at {
				t.Errorf("%q: %v (%+v), want an error at byte %d", k.value, err, f, k.at)
			}
			continue
		}
		var names []string
		for _, f := range flags {
			names = append(names, f.name)
			if k.value[f.at:f.at+2] != "--" {
				t.Errorf("%q: flag %s said to be at %d", k.value, f.name, f.at)
			}
		}
		if got := strings.Join(names, " "); err != nil || got != k.names {
			t.Errorf("%q: %q (%v), want %q", k.value, got, err, k.names)
		}
	}
}

// TestFlagFile: a value that does not begin with a dash names a file.
func TestFlagFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct{ value, want, says string }{
		{"", "", ""},
		{" --xla_a=1", " --xla_a=1", ""},
		{write("flags", "--xla_a=1\n--xla_b=2\n"), "--xla_a=1\n--xla_b=2", ""},
		{write("empty", "\n"), "", ""},
		{write("words", "xla_a=1"), "", "does not begin with a flag"},
		{write("long", strings.Repeat("--xla_a ", maxFlags/8+1)), "", "at most 65536"},
		{filepath.Join(dir, "none"), "", "there is no file"},
		{"xla_a=1", "", "name of a file"},
		{pipe, "", "is a named pipe: want a regular file"},
		{dir, "", "is a folder: want a regular file"},
	} {
		got, _, err := readFlags(k.value)
		if k.says == "" && (err != nil || got != k.want) || k.says != "" && (!errors.Is(err, ErrXLAFlag) || !strings.Contains(err.Error(), k.says)) {
			t.Errorf("%q: %q, %v", k.value, got, err)
		}
	}
}

func FuzzParseFlags(f *testing.F) {
	f.Add("--xla_a=1 --xla_b='x y'")
	f.Fuzz(func(t *testing.T, s string) {
		flags, err := parseFlags(s, "XLA_FLAGS")
		for _, x := range flags {
			if err != nil || x.at < 0 || x.at >= len(s) || !isName(x.name) {
				t.Fatalf("%q: %+v %v", s, x, err)
			}
		}
	})
}

func TestRendezvousFlags(t *testing.T) {
	all := func(string) bool { return true }
	none := func(string) bool { return false }
	w, e := addedFlag(warnFlag), addedFlag(terminateFlag)
	for _, k := range []struct {
		value   string
		has     func(string) bool
		want    string
		seconds float64
	}{
		{"", all, w + " " + e, 2 * rendezvousSeconds},
		{"--xla_a=1", all, "--xla_a=1 " + w + " " + e, 2 * rendezvousSeconds},
		{"--" + warnFlag + "=5", all, "--" + warnFlag + "=5 " + e, 5 + rendezvousSeconds},
		{"--" + warnFlag + "=5 --" + terminateFlag + "=7", all, "--" + warnFlag + "=5 --" + terminateFlag + "=7", 12},
		{"--xla_a=1", none, "--xla_a=1", 60}, // a plugin that would abort over them
	} {
		flags, err := parseFlags(k.value, "XLA_FLAGS")
		if err != nil {
			t.Fatal(err)
		}
		got, s := withRendezvous(k.value, flags, k.has)
		if got != k.want || s != k.seconds {
			t.Errorf("%q: %q, %v s; want %q, %v s", k.value, got, s, k.want, k.seconds)
		}
	}
}

// TestVersionRule checks which versions of the API are refused, on tables in Go memory.
func TestVersionRule(t *testing.T) {
	type table struct { // as a plugin's begins
		size, ext, vsize, vext uintptr
		major, minor           int32
	}
	for _, k := range []struct {
		major, minor int32
		ok, note     bool
	}{{1, 0, false, false}, {1, 117, false, false}, {-1, 100, false, false}, {0, 0, false, false}, {0, 80, false, false},
		{0, 81, true, false}, {0, 115, true, false}, {0, 117, true, false}, {0, 118, true, true}, {0, 4000, true, true}} {
		tab := &table{size: unsafe.Sizeof(table{}), major: k.major, minor: k.minor}
		api := pjrt.FromTable(unsafe.Pointer(tab), "stub.so")
		note, err := checkVersion(api.Path(), api.Version())
		f, _ := fault.Fields[PluginVersion](err)
		switch {
		case k.ok != (err == nil), k.note != (note != ""):
			t.Errorf("%d.%d: note %q, error %v", k.major, k.minor, note, err)
		case err != nil && (!errors.Is(err, ErrPluginVersion) || f != PluginVersion{"stub.so", "0.81", fmt.Sprintf("%d.%d", k.major, k.minor)}):
			t.Errorf("%d.%d: %v, fields %+v", k.major, k.minor, err, f)
		}
		// A table that ends before a function is not called past its end.
		var e *pjrt.Error
		if err := api.Initialize(); !errors.As(err, &e) || e.Code != pjrt.CodeUnimplemented {
			t.Errorf("a call outside the table: %v", err)
		}
	}
}

func init() {
	children["flags"] = func() {
		_, err := Load("")
		fmt.Printf("flag=%v load=%v\n", errors.Is(err, ErrXLAFlag), errors.Is(err, ErrPluginLoad))
		fatal(err)
		c, err := NewCPU(2)
		fatal(err)
		fmt.Println("devices", len(c.Devices()), "limit", c.Limit(), "flags", c.Plugin().Flags())
	}
}

// TestXLAFlags checks that a bad flag is an error, and that no plugin is loaded and none aborts.
func TestXLAFlags(t *testing.T) {
	engine(t)
	for _, k := range []struct {
		environ []string
		code    int
		want    string
	}{
		{[]string{"XLA_FLAGS=-\u2013xla_force_host_platform_device_count=4"}, 1, "at byte 1,"},
		{[]string{"XLA_FLAGS=-\u2013xla_a=4", "WEFT_PLUGIN=/dev/null"}, 1, "flag=true load=false"},
		{[]string{"XLA_FLAGS=--xla_there_is_no_such_flag=4"}, 1, "--xla_there_is_no_such_flag at byte 0, which plugin"},
		{[]string{"XLA_FLAGS=--xla_cpu_enable_fast_math=false"}, 0, "devices 2 limit 1h0m0s flags --xla_cpu_enable_fast_math=false --" + warnFlag},
		{[]string{"XLA_FLAGS=--" + terminateFlag + "=10 --" + warnFlag + "=10"}, 0, "limit 18s"},
		{[]string{"XLA_FLAGS=" + addedFlag(warnFlag) + " " + addedFlag(terminateFlag)}, 0, "limit 1h0m0s"},
		{[]string{"XLA_FLAGS=", "WEFT_PLUGIN=/dev/null"}, 1, "load=true"},
		{[]string{"XLA_FLAGS=", "WEFT_PLUGIN=/nowhere/plugin.so"}, 1, "plugin file /nowhere/plugin.so"},
		{[]string{"XLA_FLAGS=", "NPROC=1"}, 0, "devices 2"},
	} {
		code, out := child(t, "flags", k.environ...)
		if code != k.code || !strings.Contains(out, k.want) {
			t.Errorf("%q: exit %d, want %d and %q in:\n%s", k.environ, code, k.code, k.want, out)
		}
	}
}

// TestNumberOfDevices checks that a client has a device at least.
func TestNumberOfDevices(t *testing.T) {
	engine(t)
	if _, err := NewCPU(-1); !errors.Is(err, ErrDeviceCount) {
		t.Error(err)
	}
}
