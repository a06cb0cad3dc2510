package main

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/spf13/cobra"

	"weft"
	"weft/dtype"
	"weft/tensor"
)

// paths are the flags that name a file or a folder, by the command.
func paths() map[string][]string {
	found := map[string][]string{}
	everyCommand((&app{}).rootCommand(), func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "path" {
				found[c.CommandPath()] = append(found[c.CommandPath()], f.Name)
			}
		})
	})
	return found
}

// An empty name, as of a shell's variable that is not set, is wrong use everywhere.
func TestEmptyNames(t *testing.T) {
	flags := paths()
	for command, want := range map[string][]string{
		"weft forward": {"cache-dir", "compiled", "inputs", "model", "out", "plugin"},
		"weft sample":  {"cache-dir", "conditions", "context", "model", "negative", "noise", "out", "plugin"},
		"weft verify":  {"cache-dir", "model", "plugin"}, "weft specs": {"model"},
		"weft compile": {"model", "out", "plugin"}, "weft plan": {"model", "prices"},
	} {
		for _, name := range want {
			if !slices.Contains(flags[command], name) {
				t.Errorf("%s --%s is no pathFlag", command, name)
			}
		}
	}
	for command, names := range flags {
		for _, name := range names {
			code, stdout, stderr := weftRun(t, append(strings.Fields(command)[1:], "--"+name, "")...)
			if code != 2 || stdout != "" || !strings.Contains(stderr, "--"+name) || !strings.Contains(stderr, "name is empty") {
				t.Errorf("%s --%s '': exit %d, %q", command, name, code, stderr)
			}
		}
	}
}

