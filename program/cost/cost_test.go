package cost_test

import (
	"testing"

	"weft/dtype"
	"weft/internal/spmdtest"
	"weft/mesh"
	"weft/program"
	"weft/program/cost"
	"weft/spmd"
)

// Every collective, with the bytes of the cost sheet, one in a loop of 5.
func TestCollectives(t *testing.T) {
	m := spmdtest.NewMesh(t, mesh.Axis{Name: "dp", Size: 2}, mesh.Axis{Name: "tp", Size: 4})
	tp := []string{"tp"}
	p := spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(16, 8), {DType: dtype.BF16, Shape: []int{4}}}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := b.LAllReduce(program.Sum, in[0], tp, "first")
		x = b.LAllReduce(program.Sum, x, tp, "second")
		x = b.LAllReduce(program.Sum, x, tp, "first")
		x = b.LReduceScatter(x, 0, tp, "rs")
		x = b.LAllGather(x, 0, tp, "ag")
		x = b.LAllToAll(x, 0, 1, tp, "a2a")
		x = b.LPermute(x, m.Pairs("dp", 1, true), []string{"dp"}, "move")
		y := b.LLoop(5, in[1:], func(_ spmd.Local, c []spmd.Local) []spmd.Local {
			return []spmd.Local{b.LAllReduce(program.Maximum, c[0], []string{"tp", "dp"}, "both axes")}
		})
		return []spmd.Local{x, y[0]}
	})
	want := []cost.Traffic{
		{Op: program.OpAllReduce, Axis: "tp", Count: 3, Elements: 3 * 128, Bytes: 3 * 2 * 3 * 128},
		{Op: program.OpReduceScatter, Axis: "tp", Count: 1, Elements: 128, Bytes: 3 * 128},
		{Op: program.OpAllGather, Axis: "tp", Count: 1, Elements: 32, Bytes: 3 * 128},
		{Op: program.OpAllToAll, Axis: "tp", Count: 1, Elements: 128, Bytes: 3 * 128},
		{Op: program.OpPermute, Axis: "dp", Count: 1, Elements: 128, Bytes: 512},
		{Op: program.OpAllReduce, Axis: "dp+tp", Count: 5, Elements: 5 * 4, Bytes: 5 * 2 * 7 * 1},
	}
	for i := range want {
		want[i].DType = dtype.F32
		want[i].Axes = []string{want[i].Axis}
	}
	want[5].DType, want[5].Axes = dtype.BF16, []string{"dp", "tp"}
	got := cost.Collectives(p)
	if d := spmdtest.DifferTraffic(got, want); d != "" {
		t.Error(d)
	}
	if got[0].Reason != "first; second" {
		t.Errorf("reasons %q", got[0].Reason)
	}
	if n := len(cost.Instances(p)); n != 8 {
		t.Errorf("%d instances, want 8", n)
	}
	if c := cost.WorkOf(p); c.AxisBytes["tp"] != 2304+3*384 || c.AxisBytes["dp"] != 512 || c.AxisBytes["dp+tp"] != 70 {
		t.Errorf("bytes by axis %v", c.AxisBytes)
	}
	twice := cost.AddTraffic(got, got, 2)
	if len(twice) != len(got) || twice[0].Count != 9 || twice[0].Bytes != 3*got[0].Bytes || got[0].Count != 3 {
		t.Errorf("added up: %+v", twice[0])
	}
}

// The example of the cost sheet: S = 67,108,864.
func TestCostSheet(t *testing.T) {
	for _, c := range []struct {
		n                 int
		gather, allReduce int64
	}{{8, 58720256, 117440512}, {4, 50331648, 100663296}} {
		m := spmdtest.NewMesh(t, mesh.Axis{Name: "x", Size: c.n})
		const elements = 67108864 / 4
		p := spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(elements)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
			x := b.LReduceScatter(in[0], 0, []string{"x"}, "rs")
			x = b.LAllGather(x, 0, []string{"x"}, "ag")
			return []spmd.Local{b.LAllReduce(program.Sum, x, []string{"x"}, "ar")}
		})
		got := cost.Collectives(p)
		if got[0].Bytes != c.gather || got[1].Bytes != c.gather || got[2].Bytes != c.allReduce {
			t.Errorf("n=%d: %+v", c.n, got)
		}
	}
}

