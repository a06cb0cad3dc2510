package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"weft/dtype"
	"weft/graph"
	"weft/internal/hlo"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/program/stablehlo"
	"weft/request"
	"weft/topology"
	"weft/xla"
	"weft/xla/plugin"
)

// small is a request whose programs compile in seconds.
var small = Options{Request: request.Request{Width: 128, Height: 64, Frames: 5, DType: dtype.F32}}

// layouts are splits that between them have every collective.
var layouts = []struct {
	on, mesh string
	split    bool
	shares   string // of weights, with commas
}{
	{"v4-8", "tp=4", false, ""}, {"v4-8", "sp=4", false, ""}, {"v4-8", "sp=4", false, "sp"}, {"v4-8", "tp=2,sp=2", true, "sp"},
	{"v4-8", "dp=2,tp=2", true, ""}, {"v4-8", "fsdp=2,sp=2", false, "fsdp"}, {"v4-16", "dp=2,tp=2,sp=2", false, "dp,sp"},
}

// planned is one layout's plan and the whole graph that it is a plan of.
func planned(t *testing.T, i int, o Options) (Plan, *graph.Graph) {
	t.Helper()
	c := layouts[i]
	var err error
	if o.Mesh, err = mesh.Parse(c.mesh); err != nil {
		t.Fatal(err)
	}
	o.SplitResidual = c.split
	m, on := model(t, "wan2.1-t2v-1.3b"), slice(t, c.on)
	res, err := Search(t.Context(), m, forSlice(o, on))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range res.Plans {
		if strings.Join(p.FSDP, ",") != c.shares {
			continue
		}
		axes, err := mesh.Parse(p.Mesh)
		if err != nil {
			t.Fatal(err)
		}
		local, err := mesh.Local(axes...)
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := o.Step(m)
		if err != nil {
			t.Fatal(err)
		}
		r.FSDP, r.Target = p.split.shardedOver, o.Target(on)
		g, err := m.Graph(local, r)
		if err != nil {
			t.Fatal(err)
		}
		return p, g
	}
	t.Fatalf("no plan %v among %d, refused %v", c, len(res.Plans), res.Refuse)
	return Plan{}, nil
}

// moved is elements by operation and axis, of the plan's step.
func moved(p Plan) map[string]int64 {
	out := map[string]int64{}
	for _, c := range p.Collectives {
		out[string(c.Op)+" "+c.Axis] += c.Elements
	}
	return out
}

// calls counts a program's calls in a step.
func calls(g *graph.Graph, program string) int {
	n := 0
	for _, c := range g.Calls {
		if c.Program == program && !c.Request {
			n++
		}
	}
	return n
}

// What a plan says is moved, element by element and axis by axis, is what stands in
// the text that a compiler is given, of all layers.
func TestPlanMovesWhatTheTextMoves(t *testing.T) {
	for i, c := range layouts {
		p, g := planned(t, i, small)
		want := map[string]int64{}
		for _, name := range g.ProgramNames() {
			found, err := meshtest.CountText(stablehlo.Text(g.Programs[name]))
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range found {
				axes := x.Axes(g.Mesh)
				if axes == nil {
					t.Fatalf("%s: groups %v are those of no axes", name, x.Groups)
				}
				if n := int64(calls(g, name)); n > 0 {
					want[string(x.Op)+" "+strings.Join(axes, "+")] += x.Elements * int64(x.Times) * n
				}
			}
		}
		if got := moved(p); !maps.Equal(got, want) {
			t.Errorf("%v: plan says %v, the text has %v", c, got, want)
		}
		if len(want) == 0 {
			t.Errorf("%v moves nothing", c)
		}
	}
}

var cpuClient = sync.OnceValues(func() (*xla.Client, error) {
	return xla.Open(context.Background(), xla.Options{Devices: 8, Install: true})
})

// And what XLA's CPU compiler makes of it moves as much.
func TestPlanMovesWhatIsCompiled(t *testing.T) {
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
	client, err := cpuClient()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range layouts {
		if i != 3 && os.Getenv("WEFT_LONG_TESTS") == "" {
			continue
		}
		o := small
		o.Attention = "blocked" // the kernel is a TPU's
		p, g := planned(t, i, o)
		want := map[string]int64{}
		for _, name := range g.ProgramNames() {
			n := int64(calls(g, name))
			if n == 0 {
				continue
			}
			x, err := client.Compile(t.Context(), []byte(stablehlo.Text(g.Programs[name])), xla.CompileOptions{Name: name, Replicas: g.Mesh.NumDevices()})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range optimized(t, x, g.Mesh.NumDevices()) {
				want[x.Op+" "+axisOf(t, g.Mesh, x)] += x.Elements * int64(x.Times) * n
			}
			x.Close()
		}
		if got := moved(p); !maps.Equal(got, want) {
			t.Errorf("%v: plan says %v, compiled to %v", c, got, want)
		}
	}
}