// What would keep an output from being written is found before anything is run, and
// nothing that is read is replaced.
func TestOutputsAreCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	in := at("in.safetensors")
	copyFile(t, wanDir+"/inputs.safetensors", in)
	model := at("model")
	if err := os.Mkdir(model, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "model.safetensors"} {
		copyFile(t, wanDir+"/"+name, filepath.Join(model, name))
	}
	for to, link := range map[string]string{"in.safetensors": "in-link", "/dev/null": "null", "there": "link", "circle": "circle"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Skip(err)
		}
	}
	if err := os.WriteFile(at("there"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	commands := map[string][]string{
		"forward": {"forward", "--model", model, "--inputs", in, "--device", "reference"},
		"sample":  {"sample", "--model", model, "--context", in, "--size", "64x64", "--frames", "9", "--steps", "1", "--device", "reference"},
	}
	for _, c := range []struct {
		out, kind string
		force     bool
	}{
		{"", "output", true}, {"no/out", "output", true}, {"there/out", "output", true}, {"circle", "output", true}, {"new/", "output", true},
		{"null", "exists", true}, {"model", "output", true}, {"there", "exists", false}, {"link", "exists", false},
		{"in.safetensors", "exists", true}, {"in-link", "exists", true}, {"model/model.safetensors", "exists", true}, {"model/config.json", "exists", true},
	} {
		for name, args := range commands {
			path := dir + "/" + c.out
			line := append(slices.Clone(args), "--out", path, "--json")
			if c.force {
				line = append(line, "--force")
			}
			code, stdout, _ := weftRun(t, line...)
			doc := decode[failure](t, stdout)
			want := c.kind
			if c.out == "model" {
				want = "exists"
			}
			if code != 1 || doc.Error.Kind != want {
				t.Errorf("%s --out %s: exit %d, %+v, want %s", name, c.out, code, doc, want)
			}
		}
	}
	for _, args := range commands {
		code, stdout, stderr := weftRun(t, append(slices.Clone(args), "--out", at("link"), "--force")...)
		if code != 0 {
			t.Fatal(stdout, stderr)
		}
		if _, err := weft.ReadTensors(at("there")); err != nil {
			t.Errorf("what the link leads to is not written: %v", err)
		}
		if to, err := os.Readlink(at("link")); err != nil || to != "there" {
			t.Errorf("the link is %q, %v", to, err)
		}
	}
	for name, from := range map[string]string{"in.safetensors": "inputs.safetensors", "model/config.json": "config.json", "model/model.safetensors": "model.safetensors"} {
		have, _ := os.ReadFile(at(name))
		want, _ := os.ReadFile(wanDir + "/" + from)
		if string(have) != string(want) {
			t.Errorf("%s was changed", name)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withValue is T's inputs with one element set, in a file.
func withValue(t *testing.T, name string, place int, value float32, more map[string]*tensor.Tensor) string {
	t.Helper()
	in, err := weft.ReadTensors(wanDir + "/inputs.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if name != "" {
		binary.LittleEndian.PutUint32(in[name].Data[4*place:], math.Float32bits(value))
	}
	for n, x := range more {
		in[n] = x
	}
	path := filepath.Join(t.TempDir(), "inputs.safetensors")
	if err := weft.WriteTensors(path, in, false); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is no finite number is named and refused, wherever it comes in or comes out,
// and taken with a note where it is allowed.
func TestNonFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	good := wanDir + "/inputs.safetensors"
	forward := func(path string) []string {
		return []string{"forward", "--model", wanDir, "--inputs", path, "--device", "reference"}
	}
	sample := func(more ...string) []string {
		return append([]string{"sample", "--model", wanDir, "--size", "64x64", "--frames", "9", "--steps", "3", "--device", "reference"}, more...)
	}
	noise := filepath.Join(t.TempDir(), "noise.safetensors")
	x := tensor.New(dtype.F32, 2, 16, 3, 8, 8)
	binary.LittleEndian.PutUint32(x.Data[4*100:], math.Float32bits(nan))
	if err := weft.WriteTensors(noise, map[string]*tensor.Tensor{"latents": x}, false); err != nil {
		t.Fatal(err)
	}
	// Finite, and too large for the sums of squares in f32: the outputs are not finite.
	huge := withValue(t, "x", 5, 3e38, nil)
	loud := filepath.Join(t.TempDir(), "loud.safetensors")
	y := tensor.New(dtype.F32, 2, 16, 3, 8, 8)
	for i := range y.Elements() {
		binary.LittleEndian.PutUint32(y.Data[4*i:], math.Float32bits(3e38))
	}
	if err := weft.WriteTensors(loud, map[string]*tensor.Tensor{"latents": y}, false); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, of, tensor string
		args             []string
		first            []float64
	}{
		{"NaN", "input", "x", forward(withValue(t, "x", 70, nan, nil)), []float64{0, 0, 1, 0, 6}},
		{"infinity", "input", "t", forward(withValue(t, "t", 1, inf, nil)), []float64{1}},
		{"text", "input", "context", forward(withValue(t, "context", 64, nan, nil)), []float64{0, 1, 0}},
		{"prompt", "input", "context", sample("--context", withValue(t, "context", 64, nan, nil)), []float64{0, 1, 0}},
		{"negative", "input", "negative context", sample("--context", good, "--negative", withValue(t, "context", 0, inf, nil)), []float64{0, 0, 0}},
		{"noise", "input", "latents", sample("--context", good, "--noise", noise), []float64{0, 0, 1, 4, 4}},
		{"output", "output", "out", forward(huge), nil},
		{"velocity", "velocity", "out", sample("--context", good, "--noise", loud), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			code, stdout, stderr := weftRun(t, append(c.args, "--out", out, "--json")...)
			doc := decode[failure](t, stdout)
			f := doc.Error.Fields
			if code != 1 || doc.Error.Kind != "non-finite" || f["of"] != c.of || f["tensor"] != c.tensor || f["count"].(float64) < 1 || stderr != "" {
				t.Fatalf("exit %d: %s%s", code, stdout, stderr)
			}
			if first := f["first"].([]any); c.first != nil {
				for i, want := range c.first {
					if first[i] != want {
						t.Errorf("the first is at %v, want %v", first, c.first)
					}
				}
			}
			if _, isSet := f["step"]; isSet != (c.of == "velocity") {
				t.Errorf("fields %v", f)
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Error("an output was written")
			}
			code, stdout, stderr = weftRun(t, append(c.args, "--out", out, "--json", "--allow-nonfinite")...)
			rep := decode[weft.Report](t, stdout)
			if code != 0 || !slices.ContainsFunc(rep.Notes, func(n string) bool { return strings.Contains(n, "NaN or infinite") && strings.Contains(n, c.tensor) }) {
				t.Errorf("allowed: exit %d, %q%s", code, rep.Notes, stderr)
			}
		})
	}
	for _, args := range [][]string{forward(good), sample("--context", good)} {
		code, stdout, stderr := weftRun(t, append(args, "--out", filepath.Join(t.TempDir(), "out"), "--json")...)
		if rep := decode[weft.Report](t, stdout); code != 0 || strings.Contains(strings.Join(rep.Notes, ""), "NaN") {
			t.Errorf("finite: exit %d, %q%s", code, rep.Notes, stderr)
		}
	}
}

// What no program reads is named, and nothing of it is read: neither its NaN nor,
// where it is larger than memory, its bytes.
func TestUnreadInputs(t *testing.T) {
	x := tensor.New(dtype.F32, 1)
	binary.LittleEndian.PutUint32(x.Data, math.Float32bits(float32(math.NaN())))
	path := withValue(t, "", 0, 0, map[string]*tensor.Tensor{"mask": x, "t_frames": x})
	out := filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := weftRun(t, "forward", "--model", wanDir, "--inputs", path, "--device", "reference", "--out", out, "--json")
	rep := decode[weft.Report](t, stdout)
	if code != 0 || len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], `"mask", "t_frames"`) {
		t.Errorf("exit %d, %q%s", code, rep.Notes, stderr)
	}
	if _, stdout, _ := weftRun(t, "forward", "--model", wanDir, "--inputs", path, "--device", "reference", "--out", out, "--force"); !strings.Contains(stdout, `note: `+path+` has "mask", "t_frames" too`) {
		t.Errorf("%q", stdout)
	}
	code, stdout, stderr = weftRun(t, "sample", "--model", wanDir, "--context", path, "--size", "64x64", "--frames", "9", "--steps", "1", "--device", "reference", "--out", out, "--force", "--json")
	if rep := decode[weft.Report](t, stdout); code != 0 || !slices.ContainsFunc(rep.Notes, func(n string) bool { return strings.Contains(n, `"mask", "t", "t_frames", "x"`) }) {
		t.Errorf("exit %d, %q%s", code, rep.Notes, stderr)
	}
}

