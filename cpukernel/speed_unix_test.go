//go:build unix

package cpukernel

import (
	"fmt"
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"weft/dtype"
)

// processorSeconds is what this process has used of the processor, over all threads.
func processorSeconds() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// report gives the rate by the clock and, for a busy machine, a second of processor time.
func report(b *testing.B, flops, used float64) {
	b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(flops*float64(b.N)/(processorSeconds()-used)/1e9, "GFLOP/cpu-s")
	b.ReportMetric(0, "ns/op")
}

// The kernel alone, at every level of this processor: GFLOP a second of all workers.
func BenchmarkAttention(b *testing.B) {
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
		for _, dim := range []int{64, 128} {
			for _, keys := range []int{4680, 512} {
				a := Attention{DType: d, Batch: 1, Queries: 1560, Keys: keys, Real: keys, Heads: 12, KVHeads: 12, HeadDim: dim, Scale: 1 / math.Sqrt(float64(dim))}
				p := newProblem(a, 1, 1)
				o := Operands{Q: p.bytes(p.q), K: p.bytes(p.k), V: p.bytes(p.v), Out: make([]byte, len(p.q)*d.Size())}
				for _, level := range Levels() {
					if d == dtype.F32 && level > AVX512 {
						continue
					}
					b.Run(fmt.Sprintf("%v/%d/%d/%v", d, dim, keys, level), func(b *testing.B) {
						used := processorSeconds()
						for b.Loop() {
							if err := a.RunAt(level, o); err != nil {
								b.Fatal(err)
							}
						}
						flops := 4 * float64(a.Queries) * float64(keys) * float64(a.Heads) * float64(dim)
						report(b, flops, used)
					})
				}
			}
		}
	}
}

// Convolutions of Wan2.1's decoder.
func BenchmarkConvolution(b *testing.B) {
	same := [2]int{1, 1}
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
		for _, x := range []struct{ rows, cols, in, out int }{{32, 32, 384, 384}, {128, 128, 192, 192}, {256, 256, 96, 96}} {
			c := Convolution{DType: d, Batch: 1, Frames: 3, Taps: 3, Rows: x.rows, Cols: x.cols, In: x.in, Out: x.out, Kernel: [2]int{3, 3}, Before: same, After: same, Whole: true}
			p := newConvProblem(c, 1)
			as := problem{Attention: Attention{DType: d}}
			o := ConvOperands{X: [][]byte{as.bytes(p.x)}, W: as.bytes(p.w), Out: make([]byte, x.rows*x.cols*x.out*4)}
			for _, level := range Levels() {
				if d == dtype.F32 && level > AVX512 {
					continue
				}
				b.Run(fmt.Sprintf("%v/%dx%d/%d-%d/%v", d, x.rows, x.cols, x.in, x.out, level), func(b *testing.B) {
					used := processorSeconds()
					for b.Loop() {
						if err := c.RunAt(level, o); err != nil {
							b.Fatal(err)
						}
					}
					flops := 2 * 27 * float64(x.rows*x.cols) * float64(x.in*x.out)
					report(b, flops, used)
				})
			}
		}
	}
}
