package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/fault"
	"weft/internal/numbers"
)

// Every slice of the data comes out of Lookup as the data has it, by its name
// and by its shape.
func TestEverySliceOfTheData(t *testing.T) {
	rows := allRows()
	if len(rows) != 288 {
		t.Fatalf("%d slices", len(rows))
	}
	named := map[string]int{}
	for _, r := range rows {
		if r.Usual {
			named[r.Name]++
		}
	}
	for _, r := range rows {
		s := get(t, r.Gen+":"+r.Topology)
		checkRow(t, s, r)
		byName := get(t, r.Name)
		switch {
		case r.Usual && named[r.Name] == 1:
			checkRow(t, byName, r)
			if !s.Usual {
				t.Errorf("%s is not the usual %s", s.Spec(), r.Name)
			}
		case byName.Topology() != r.Topology && !slices.Contains(byName.Alternatives(), r.Gen+":"+r.Topology):
			t.Errorf("%s does not name %s", r.Name, r.Topology)
		}
		if back := get(t, s.String()); back.Spec() != s.Spec() {
			t.Errorf("%s reads back as %s", s, back.Spec())
		}
	}
}

// generationRow is a row of the data with its generation's name.
type generationRow struct {
	Gen string
	sliceRow
}

func allRows() (rows []generationRow) {
	for _, g := range load().generations {
		for _, r := range g.rows {
			rows = append(rows, generationRow{g.Name, r})
		}
	}
	return rows
}

func checkRow(t *testing.T, s Slice, r generationRow) {
	t.Helper()
	type facts struct {
		Gen, Name, Topology          string
		Chips, Devices, Hosts, Cores int
		Wrap                         []bool
		Source                       []string
		Options                      []HostOption
		Note                         string
	}
	hosts := 0
	if r.Hosts != nil {
		hosts = *r.Hosts
	}
	cores := r.Chips
	if n, _ := strconv.Atoi(r.Name[strings.LastIndex(r.Name, "-")+1:]); n != r.Chips {
		cores = n
	}
	want := facts{r.Gen, r.Name, r.Topology, r.Chips, r.Devices, hosts, cores, r.Wrap, r.Source, r.HostOptions, r.Note}
	got := facts{s.Generation, s.Name, s.Topology(), s.Chips, s.Devices, s.Hosts, s.Cores, s.Wrap, s.Sources, s.HostOptions, s.Note}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s:\n%s", s.Spec(), d)
	}
}

