package modeltest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"weft"
	"weft/internal/meshtest"
	"weft/internal/peer/params"
	"weft/models"
	"weft/program/cost"
	"weft/spmd"
	"weft/tensor"
)

// Config makes the model of a folder's config.json, without its weights.
func Config(t testing.TB, dir string) models.Model {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.FromConfig(raw, "config.json")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Move lists the collectives that one program of a graph must run.
type Move struct {
	On      string // the mesh
	Split   bool   // whether the residual stream is sharded over tp as well
	Program string
	// Want lists collectives as "op axis count elements", with the type at the end if it is
	// not f32. They are in alphabetical order with "; " between.
	Want string
}

// Moves compares the collectives of programs of a model's graph with a table. The cost of
// a program, its text, which a compiler gets, and the interpreter must agree on them, and
// they must be the same for a target that computes in blocks.
func Moves(t *testing.T, m models.Model, r models.Request, table []Move) {
	t.Helper()
	for _, c := range table {
		what := fmt.Sprintf("%s on %s, split stream %v, %v", c.Program, c.On, c.Split, r.DType)
		for _, target := range []spmd.Target{{}, {RowTile: 10, WideBF16: true, QueryBlock: 5, KeyBlock: 7, HeadBlock: 1, FlatConv: true}} {
			r.SplitResidual, r.Target = c.Split, target
			on, err := weft.ParseMesh(c.On)
			if err != nil {
				t.Fatal(err)
			}
			g, err := m.Graph(on, r)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			p := g.Programs[c.Program]
			if p == nil {
				t.Errorf("%s: there is no such program", what)
				continue
			}
			if got := trafficText(cost.Collectives(p)); got != c.Want {
				t.Errorf("%s: the program moves %q, want %q", what, got, c.Want)
			}
			if got := trafficText(meshtest.Text(t, p)); got != c.Want {
				t.Errorf("%s: the text moves %q, want %q", what, got, c.Want)
			}
			random := rand.New(rand.NewPCG(5, 5))
			in := meshtest.Values{}
			for _, port := range p.Inputs {
				in[port.Name] = meshtest.Fill(port.DType, func(int) float64 { return random.NormFloat64() / 4 }, port.Shape...)
			}
			meshtest.Interp(t, p, in) // fails if the interpreter ran other collectives than the cost lists
		}
	}
}

// trafficText writes traffic in the form of Move.Want.
func trafficText(ts []cost.Traffic) string {
	lines := []string{}
	for _, x := range ts {
		line := fmt.Sprintf("%s %s %d %d", x.Op, x.Axis, x.Count, x.Elements)
		if x.Type != "f32" {
			line += " " + x.Type
		}
		lines = append(lines, line)
	}
	sort.Strings(lines)
	return strings.Join(lines, "; ")
}

// Saved gives the number of bytes of weights that a device saves at a tp, compared with
// the rules of the peer. The weights of matmuls are in bf16 and the others in f32.
func Saved(t testing.TB, preset string, tp int) int64 {
	t.Helper()
	m, err := models.ByName(preset)
	if err != nil {
		t.Fatal(err)
	}
	on, err := weft.ParseMesh(fmt.Sprintf("tp=%d", tp))
	if err != nil {
		t.Fatal(err)
	}
	assigned, err := models.Specs(m, on, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := params.List(m, assigned, params.Torch, false)
	if err != nil {
		t.Fatal(err)
	}
	peers, err := params.List(m, assigned, params.Torch, true)
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for i, p := range m.Params(0) {
		size := int64(4)
		if p.Matmul {
			size = 2
		}
		kept := func(l params.Line) int64 { // with copies of heads
			local, err := l.Local(on)
			if err != nil {
				t.Fatal(err)
			}
			return size * int64(tensor.Elements(local))
		}
		n += kept(peers[i]) - kept(ours[i])
	}
	return n
}
