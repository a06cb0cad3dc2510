package interp

import (
	"testing"

	"weft/dtype"
	"weft/program"
)

// BenchmarkDot is a 512^3 f32 contraction: 268 million flops a round, on one processor.
func BenchmarkDot(b *testing.B) {
	x, y := NewArray(dtype.F32, 512, 512), NewArray(dtype.F32, 512, 512)
	d := &program.DotDims{LeftContract: []int{1}, RightContract: []int{1}}
	out := program.Type{DType: dtype.F32, Shape: []int{512, 512}}
	for b.Loop() {
		dotArrays(x, y, d, out, func(n int, work func(lo, hi int)) { work(0, n) })
	}
	b.ReportMetric(2*512*512*512*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
