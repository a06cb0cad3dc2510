package wan

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/dtype"
	"weft/internal/hlo"
	"weft/internal/meshtest"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/program/interp"
	"weft/program/stablehlo"
	"weft/sharding"
	"weft/spmd"
	"weft/xla"
)

// annotated is the text of a one-device program with the layouts that another
// gives its inputs and outputs, for XLA's own partitioner.
func annotated(t testing.TB, whole, split *program.Program) string {
	t.Helper()
	lines := strings.Split(stablehlo.Text(whole), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "func.func public @main(") })
	head, tail, ok := strings.Cut(lines[at], ") -> (")
	if !ok {
		t.Fatalf("main is %s", lines[at])
	}
	annotate := func(text string, ports []program.Port) string {
		i := -1
		return regexp.MustCompile(`tensor<[^>]*>( \{)?`).ReplaceAllStringFunc(text, func(s string) string {
			i++
			typ, more := strings.CutSuffix(s, " {")
			s = fmt.Sprintf("%s {mhlo.sharding = %q", typ, ports[i].Spec.HLO(split.Mesh, len(ports[i].Shape)))
			if more {
				return s + ", "
			}
			return s + "}"
		})
	}
	lines[at] = annotate(head, split.Inputs) + ") -> (" + annotate(tail, split.Outputs)
	return strings.Replace(strings.Join(lines, "\n"), "mhlo.num_partitions = 1", fmt.Sprintf("mhlo.num_partitions = %d", split.Mesh.NumDevices()), 1)
}

// sent adds up, for each axis, how many elements a device sends on a ring. What
// runs along several axes at once counts for each.
func sent(m *mesh.Mesh, cs []hlo.Collective) map[string]int64 {
	out := map[string]int64{}
	for _, c := range cs {
		n := 1
		if len(c.Groups) > 0 {
			n = len(c.Groups[0])
		}
		for _, p := range c.Pairs {
			if p[0] != p[1] {
				n = 2
			}
		}
		for _, a := range m.Axes() {
			moves := func(from, to int) bool { return m.Coord(from, a.Name) != m.Coord(to, a.Name) }
			along := slices.ContainsFunc(c.Pairs, func(p [2]int) bool { return moves(p[0], p[1]) })
			for _, g := range c.Groups {
				along = along || slices.ContainsFunc(g, func(pos int) bool { return moves(g[0], pos) })
			}
			if along {
				out[a.Name] += int64(max(1, c.Times)) * sharding.RingBytes(sharding.Op(c.Op), n, c.Elements)
			}
		}
	}
	return out
}

// XLA's own partitioner is given one device's program and told how weft holds
// its inputs and outputs. weft never sends more elements over an axis than the
// program it makes of that.
//
// At batch 1 the two are close: over tp XLA's has the same sums and only adds
// the two channels that rotary embedding fetches from a neighbour, 4 times B*S,
// which in weft never leave a head. Over sp it gathers keys and values, which
// is as much as weft's all-to-alls at sp=2 and more above. At batch 2 it gathers
// more, since heads and batch are one dim in attention's matmuls.
func TestNoMoreThanXLAsPartitioner(t *testing.T) {
	c := client(t)
	type layer struct {
		on    string
		split bool
		batch int
	}
	cases := []layer{{"tp=2", false, 1}, {"tp=4", false, 1}, {"sp=2", false, 1}, {"tp=2,sp=2", false, 1}}
	if os.Getenv("WEFT_LONG") != "" {
		cases = append(cases, layer{"sp=4", false, 1}, layer{"tp=2", true, 1}, layer{"tp=2,sp=2", true, 1}, layer{"tp=2", false, 2}, layer{"tp=4", false, 2},
			layer{"sp=2", false, 2}, layer{"sp=4", false, 2}, layer{"tp=2,sp=2", false, 2}, layer{"tp=2", true, 2}, layer{"tp=2,sp=2", true, 2}, layer{"dp=2,tp=2,sp=2", false, 2})
	}
	for _, k := range cases {
		whole, split := fixtureBlock(t, "", k.split, dtype.F32, k.batch), fixtureBlock(t, k.on, k.split, dtype.F32, k.batch)
		noMore(t, c, fmt.Sprintf("%s split=%v batch %d", k.on, k.split, k.batch), whole, split, k.on == "tp=2,sp=2" && !k.split)
	}
	// The other programs of the step.
	whole, split := fixturePrograms(t, "", false, dtype.F32, 2, spmd.Target{}), fixturePrograms(t, "dp=2,tp=2,sp=2", false, dtype.F32, 2, spmd.Target{})
	for name, w := range whole {
		if name != "block" {
			noMore(t, c, name, w, split[name], true)
		}
	}
}

// noMore compares what split, weft's program, sends with what XLA's partitioner
// makes of whole; run says to compare the results too.
func noMore(t *testing.T, c *xla.Client, name string, whole, split *program.Program, run bool) {
	t.Helper()
	o := xla.CompileOptions{Partitions: split.Mesh.NumDevices()}
	for i, in := range split.Inputs {
		donated := slices.ContainsFunc(split.Outputs, func(o program.Port) bool { return o.Donor == i })
		o.Args = append(o.Args, xla.ArgSpec{DType: in.DType, Shape: in.Local, Donated: donated})
	}
	for _, out := range split.Outputs {
		o.Outputs = append(o.Outputs, xla.ArgSpec{DType: out.DType, Shape: out.Local})
	}
	x, err := c.Compile(t.Context(), []byte(annotated(t, whole, split)), o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer x.Close()
	theirs, ours := sent(split.Mesh, collectivesOf(t, x, o.Partitions)), map[string]int64{}
	for _, x := range cost.Collectives(split) {
		for _, a := range x.Axes {
			ours[a] += x.Bytes / int64(x.DType.Size())
		}
	}
	t.Logf("%s: XLA's partitioner sends %v elements, weft %v", name, theirs, ours)
	for axis, n := range ours {
		if n > theirs[axis] {
			t.Errorf("%s: weft sends %d elements over %s, XLA's partitioner %d", name, n, axis, theirs[axis])
		}
	}
	if !run {
		return
	}
	in := blockValues(split)
	got := execute(t, c, x, split, in)
	for out, want := range meshtest.Interp(t, split, in) {
		if d := meshtest.Differ(got[out], want, 1e-5); d != "" {
			t.Errorf("%s: partitioned by XLA, %s: %s", name, out, d)
		}
	}
}

// execute runs a compiled program whose ports are p's.
func execute(t *testing.T, c *xla.Client, x *xla.Executable, p *program.Program, in meshtest.Values) meshtest.Values {
	t.Helper()
	ctx := t.Context()
	rows, err := meshtest.Rows(p, in)
	if err != nil {
		t.Fatal(err)
	}
	args := make([][]*xla.Buffer, len(rows))
	for pos, row := range rows {
		for _, a := range row {
			b, err := c.Put(a.Tensor().Data, a.DType, a.Shape, x.Devices()[pos])
			if err != nil {
				t.Fatal(err)
			}
			defer b.Destroy()
			args[pos] = append(args[pos], b)
		}
	}
	outs, done, err := x.Execute(ctx, args)
	if err != nil {
		t.Fatal(err)
	}
	if err := done.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := meshtest.Results(p, func(pos, i int) *interp.Array {
		defer outs[pos][i].Destroy()
		host, err := outs[pos][i].Tensor(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return interp.FromTensor(host)
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