func optimized(t *testing.T, x interface {
	Optimized() ([]byte, string, error)
}, devices int) []hlo.Collective {
	t.Helper()
	code, _, err := x.Optimized()
	if err != nil {
		t.Fatal(err)
	}
	found, err := hlo.Collectives(code, devices)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func axisOf(t *testing.T, m *mesh.Mesh, c hlo.Collective) string {
	t.Helper()
	axes := meshtest.TextCollective{Op: program.Op(c.Op), Groups: c.Groups, Pairs: c.Pairs}.Axes(m)
	if axes == nil {
		t.Fatalf("%s runs in groups %v, which are those of no axes of %s", c.Name, c.Groups, m)
	}
	return strings.Join(axes, "+")
}

// libtpu's program moves what the plan says, but for two things it does of its own,
// each of which is looked for and named:
//
//   - a reduce-scatter becomes an all-reduce of the same operand, of which each device keeps its part;
//   - an all-reduce in bf16 whose result is widened becomes two: one in bf16 of
//     which each keeps a part, and one in f32 that puts the parts together.
//
// In both it pads the operand to whole tiles.
func TestPlanMovesWhatLibtpuMoves(t *testing.T) {
	if os.Getenv("WEFT_LONG_TESTS") == "" {
		t.Skip("compiles for a TPU; WEFT_LONG_TESTS=1 runs it")
	}
	o := small
	o.DType = dtype.BF16
	for i, c := range layouts[:5] {
		p, g := planned(t, i, o)
		on := slice(t, c.on)
		topo := tpu(t, on)
		var told []string
		for _, name := range g.ProgramNames() {
			if calls(g, name) == 0 {
				continue
			}
			x, err := topo.Compile(t.Context(), []byte(stablehlo.Text(g.Programs[name])), xla.CompileOptions{Name: name, Replicas: g.Mesh.NumDevices()})
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, sameMoves(t, g, name, optimized(t, x, g.Mesh.NumDevices()))...)
			x.Close()
		}
		topo.Close()
		t.Logf("%v, %v: %s", c, moved(p), strings.Join(told, "; "))
	}
}

// tpu describes a slice to libtpu.
func tpu(t *testing.T, on topology.Slice) *xla.Topology {
	t.Helper()
	as, ok := on.PJRT()
	if !ok {
		t.Fatalf("no plugin describes %s", on)
	}
	topo, err := xla.OpenTopology(t.Context(), as.Name, xla.TopologyOptions{Plugin: as.Engine, Extra: as.Options})
	if errors.Is(err, plugin.ErrNotInstalled) {
		t.Skip("libtpu is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// sameMoves holds a compiled program's collectives against the program's own, and
// says what the compiler did of its own.
func sameMoves(t *testing.T, g *graph.Graph, name string, compiled []hlo.Collective) (told []string) {
	t.Helper()
	const f32, bf16 = 11, 16
	type key struct{ op, axis string }
	left := map[key][]int64{}
	for _, x := range cost.Instances(g.Programs[name]) {
		k := key{string(x.Op), x.Axis}
		left[k] = append(left[k], x.Elements)
	}
	take := func(k key, elements int64) bool {
		tile := int64(8 * 128 * g.Mesh.NumDevices())
		for i, e := range left[k] {
			if elements >= e && elements < e+tile {
				left[k] = append(left[k][:i:i], left[k][i+1:]...)
				return true
			}
		}
		return false
	}
	var halves []int64
	for _, x := range compiled {
		axis := axisOf(t, g.Mesh, x)
		switch {
		case take(key{x.Op, axis}, x.Elements):
			if x.Type == bf16 {
				halves = append(halves, x.Elements)
			}
		case x.Op == "all-reduce" && take(key{"reduce-scatter", axis}, x.Elements):
			told = append(told, fmt.Sprintf("%s: reduce-scatter of %d over %s as an all-reduce", name, x.Elements, axis))
		case x.Op == "all-reduce" && x.Type == f32 && len(halves) > 0 && halves[len(halves)-1] == x.Elements:
			halves = halves[:len(halves)-1]
			told = append(told, fmt.Sprintf("%s: all-reduce of %d over %s gathered in f32", name, x.Elements, axis))
		default:
			t.Errorf("%s: %s of %d elements over %s is not the program's", name, x.Op, x.Elements, axis)
		}
	}
	for k, list := range left {
		if len(list) > 0 {
			t.Errorf("%s: %s over %s of %v elements is missing", name, k.op, k.axis, list)
		}
	}
	return told
}
