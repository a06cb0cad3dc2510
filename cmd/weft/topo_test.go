package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/topology"
)

type topoJSON struct {
	Name, Spec, Topology, Counts string
	Chips, Cores, Hosts          *int
	Devices                      int
	HBM                          *int64 `json:"hbm_bytes_per_device"`
	Alternatives                 []string
	Coords                       [][]int
	Mesh                         struct {
		Mesh   string
		Order  []int
		Layout topology.Layout
	}
}

// Every slice of the data, as the command prints it.
func TestTopoEverySlice(t *testing.T) {
	for _, s := range topology.Slices() {
		if s.Devices > 512 {
			continue // the package's tests have them all; here it is the document
		}
		code, stdout, stderr := weftRun(t, "topo", s.Spec(), "--json")
		if code != 0 || stderr != "" {
			t.Fatal(s, code, stderr)
		}
		d := decode[topoJSON](t, stdout)
		hosts := 0
		if d.Hosts != nil {
			hosts = *d.Hosts
		}
		if d.Name != s.Name || d.Spec != s.Spec() || d.Topology != s.Topology() || *d.Chips != s.Chips || *d.Cores != s.Cores || d.Devices != s.Devices ||
			hosts != s.Hosts || *d.HBM != s.HBMBytes || len(d.Coords) != s.Devices || d.Alternatives == nil {
			t.Errorf("%s: %+v", s.Spec(), d)
		}
	}
}

// The number in the name of a v4 slice counts cores, two to a chip, and a chip is one device.
func TestTopoCoresAreNotDevices(t *testing.T) {
	code, stdout, stderr := weftRun(t, "topo", "v4-8", "--mesh", "tp=8")
	if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 {
		t.Fatal(code, stdout, stderr)
	}
	for _, want := range []string{"weft: ", "needs 8 devices, v4-8 has 4", "the 8 counts cores, two to a chip, and a chip is one device"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q does not say %q", stderr, want)
		}
	}
	code, stdout, _ = weftRun(t, "topo", "v4-8", "--mesh", "tp=8", "--json")
	f := decode[failure](t, stdout)
	if code != 2 || f.Error.Kind != "device-count" || f.Error.Fields["need"] != 8.0 || f.Error.Fields["have"] != 4.0 {
		t.Errorf("%d %+v", code, f)
	}
	for name, devices := range map[string]int{"v2-8": 8, "v3-8": 8, "v4-8": 4, "v5p-8": 4, "v5litepod-8": 8, "v6e-8": 8, "v4-32": 16} {
		_, stdout, _ := weftRun(t, "topo", name, "--json")
		if d := decode[topoJSON](t, stdout); d.Devices != devices || len(d.Coords) != devices {
			t.Errorf("%s has %d devices", name, d.Devices)
		}
	}
}

// Neighbours on a mesh axis are neighbours in the torus, which the plain order of the
// devices does not give: on a 2x2 slice 1 and 2 are two hops apart, and 3 and 0 are too.
func TestTopoOrder(t *testing.T) {
	_, stdout, _ := weftRun(t, "topo", "v4-8", "--mesh", "tp=4", "--json")
	d := decode[topoJSON](t, stdout)
	if got := fmt.Sprint(d.Mesh.Order); got != "[0 1 3 2]" && got != "[0 2 3 1]" {
		t.Error(got)
	}
	if got := fmt.Sprint(d.Mesh.Layout.Axes[0].Hops); got != "[1 1 1 1]" {
		t.Error(got)
	}
	_, stdout, _ = weftRun(t, "topo", "v4-8", "--mesh", "tp=4", "--order", "plain", "--json")
	if d := decode[topoJSON](t, stdout); fmt.Sprint(d.Mesh.Order, d.Mesh.Layout.Axes[0].Hops) != "[0 1 2 3] [1 2 1 2]" {
		t.Errorf("%+v", d.Mesh)
	}
	// The heavier axis has the single hops.
	for _, heavy := range []string{"tp", "sp"} {
		_, stdout, _ := weftRun(t, "topo", "v5e-8", "--mesh", "tp=2,sp=4", "--bytes", heavy+"=1000000", "--json")
		for _, a := range decode[topoJSON](t, stdout).Mesh.Layout.Axes {
			if a.Axis == heavy && a.MaxHops != 1 {
				t.Errorf("%s: %+v", heavy, a)
			}
		}
	}
}

func TestTopoWrongUse(t *testing.T) {
	for _, c := range []struct{ args, kind, says string }{
		{"v4-7", "unknown-slice", "v4-8"},
		{"v5e:4x2", "unknown-slice", "v5e:2x4"},
		{"banana", "unknown-slice", "nearest"},
		{"v4-8 --mesh tp", "mesh-syntax", ""},
		{"v4-8 --mesh auto", "usage", ""},
		{"v4 --mesh tp=4", "unknown-slice", "v4-8"},
		{"v4-8 --mesh tp=4 --bytes sp=1", "unknown-axis", "sp"},
		{"v4-8 --mesh tp=4 --bytes tp=x", "axis-bytes", "tp=x"},
		{"v4-8 --bytes tp=1", "usage", "--mesh"},
		{"v4-8 --hosts 2", "slice-hosts", "hosts: 1"},
		{"v5e-8 --hosts 4", "slice-hosts", "1 or 2"},
		{"v4-8 --order best", "usage", "--order"},
		{"--mesh tp=4", "usage", "name it"},
		{"v4-8 v4-16", "usage", ""},
	} {
		code, stdout, stderr := weftRun(t, append(append([]string{"topo"}, strings.Fields(c.args)...), "--json")...)
		f := decode[failure](t, stdout)
		if code != 2 || stderr != "" || f.Error.Kind != c.kind || !strings.Contains(f.Error.Message, c.says) {
			t.Errorf("%s: %d %s %+v", c.args, code, stderr, f.Error)
		}
	}
}

// Text fits 80 columns.
func TestTopoText(t *testing.T) {
	for _, args := range []string{"", "v4-8", "v5e-8 --hosts 2", "v4-64 --mesh dp=4,tp=8", "v5e-64", "tpu7x-64", "v4-1536", "v5p-17920", "h100x8", "a100-40gbx8", "rtx4090x2", "cpu:8",
		"v2-8", "v3", "v4", "v5e", "v5p", "tpu7x", "v4-8192 --mesh dp=8,tp=16,sp=32", "v6e-64 --mesh tp=64"} {
		code, stdout, stderr := weftRun(t, append([]string{"topo"}, strings.Fields(args)...)...)
		if code != 0 || stderr != "" {
			t.Fatal(args, code, stderr)
		}
		for line := range strings.Lines(stdout) {
			if len(strings.TrimRight(line, "\n")) > 80 {
				t.Errorf("topo %s: %d columns: %s", args, len(line)-1, line)
			}
		}
		if code, stdout, _ := weftRun(t, append([]string{"topo", "--json"}, strings.Fields(args)...)...); code != 0 || !json.Valid([]byte(stdout)) {
			t.Errorf("topo %s --json: %d", args, code)
		}
	}
}
