package wan

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"weft/dtype"
	"weft/mesh"
	"weft/models"
	"weft/spmd"
)

// What the once-a-request program of a layer's keys and values, the image's
// embedding, the time path and a block exchange, of the fixtures' shapes:
//
//	i2v    B = 1   S = 36   D = 96   L = 512   Li = 17   3 heads
//	ti2v   B = 1   S = 36   D = 80   L = 16              2 heads
var variantTable = []struct {
	fixture, on string
	split       bool
	program     string
	want        string // op axis count elements
}{
	// Both keys' sums of squares in one reduction: L + Li.
	{"wan21_i2v", "tp=3", false, "text_kv", "all-reduce tp 1 529"},
	// A column-parallel matmul's result, Li * D/3, gathered for the norm after it.
	{"wan21_i2v", "tp=3", false, "image", "all-gather tp 1 544"},
	{"wan21_i2v", "sp=3", false, "text_kv", ""},
	{"wan21_i2v", "sp=3", false, "image", ""},
	// The image adds nothing to a block: as for t2v, the sums of squares of q and
	// k (2 S) and cross q (S), three row-parallel sums (3 S D).
	{"wan21_i2v", "tp=3", false, "block", "all-reduce tp 5 10476"},
	{"wan21_i2v", "sp=3", false, "block", "all-to-all sp 4 4608"},

	// e0 of every token, gathered over tp from S * 6 D/2; nothing over sp.
	{"wan22_ti2v", "tp=2", false, "time", "all-gather tp 1 8640"},
	{"wan22_ti2v", "sp=2", false, "time", ""},
	{"wan22_ti2v", "sp=2", false, "block", "all-to-all sp 4 5760"},
	// With the stream split over tp e0 changes from split columns to split rows.
	{"wan22_ti2v", "tp=2", true, "time", "all-to-all tp 1 8640"},
}

func TestVariantsCollectives(t *testing.T) {
	for _, c := range variantTable {
		raw, err := os.ReadFile("../../testdata/" + c.fixture + "/config.json")
		if err != nil {
			t.Fatal(err)
		}
		m, err := models.FromConfig(raw, "config.json")
		if err != nil {
			t.Fatal(err)
		}
		axes, err := mesh.Parse(c.on)
		if err != nil {
			t.Fatal(err)
		}
		on, err := mesh.Local(mesh.Standard(axes)...)
		if err != nil {
			t.Fatal(err)
		}
		r := models.Request{Batch: 1, Latent: []int{16, 3, 8, 6}, Text: 9, Image: 17, DType: dtype.F32, SplitResidual: c.split}
		if c.fixture == "wan22_ti2v" {
			r = models.Request{Batch: 1, Latent: []int{48, 3, 6, 8}, Text: 13, DType: dtype.F32, SplitResidual: c.split, TokenTimes: true}
		}
		g, err := m.Graph(on, r)
		if err != nil {
			t.Fatal(err)
		}
		if got := collectives(g.Programs[c.program]); got != c.want {
			t.Errorf("%s on %s, split stream %v, %s: %q, want %q", c.fixture, c.on, c.split, c.program, got, c.want)
		}
	}
}

// collectives sums up a program's, each as "op axes count elements".
func collectives(p *spmd.Program) string {
	lines := []string{}
	for _, x := range p.Collectives() {
		lines = append(lines, fmt.Sprintf("%s %s %d %d", x.Op, x.Axis, x.Count, x.Elements))
	}
	sort.Strings(lines)
	return strings.Join(lines, "; ")
}

// The bytes of bf16 a device keeps less than under the peer's rules, which
// README.md states: matmul weights and their vectors, the latter counted in f32.
func TestBytesSavedBesideThePeer(t *testing.T) {
	for name, want := range map[string]map[int]string{
		"wan2.1-i2v-14b":  {2: "2.309", 4: "3.464"},
		"wan2.1-t2v-14b":  {4: "0.307"},
		"wan2.2-ti2v-5b":  {4: "0.118"},
		"wan2.2-i2v-a14b": {4: "0.307"},
	} {
		for tp, want := range want {
			if got := fmt.Sprintf("%.3f", float64(saved(t, name, tp))/1e9); got != want {
				t.Errorf("%s at tp=%d: %s GB, README.md says %s", name, tp, got, want)
			}
		}
	}
}

func saved(t *testing.T, name string, tp int) int64 {
	t.Helper()
	m, err := models.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	on, err := mesh.Local(mesh.Axis{Name: "tp", Size: tp})
	if err != nil {
		t.Fatal(err)
	}
	assigned, err := models.Specs(m, on, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, peers := models.List(m, assigned, models.Torch, false), models.List(m, assigned, models.Torch, true)
	var n int64
	for i, p := range m.Params(0) {
		size := int64(4)
		if p.Matmul {
			size = 2
		}
		for _, d := range p.Shape {
			size *= int64(d)
		}
		parts := func(l models.ParamSpec) int64 {
			for d := range p.Shape {
				if len(l.Spec.Dim(d)) > 0 {
					return int64(tp)
				}
			}
			return 1
		}
		n += size/parts(peers[i]) - size/parts(ours[i])
	}
	return n
}