// The data is what it was brought in from, when that is at hand.
func TestDataIsWhatItCameFrom(t *testing.T) {
	text, err := os.ReadFile("../../shared/data/accelerators.json")
	if err != nil {
		t.Skip("the original is not here")
	}
	var doc struct {
		TPU    map[string]map[string]json.RawMessage `json:"tpu_generations"`
		Slices []struct {
			Gen, Topology string
			Accelerator   string `json:"accelerator_type"`
			Chips, Hosts  *int
			Devices       int `json:"jax_devices"`
			Wrap          []bool
			Default       bool `json:"default_for_name"`
			Libtpu        struct {
				Name      string   `json:"topology_name"`
				Config    string   `json:"chip_config_name"`
				Kind      string   `json:"device_kind"`
				Processes int      `json:"processes"`
				First     [][3]int `json:"first_coords"`
				Last      [3]int   `json:"last_coords"`
				Cores     []int    `json:"cores_on_chip"`
			}
		}
		GPUs []map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	same := func(what string, want json.RawMessage, f Fact) {
		var w Fact
		if err := json.Unmarshal(want, &w); err != nil {
			t.Fatal(what, err)
		}
		if d := cmp.Diff(w, f); d != "" {
			t.Errorf("%s:\n%s", what, d)
		}
		if f.Source != "" && load().sources[f.Source] == "" {
			t.Errorf("%s: source %q is not spelled out", what, f.Source)
		}
	}
	for _, g := range Generations() {
		for name, f := range g.Facts {
			same(g.Name+" "+name, doc.TPU[g.Name][name], f)
		}
		if n := len(g.Facts); n < len(doc.TPU[g.Name])-4 {
			t.Errorf("%s: %d facts of %d", g.Name, n, len(doc.TPU[g.Name]))
		}
	}
	for _, g := range GPUs() {
		for _, d := range doc.GPUs {
			if string(d["name"]) == strconv.Quote(g.Name) {
				for name, f := range g.Facts {
					switch name {
					case "hbm_bytes": // what drivers report came later; the nominal size stands beside it
						var nominal Fact
						if err := json.Unmarshal(d[name], &nominal); err != nil {
							t.Fatal(g.Name, err)
						}
						if !slices.Contains(f.Also, Also{Value: nominal.Value, Source: nominal.Source}) {
							t.Errorf("%s: the nominal size %v is not beside %+v", g.Name, nominal.Value, f)
						}
					case "hbm_reserved_bytes", "pcie_bytes_per_s_one_way", "network_bytes_per_s_one_way": // came later
						if f.Value != nil && load().sources[f.Source] == "" {
							t.Errorf("%s: %s has no source", g.Name, name)
						}
					default:
						same(g.Name+" "+name, d[name], f)
					}
				}
			}
		}
	}
	if len(doc.Slices) != 288 || len(doc.GPUs) != 7 { // others came later
		t.Fatal(len(doc.Slices), len(doc.GPUs))
	}
	for _, r := range doc.Slices {
		s := get(t, r.Gen+":"+r.Topology)
		if s.Name != r.Accelerator || s.Chips != *r.Chips || s.Devices != r.Devices || (r.Hosts == nil) != (s.Hosts == 0) || r.Hosts != nil && s.Hosts != *r.Hosts || !slices.Equal(s.Wrap, r.Wrap) {
			t.Errorf("%s: %+v", s.Spec(), s)
		}
		// libtpu's own name, order of devices and processes.
		p, _ := s.PJRT()
		config, _ := p.Options["chip_config_name"].(string)
		if p.Name != r.Libtpu.Name || config != r.Libtpu.Config || findGeneration(r.Gen).DeviceKind != r.Libtpu.Kind {
			t.Errorf("%s: %+v, libtpu %+v", s.Spec(), p, r.Libtpu)
		}
		if s.Hosts == 0 {
			if s, err = s.OnHosts(r.Libtpu.Processes); err != nil {
				t.Fatal(err)
			}
		}
		list := s.DeviceList()
		for i, c := range r.Libtpu.First {
			if list[i].Coords != c {
				t.Errorf("%s: device %d at %v, libtpu %v", s.Spec(), i, list[i].Coords, c)
			}
		}
		last := list[len(list)-1]
		if last.Coords != r.Libtpu.Last || last.Process != r.Libtpu.Processes-1 || last.Core != len(r.Libtpu.Cores)-1 {
			t.Errorf("%s: last device %+v, libtpu %+v", s.Spec(), last, r.Libtpu)
		}
	}
}

// The number in a name counts cores on some generations and chips on others, and neither
// need be the number of devices.
func TestCoresChipsAndDevices(t *testing.T) {
	for _, c := range []struct {
		name                         string
		chips, devices, hosts, cores int
		last                         [3]int
	}{
		{"v2-8", 4, 8, 1, 8, [3]int{1, 1, 0}}, {"v3-8", 4, 8, 1, 8, [3]int{1, 1, 0}}, {"v4-8", 4, 4, 1, 8, [3]int{1, 1, 0}},
		{"v5p-8", 4, 4, 1, 8, [3]int{1, 1, 0}}, {"v5litepod-8", 8, 8, 0, 8, [3]int{1, 3, 0}}, {"v5e-8", 8, 8, 0, 8, [3]int{1, 3, 0}},
		{"v6e-8", 8, 8, 0, 8, [3]int{1, 3, 0}}, {"v4-32", 16, 16, 4, 32, [3]int{1, 1, 3}}, {"tpu7x-16", 8, 16, 2, 16, [3]int{1, 1, 1}},
	} {
		s := get(t, c.name)
		list := s.DeviceList()
		if s.Chips != c.chips || s.Devices != c.devices || s.Hosts != c.hosts || s.Cores != c.cores || list[len(list)-1].Coords != c.last {
			t.Errorf("%s: %+v, last at %v", c.name, s, list[len(list)-1].Coords)
		}
	}
}

// The order of devices that libtpu 0.0.52 gives: id, process and coordinates.
func TestDeviceOrder(t *testing.T) {
	for _, c := range []struct{ name, ids, processes string }{
		{"v5e-16", "0 1 4 5 2 3 6 7 8 9 12 13 10 11 14 15", "0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3"},
		{"v4:2x2x2", "0 1 2 3 4 5 6 7", "0 0 0 0 1 1 1 1"},
		{"v5e-8", "0 1 2 3 4 5 6 7", "0 0 0 0 0 0 0 0"},
		{"v3-32", "0 1 2 3 8 9 10 11 4 5 6 7 12 13 14 15 16 17 18 19 24 25 26 27 20 21 22 23 28 29 30 31", ""},
		{"tpu7x-8", "0 1 2 3 4 5 6 7", "0 0 0 0 0 0 0 0"},
	} {
		s := get(t, c.name)
		var gotIDs, gotProcesses []string
		for _, d := range s.DeviceList() {
			gotIDs, gotProcesses = append(gotIDs, fmt.Sprint(d.ID)), append(gotProcesses, fmt.Sprint(d.Process))
			if s.deviceAt(d.ID) != d {
				t.Errorf("%s: %+v is at %+v", c.name, d, s.deviceAt(d.ID))
			}
		}
		if got := strings.Join(gotIDs, " "); got != c.ids {
			t.Errorf("%s: ids %s", c.name, got)
		}
		if got := strings.Join(gotProcesses, " "); c.processes != "" && got != c.processes {
			t.Errorf("%s: processes %s", c.name, got)
		}
	}
	two, err := get(t, "v6e-8").OnHosts(2)
	if err != nil || two.Hosts != 2 || two.DeviceList()[7].Process != 1 || two.HostCount() != 2 {
		t.Error(two, err)
	}
	if p, _ := two.PJRT(); len(p.Options) != 0 {
		t.Error(p)
	}
	if p, _ := get(t, "v5e-8").PJRT(); fmt.Sprint(p.Options) != "map[chips_per_host_bounds:[2 4 1]]" {
		t.Error(p)
	}
	if _, err := get(t, "v4-8").OnHosts(2); !errors.Is(err, ErrHosts) {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, spec string }{
		{"v4-8", "v4:2x2x1"}, {"V4-8", "v4:2x2x1"}, {" v4:2x2x1 ", "v4:2x2x1"}, {"v5e-8", "v5e:2x4"}, {"v5litepod-8", "v5e:2x4"},
		{"v5lite-8", "v5e:2x4"}, {"v5e:2x4", "v5e:2x4"}, {"v5litepod:2x4", "v5e:2x4"}, {"v5e:2x4x1", "v5e:2x4"}, {"v6e-8", "v6e:2x4"},
		{"trillium-8", "v6e:2x4"}, {"v5p-8", "v5p:2x2x1"}, {"tpu7x-16", "tpu7x:2x2x2"}, {"v7x-16", "tpu7x:2x2x2"}, {"Ironwood-16", "tpu7x:2x2x2"},
		{"v3-2x2", "v3:2x2"}, {"v4-512", "v4:4x8x8"}, {"v4-768", "v4:4x8x12"}, {"v4:4x4x24", "v4:4x4x24"},
		// In no table, and legal.
		{"v5p:4x8x36", "v5p:4x8x36"}, {"v4-2176", "v4:4x4x68"}, {"v5p-14080", "v5p:8x20x44"},
		{"h100x8", "h100x8"}, {"8xH100", "h100x8"}, {"h100", "h100x1"}, {"H200x8", "h200x8"}, {"a100x8", "a100x8"}, {"a100-80gbx8", "a100x8"},
		{"a100-40gbx8", "a100-40gbx8"}, {"b200x8", "b200x8"}, {"l4x4", "l4x4"}, {"4090x2", "rtx4090x2"}, {"rtx4090", "rtx4090x1"}, {"h100:2", "h100x2"},
		{"h100x8x4", "h100x8x4"}, {"H200x4x2", "h200x4x2"}, {"gb200x4", "gb200x4"}, {"gb200x4x18", "gb200x4x18"}, {"l40sx4", "l40sx4"}, {"8xmi300x", "mi300xx8"}, {"mi300x8", "mi300xx8"},
		{"mi300x", "mi300xx1"}, {"a100-40gbx8x2", "a100-40gbx8x2"},
		{"cpu:8", "cpu:8"}, {"cpu", "cpu:1"},
	} {
		s, err := Lookup(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if s.Spec() != c.spec {
			t.Errorf("%s is %s, want %s", c.name, s.Spec(), c.spec)
		}
	}
	if got := get(t, "v4-512").Alternatives(); fmt.Sprint(got) != "[v4:4x4x16]" {
		t.Error(got)
	}
	if got := get(t, "v4:4x4x16").Alternatives(); fmt.Sprint(got) != "[v4:4x8x8]" {
		t.Error(got)
	}
	if got := get(t, "a100x8").Alternatives(); fmt.Sprint(got) != "[a100-40gbx8]" {
		t.Error(got)
	}
	if got := get(t, "v5e-8").Alternatives(); len(got) != 0 {
		t.Error(got)
	}
}

// A wrong name gets the nearest right ones, and the reason.
func TestWrongNames(t *testing.T) {
	for _, c := range []struct{ name, nearest, says string }{
		{"v4-4", "v4-8", "no v4 slice has 4 cores"},
		{"v4-7", "v4-8", "counts cores, 2 to a chip"},
		{"v4-24", "v4-16 v4-32", "24 cores"},
		{"v5e-6", "v5litepod-4 v5litepod-8", "6 chips"},
		{"v5e-2", "v5litepod-1 v5litepod-4", ""},
		{"v6e-512", "v6e-256", ""},
		{"v4-16384", "v4-8192", ""},
		{"v5e:4x2", "v5e:2x4", "ascend"},
		{"v4:8x4x4", "v4:4x4x8", "ascend"},
		{"v4:1x2x2", "v4:2x2x1", "written 2x2x1"},
		{"v4:2x2", "v4:2x2x1", "3 sizes"},
		{"v5e:2x2x2", "v5e:2x4", "2 sizes"},
		{"v5e:3x3", "v5e:2x4 v5e:4x4", ""},
		{"v4:4x4x6", "v4:4x4x4", "cubes of 4x4x4, at most 64"},
		{"v5p:16x20x32", "v5p", "at most 140"},
		{"v4:0x2x1", "", "no shape"},
		{"v4:2x2x1x1", "", "no shape"},
		{"v4", "v4-8", "generation"},
		{"v4-", "v4-8", ""},
		{"v5-8", "v5litepod-8 v5p-8", "v5 is v5e or v5p"},
		{"v4-08", "v4-8", "no number"},
		{"v4-+8", "v4-8", ""},
		{"v8e-8", "v6e-8 v5litepod-8", "no accelerator"},
		{"tpu-v4-8", "", ""},
		{"h10x8", "h100x8", ""},
		{"h100x16", "h100x8x2", "one host holds at most 8"},
		{"h100x9", "h100x8", "one host holds at most 8"},
		{"gb200x8", "gb200x4x2", "one host holds at most 4"},
		{"h100x8x65", "h100x8x64", "at most 64 hosts"},
		{"h100x8x0", "h100x8", "no number of GPUs"},
		{"h100x8x2x2", "h100x8", "no number of GPUs"},
		{"h100x0", "h100x8", ""},
		{"gh200x8", "h200x8", ""},
		{"cpu:0", "cpu:8", ""},
		{"cpu:-1", "cpu:8", ""},
		{"cpu:100000", "cpu:4096", ""},
		{"", "v5e-8", "needs a name"},
		{"banana", "", "no accelerator"},
		{strings.Repeat("v4-8", 1000), "v5e-8", "long"},
		{"v4-99999999999999999999", "v4-8", ""},
	} {
		_, err := Lookup(c.name)
		f, ok := fault.Fields[UnknownSlice](err)
		if !errors.Is(err, ErrUnknownSlice) || !ok || len(f.Nearest) == 0 {
			t.Errorf("%q: %v", c.name, err)
			continue
		}
		for _, n := range f.Nearest {
			if _, err := Lookup(n); err != nil {
				t.Errorf("%q: nearest %s is wrong too: %v", c.name, n, err)
			}
		}
		for n := range strings.FieldsSeq(c.nearest) {
			if !slices.ContainsFunc(f.Nearest, func(s string) bool { return strings.HasPrefix(s, n) }) {
				t.Errorf("%q: nearest %v lacks %s", c.name, f.Nearest, n)
			}
		}
		if !strings.Contains(err.Error(), c.says) || len(err.Error()) > 240 {
			t.Errorf("%q: %v does not say %q", c.name, err, c.says)
		}
	}
}

// The shape that the rule calls usual is the one MaxText's table has, and the
// bounds are those of the data's rules.
func TestRules(t *testing.T) {
	for _, r := range allRows() {
		if slices.Contains(r.Source, "maxtext") && numbers.SizesText(shapesOf(findGeneration(r.Gen), r.Chips)[0]) != r.Topology {
			t.Errorf("%s: usual shape %v, MaxText %s", r.Name, shapesOf(findGeneration(r.Gen), r.Chips)[0], r.Topology)
		}
	}
	for _, g := range load().generations {
		if g.cubes == nil {
			continue
		}
		text := fmt.Sprint(g.Facts["topology_rule"].Value)
		m := regexp.MustCompile(`at most (\d+) cubes`).FindStringSubmatch(text)
		if m == nil || m[1] != strconv.Itoa(g.cubes.Most) {
			t.Errorf("%s: %d cubes, the data says %q", g.Name, g.cubes.Most, text)
		}
	}
	if len(Slices()) != 288 || len(Generations()) != 7 || len(GPUs()) != 10 {
		t.Error(len(Slices()), len(Generations()), len(GPUs()))
	}
}

func TestMemoryAndRates(t *testing.T) {
	for _, c := range []struct {
		name        string
		hbm, usable float64 // GiB
		bf16        float64
	}{
		{"v2-8", 8, 7.48, 23e12}, {"v3-8", 16, 15.48, 61.5e12}, {"v4-8", 32, 30.75, 275e12}, {"v5e-8", 16, 15.75, 197e12},
		{"v5p-8", 96, 95.73, 459e12}, {"v6e-8", 32, 31.24, 918e12}, {"tpu7x-8", 96, 94.74, 1153.5e12},
		{"cpu:8", 0, 0, 0},
	} {
		s := get(t, c.name)
		usable := float64(s.HBMUsableBytes) / (1 << 30)
		if float64(s.HBMBytes)/(1<<30) != c.hbm || usable-c.usable > 1e-6 || c.usable-usable > 1e-6 || s.Rates().BF16FLOPs != c.bf16 {
			t.Errorf("%s: %d, %d, %v", c.name, s.HBMBytes, s.HBMUsableBytes, s.Rates())
		}
	}
	if r := get(t, "v4-8").Rates(); r.LinkBytes != 5e10 || r.LinkAchieve != 4.5e10 || r.LinksAChip != 6 {
		t.Error(r)
	}
	if r := get(t, "h100x8x2").Rates(); r.LinkBytes != 450e9 || r.HostBytes != 64e9 || r.NetworkBytes != 50e9 {
		t.Error(r)
	}
}

func TestLinksAndHops(t *testing.T) {
	for _, c := range []struct {
		name  string
		links int
	}{{"v4-8", 4}, {"v4-128", 3 * 64}, {"v5e-8", 10}, {"v5e-256", 512}, {"v5e-128", 128 + 7*16}, {"v4-16", 12}, {"h100x8", 0}} {
		s := get(t, c.name)
		if got := len(s.Links()); got != c.links {
			t.Errorf("%s: %d links, want %d", c.name, got, c.links)
		}
		for _, l := range s.Links() {
			if s.Hops(l[0], l[1]) != 1 || s.Hops(l[1], l[0]) != 1 {
				t.Errorf("%s: link %v is not one hop", c.name, l)
			}
		}
	}
	s := get(t, "v4-128")
	if got := s.Hops(0, 3); got != 1 {
		t.Error("0 to 3 of a closed ring:", got)
	}
	if got := get(t, "v5e-64").Hops(0, 7); got != 7 {
		t.Error("0 to 7 of an open line:", got)
	}
	if got := get(t, "tpu7x-8").Hops(0, 1); got != 0 {
		t.Error("two devices of a chip:", got)
	}
}

func FuzzLookup(f *testing.F) {
	for _, name := range []string{"v4-8", "v5e:2x4", "8xh100", "cpu:8", "v4:8x4x4", "a100-40gbx8", "tpu7x:1x1x1", "v5", "x", ":-", "v4-2x2x1", "İ-8"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		s, err := Lookup(name)
		if err != nil {
			u, ok := fault.Fields[UnknownSlice](err)
			if !errors.Is(err, ErrUnknownSlice) || !ok || len(u.Nearest) == 0 || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q: %v", name, err)
			}
			for _, n := range u.Nearest {
				if _, err := Lookup(n); err != nil {
					t.Fatalf("%q: nearest %q: %v", name, n, err)
				}
			}
			return
		}
		back, err := Lookup(s.String())
		if err != nil || back.Spec() != s.Spec() || back.Devices != s.Devices {
			t.Fatalf("%q is %s, which reads back as %s, %v", name, s, back.Spec(), err)
		}
		if s.Devices < 1 || len(s.DeviceList()) != s.Devices {
			t.Fatalf("%q has %d devices", name, s.Devices)
		}
	})
}

func TestDraw(t *testing.T) {
	if got := strings.Join(get(t, "v5e-16").Draw(80), "\n"); got != `+-------+-------+
|  0  1 |  2  3 |
|  4  5 |  6  7 |
+-------+-------+
|  8  9 | 10 11 |
| 12 13 | 14 15 |
+-------+-------+` {
		t.Errorf("\n%s", got)
	}
	if got := strings.Join(get(t, "v4-16").Draw(80), "\n"); got != `z=0       z=1
+-----+   +-----+
| 0 1 |   | 4 5 |
| 2 3 |   | 6 7 |
+-----+   +-----+` {
		t.Errorf("\n%s", got)
	}
	for _, s := range Slices() {
		for _, line := range s.Draw(80) {
			if len(line) > 80 {
				t.Errorf("%s: %d columns: %s", s.Spec(), len(line), line)
			}
		}
	}
	if lines := get(t, "v4-256").Draw(80); lines != nil {
		t.Error(lines)
	}
}
