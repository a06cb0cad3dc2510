package spmdtest

import (
	"testing"

	"weft/dtype"
	"weft/mesh"
	"weft/program"
	"weft/sharding"
	"weft/spmd"
)

// Build makes a program of local code on inputs, named a, b, ..., that every device
// holds whole. Its outputs are p, q, ...; donor names the input that the first takes over.
func Build(t testing.TB, m *mesh.Mesh, donor string, inputs []program.Type, body func(b *spmd.Builder, in []spmd.Local) []spmd.Local) *program.Program {
	t.Helper()
	p, err := spmd.Build("p", m, func(b *spmd.Builder) {
		var in []spmd.Local
		for i, ty := range inputs {
			in = append(in, b.Local(b.Input(string(rune('a'+i)), ty.DType, ty.Shape, sharding.Whole(len(ty.Shape)))))
		}
		for i, y := range body(b, in) {
			d := ""
			if i == 0 {
				d = donor
			}
			b.Output(string(rune('p'+i)), b.Global(y, y.Shape, sharding.Whole(y.Rank())), d)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// F32 is a type of a shape.
func F32(shape ...int) program.Type { return program.Type{DType: dtype.F32, Shape: shape} }

// NewMesh makes a mesh of devices of this machine.
func NewMesh(t testing.TB, axes ...mesh.Axis) *mesh.Mesh {
	t.Helper()
	m, err := mesh.Local(axes...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Block is a small program with everything a real one has: a row-parallel
// matmul and its reduction, bf16 beside f32, a loop with a ring inside that
// reads values and constants of the outside, a donated input.
func Block(t testing.TB) *program.Program {
	t.Helper()
	m := NewMesh(t, mesh.Axis{Name: mesh.DP, Size: 2}, mesh.Axis{Name: mesh.TP, Size: 2})
	tp := []string{mesh.TP}
	p, err := spmd.Build("block", m, func(b *spmd.Builder) {
		hidden := b.Input("hidden", dtype.F32, []int{4, 8}, sharding.Whole(2))
		weight := b.Input("ffn.weight", dtype.BF16, []int{8, 16}, sharding.NewSpec(nil, tp))
		x := b.Local(hidden)
		mean := b.LScale(b.LReduceKeep(program.Sum, x, 1), 1.0/8)
		centred := b.LSub(x, mean)
		h := b.LConvert(centred, dtype.BF16)
		// The weight is split over tp along its inputs: each device has a part
		// of the sum.
		part := b.LDot(h, b.Local(weight), program.DotDims{LeftContract: []int{1}, RightContract: []int{1}}, dtype.F32)
		gathered := b.LAllGather(b.LConvert(part, dtype.BF16), 1, tp, "columns of the other shard")
		wide := b.LConvert(b.LSlice(gathered, 1, 0, 8), dtype.F32)
		whole := b.LAllReduce(program.Sum, wide, tp, "row-parallel sum")
		floor := b.LConst(dtype.F32, -1, 4, 8)
		pairs := m.Pairs(mesh.TP, 1, true)
		out := b.LLoop(2, []spmd.Local{whole, x}, func(i spmd.Local, c []spmd.Local) []spmd.Local {
			next := b.LPermute(c[0], pairs, tp, "ring of blocks")
			row := b.LDynSlice(c[1], 0, i, 1)
			sum := b.LAdd(b.LMax(c[1], floor), b.LAdd(row, b.LMul(c[0], mean)))
			return []spmd.Local{next, sum}
		})
		b.Output("hidden", b.Global(out[1], []int{4, 8}, sharding.Whole(2)), "hidden")
		norm := b.LReduce(program.Sum, b.LConvert(out[0], dtype.BF16), 0, 1)
		b.Output("norm", b.Global(norm, nil, sharding.Whole(0)), "")
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
