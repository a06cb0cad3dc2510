package wan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"weft/dtype"
	"weft/internal/hlo"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/models"
	"weft/program"
	"weft/program/cost"
	"weft/program/stablehlo"
	"weft/spmd"
	"weft/xla"
)

// The fixture's layer, at batch 2 and latents of 3 x 8 x 8:
//
//	B = 2   S = 3*4*4 = 48 tokens   D = 96   H = 4 heads   FFN = 192   L = 16
func fixtureBlock(t testing.TB, on string, split bool, d dtype.DType, batch int) *program.Program {
	t.Helper()
	return fixturePrograms(t, on, split, d, batch, spmd.Target{})["block"]
}

func fixturePrograms(t testing.TB, on string, split bool, d dtype.DType, batch int, target spmd.Target) map[string]*program.Program {
	t.Helper()
	axes, err := mesh.Parse("dp=1,tp=1,sp=1")
	if err != nil {
		t.Fatal(err)
	}
	if on != "" {
		given, err := mesh.Parse(on)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range axes {
			for _, g := range given {
				if g.Name == a.Name {
					axes[i].Size = g.Size
				}
			}
		}
	}
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	g, err := fixture(t).Graph(m, models.Request{Batch: batch, Latent: []int{16, 3, 8, 8}, Text: 11, DType: d, SplitResidual: split, Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return g.Programs
}

// row is what one layer moves by one operation over one axis: how many
// collectives, with how many elements a device enters them, and how many bytes it
// sends on a ring. Type is f32 unless said.
type row struct {
	op              program.Op
	axis            string
	count           int
	elements, bytes int64
	d               dtype.DType
}

const (
	ar = program.OpAllReduce
	ag = program.OpAllGather
	rs = program.OpReduceScatter
	aa = program.OpAllToAll
)

// layerTable is computed by hand from the shapes. On a ring of n a device sends, of a
// collective that it enters with E bytes, 2 E (n-1)/n in an all-reduce, E (n-1)
// in an all-gather, E (n-1)/n in a reduce-scatter and in an all-to-all.
var layerTable = []struct {
	on    string
	split bool
	d     dtype.DType
	rows  []row
}{
	{"", false, dtype.F32, nil},
	{"dp=2", false, dtype.F32, nil}, // the batch is split; nothing crosses it
	{"dp=2", true, dtype.F32, nil},

	// tp: the sums of squares of q's and k's norms together, 2*B*S = 192; of the
	// text attention's q, B*S = 96; the three row-parallel sums (both o's and
	// ffn.2), B*S*D = 9216 each: 192 + 96 + 27648 = 27936 elements.
	{"tp=2", false, dtype.F32, []row{
		{ar, "tp", 5, 27936, 111744, 0}, // 2 * 4*27936 / 2
	}},
	{"tp=4", false, dtype.F32, []row{
		{ar, "tp", 5, 27936, 167616, 0}, // 2 * 4*27936 * 3/4
	}},
	// In bf16 the row-parallel sums travel in bf16, the norms' in f32.
	{"tp=2", false, dtype.BF16, []row{
		{ar, "tp", 2, 288, 1152, 0},
		{ar, "tp", 3, 27648, 55296, dtype.BF16},
	}},

	// sp: q, k and v from tokens to heads and the result back, B*S*D/sp each. The
	// text attention's queries stay where they are, its keys are on every device.
	{"sp=2", false, dtype.F32, []row{
		{aa, "sp", 4, 18432, 36864, 0}, // 4 * 4608 elements; 4*18432 / 2
	}},
	{"sp=4", false, dtype.F32, []row{
		{aa, "sp", 4, 9216, 27648, 0}, // 4 * 2304; 4*9216 * 3/4
	}},
	{"sp=2", true, dtype.F32, []row{ // over tp=1 there is nothing to split
		{aa, "sp", 4, 18432, 36864, 0},
	}},
	{"sp=2", false, dtype.BF16, []row{
		{aa, "sp", 4, 18432, 18432, dtype.BF16},
	}},

	// Both: a device has half the tokens for the sums over tp, half the heads for
	// the all-to-alls over sp; nothing crosses both.
	{"tp=2,sp=2", false, dtype.F32, []row{
		{ar, "tp", 5, 13968, 55872, 0}, // half of tp=2
		{aa, "sp", 4, 9216, 18432, 0},  // half of sp=2
	}},

	// The residual stream split over tp too: each row-parallel sum becomes a
	// reduce-scatter of B*S*D and is gathered again, B*S*D/tp from each device,
	// before the next column-parallel matmul. The bytes are the same, less nothing:
	// (n-1)/n + (n-1)/n. The norms' sums stay.
	{"tp=2", true, dtype.F32, []row{
		{ag, "tp", 3, 13824, 55296, 0}, // 3 * 4608; 4*13824 * 1
		{ar, "tp", 2, 288, 1152, 0},
		{rs, "tp", 3, 27648, 55296, 0}, // 3 * 9216; 4*27648 / 2
	}},
	{"tp=4", true, dtype.F32, []row{
		{ag, "tp", 3, 6912, 82944, 0}, // 3 * 2304; 4*6912 * 3
		{ar, "tp", 2, 288, 1728, 0},
		{rs, "tp", 3, 27648, 82944, 0},
	}},
	{"tp=2", true, dtype.BF16, []row{
		{ag, "tp", 3, 13824, 27648, dtype.BF16},
		{ar, "tp", 2, 288, 1152, 0},
		{rs, "tp", 3, 27648, 27648, dtype.BF16},
	}},
	{"tp=2,sp=2", true, dtype.F32, []row{
		{ag, "tp", 3, 6912, 27648, 0},
		{ar, "tp", 2, 144, 576, 0},
		{aa, "sp", 4, 9216, 18432, 0},
		{rs, "tp", 3, 13824, 27648, 0},
	}},

	// With the batch over dp as well a device has half of everything, and nothing is added.
	{"dp=2,tp=2", false, dtype.F32, []row{{ar, "tp", 5, 13968, 55872, 0}}},
	{"dp=2,sp=2", false, dtype.F32, []row{{aa, "sp", 4, 9216, 18432, 0}}},
	{"dp=2,tp=2,sp=2", false, dtype.F32, []row{{ar, "tp", 5, 6984, 27936, 0}, {aa, "sp", 4, 4608, 9216, 0}}},
	{"dp=2,tp=2,sp=2", true, dtype.F32, []row{
		{ag, "tp", 3, 3456, 13824, 0}, {ar, "tp", 2, 72, 288, 0}, {aa, "sp", 4, 4608, 9216, 0}, {rs, "tp", 3, 6912, 13824, 0},
	}},
}

func sorted(rows []row) []row {
	rows = slices.Clone(rows)
	for i := range rows {
		if rows[i].d == dtype.Invalid {
			rows[i].d = dtype.F32
		}
	}
	sort.Slice(rows, func(i, j int) bool { return fmt.Sprint(rows[i]) < fmt.Sprint(rows[j]) })
	return rows
}

func rowsOf(ts []cost.Traffic) []row {
	var rows []row
	for _, x := range ts {
		rows = append(rows, row{x.Op, x.Axis, x.Count, x.Elements, x.Bytes, x.DType})
	}
	return sorted(rows)
}

// blockValues are random inputs for the program.
func blockValues(p *program.Program) meshtest.Values {
	r := rand.New(rand.NewPCG(5, 5))
	in := meshtest.Values{}
	for _, port := range p.Inputs {
		in[port.Name] = meshtest.Fill(port.DType, func(int) float64 { return r.NormFloat64() / 4 }, port.Shape...)
	}
	return in
}

// One layer moves exactly what its layout needs: by the program's own account,
// by the text that a compiler is given, and by what the interpreter exchanged.
func TestCollectivesOfALayer(t *testing.T) {
	for _, c := range layerTable {
		want := fmt.Sprint(sorted(c.rows))
		what := fmt.Sprintf("%s split=%v %v", c.on, c.split, c.d)
		// Cut up for a device, so small that everything loops, it moves the same.
		cut := fixturePrograms(t, c.on, c.split, c.d, 2, spmd.Target{RowTile: 10, WideBF16: true, QueryBlock: 5, KeyBlock: 7, HeadBlock: 1})["block"]
		if got := fmt.Sprint(rowsOf(cost.Collectives(cut))); got != want {
			t.Errorf("%s: cut up the program moves %s, want %s", what, got, want)
		}
		p := fixtureBlock(t, c.on, c.split, c.d, 2)
		if got := fmt.Sprint(rowsOf(cost.Collectives(p))); got != want {
			t.Errorf("%s: the program moves %s, want %s", what, got, want)
		}
		if got := fmt.Sprint(rowsOf(meshtest.Text(t, p))); got != want {
			t.Errorf("%s: the text moves %s, want %s", what, got, want)
		}
		// Interp fails where what was exchanged is anything else than the program says.
		out := meshtest.Interp(t, p, blockValues(p))["tokens"]
		got := meshtest.Interp(t, cut, blockValues(cut))["tokens"]
		if d := meshtest.Differ(got, out, 1e-5); d != "" && c.d == dtype.F32 { // in bf16 other blocks round otherwise
			t.Errorf("%s: cut up: %s", what, d)
		}
	}
}

var cpuClient = sync.OnceValues(func() (*xla.Client, error) {
	return xla.Open(context.Background(), xla.Options{Devices: 8, Install: true})
})

// client is XLA's CPU engine with eight devices.
func client(t *testing.T) *xla.Client {
	t.Helper()
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
	c, err := cpuClient()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// collectivesOf reads what a compiled program exchanges.
func collectivesOf(t testing.TB, x *xla.Executable, devices int) []hlo.Collective {
	t.Helper()
	code, format, err := x.Optimized()
	if err != nil {
		t.Fatal(err)
	}
	if format != "hlo_with_config" {
		t.Fatalf("the optimised program is %q", format)
	}
	found, err := hlo.Collectives(code, devices)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// axisOf names the axes that a compiled collective runs along.
func axisOf(t testing.TB, m *mesh.Mesh, c hlo.Collective) string {
	t.Helper()
	axes := meshtest.TextCollective{Op: program.Op(c.Op), Groups: c.Groups, Pairs: c.Pairs}.Axes(m)
	if axes == nil {
		t.Fatalf("%s runs in groups %v, which are those of no axes of %s", c.Name, c.Groups, m)
	}
	return strings.Join(axes, "+")
}

// The compiled program moves as many elements by each operation over each axis.
// A compiler may widen a bf16 reduction or join two: so elements, not counts.
// A few layouts stand for all, which WEFT_LONG tries.
func TestCollectivesOfACompiledLayer(t *testing.T) {
	c := client(t)
	some := []string{"tp=4 false f32", "sp=4 false f32", "tp=2 true bf16", "tp=2,sp=2 true f32"}
	ran := 0
	for _, k := range layerTable {
		name := fmt.Sprint(k.on, " ", k.split, " ", k.d)
		if os.Getenv("WEFT_LONG") == "" && !slices.Contains(some, name) {
			continue
		}
		ran++
		p := fixtureBlock(t, k.on, k.split, k.d, 2)
		want, got := map[string]int64{}, map[string]int64{}
		for _, r := range k.rows {
			want[string(r.op)+" "+r.axis] += r.elements
		}
		x, err := c.Compile(t.Context(), []byte(stablehlo.Text(p)), xla.CompileOptions{Replicas: p.Mesh.NumDevices()})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		for _, x := range collectivesOf(t, x, p.Mesh.NumDevices()) {
			if x.Times != 1 {
				t.Errorf("%s: %s runs %d times", name, x.Name, x.Times)
			}
			got[x.Op+" "+axisOf(t, p.Mesh, x)] += x.Elements
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: compiled to %v, want %v", name, got, want)
		}
	}
	if ran < len(some) {
		t.Errorf("%d layouts tried", ran)
	}
}
