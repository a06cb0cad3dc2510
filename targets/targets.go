// Package targets says how programs are best cut up for a piece of hardware: what
// a plan counts, what is compiled ahead of time and what an engine runs.
package targets

import (
	"golang.org/x/sys/cpu"

	"weft/cpukernel"
	"weft/spmd"
	"weft/topology"
)

// For is the target of a slice's devices.
func For(on topology.Slice) spmd.Target {
	switch on.Kind {
	case topology.CPU:
		return CPU()
	case topology.TPU:
		return TPU(on.Generation)
	case topology.GPUBox:
		return GPU(on.Generation)
	}
	return spmd.Target{}
}

// CPU is how programs are cut up for XLA's CPU plugin on this processor.
// Measured with the default plugin on two Zen 3 cores, at Wan2.1-1.3B's width and
// 4,680 tokens: the FFN 2.0 s in tiles of 312 rows, 3.6 s whole; attention of 12
// heads 1.5 s in blocks of 936 x 936 a head at a time, 1.8 s in blocks of
// 256 x 512 of all heads at once.
func CPU() spmd.Target {
	return spmd.Target{RowTile: 600, QueryBlock: 1024, KeyBlock: 1024, HeadBlock: 1, FlatConv: true,
		WideBF16: !cpu.X86.HasAVX512BF16 && !cpu.X86.HasAMXBF16, HostKernels: hostKernels()}
}

// hostKernels says whether this processor has the instructions of weft's kernels.
func hostKernels() spmd.HostKernels {
	if len(cpukernel.Levels()) == 0 {
		return spmd.HostKernels{Why: "kernels are for x86-64 processors with AVX2 and FMA"}
	}
	return spmd.HostKernels{Available: true}
}

// TPU is how programs are cut up for libtpu and a generation of TPUs, "v4". Tokens are counted in 128s: of one
// layer of Wan2.1-14B on v4, an all-gather of 8,190 rows that feeds a matmul
// compiled in 55 s with 0.67 GB of temporaries, of 8,192 rows in 1.5 s with 0.34.
func TPU(generation string) spmd.Target { return spmd.Target{TokenMultiple: 128, Chip: generation} }

// GPU is how programs are cut up for XLA's CUDA plugin and a kind of GPUs, "h100". XLA cuts
// matmuls for a GPU itself; only attention depends on the kind.
func GPU(name string) spmd.Target { return spmd.Target{Chip: name, Platform: "cuda"} }