// A user without a home has the interpreter, and nothing is written where nobody
// asked for it.
func TestNoHome(t *testing.T) {
	for _, home := range []string{"", "/nonexistent", "relative", wanDir + "/config.json"} {
		t.Setenv("HOME", home)
		for _, v := range []string{"WEFT_ENGINE_DIR", "WEFT_CACHE_DIR", "WEFT_PLUGIN", "XDG_DATA_HOME", "XDG_CACHE_HOME"} {
			t.Setenv(v, "")
		}
		out := filepath.Join(t.TempDir(), "out")
		args := []string{"forward", "--model", wanDir, "--inputs", wanDir + "/inputs.safetensors", "--out", out, "--json"}
		code, stdout, stderr := weftRun(t, args...)
		rep := decode[weft.Report](t, stdout)
		if code != 0 || rep.Engine.Name != "reference" || !strings.Contains(rep.Engine.Note, "HOME") || !strings.Contains(rep.Engine.Note, "WEFT_ENGINE_DIR") || !strings.Contains(stderr, "interpreter") {
			t.Errorf("HOME=%q: exit %d, %+v, %s", home, code, rep.Engine, stderr)
		}
		code, stdout, _ = weftRun(t, append(args, "--force", "--device", "cpu")...)
		if doc := decode[failure](t, stdout); code != 1 || !strings.Contains(doc.Error.Message, "WEFT_ENGINE_DIR") {
			t.Errorf("HOME=%q, cpu: exit %d, %+v", home, code, doc)
		}
		code, stdout, _ = weftRun(t, "engine", "install", "cpu", "--json")
		if doc := decode[failure](t, stdout); code != 1 || doc.Error.Kind != "no-home" {
			t.Errorf("HOME=%q, install: exit %d, %+v", home, code, doc)
		}
	}
	t.Setenv("HOME", "/nonexistent")
	t.Setenv("WEFT_ENGINE_DIR", filepath.Join(t.TempDir(), "engines"))
	if code, _, stderr := weftRun(t, "engine", "list"); code != 0 {
		t.Error(stderr)
	}
}
