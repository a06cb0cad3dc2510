package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each format, word for word. After a change that is meant:
// go test ./cmd/weft -run TestSpecsFormats -update, and read the diff.
func TestSpecsFormats(t *testing.T) {
	for name, args := range map[string][]string{
		"jax":         {"--mesh", "dp=1,tp=2,sp=2", "--format", "jax"},
		"jax-on-v4-8": {"--mesh", "tp=4", "--on", "v4-8", "--layout", "flax", "--rules", "vidax", "--format", "jax"},
		"shardy":      {"--mesh", "dp=2,tp=2", "--on", "v4-8", "--format", "shardy"},
		"hlo":         {"--mesh", "dp=2,tp=2,sp=2", "--format", "hlo"},
		"json":        {"--mesh", "tp=4", "--format", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			code, got, stderr := weftRun(t, append([]string{"specs", "--model", wanDir}, args...)...)
			if code != 0 || stderr != "" {
				t.Fatal(code, stderr)
			}
			file := filepath.Join("testdata", "specs", name+".txt")
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s changed:\n%s", file, got)
			}
		})
	}
	_, text, _ := weftRun(t, "specs", "--model", wanDir, "--mesh", "tp=4", "--json")
	if _, same, _ := weftRun(t, "specs", "--model", wanDir, "--mesh", "tp=4", "--format", "json"); text != same {
		t.Error("--format json is not --json")
	}
}

// Where key heads are copied, a spec alone would cut them: each such parameter is named.
func TestSpecsFormatNamesCopiedHeads(t *testing.T) {
	for mesh, want := range map[string]int{"tp=8": 0, "tp=16": 144} {
		for _, format := range []string{"jax", "shardy", "hlo"} {
			code, out, stderr := weftRun(t, "specs", "--model", "cosmos3-nano", "--mesh", mesh, "--format", format)
			if got := strings.Count(out, "is cut by heads [8]"); code != 0 || got != want {
				t.Errorf("%s %s: exit %d, %d are named, want %d: %s", mesh, format, code, got, want, stderr)
			}
		}
	}
}

func TestSpecsFormatRefusals(t *testing.T) {
	for _, c := range []struct{ args, kind, says string }{
		{"--format yaml", "usage", "jax, shardy or hlo"},
		{"--format hlo --mesh tp=2", "usage", "without --json"},
		{"--mesh tp=4 --on v4-16", "device-count", "v4-16 has 8"},
		{"--mesh tp=4 --on v9", "unknown-slice", ""},
	} {
		code, stdout, _ := weftRun(t, append([]string{"specs", "--json", "--model", wanDir}, strings.Fields(c.args)...)...)
		if f := decode[failure](t, stdout); code != 2 || f.Error.Kind != c.kind || !strings.Contains(f.Error.Message, c.says) {
			t.Errorf("%s: exit %d %+v", c.args, code, f.Error)
		}
	}
}

// --as names the program whose rules split, as plan's does; --rules is its older name.
func TestSpecsAsAnotherProgram(t *testing.T) {
	specs := func(args ...string) (int, string, string) {
		return weftRun(t, append([]string{"specs", "--model", "wan2.1-t2v-1.3b", "--mesh", "tp=4", "--json"}, args...)...)
	}
	_, own, _ := specs()
	code, as, stderr := specs("--as", "vidax")
	if _, older, _ := specs("--rules", "vidax"); code != 0 || as != older || as == own {
		t.Errorf("exit %d, %s: --as and --rules differ, or both are weft's", code, stderr)
	}
	if _, older, _ := specs("--rules", "weft"); older != own {
		t.Error("--rules weft is not what is said where nothing is")
	}
	for _, c := range [][]string{{"--as", "torch"}, {"--rules", "torch"}, {"--as", "vidax", "--rules", "weft"}, {"--on", "all"}, {"--on", "v4-8", "--mesh", "auto"}, {"--on", "v4-9"}, {"--mesh", "tp"}} {
		if code, out, _ := specs(c...); code != 2 || !strings.Contains(out, `"error"`) {
			t.Errorf("%v: exit %d, %.200s", c, code, out)
		}
	}
}
