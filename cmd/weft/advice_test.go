package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weft/fault"
	"weft/mesh"
)

// replaceFlag gives a flag another value, or adds it.
func replaceFlag(args []string, flag, value string) []string {
	out := append([]string{}, args...)
	for i := len(out) - 2; i >= 0; i-- { // the last counts
		if out[i] == flag {
			out[i+1] = value
			return out
		}
	}
	return append(out, flag, value)
}

// advised are the command lines that an error's advice makes of one, a change each.
func advised(t *testing.T, args []string, v fault.Report) [][]string {
	t.Helper()
	var out [][]string
	for _, flags := range v.Nearest {
		changed := args
		words := strings.Fields(flags)
		for i := 0; i+1 < len(words); i += 2 {
			changed = replaceFlag(changed, words[i], words[i+1])
		}
		out = append(out, changed)
	}
	var f struct {
		Axis    string
		What    string
		Legal   []int
		Nearest []int
		Known   []string
	}
	if err := json.Unmarshal(v.Fields, &f); err != nil {
		t.Fatal(err)
	}
	axis := f.Axis
	if v.Kind == "empty-stage" {
		axis = "pp"
	}
	for _, n := range f.Legal {
		if axis == "microbatches" {
			out = append(out, replaceFlag(args, "--micro", fmt.Sprint(n)))
			continue
		}
		axes := []mesh.Axis{}
		for i, a := range args {
			if a == "--mesh" {
				axes, _ = mesh.Parse(args[i+1])
			}
		}
		parts := []string{}
		for _, a := range mesh.Standard(axes) {
			if a.Name == axis {
				a.Size = n
			}
			parts = append(parts, fmt.Sprintf("%s=%d", a.Name, a.Size))
		}
		out = append(out, replaceFlag(args, "--mesh", strings.Join(parts, ",")))
	}
	for _, name := range f.Known {
		if v.Kind == "unknown-axis" { // of those to share weights over
			out = append(out, replaceFlag(args, "--fsdp", name))
		}
	}
	for _, n := range f.Nearest {
		if f.What == "frames" {
			out = append(out, replaceFlag(args, "--frames", fmt.Sprint(n)))
		}
	}
	return out
}

// What an error advises is taken by the same command, and every flag that it names is one
// that weft has.
func TestAdviceOfErrorsIsTaken(t *testing.T) {
	flags := map[string]bool{"help": true, "json": true}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		for name := range strings.FieldsSeq(c.Flags().FlagUsages() + c.PersistentFlags().FlagUsages()) {
			if flag, ok := strings.CutPrefix(name, "--"); ok {
				flags[flag] = true
			}
		}
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	a := &app{}
	collect(a.rootCommand())
	named := regexp.MustCompile(`--([a-z][a-z-]*)`)

	inspect := func(mesh string, more ...string) []string {
		return append([]string{"inspect", wanDir, "--mesh", mesh}, more...)
	}
	specs := func(mesh string) []string { return []string{"specs", "--model", wanDir, "--mesh", mesh} }
	forward := func(mesh string, more ...string) []string {
		return append([]string{"forward", "--model", wanDir, "--inputs", wanDir + "/inputs.safetensors", "--device", "reference", "--force", "--out", filepath.Join(t.TempDir(), "out.safetensors"), "--mesh", mesh}, more...)
	}
	plan := func(more ...string) []string {
		return append([]string{"plan", "--model", "wan2.1-t2v-14b", "--size", "832x480", "--frames", "81", "--on", "v4-8"}, more...)
	}
	tried := 0
	for _, args := range [][]string{
		inspect("tp=8,sp=2"), inspect("tp=3,dp=2"), inspect("pp=3"), inspect("zz=4"), inspect("pp=4,tp=8"), inspect("tp=3,sp=3"), inspect("dp=3,tp=8", "--fsdp", "dp"), inspect("dp=2,tp=2,sp=2", "--fsdp", "zz"),
		specs("tp=8,sp=2"), specs("tp=3"),
		forward("tp=8,sp=2"), forward("dp=3"), forward("tp=3,sp=2"), forward("pp=3"), forward("pp=2", "--micro", "3"), forward("zz=2"),
		plan("--mesh", "tp=3"), plan("--mesh", "tp=8"), plan("--mesh", "dp=4"), plan("--mesh", "zz=4"), plan("--frames", "82"), plan("--mesh", "pp=2,tp=2", "--cfg", "sequential"),
		{"strategy", "stages", "--layers", "3", "--stages", "4"},
	} {
		code, out, _ := weftRun(t, append(args, "--json")...)
		if code == 0 {
			t.Errorf("%v: no error", args)
			continue
		}
		for _, m := range named.FindAllStringSubmatch(out, -1) {
			if !flags[m[1]] {
				t.Errorf("%v: there is no flag --%s", args, m[1])
			}
		}
		var reports []fault.Report
		if args[0] == "plan" && strings.Contains(out, `"refused"`) {
			for _, r := range decode[planDoc](t, out).Refuse {
				reports = append(reports, r.Violations...)
			}
		} else {
			reports = decode[fault.Doc](t, out).Error.Violations
		}
		n := 0
		for _, v := range reports {
			for _, changed := range advised(t, args, v) {
				n++
				if code, _, stderr := weftRun(t, changed...); code != 0 {
					t.Errorf("%v: advised %v: exit %d, %s", args, changed, code, stderr)
				}
			}
		}
		if n == 0 && args[0] != "strategy" {
			t.Errorf("%v: nothing is advised: %s", args, out)
		}
		tried += n
	}
	t.Logf("%d pieces of advice", tried)
}
