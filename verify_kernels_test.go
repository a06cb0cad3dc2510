package weft

import (
	"context"
	"testing"

	"weft/attention"
	"weft/dtype"
	"weft/engine"
	"weft/graph"
	"weft/internal/meshtest"
	"weft/program"
	"weft/program/interp"
	"weft/sharding"
	"weft/spmd"
)

// kernelGraph is a program with two kernels of one kind and a third.
func kernelGraph(t *testing.T) *graph.Graph {
	t.Helper()
	m := meshtest.Mesh(t, "")
	p := meshtest.Build(t, m, func(b *spmd.Builder) {
		in := func(name string, n int) spmd.Tensor {
			return b.Input(name, dtype.BF16, []int{1, n, 2, 128}, sharding.Whole(4))
		}
		q, k, v := in("q", 24), in("k", 40), in("v", 40)
		for _, n := range []string{"a", "b"} {
			b.Output(n, attention.Attend(b, q, k, v, attention.Options{Keys: 33}), "")
		}
		b.Output("c", attention.Attend(b, q, q, q, attention.Options{}), "")
	}, spmd.WithTarget(spmd.Target{Chip: "v5e"}))
	return &graph.Graph{Mesh: m, Programs: map[string]*program.Program{"block": p}, Calls: []graph.Call{{Name: "block 0", Program: "block"}}}
}

// TestCompareKernels: each different kernel is compared once, and one that
// computes something else is found. The interpreter stands in for a TPU, which no
// test has: it runs a kernel as what it means, so what is wrong here is made so.
func TestCompareKernels(t *testing.T) {
	compare := func(g *graph.Graph) (found []KernelResult) {
		err := compareKernels(context.Background(), engine.NewReference(1, interp.Options{}), g, map[string]bool{}, func(r KernelResult) { found = append(found, r) })
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	found := compare(kernelGraph(t))
	if len(found) != 2 || !found[0].OK || !found[1].OK || found[0].MaxAbsDiff != 0 {
		t.Errorf("%+v", found)
	}
	g := kernelGraph(t)
	eng := wrongKernels{engine.NewReference(1, interp.Options{})}
	n := 0
	err := compareKernels(context.Background(), eng, g, map[string]bool{}, func(r KernelResult) {
		n++
		if r.OK || r.MaxRelDiff < 0.1 {
			t.Errorf("a kernel without exponentials passes: %+v", r)
		}
	})
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
}

// wrongKernels runs kernels whose code computes something else than they mean: its
// exponentials of the scores are the scores.
type wrongKernels struct{ engine.Engine }

func (w wrongKernels) Compile(ctx context.Context, p *program.Program) (engine.Executable, error) {
	for _, in := range p.Kernels() {
		in.Kernel.Walk(func(in *program.Instr, _ int) {
			if in.Op == program.OpExp {
				in.Op = program.OpAbs
			}
		})
	}
	return w.Engine.Compile(ctx, p)
}