func TestFlops(t *testing.T) {
	m := spmdtest.NewMesh(t)
	p := spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(3, 4, 5), spmdtest.F32(3, 6, 5)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		d := program.DotDims{LeftBatch: []int{0}, RightBatch: []int{0}, LeftContract: []int{2}, RightContract: []int{2}}
		return b.LLoop(7, []spmd.Local{b.LDot(in[0], in[1], d, dtype.F32)}, func(_ spmd.Local, c []spmd.Local) []spmd.Local {
			s := b.LDot(in[0], in[1], d, dtype.F32)
			return []spmd.Local{b.LAdd(c[0], b.LUnary(program.OpExp, s))}
		})
	})
	c := cost.WorkOf(p)
	if want := int64(8 * 2 * 3 * 4 * 6 * 5); c.Flops != want {
		t.Errorf("%d flops, want %d", c.Flops, want)
	}
	if want := int64(7 * 2 * 72); c.ElementOps != want {
		t.Errorf("%d element operations, want %d", c.ElementOps, want)
	}
	// The first dot reads both operands and writes; seven adds, each with its dot and
	// exp within, read what is carried besides.
	if want := int64(4 * (60 + 90 + 72 + 7*(60+90+72+72))); c.BytesMoved != want {
		t.Errorf("%d bytes moved, want %d", c.BytesMoved, want)
	}
}

// live checks the peak, in f32 elements.
func live(t *testing.T, name string, p *program.Program, want int64) {
	t.Helper()
	if l := cost.MemoryOf(p); l.Peak != 4*want {
		t.Errorf("%s: peak of %d elements and %d bytes, want %d elements\n%s", name, l.Peak/4, l.Peak%4, want, p)
	}
}

