package cost_test

import (
	"testing"

	"weft/dtype"
	"weft/internal/spmdtest"
	"weft/program"
	"weft/program/cost"
	"weft/spmd"
)

// A contraction with batch dims is of activations, one without is by a matrix; the kinds add up to the work.
func TestKindsOf(t *testing.T) {
	m := spmdtest.NewMesh(t)
	types := []program.Type{spmdtest.F32(4, 8), spmdtest.F32(8, 3), spmdtest.F32(2, 4, 8), spmdtest.F32(2, 5, 8), spmdtest.F32(1, 6, 6, 2), spmdtest.F32(3, 2, 3, 3)}
	p := spmdtest.Build(t, m, "", types, func(b *spmd.Builder, in []spmd.Local) []spmd.Local {
		matrix := b.LDot(in[0], in[1], program.DotDims{LeftContract: []int{1}, RightContract: []int{0}}, dtype.F32)
		scores := b.LLoop(3, []spmd.Local{b.LConst(dtype.F32, 0, 2, 4, 5)}, func(_ spmd.Local, c []spmd.Local) []spmd.Local {
			s := b.LDot(in[2], in[3], program.DotDims{LeftBatch: []int{0}, RightBatch: []int{0}, LeftContract: []int{2}, RightContract: []int{2}}, dtype.F32)
			return []spmd.Local{b.LAdd(c[0], s)}
		})
		conv := b.LConv(in[4], in[5], []int{1, 1}, []int{1, 1}, dtype.F32)
		return []spmd.Local{matrix, scores[0], conv}
	})
	want := cost.Kinds{Matmuls: 2 * 4 * 8 * 3, Attention: 3 * 2 * 2 * 4 * 5 * 8, Convolutions: 2 * 6 * 6 * 3 * 2 * 9}
	if have := cost.KindsOf(p); have != want {
		t.Errorf("%+v, want %+v", have, want)
	}
	if all := cost.WorkOf(p).Flops; all != want.Matmuls+want.Attention+want.Convolutions {
		t.Errorf("%d FLOPs in all, %+v", all, want)
	}
}