func TestLiveBytes(t *testing.T) {
	m := spmdtest.NewMesh(t, mesh.Axis{Name: "tp", Size: 2})
	one := []program.Type{spmdtest.F32(100)}
	tanh := func(b *spmd.Builder, x spmd.Local) spmd.Local { return b.LUnary(program.OpTanh, x) }
	square := program.DotDims{LeftContract: []int{1}, RightContract: []int{0}}

	live(t, "input and output", spmdtest.Build(t, m, "", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{tanh(b, in[0])}
	}), 200)
	live(t, "donated: in place", spmdtest.Build(t, m, "a", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{tanh(b, in[0])}
	}), 100)
	live(t, "a chain is one", spmdtest.Build(t, m, "", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{b.LAdd(tanh(b, tanh(b, tanh(b, in[0]))), b.LIota(dtype.F32, 0, 100))}
	}), 200)
	live(t, "a reduction reads a chain", spmdtest.Build(t, m, "", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{b.LReduce(program.Sum, b.LMul(in[0], in[0]), 0)}
	}), 101)
	live(t, "cheap: computed for each use", spmdtest.Build(t, m, "", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := b.LAdd(in[0], in[0])
		return []spmd.Local{b.LReduce(program.Sum, x, 0), b.LReduce(program.Maximum, x, 0)}
	}), 102)
	live(t, "costly: computed again beside a reduction", spmdtest.Build(t, m, "", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := tanh(b, in[0])
		return []spmd.Local{b.LReduce(program.Sum, x, 0), b.LReduce(program.Maximum, x, 0)}
	}), 102)
	live(t, "costly: three uses are a buffer", spmdtest.Build(t, m, "", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := tanh(b, in[0])
		return []spmd.Local{b.LReduce(program.Sum, x, 0), b.LReduce(program.Maximum, x, 0), b.LReduce(program.Sum, b.LMul(x, in[0]), 0)}
	}), 203)
	live(t, "an input held for a later chain", spmdtest.Build(t, m, "a", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		e := tanh(b, in[0]) // computed where the sum reads it
		y := b.LAllReduce(program.Sum, in[0], []string{"tp"}, "sum")
		return []spmd.Local{b.LAdd(y, e)}
	}), 200)
	live(t, "a reshape is no copy", spmdtest.Build(t, m, "", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{b.LTranspose(b.LReshape(in[0], 10, 10), 1, 0)}
	}), 200)
	live(t, "a contraction needs its operands", spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(10, 10)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := b.LUnary(program.OpTanh, in[0])
		return []spmd.Local{b.LDot(x, x, square, dtype.F32)}
	}), 300)
	live(t, "an operand of one contraction is computed within it", spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(10, 10)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{b.LDot(b.LUnary(program.OpTanh, in[0]), in[0], square, dtype.F32)}
	}), 200)
	live(t, "what reads a contraction finishes it", spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(10, 10)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{tanh(b, b.LDot(in[0], in[0], square, dtype.F32))}
	}), 200)
	live(t, "but not when two do", spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(10, 10)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := b.LDot(in[0], in[0], square, dtype.F32)
		return []spmd.Local{tanh(b, x), b.LTranspose(x, 1, 0)}
	}), 400)
	live(t, "a sum of two buffers is kept", spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(100), spmdtest.F32(100)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := b.LAdd(in[0], in[1])
		return []spmd.Local{b.LReduce(program.Sum, x, 0), b.LReduce(program.Maximum, x, 0)}
	}), 302)
	live(t, "an input taken over is free for nothing else", spmdtest.Build(t, m, "a", []program.Type{spmdtest.F32(10, 10)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := b.LTranspose(in[0], 1, 0)
		return []spmd.Local{b.LTranspose(b.LDot(x, x, square, dtype.F32), 1, 0)}
	}), 300)
	four := spmdtest.NewMesh(t, mesh.Axis{Name: "tp", Size: 4})
	live(t, "an all-reduce that widens: its part, then the whole, in f32", spmdtest.Build(t, four, "", []program.Type{spmdtest.F32(100)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := b.LTranspose(b.LReshape(b.LConvert(in[0], dtype.BF16), 10, 10), 1, 0)
		y := b.LConvert(b.LAllReduce(program.Sum, x, []string{"tp"}, "sum"), dtype.F32)
		return []spmd.Local{b.LTranspose(y, 1, 0)}
	}), 100+100+100)
	summed := func() *program.Program {
		return spmdtest.Build(t, four, "", []program.Type{spmdtest.F32(10, 10)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
			return []spmd.Local{b.LAllReduce(program.Sum, b.LTranspose(in[0], 1, 0), []string{"tp"}, "sum")}
		})
	}
	live(t, "an all-reduce beside its operand", summed(), 300)
	inPlace := summed()
	inPlace.Platform = "cuda"
	live(t, "an all-reduce in place on GPUs", inPlace, 200)
	live(t, "two of a shape that read one thing run together", spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(1 << 19)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		table := in[0]
		half := func(op program.Op) spmd.Local {
			x := b.LTranspose(b.LReshape(b.LUnary(op, table), 2, 1<<18), 1, 0)
			return b.LReduce(program.Sum, b.LTranspose(b.LMul(x, b.LReshape(table, 1<<18, 2)), 1, 0), 0, 1)
		}
		return []spmd.Local{b.LAdd(half(program.OpTanh), half(program.OpExp))}
	}), 4<<19)
	live(t, "the order that needs less", spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(10, 10)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		// As it stands x waits while y is made of a third buffer; summed first, it is gone.
		x, y := b.LTranspose(in[0], 1, 0), b.LTranspose(tanh(b, in[0]), 1, 0)
		sum := func(v spmd.Local) spmd.Local { return b.LReduce(program.Sum, b.LMul(v, v), 0, 1) }
		return []spmd.Local{b.LAdd(sum(x), sum(y))}
	}), 301)
	live(t, "freed after the last use", spmdtest.Build(t, m, "", []program.Type{spmdtest.F32(10, 10)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		x := in[0]
		for range 6 {
			x = b.LDot(x, x, square, dtype.F32)
		}
		return []spmd.Local{x}
	}), 300)
	live(t, "an input that is an output is copied", spmdtest.Build(t, m, "", one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return []spmd.Local{in[0]}
	}), 200)

	// Loops. The index is one element; where the body does not read it, it goes at once.
	loop := func(trips int, donor string) *program.Program {
		return spmdtest.Build(t, m, donor, one, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
			return b.LLoop(trips, in, func(_ spmd.Local, c []spmd.Local) []spmd.Local { return []spmd.Local{tanh(b, c[0])} })
		})
	}
	live(t, "a loop carries in place", loop(3, "a"), 101)
	live(t, "whatever the rounds", loop(1000, "a"), 101)
	live(t, "an input it starts from is copied", loop(3, ""), 201)
	live(t, "what the body reads from outside is held", spmdtest.Build(t, m, "a", []program.Type{spmdtest.F32(10, 10), spmdtest.F32(10, 10)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		w := b.LTranspose(in[1], 1, 0)
		return b.LLoop(3, in[:1], func(_ spmd.Local, c []spmd.Local) []spmd.Local {
			return []spmd.Local{b.LDot(c[0], w, square, dtype.F32)}
		})
	}), 400) // both inputs, w, and the product beside the value it is made from
	live(t, "a dynamic update writes in place", spmdtest.Build(t, m, "a", []program.Type{spmdtest.F32(100), spmdtest.F32(1)}, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		return b.LLoop(3, in[:1], func(i spmd.Local, c []spmd.Local) []spmd.Local {
			return []spmd.Local{b.LDynUpdate(c[0], in[1], 0, i)}
		})
	}), 102)
}
